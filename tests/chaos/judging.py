"""What must hold of a run after all that was done to it, and what a trouble cost."""

from __future__ import annotations

import math
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.channel_series import channel_series
from labctl.analysis.run.summary import summarise
from labctl.errors import JournalError
from labctl.record.events import EventKind, Outcome
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S
from labctl.sinks.follow.event_points import WITHDRAWN
from tests.chaos.place import Place
from tests.chaos.troubles import Trouble
from tests.faults.resumed_run import (
    HeldUp,
    assert_completed_once,
    assert_times_ascend,
    events_file,
    longest_pace_ns,
    lost_before,
)
from tests.forked_labctl import labctl
from tests.servers.influx_lines import Stored
from tests.servers.influx_run import points_of
from tests.soak.counts import CHANNEL, miscounted

MOST_LOST_S, MOST_LOST_BUSY_S = 0.25, 0.5
"""What a trouble may cost a channel, and on a machine that is busy."""
BUSY_S = 0.05
"""So late were threads of this machine in the second before: it is busy."""
EXCUSED_FOR_S = 20.0
"""A meter that had a fault so long ago may not be back."""
LOSS_WITHIN_S = 3.0
"""Around a trouble that no run died of: what it cost shows within this time."""
SHIPPED_WITHIN_S = 120.0
REMOTE = "drive_temp"
"""The instrument of the rig that is on the drive's host."""


class Agreement:
    """How often numbers hold the truth and agree with those of runs that nothing was done to.

    Each number is divided by what the bench knows of its phase, since a busy machine serves the
    simulated drive more slowly: what is left is what labctl measured wrong.
    """

    def __init__(self) -> None:
        self._reference: dict[tuple[int, str], list[Estimate]] = {}
        self.true: list[float] = []
        """|error| / U of each number of a run that something was done to, against the bench."""
        self.alike: list[float] = []
        """|difference| / U of the difference, against each run that nothing was done to."""

    def judge(self, place: Place, record: RunRecord, left_alone: bool) -> list[str]:
        """The numbers of a run; those that are off by more than twice their U, in words."""
        wrong = []
        for result in summarise(record).phases:
            if result.outcome != Outcome.COMPLETED:
                continue
            for name, found in _shares_of_truth(place, record, result).items():
                key = (result.phase.index, name)
                if left_alone:
                    self._reference.setdefault(key, []).append(found)
                    continue
                ratios = [_ratio(found, Estimate(1.0, 0.0))]
                ratios += [_ratio(found, other) for other in self._reference.get(key, [])]
                self.true.append(ratios[0])
                self.alike += ratios[1:]
                if max(ratios) > 2:
                    wrong.append(
                        f"{result.phase.label}: {name} are {found.value:.4f} ± {found.u:.4f} of "
                        f"the truth, those of runs left alone {self._reference.get(key, [])}"
                    )
        return wrong


def _ratio(one: Estimate, other: Estimate) -> float:
    return abs(one.value - other.value) / math.hypot(one.u, other.u)


def _shares_of_truth(place: Place, record: RunRecord, result: PhaseResult) -> dict[str, Estimate]:
    """Watts and IOPS/W of a phase, as shares of what the bench knows."""
    truth, anchor = GroundTruth(place.bench.directory / "truth"), record.anchor
    begin_ns, end_ns = map(anchor.to_monotonic_ns, (result.begin_ns, result.end_ns))
    watts = sum(truth.mean_watts(begin_ns, end_ns).values())
    shares = {}
    if result.watts is not None:
        shares["watts"] = result.watts.scaled(1 / watts)
    if result.iops_per_watt is not None:
        reads = truth.operations(begin_ns, end_ns)["reads"]
        per_watt = reads / result.duration_s / watts
        found = result.iops_per_watt.scaled(1 / per_watt)
        edges = result.phase.queue_depth / reads  # reads that were on their way at begin and end
        shares["IOPS/W"] = Estimate(found.value, found.u + edges)
    return shares


