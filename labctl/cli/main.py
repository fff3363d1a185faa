"""The commands of ``labctl``. Nothing heavy is imported before a command is chosen."""

from __future__ import annotations

import errno
import gc
import importlib
import importlib.util
import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from labctl.cli.terminal.completion import COMPLETE_VARIABLE
from labctl.cli.terminal.safe_stream import beneath, guard_output
from labctl.errors import INTERRUPTED
from labctl.printable import printable_lines

if TYPE_CHECKING:
    from labctl.errors import LabctlError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Without a file name: the disk that standard output is redirected to is full."""
HELP_WIDTH = 80
MAY_BE_EMPTY = ("--title", "--note")
"""Options whose empty value deletes what was said before."""
OTHERS_WRITE = 0o002
"""Added to the umask: nobody outside the group may change a record."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, where it is (``module:object`` below ``labctl.cli``) and its help.

    The object is a function, which gives the exit code (None: 0), or a ``Typer`` of several.
    """

    name: str
    place: str
    help: str


SECTIONS: Mapping[str, tuple[Command, ...]] = {
    "Measure": (
        Command("run", "run.run:run", "Run a plan on a rig: record it, report it."),
        Command(
            "measure",
            "run.measure:measure",
            "Run any program, and give the watts and joules that it took.",
        ),
        Command(
            "import",
            "run.import_files:import_files",
            "Make a run of files that you have: a meter's CSV and fio's output.",
        ),
        Command("mark", "run.mark:mark", "Set a mark, with a text, in the run that is on."),
        Command(
            "demo", "run.demo:demo", "Do it all on a simulated rig, and compare with the truth."
        ),
        Command(
            "simulate", "run.demo:simulate", "Start the simulated rig and keep it until Ctrl-C."
        ),
        Command(
            "trace", "run.trace:app", "Describe traces of I/O, and make them ready for replay."
        ),
    ),
    "Results": (
        Command(
            "report",
            "results.report:report",
            "Show a run's results, and make its report again.",
        ),
        Command(
            "analyse",
            "results.analyse:analyse",
            "Consistency, steady state, efficiency, power model of a run.",
        ),
        Command(
            "review",
            "results.analyse:review",
            "Make the page and charts of a review, each with CSV and PDF.",
        ),
        Command(
            "compare",
            "results.compare:app",
            "Compare runs with the first one, or repeats with repeats.",
        ),
        Command(
            "judge",
            "results.judge:judge_run",
            "Hold a run against limits of power: pass, fail or undecided.",
        ),
        Command("repeats", "results.repeats:repeats", "Say how many repeats a side tell a change."),
        Command(
            "trend",
            "results.trend:print_trend",
            "Say what moved in the runs of a drive, rig and plan.",
        ),
        Command(
            "query",
            "results.query:run_query",
            "Ask all runs with SQL (DuckDB), as in SELECT * FROM phases.",
        ),
        Command(
            "compact",
            "results.compact:run_compact",
            "Make few large Parquet files of the tables of all runs.",
        ),
        Command(
            "bundle",
            "results.bundle:bundle",
            "Pack a run's raw data into one archive, with checksums.",
        ),
        Command("verify", "results.bundle:verify", "Derive every number of a bundle again."),
        Command(
            "push",
            "results.push:push_runs",
            "Put runs into a store (S3, a folder), verified there.",
        ),
        Command("pull", "results.push:pull_runs", "Get runs out of a store, verified here."),
    ),
    "Rigs, plans and runs": (
        Command("runs", "rig.runs:list_runs", "List the runs."),
        Command("rigs", "rig.lists:list_rigs", "List the rigs."),
        Command("plans", "rig.lists:list_plans", "List the built-in plans."),
        Command("init", "meters.init:init", "Make a rig of what is connected: it asks."),
        Command("check", "rig.lists:check", "Check a rig or plan file; every mistake is named."),
        Command(
            "doctor",
            "rig.doctor:doctor",
            "Check what would go wrong tonight, and say what to do.",
        ),
        Command(
            "trim-check",
            "rig.trim_check:trim_check",
            "Does TRIM work? On the raw drive, or a filesystem (--folder).",
        ),
    ),
    "Meters": (
        Command(
            "instruments",
            "meters.instruments:list_instruments",
            "List what is connected, who it is, and the rig lines for it.",
        ),
        Command(
            "read",
            "meters.read:read",
            "Show live values of every channel of a rig, until Ctrl-C.",
        ),
        Command(
            "range",
            "meters.find_ranges:find_ranges",
            "Find the range to lock on each meter, at the heaviest points.",
        ),
        Command(
            "calibrate",
            "meters.calibrate:calibrate",
            "Zero the meters with the drive off; compare two meters.",
        ),
        Command(
            "record-session",
            "meters.session:record",
            "Record what an instrument says, to send it to somebody.",
        ),
        Command(
            "play-session", "meters.session:replay", "Play a recorded session through its driver."
        ),
    ),
    "Overnight": (
        Command(
            "queue", "overnight.queue:app", "Queue plans for rigs; labctl daemon works them off."
        ),
        Command(
            "daemon",
            "overnight.daemon:serve",
            "Work off the queue on rigs, until SIGTERM or Ctrl-C.",
        ),
        Command(
            "status",
            "overnight.status:print_status",
            "Print what runs, what waits and what came of the rest.",
        ),
        Command(
            "watch", "overnight.watch:watch", "Show it on the whole screen until q; works over ssh."
        ),
        Command(
            "morning",
            "overnight.morning:print_morning",
            "Print what ran, what it found and what to look at.",
        ),
        Command(
            "tidy",
            "overnight.tidy:tidy",
            "Export or delete old runs, never one on or not shipped.",
        ),
        Command(
            "idle",
            "overnight.idle:idle",
            "Record the meters of a rig without a workload, until Ctrl-C.",
        ),
    ),
    "Servers and shell": (
        Command("ship", "servers.ship:ship_runs", "Send or repair runs in InfluxDB and MQTT."),
        Command(
            "stack",
            "servers.stack:stack",
            "Run InfluxDB, Mosquitto and Grafana here, provisioned.",
        ),
        Command("influxdb", "servers.influxdb:app", "What an InfluxDB keeps of runs."),
        Command("mqtt", "servers.mqtt:app", "What an MQTT broker keeps of a rig."),
        Command(
            "completion",
            "terminal.completion:print_completion",
            "Print what completes words of labctl in your shell.",
        ),
        Command("help", "main:show_help", "Say what the commands of a section do."),
    ),
}
"""In the order of ``labctl --help``."""
RENAMED = {"record": "record-session", "replay": "play-session"}
"""Old names, for one version: ``replay`` is of traces, and ``idle`` records a rig's meters."""
COMMANDS = {command.name: command for section in SECTIONS.values() for command in section}


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


