"""The program ``labctl``. Nothing heavy is imported before a command is chosen."""

from __future__ import annotations

import errno
import gc
import importlib
import importlib.util
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from labctl.cli.commands import COMMANDS, RENAMED, SECTIONS, section_names
from labctl.cli.terminal.completion import COMPLETE_VARIABLE
from labctl.cli.terminal.end_signal import redeliver_lost_interrupts
from labctl.cli.terminal.safe_stream import beneath, guard_output
from labctl.errors import INTERRUPTED
from labctl.printable import printable_lines

if TYPE_CHECKING:
    from labctl.errors import LabctlError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Without a file name: the disk that standard output is redirected to is full."""
MAY_BE_EMPTY = ("--title", "--note")
"""Options whose empty value deletes what was said before."""
OTHERS_WRITE = 0o002
"""Added to the umask: nobody outside the group may change a record."""


class LazyGroup(TyperGroup):
    """Commands from :data:`COMMANDS`; the module of one is imported when it is chosen."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None where there is none."""
        command = COMMANDS.get(RENAMED.get(cmd_name, cmd_name))
        if command is None:
            if ctx is not None and not ctx.resilient_parsing:
                from labctl.toml_reading import meant

                ctx.fail(f"No such command {cmd_name!r}{meant(cmd_name, COMMANDS)}")
            return None
        if cmd_name in RENAMED and not ctx.resilient_parsing:
            from labctl.cli.terminal.renamed import say_renamed

            say_renamed(f"labctl {cmd_name}", f"labctl {command.name}")
        module, _, name = command.place.partition(":")
        found = getattr(importlib.import_module(f"labctl.cli.{module}"), name)
        if not gc.isenabled():  # as main() has it
            gc.freeze()
            gc.enable()
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(cmd_name)(found)
        return typer.main.get_command(alone)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The names by section: a screen. ``labctl help`` has what each of them does."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(title, "  ".join(one.name for one in of)) for title, of in SECTIONS.items()]
            )
        with formatter.section("What they do"):
            formatter.write_dl(
                [
                    ("labctl help SECTION", f"one of {', '.join(section_names())}"),
                    ("labctl COMMAND -h", "arguments and options of a command"),
                ]
            )


def _exit_with(code: int | None, **_: object) -> NoReturn:
    """End with the exit code that a command gave."""
    raise typer.Exit(code or 0)


app = typer.Typer(
    name="labctl",
    cls=LazyGroup,
    result_callback=_exit_with,
    help="Watts of an SSD at each queue depth, on each rail, and when it throttles.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Watts of an SSD at each queue depth, on each rail, and when it throttles."""
    if show:
        from labctl.installed import labctl_version

        typer.echo(f"labctl {labctl_version()}")
        raise typer.Exit


def _refuse_empty_words(words: Sequence[str]) -> None:
    """Exit where a word is empty, but for what a measured program gets, and texts to be deleted."""
    own = words[: words.index("--")] if "--" in words else words
    for before, word in zip(("", *own), own, strict=False):
        option, _, value = word.partition("=")
        named = option.startswith("--") and "=" in word
        empty = not word or (named and not value)
        if empty and (option if named else before) not in MAY_BE_EMPTY:
            behind = f"the word behind {before}" if before.startswith("-") else "a word"
            what = option if named else behind
            typer.echo(
                f"labctl: {what} of the command line is empty and names nothing: "
                "was a variable of the shell not set?",
                err=True,
            )
            raise SystemExit(2)


def _exit_main_with(error: LabctlError) -> NoReturn:
    stream = beneath(sys.stderr)
    for line in printable_lines(str(error)).splitlines():
        text = f"labctl: {line}"
        if stream.isatty():
            typer.secho("\n".join(_main_error_lines(text)), file=stream, fg="red")
        else:
            typer.echo(text, file=stream)
    raise SystemExit(error.exit_code)


def _main_error_lines(text: str) -> list[str]:
    """Lines of a message as wide as the terminal; words, hence paths and commands, stay whole."""
    import shutil

    return textwrap.wrap(
        text,
        max(shutil.get_terminal_size().columns, 40),
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _refuse_foreign_instruments() -> None:
    """Exit where ``instruments`` is InstrumentKit's package, which has the same name."""
    found = importlib.util.find_spec("instruments")
    where = found.origin if found is not None and found.origin else "nowhere"
    if Path(where).with_name("reading.py").is_file():
        return
    typer.echo(
        f"labctl: the Python package 'instruments' found at {where} is not labctl's. "
        "InstrumentKit installs one of the same name: give labctl an environment of its own "
        "(pipx install . in its checkout)",
        err=True,
    )
    raise SystemExit(2)


def _flush_main_output() -> None:
    """Write out what was printed. That its reader is gone ("| head") changes no exit code.

    The interpreter would find that at its end: exit code 120.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Entry point: one clear message and the right exit code for every error.

    The modules of a command stay to the end. To search them for garbage while they are imported,
    then again and again, and once more at the exit, costs 0.1 s of CPU, so the collector first
    looks at what comes after them.
    """
    redeliver_lost_interrupts()
    gc.disable()
    # Threads of OpenBLAS cost 0.05 s of CPU to start, and no matrix here is large enough for them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    guard_output()
    _refuse_foreign_instruments()
    if COMPLETE_VARIABLE not in os.environ:
        _refuse_empty_words(sys.argv[1:])
    os.umask(os.umask(0) | OTHERS_WRITE)
    from labctl.errors import LabctlError

    if COMPLETE_VARIABLE in os.environ:  # the shell asks for words that may come next
        importlib.import_module("typer.completion").completion_init()
    try:
        try:
            app()
        finally:
            _flush_main_output()
    except LabctlError as error:
        _exit_main_with(error)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except OSError as error:
        if error.errno not in NO_ROOM or error.filename is not None:
            raise
        _exit_main_with(LabctlError(f"what there is to say cannot be written: {error.strerror}"))


if __name__ == "__main__":
    main()
