"""Several drives that worked at once: the part of the run of each, and all of them together.

The part of one drive is a run of its own: its rails, sensors and counters, and its share of fio's
I/O. So every number of a drive comes from the same code as on a rig with that drive alone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.throttle_result import ThrottleInterval, ThrottleVerdict
from labctl.analysis.throttling.verdict import NONE, OPEN, THROTTLED
from labctl.errors import JournalError
from labctl.record.events import Event
from labctl.record.header import Header
from labctl.record.reader import RunRecord

_FIO = "fio."


class RunOfDrive(RunRecord):
    """A run as one of its drives sees it. Rails that the drives share are not its own."""

    def __init__(self, record: RunRecord, name: str) -> None:
        """``name``: the drive's in the rig, a key of ``header.drives``."""
        self.path = record.path
        self.problems = []
        self.drive_name = name
        self.header = _header_of(record.header, name)
        self.events = tuple(event for event in record.events if self._own(event))
        self._record = record

    def _own(self, event: Event) -> bool:
        """Whether an event is about this drive, or about none in particular."""
        drive, channel, meter = (event.data.get(key) for key in ("drive", "channel", "instrument"))
        names = self.channel_names
        return (
            drive in (None, self.drive_name)
            and (channel is None or channel in names)
            and (meter is None or any(name.startswith(f"{meter}.") for name in names))
        )

    def readings(self, name: str) -> NDArray[np.void]:
        """All readings of a channel; of fio's, those of this drive."""
        if name.startswith(_FIO):
            name = f"{_FIO}{self.drive_name}.{name.removeprefix(_FIO)}"
        return self._record.readings(name)

    def clock_pairs(self, name: str) -> NDArray[np.void]:
        """The samples of a channel's device clock."""
        return self._record.clock_pairs(name)


def _header_of(header: Header, name: str) -> Header:
    rails = tuple(rail for rail in header.rails if rail.drive == name)
    owners = header.temperature_drives
    sensors = {
        sensor: channel
        for sensor, channel in header.temperatures.items()
        if owners.get(sensor) == name
    }
    meters = {
        one for rail in rails for one in (rail.voltage, rail.current, rail.shunt_temperature) if one
    } | {*sensors.values()}
    own = f"{_FIO}{name}."
    channels = [
        replace(info, name=f"{_FIO}{info.name.removeprefix(own)}")
        if info.name.startswith(own)
        else info
        for info in header.channels
        if info.name in meters or info.name.startswith(own)
    ]
    # the power of a shared rail is measured, but not how much of it each drive draws
    complete = all(rail.drive for rail in header.rails)
    return replace(
        header,
        rails=rails if complete else (),
        temperatures=sensors,
        host_power=(),
        channels=tuple(channels),
        drive=header.drives[name],
        drive_state=header.drive_states.get(name),
        drives={},
        drive_states={},
        temperature_drives={},
    )


def runs_of_drives(record: RunRecord) -> dict[str, RunRecord]:
    """The run as each of its drives sees it, by name; empty where there is one drive."""
    return {name: RunOfDrive(record, name) for name in record.header.drives}


def run_of_drive(record: RunRecord, name: str) -> RunRecord:
    """The run as the drive ``name`` sees it. Raises JournalError when it had no such drive."""
    known = runs_of_drives(record)
    if name not in known:
        had = f"its drives are {', '.join(known)}" if known else "it had one drive only"
        raise JournalError(f"{record.path} has no drive {name!r}: {had}")
    return known[name]


def run_of_all(record: RunRecord) -> RunRecord:
    """The run of several drives together: without what is counted by one of them alone."""
    if not record.header.drives:
        return record
    together = copy.copy(record)
    together.events = tuple(event for event in record.events if not event.data.get("drive"))
    return together


def with_drives(summary: RunSummary, drives: Mapping[str, RunSummary]) -> RunSummary:
    """The summary of all drives together, with what only each of them can say.

    Drives throttle one by one: the stretches are those of each drive, and a phase counts as
    throttled when one of them throttled.
    """
    found = [
        replace(item, evidence=f"{name}: {item.evidence}", drive=name)
        for name, one in drives.items()
        for item in one.throttling
    ]
    by_phase: dict[int, dict[str, PhaseResult]] = {}
    for name, one in drives.items():
        for item in one.phases:
            by_phase.setdefault(item.phase.index, {})[name] = item
    known = set(summary.problems)
    return replace(
        summary,
        drives=dict(drives),
        phases=tuple(
            _with_throttling_of(item, by_phase[item.phase.index]) for item in summary.phases
        ),
        window_means=tuple(
            _with_throttling_of(item, _means_of(item, drives)) for item in summary.window_means
        ),
        throttling=tuple(sorted(found, key=_throttle_begin_of_drives)),
        drive_counters={
            f"{name} {counter}": moved
            for name, one in drives.items()
            for counter, moved in one.drive_counters.items()
        },
        problems=(
            *summary.problems,
            *(
                f"{name}: {problem}"
                for name, one in drives.items()
                for problem in one.problems
                if problem not in known
            ),
        ),
    )


def _throttle_begin_of_drives(item: ThrottleInterval) -> int:
    return item.begin_ns


def _means_of(result: PhaseResult, drives: Mapping[str, RunSummary]) -> dict[str, PhaseResult]:
    return {
        name: item
        for name, one in drives.items()
        for item in one.window_means
        if item.phase == result.phase
    }


def _with_throttling_of(result: PhaseResult, drives: Mapping[str, PhaseResult]) -> PhaseResult:
    throttled_s = max((item.throttled_s for item in drives.values()), default=0.0)
    judged = replace(
        result,
        throttling=_verdict_of_drives(
            [(name, item.throttling) for name, item in drives.items() if item.throttling]
        ),
        throttled_s=throttled_s,
    )
    if not throttled_s:
        return judged
    return replace(judged, unthrottled_s=None, watts_unthrottled=None, iops_unthrottled=None)


def _verdict_of_drives(verdicts: Sequence[tuple[str, ThrottleVerdict]]) -> ThrottleVerdict | None:
    """The worst verdict among the drives, with the reasons of the drives that have it."""
    for verdict in (THROTTLED, OPEN, NONE):
        whys = [f"{name}: {one.why}" for name, one in verdicts if one.verdict == verdict]
        if whys:
            return ThrottleVerdict(verdict, "; ".join(whys))
    return None


def by_drive(
    summary: RunSummary, result: PhaseResult
) -> Iterator[tuple[str, RunSummary, PhaseResult]]:
    """What each of several drives did in a phase, or over a measurement window, with its name."""
    for drive, one in summary.drives.items():
        for item in (*one.window_means, *one.phases):
            if item.phase == result.phase:
                yield drive, one, item
                break


def own_measured(summary: RunSummary) -> list[tuple[str, PhaseResult]]:
    """The phases in which a drive measured itself, in their order, each with the name of the one
    of several drives."""
    each = [(name, one) for item in summary.phases for name, _, one in by_drive(summary, item)]
    found = each or [("", item) for item in summary.phases]
    return [(name, item) for name, item in found if item.own_measurement is not None]


def record_at(path: Path) -> RunRecord:
    """The run, or the part of one of its drives where the path ends with ``:DRIVE``."""
    run, colon, drive = str(path).rpartition(":")
    if path.exists() or not colon or not Path(run).is_dir():
        return RunRecord(path)
    return run_of_drive(RunRecord(Path(run)), drive)