def section_names() -> tuple[str, ...]:
    """The sections as a person types them: the first word of each, in lower case."""
    return tuple(re.split(r"\W", title)[0].lower() for title in SECTIONS)


def show_help(
    section: Annotated[
        str | None,
        typer.Argument(metavar="SECTION", help="A section, or a command; all, if left out."),
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
        from labctl.errors import ConfigurationError, Mistake
        from labctl.toml_reading import meant

        allowed = f"must be one of {', '.join(by_name)}, or a command"
        allowed += meant(section, [*by_name, *COMMANDS])
        raise ConfigurationError([Mistake("labctl help", "section", section, allowed)])
    from labctl.cli.terminal.pager import paging

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
    from labctl.cli.terminal.schemas import schemas_of

    texts = schemas_of(command) if command in COMMANDS else []
    if not texts:
        with_json = "--schema needs a command that has --json: docs/json.md names them"
        raise typer.BadParameter(with_json)
    print("".join(texts), end="")


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


def _fail(error: LabctlError) -> NoReturn:
    stream = beneath(sys.stderr)
    for line in printable_lines(str(error)).splitlines():
        text = f"labctl: {line}"
        if stream.isatty():
            typer.secho("\n".join(_wrapped(text)), file=stream, fg="red")
        else:
            typer.echo(text, file=stream)
    raise SystemExit(error.exit_code)


def _wrapped(text: str) -> list[str]:
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


def _flush() -> None:
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
            _flush()
    except LabctlError as error:
        _fail(error)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except OSError as error:
        if error.errno not in NO_ROOM or error.filename is not None:
            raise
        _fail(LabctlError(f"what there is to say cannot be written: {error.strerror}"))


if __name__ == "__main__":
    main()