def judge_run(
    place: Place, path: Path, troubles: Sequence[Trouble], late: HeldUp, found: Agreement
) -> list[str]:
    """What is wrong with the record of a run that is over. ``troubles``: all of its job."""
    wrong = []
    done, troubles = troubles, [one for one in troubles if one.run == path]
    try:
        record = RunRecord(path)
    except JournalError as error:
        return [f"{path.name} cannot be read: {error}"]
    events = events_file(path)
    for trouble in troubles:
        if not events.startswith(trouble.events):
            wrong.append(f"after {trouble}: events are gone")
    checks = [lambda: assert_times_ascend(path)]
    outcome = record.end.data.get("outcome") if record.end is not None else None
    if outcome == Outcome.COMPLETED:
        checks.append(lambda: assert_completed_once(path))
    for check in checks:
        try:
            check()
        except AssertionError as error:
            wrong.append(str(error) or check.__name__)
    wrong += record.problems
    if not any(trouble.meter in ("all", CHANNEL.partition(".")[0]) for trouble in done):
        wrong += miscounted(record)
    cost_of(record, troubles, done)
    for trouble in troubles:
        end_ns = trouble.at_ns + int(LOSS_WITHIN_S * NS_PER_S) * (trouble.what != "run killed")
        limit_s = limit_of(late.between(trouble.at_ns - NS_PER_S, end_ns))
        wrong += [
            f"{trouble}: {name} lost {seconds * 1000:.0f} ms of readings"
            for name, seconds in trouble.lost_s.items()
            if seconds > limit_s
        ]
    if outcome == Outcome.COMPLETED or troubles:
        wrong += found.judge(place, record, left_alone=not troubles)
    return [f"{path.name}: {words}" for words in wrong]


def limit_of(late_s: float) -> float:
    """What a trouble may cost where the machine was so late in the second before it."""
    return max(MOST_LOST_S if late_s <= BUSY_S else MOST_LOST_BUSY_S, MOST_LOST_S + late_s)


def cost_of(record: RunRecord, troubles: Sequence[Trouble], done: Sequence[Trouble]) -> None:
    """Note what each trouble cost each channel; of channels that another one that was ``done`` may
    have cost more, nothing."""
    died = [one for one in troubles if one.what == "run killed" and b"run_started" in one.events]
    if died and any(event.kind == EventKind.PHASE_ENDED for event in record.events):
        by_channel = lost_before(record.path, [one.at_ns for one in died])
        for one in died:
            one.lost_s = {
                name: lost[one.at_ns]
                for name, lost in by_channel.items()
                if one.at_ns in lost and not _excused(record, name, one, done)
            }
            one.resumed_s = _resumed_s(record, one)
    others = [one for one in troubles if one.what.split()[0] in ("database", "broker", "ssh")]
    for one in others:
        one.lost_s = _holes(record, one, done)


def _resumed_s(record: RunRecord, trouble: Trouble) -> float | None:
    at_ns = record.header.anchor.from_monotonic_ns(trouble.at_ns)
    later = [
        event.t_ns
        for event in record.events
        if event.kind == EventKind.RUN_RESUMED and event.t_ns > at_ns
    ]
    return (later[0] - at_ns) / NS_PER_S if later else None


def _excused(
    record: RunRecord, channel: str, trouble: Trouble, troubles: Sequence[Trouble]
) -> bool:
    """Whether something else that was done before may have cost a channel readings."""
    instrument = channel.partition(".")[0]
    for other in troubles:
        ago_s = (trouble.at_ns - other.until_ns) / NS_PER_S
        of_meter = other.meter in ("all", instrument) and ago_s < EXCUSED_FOR_S
        # what is read over the lost connection is lost with it, and reported
        of_meter |= other.what.startswith("ssh") and instrument == REMOTE and ago_s < EXCUSED_FOR_S
        of_all = other.what in ("run stopped", "disk full") and ago_s < LOSS_WITHIN_S
        if ago_s > -EXCUSED_FOR_S and (of_meter or (of_all and other is not trouble)):
            return True
    at_ns = record.header.anchor.from_monotonic_ns(trouble.at_ns)
    reported = [
        event
        for event in record.events
        if event.data.get("channel") == channel
        and abs(event.t_ns - at_ns) < LOSS_WITHIN_S * NS_PER_S
        and event.kind in (EventKind.STATUS_BEGAN, EventKind.STATUS)
    ]
    if reported:  # events count its readings that were no numbers
        return True
    connected = [
        event.kind
        for event in record.events
        if event.t_ns <= at_ns
        and event.kind in (EventKind.INSTRUMENT_LOST, EventKind.INSTRUMENT_BACK)
        and event.data.get("instrument") == instrument
    ]
    return bool(connected) and connected[-1] == EventKind.INSTRUMENT_LOST


