"""``labctl help``: says what the commands of a section do."""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer

from labctl.cli.commands import COMMANDS, SECTIONS, section_names
from labctl.cli.terminal.completion import beginning_with
from labctl.cli.terminal.pager import paging
from labctl.cli.terminal.schemas import schemas_of
from labctl.errors import ConfigurationError, Mistake
from labctl.toml_reading import meant

HELP_WIDTH = 80


def show_help(
    section: Annotated[
        str | None,
        typer.Argument(
            metavar="SECTION",
            autocompletion=beginning_with(lambda: [*section_names(), *COMMANDS]),
            help="A section, or a command; all, if left out.",
        ),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="The JSON Schemas of a command's --json.")
    ] = False,
) -> None:
    """Say what the commands of a section do."""
    if schema:
        _print_schemas(section)
        return
    by_name = dict(zip(section_names(), SECTIONS.items(), strict=True))
    if section in COMMANDS and section not in by_name:
        print(f"labctl {section}: {COMMANDS[section].help}\n\nlabctl {section} -h says how.")
        return
    if section is not None and section.lower() not in by_name:
        allowed = f"must be one of {', '.join(by_name)}, or a command"
        allowed += meant(section, [*by_name, *COMMANDS])
        raise ConfigurationError([Mistake("labctl help", "section", section, allowed)])
    chosen = [by_name[section.lower()]] if section is not None else list(by_name.values())
    width = max(map(len, COMMANDS))
    with paging():
        for number, (title, commands) in enumerate(chosen):
            print(f"{chr(10) if number else ''}{title}:")
            for one in commands:
                lines = textwrap.wrap(one.help, HELP_WIDTH - width - 4)
                print(f"  {one.name:{width}}  {lines[0]}")
                for line in lines[1:]:
                    print(f"{'':{width + 4}}{line}")


def _print_schemas(command: str | None) -> None:
    texts = schemas_of(command) if command in COMMANDS else []
    if not texts:
        with_json = "--schema needs a command that has --json: docs/json.md names them"
        raise typer.BadParameter(with_json)
    print("".join(texts), end="")
