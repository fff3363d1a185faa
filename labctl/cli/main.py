"""The commands of ``labctl``. Nothing heavy is imported before a command is chosen."""

from __future__ import annotations

import errno
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from labctl.cli import (
    meter_commands,
    result_commands,
    rig_commands,
    run_commands,
    sending_commands,
    service_commands,
)
from labctl.cli.queue_commands import queue_app
from labctl.cli.run.trace import app as trace_app
from labctl.cli.terminal.safe_stream import beneath, guard_output
from labctl.printable import printable_lines

if TYPE_CHECKING:
    from labctl.errors import LabctlError

INTERRUPTED = 130
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Of the disk that the output goes to: what it says of a file names that file."""

app = typer.Typer(
    name="labctl",
    help="Watts of an SSD at each queue depth, on each rail, and when it throttles.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("run", run_commands.run),
    ("demo", run_commands.demo),
    ("simulate", run_commands.simulate),
    ("report", result_commands.report),
    ("analyse", result_commands.analyse),
    ("review", result_commands.review),
    ("compare", result_commands.compare),
    ("bundle", result_commands.bundle),
    ("verify", result_commands.verify),
    ("query", result_commands.query),
    ("ship", sending_commands.ship),
    ("stack", sending_commands.stack),
    ("daemon", service_commands.daemon),
    ("idle", service_commands.idle),
    ("status", service_commands.status),
    ("watch", service_commands.watch),
    ("morning", service_commands.morning),
    ("tidy", service_commands.tidy),
    ("runs", rig_commands.list_runs),
    ("rigs", rig_commands.list_rigs),
    ("plans", rig_commands.list_plans),
    ("check", rig_commands.check),
    ("doctor", rig_commands.doctor),
    ("range", rig_commands.suggest_ranges),
    ("trim-check", rig_commands.trim_check),
    ("instruments", meter_commands.list_instruments),
    ("read", meter_commands.read),
    ("calibrate", meter_commands.calibrate),
    ("record", meter_commands.record),
    ("replay", meter_commands.replay),
)
"""In the order of ``labctl --help``."""

for _name, _command in COMMANDS:
    app.command(_name)(_command)

app.add_typer(queue_app, name="queue")
app.add_typer(sending_commands.mqtt, name="mqtt")
app.add_typer(trace_app, name="trace")


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Watts of an SSD at each queue depth, on each rail, and when it throttles."""
    if show:
        from labctl.installed import labctl_version

        typer.echo(f"labctl {labctl_version()}")
        raise typer.Exit


def _fail(error: LabctlError) -> NoReturn:
    stream = beneath(sys.stderr)
    for line in printable_lines(str(error)).splitlines():
        typer.secho(f"labctl: {line}", file=stream, fg="red" if stream.isatty() else None)
    raise SystemExit(error.exit_code)


def _refuse_foreign_instruments() -> None:
    """InstrumentKit installs a top-level package of the same name; say so plainly."""
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


OTHERS_WRITE = 0o002
"""Whatever the umask says, nobody outside the group may change a record."""


def main() -> None:
    """Entry point: one clear message and the right exit code for every error."""
    guard_output()
    _refuse_foreign_instruments()
    os.umask(os.umask(0) | OTHERS_WRITE)
    from labctl.errors import LabctlError

    try:
        app()
    except LabctlError as error:
        _fail(error)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
    except OSError as error:
        if error.errno not in NO_ROOM or error.filename is not None:
            raise
        _fail(LabctlError(f"what there is to say cannot be written: {error.strerror}"))


if __name__ == "__main__":
    main()