def _holes(record: RunRecord, trouble: Trouble, troubles: Sequence[Trouble]) -> dict[str, float]:
    """Of each channel, the longest time around a trouble without a reading that was due."""
    anchor = record.header.anchor
    next_ns = min((one.at_ns for one in troubles if one.at_ns > trouble.at_ns), default=1 << 62)
    begin, end = trouble.at_ns, min(trouble.at_ns + int(LOSS_WITHIN_S * NS_PER_S), next_ns)
    begin_ns, end_ns = anchor.from_monotonic_ns(begin), anchor.from_monotonic_ns(end)
    starts = [
        event.t_ns
        for event in record.events
        if event.kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED)
    ]
    from_ns = max((t_ns for t_ns in starts if t_ns <= begin_ns), default=end_ns)
    until_ns = min((t_ns for t_ns in starts if t_ns > begin_ns), default=1 << 62)
    holes = {}
    for info in record.header.channels:
        if info.name.startswith(("fio.", "host.")) or _excused(
            record, info.name, trouble, troubles
        ):
            continue
        series = channel_series(record, info)
        host_ns = series.clock.to_host_ns(series.stamps)
        host_ns = host_ns[(host_ns >= from_ns) & (host_ns < until_ns)]  # of one process
        if len(host_ns) < 3:
            continue
        pace_ns = longest_pace_ns(info, host_ns)
        inside = (host_ns[1:] > begin_ns) & (host_ns[:-1] < end_ns)
        if inside.any():
            hole_ns = np.minimum(host_ns[1:], end_ns) - host_ns[:-1]
            holes[info.name] = (float(hole_ns[inside].max()) - pace_ns) / NS_PER_S
    return holes


def not_shipped(place: Place, paths: Sequence[Path], bucket: str) -> list[str]:
    """Send the rest as a person does, and compare the database with the journals."""
    wrong = []
    for path in paths:
        done = _ship(place, path)
        if done.returncode:
            wrong.append(f"{path.name} is not shipped: {done.stderr.strip()[-500:]}")
    if place.influx is None or wrong:
        return wrong
    expected: Stored = {}
    for path in paths:
        expected |= points_of(path)
    names = {path.name for path in paths}
    stored = {
        key: fields
        for key, fields in place.influx.points(bucket).items()
        if dict(key[1]).get("run") in names
    }
    return [*wrong, *_difference(stored, expected)]


def _difference(stored: Stored, expected: Stored) -> list[str]:
    """How what the database holds differs from what the journals say, point by point."""
    # A point cannot be deleted: throttling that was seen too early stays, and says what it is.
    stored = {key: one for key, one in stored.items() if one.get("title") != WITHDRAWN}
    lines = []
    for words, only, where in (
        ("is missing", expected.keys() - stored.keys(), expected),
        ("should not be there", stored.keys() - expected.keys(), stored),
    ):
        counts = Counter(key[0] for key in only)
        for name, count in counts.items():
            first = min(key for key in only if key[0] == name)
            lines.append(f"the database: {count} × {name} {words}, first {first} {where[first]}")
    for key in sorted(expected.keys() & stored.keys()):
        has, wanted = stored[key], expected[key]
        if has != wanted:
            both = dict(has.items() - wanted.items()), dict(wanted.items() - has.items())
            lines.append(f"the database: {key} has {both[0]}, not {both[1]}")
    return lines


def _ship(place: Place, path: Path) -> subprocess.CompletedProcess[str]:
    """Beside it the run's own process may still send its last points: then once more."""
    deadline = time.monotonic() + SHIPPED_WITHIN_S
    while True:
        done = labctl("ship", path, "--rig", place.rig, timeout=SHIPPED_WITHIN_S)
        if done.returncode == 0 or time.monotonic() > deadline:
            return done
        time.sleep(1.0)
