"""``labctl calibrate``: zero offsets with the drive off, and two meters against each other."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from types import FrameType
from typing import Annotated

import typer

from labctl.capture.meters.calibrate import (
    channels_of_rails,
    cross_check,
    drive_off,
    known_channels,
    refuse_switching,
    store_calibration_check,
    store_zeros,
    take_zeros,
)
from labctl.cli.terminal.arguments import JsonOption, RigArgument
from labctl.cli.terminal.held_rig import held
from labctl.config.calibration_file import calibration_file, load_calibration
from labctl.config.find_rig import find_rig
from labctl.config.rig import Rig
from labctl.errors import ConfigurationError, Mistake, Refused
from labctl.record.calibration_used import CrossCheck, Zero, day_of
from labctl.rounded import rounded


def calibrate(
    rig: RigArgument,
    channels: Annotated[
        list[str] | None,
        typer.Argument(metavar="CHANNEL", help="Channels; all of the rails if left out."),
    ] = None,
    against: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Check these two channels against each other."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Check the pairs that the rig names.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long to read.")] = 10.0,
    switch_off: Annotated[
        bool,
        typer.Option("--switch-off", help="Switch the drive off and on by the rig's supply."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: the drive is off.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only print what is stored.")] = False,
    json_output: JsonOption = False,
) -> int:
    """Zero the meters with the drive off; compare two meters."""
    if against and any(channel.startswith("-") for channel in against):
        raise typer.BadParameter("--against takes two channels")
    modes = [bool(against), compare, show, bool(channels or switch_off)]
    if sum(modes) > 1:
        raise typer.BadParameter("choose one of --against, --compare, --show, and zeros")
    if show:
        return show_stored(rig, json_output)
    if against or compare:
        return checks(rig, against, seconds, json_output)
    return zeros(
        rig, channels or (), seconds, switch_off=switch_off, yes=yes, json_output=json_output
    )


def show_stored(rig_name: str, json_output: bool) -> int:
    """Print what is stored; the exit code. Raises ConfigurationError."""
    rig = find_rig(rig_name)
    file = calibration_file(rig.path)
    found = load_calibration(file)
    if json_output:
        print(json.dumps(None if found is None else asdict(found), indent=1))
        return 0
    if found is None:
        print(f"{rig.name} was never calibrated: there is no {file}")
        return 0
    print(f"{file}:")
    _print_zeros(found.zeros)
    for check in found.checks:
        _print_calibration_check(check)
    return 0


def zeros(
    rig_name: str,
    names: Sequence[str],
    seconds: float,
    *,
    switch_off: bool,
    yes: bool,
    json_output: bool,
) -> int:
    """Take zeros and store them; the exit code. Raises LabctlError when it is refused."""
    rig = find_rig(rig_name)
    wanted = known_channels(rig, names, "channel") if names else channels_of_rails(rig)
    load_calibration(calibration_file(rig.path))  # a broken file is reported before all else
    with held(rig, "labctl calibrate"):
        supplies = refuse_switching(rig) if switch_off else []
        _confirm_calibration(rig, wanted, supplies, yes=yes, json_output=json_output)
        with _interrupted_by_sigterm(), drive_off(rig, supplies):
            found = take_zeros(rig, wanted, seconds)
        store_zeros(rig, found)
    if json_output:
        data = {"file": str(calibration_file(rig.path)), "zeros": [asdict(one) for one in found]}
        print(json.dumps(data, indent=1))
        return 0
    _print_zeros(found)
    print(f"stored in {calibration_file(rig.path)}: subtracted in later runs of this rig")
    return 0


def checks(
    rig_name: str, against: tuple[str, str] | None, seconds: float, json_output: bool
) -> int:
    """Check pairs of meters against each other, and store it: 1 when two of them contradict.

    Raises LabctlError when it is refused.
    """
    rig = find_rig(rig_name)
    pairs = rig.file.calibration.compare if against is None else (against,)
    if not pairs:
        allowed = 'names no pair: compare = [["one.current", "other.current"]], or --against'
        raise ConfigurationError([Mistake(rig.path, "calibration.compare", None, allowed)])
    load_calibration(calibration_file(rig.path))
    done = []
    with held(rig, "labctl calibrate"):
        for pair in pairs:
            check, difference, used = cross_check(rig, pair, seconds)
            store_calibration_check(rig, check)
            done.append((check, difference))
            for note in used.notes if used is not None else ():
                print(f"labctl: {note}", file=sys.stderr)
    if json_output:
        rows = [
            {**asdict(check), "agree": check.agree, "budget": [asdict(x) for x in found.budget]}
            for check, found in done
        ]
        for row in rows:
            for line in row["budget"]:
                line["u"] = line.pop("watts")
                line["dof"] = line["dof"] if line["dof"] < float("inf") else None
        print(json.dumps({"file": str(calibration_file(rig.path)), "checks": rows}, indent=1))
    else:
        for check, _ in done:
            _print_calibration_check(check)
    return int(any(not check.agree for check, _ in done))


def _confirm_calibration(
    rig: Rig, names: Sequence[str], supplies: Sequence[str], *, yes: bool, json_output: bool
) -> None:
    """Ask before the drive loses its power, or whether it has. Raises Refused."""
    if yes:
        return
    action = f"zeros of {', '.join(names)}"
    question = "Is the drive off, or disconnected?"
    if supplies:
        action += f"; {', '.join(supplies)} will be switched off and on again"
        question = f"May the drive {rig.drive.model or rig.drive.target} lose its power?"
    if json_output or not sys.stdin.isatty():
        raise Refused(f"{action}. {question} If so, add --yes")
    print(action)
    if not typer.confirm(question):
        raise Refused("not begun")


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does: supplies are restored."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _print_zeros(found: Sequence[Zero]) -> None:
    if found:
        print(f"{'channel':<24}{'zero':>14}{'u (k = 1)':>14}{'n':>8}  {'date':<12}range")
    for zero in found:
        value, u = f"{zero.value:+.4g} {zero.unit}", f"{rounded(zero.u, 2)} {zero.unit}"
        range_ = "–" if zero.range is None else f"{zero.range:g} {zero.unit}"
        print(f"{zero.channel:<24}{value:>14}{u:>14}{zero.n:>8}  {day_of(zero.taken):<12}{range_}")


def _print_calibration_check(check: CrossCheck) -> None:
    for channel, mean in zip(check.channels, check.means, strict=True):
        print(f"{channel:<24}{mean:>14.6g} {check.unit}")
    verdict = "they agree" if check.agree else "they contradict each other"
    print(
        f"difference {check.difference:+.3g} {check.unit} ± {rounded(check.u, 2)} {check.unit} "
        f"(U, k = 2; {check.n} pairs, {day_of(check.taken)})"
    )
    print(f"En = {rounded(check.en, 2)}: {verdict}")
