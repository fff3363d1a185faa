"""``labctl record-session``, ``play-session``: what one instrument says, to a file and from it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from instruments import recording
from instruments.errors import InstrumentError
from instruments.instrument import Instrument
from instruments.reading import Batch
from labctl.cli.terminal.arguments import JsonOption, RigArgument
from labctl.cli.terminal.held_rig import held
from labctl.config.find_rig import find_rig
from labctl.errors import ConfigurationError, JournalError, LabctlError, Mistake
from labctl.printable import printable
from labctl.toml_reading import mistakes_of


def record(
    rig: RigArgument,
    instrument: Annotated[
        str, typer.Argument(metavar="INSTRUMENT", help="The instrument's name in the rig.")
    ],
    seconds: Annotated[float, typer.Option(min=1.0, help="For how long.")] = 30.0,
    to: Annotated[Path | None, typer.Option(help="The file; a new one here if left out.")] = None,
) -> int:
    """Record what an instrument says, to send it to somebody."""
    found = find_rig(rig)
    entry = found.file.instruments.get(instrument)
    if entry is None:
        allowed = f"no such instrument; there are: {', '.join(found.file.instruments)}"
        raise ConfigurationError([Mistake(found.path, "instruments", instrument, allowed)])
    path = to or Path(f"{instrument}-{entry.driver}-{time.strftime('%Y%m%d-%H%M%S')}.session")
    try:
        with (
            held(found, "labctl record-session"),
            path.open("x", encoding="utf-8") as file,
        ):
            made = recording.recorded_instrument(
                file, instrument, entry.driver, found.settings_of(instrument), time.monotonic_ns
            )
            readings, error = _read_session(made, seconds)
    except FileExistsError:
        raise JournalError(f"{path} is there already; name another file with --to") from None
    except OSError as problem:
        why = problem.strerror or problem
        raise JournalError(f"{path} cannot be written: {why}") from problem
    except InstrumentError as problem:
        path.unlink(missing_ok=True)
        raise LabctlError(str(problem)) from problem
    print(f"{path}: {readings} readings")
    if error:
        print(f"labctl: it ended with: {error}", file=sys.stderr)
    return int(bool(error))


def _read_session(instrument: Instrument, seconds: float) -> tuple[int, str]:
    """Open, read and close; the number of readings, and what went wrong (also worth recording)."""
    readings = 0
    try:
        instrument.open()
        instrument.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            readings += sum(len(block) for block in instrument.read().blocks)
    except InstrumentError as error:
        return readings, str(error)
    except KeyboardInterrupt:
        pass
    finally:
        instrument.close()
    return readings, ""


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recorded session.")],
    json_output: JsonOption = False,
) -> int:
    """Play a recorded session through its driver."""
    try:
        session = recording.parse_session(file.read_text(encoding="utf-8"))
        instrument = recording.replayed_instrument(session)
    except UnicodeDecodeError as error:
        raise _unplayable(file, "not a recorded session: it is no text") from error
    except OSError as error:
        raise _unplayable(file, error.strerror or str(error)) from error
    except InstrumentError as error:
        raise _unplayable(file, str(error)) from error
    except KeyError as error:
        raise ConfigurationError(
            [Mistake(str(file), "driver", str(error.args[0]), "no such driver here")]
        ) from error
    except ValidationError as error:
        raise ConfigurationError(mistakes_of(error, str(file), "settings")) from error
    units = {channel.name: channel.unit for channel in instrument.channels}
    failure = ""
    started = False
    try:
        identity = instrument.open()
        if not json_output:
            print(printable(f"{session.driver} {session.name}: {identity}"))
        instrument.start()
        started = True
        while True:
            _print_session_batch(instrument.read(), units, json_output)
    except recording.RecordingEnded:
        if not started:
            failure = f"{file} ends before the first reading was asked for"
    except InstrumentError as error:
        failure = str(error)
    finally:
        instrument.close()
    if failure:
        print(printable(f"labctl: {failure}"), file=sys.stderr)
    return int(bool(failure))


def _unplayable(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError([Mistake(str(path), "session", None, why)])


def _print_session_batch(batch: Batch, units: dict[str, str], json_output: bool) -> None:
    for block in batch.blocks:
        for t_ns, value in zip(block.t_ns.tolist(), block.values.tolist(), strict=True):
            if json_output:
                print(json.dumps({"t_ns": t_ns, "channel": block.channel, "value": value}))
            else:
                print(
                    f"{t_ns * 1e-9:12.6f} s  {block.channel:<12} {value:.7g} {units[block.channel]}"
                )
    for status in batch.statuses:
        if json_output:
            row = {"t_ns": status.t_ns, "channel": status.channel, "status": status.status.value}
            print(json.dumps(row | {"detail": status.detail, "count": status.count}))
        else:
            words = f"{status.status.value} x {status.count} {status.detail}".rstrip()
            print(printable(f"{status.t_ns * 1e-9:12.6f} s  {status.channel:<12} {words}"))
