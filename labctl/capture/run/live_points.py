"""How well the numbers of the point that is measured are known, from what comes in meanwhile.

Each drive has its own rails, IOPS and temperature, and all of them must be good enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from labctl.analysis.steady_state.enough import (
    COLLECTION_S,
    Enough,
    Expected,
    Known,
    Quantity,
    State,
    Target,
)
from labctl.analysis.steady_state.meters_part import meters_part
from labctl.capture.meters.live_watts import GROUP_S, LiveWatts
from labctl.capture.phases.fio_process import STATUS_EVERY_MS
from labctl.config.rig import Rig
from labctl.record.drive_state import DriveState
from labctl.record.header import RailInfo
from labctl.record.phase import Phase, Until
from labctl.record.point_end import PointNumber, PointState
from labctl.record.timebase import NS_PER_S

_KNOWN = 10.0
"""A number with a larger share of U is as good as not known."""


class LivePoints:
    """The point of a run that is on: one at a time."""

    def __init__(self, rig: Rig, drive_states: Mapping[str, DriveState], watts: LiveWatts) -> None:
        """``drive_states`` by the drive's name, which is empty where there is only one."""
        self._rig = rig
        self._drive_states = drive_states
        self._watts = watts
        self._rails = rails_of_drives(rig)
        self._phase: Phase | None = None
        self._begin_ns = 0
        self._enough: dict[str, Enough] = {}
        self._throttles: set[str] = set()
        self._events_s: dict[tuple[str, bool], dict[Quantity, float]] = {}
        """The largest events that earlier points showed, by drive and whether they wrote."""

    def began(self, phase: Phase, t_ns: int) -> None:
        """``phase``, whose end depends on its numbers, does its first I/O about now."""
        assert phase.until is not None
        self._watts.take()  # what was before is of no use
        self._phase, self._begin_ns = phase, t_ns
        self._throttles = set()
        self._enough = {
            drive: Enough(
                target_of(phase.until),
                replace(
                    expected_of(self._rig, phase, drive, self._drive_states.get(drive)),
                    event_s=self._events_s.get((drive, phase.writes), {}),
                ),
                [rail.name for rail in rails],
            )
            for drive, rails in self._rails.items()
        }

    def over(self) -> None:
        """The phase is over. What stood out in it may come at later points, too: those that write
        are held to what others that write showed, for collection comes with writing."""
        phase, self._phase = self._phase, None
        if phase is None:
            return
        for drive, enough in self._enough.items():
            largest = self._events_s.setdefault((drive, phase.writes), {})
            for quantity, event_s in enough.largest_events_s().items():
                largest[quantity] = max(largest.get(quantity, 0.0), event_s)
        self._enough = {}

    def status(self, index: int, drive: str, t_ns: int, iops: float) -> None:
        """What the fio of a phase did on a drive since the status before that at ``t_ns``."""
        if self._phase is not None and index == self._phase.index and drive in self._enough:
            self._enough[drive].add_iops(self._s(t_ns), iops)

    def throttles(self, drive: str) -> None:
        """The thermal counters of a drive moved."""
        self._throttles.add(drive)

    def state(self, now_ns: int, celsius: Mapping[str, float]) -> PointState | None:
        """How the point stands by now; None where none is on. ``celsius`` of each drive, now."""
        if self._phase is None:
            return None
        for rail, (t_ns, watts) in self._watts.take().items():
            for drive, rails in self._rails.items():
                if any(one.name == rail for one in rails):
                    for at_ns, value in zip(t_ns.tolist(), watts.tolist(), strict=True):
                        self._enough[drive].add_watts(rail, self._s(at_ns), value)
        now_s = self._s(now_ns)
        for drive, value in celsius.items():
            if drive in self._enough:
                self._enough[drive].add_celsius(drive, now_s, value)
        states = {
            drive: one.state(now_s, throttles=drive in self._throttles)
            for drive, one in self._enough.items()
        }
        return together(states)

    def _s(self, t_ns: int) -> float:
        return (t_ns - self._begin_ns) / NS_PER_S


def rails_of_drives(rig: Rig) -> dict[str, list[RailInfo]]:
    """The rails of each drive, by its name. One that drives share counts with each."""
    return {drive: [rail for rail in rig.rail_infos() if rail.feeds(drive)] for drive in rig.drives}


def expected_of(rig: Rig, phase: Phase, drive: str, state: DriveState | None = None) -> Expected:
    """What is known of a phase on a drive before it begins. ``state``: of the drive, if known."""
    rails = rails_of_drives(rig)[drive]
    channels = {one.name: one for one in rig.channel_infos}
    owners = rig.temperature_drives()
    sensors = [
        channels[name].interval_s
        for sensor, name in rig.temperatures.items()
        if owners.get(sensor, "") in ("", drive) and name in channels
    ]
    readings = [
        channels[name].interval_s for rail in rails for name in (rail.voltage, rail.current)
    ]
    return Expected(
        longest_s=phase.duration_s,
        shortest_s=None if phase.until is None else phase.until.min_duration_s,
        reading_s=max(GROUP_S, *readings) if readings else GROUP_S,
        status_s=STATUS_EVERY_MS / 1000,
        temperature_s=max(sensors, default=0.0),
        collection_s=COLLECTION_S if phase.writes else 0.0,
        limit_celsius=None if state is None else state.warning_celsius,
        meters=meters_part(rails, channels),
    )


def least_point_s(rig: Rig, phase: Phase) -> float:
    """How long ``phase`` takes on ``rig`` at least, in seconds."""
    if phase.until is None:
        return phase.least_s
    found = [expected_of(rig, phase, drive) for drive in rig.drives]
    return min(max(max(one.least_s, one.collection_s) for one in found), phase.duration_s)


def target_of(until: Until) -> Target:
    """What is good enough, as the plan says it."""
    wanted = {Quantity.WATTS: until.watts_pct, Quantity.IOPS: until.iops_pct}
    within = {what: pct / 100 for what, pct in wanted.items() if pct is not None}
    return Target(within or None)


def together(states: Mapping[str, State]) -> PointState:
    """The states of all drives as one: the number that is known least, and all that keeps a drive
    going, once, with the drive's name where there are several."""
    keeps = dict.fromkeys(
        f"{drive}: {keep.value}" if drive else keep.value
        for drive, state in states.items()
        for keep in state.keeps
    )
    return PointState(
        _worst_live_point_number([state.known.get(Quantity.WATTS) for state in states.values()]),
        _worst_live_point_number([state.known.get(Quantity.IOPS) for state in states.values()]),
        tuple(keeps),
    )


def _worst_live_point_number(known: Iterable[Known | None]) -> PointNumber | None:
    """The one that is known least, in percent; None where one of them is not known yet."""
    found = list(known)
    if not found or any(one is None or not one.share < _KNOWN for one in found):
        return None
    worst = max((one for one in found if one is not None), key=lambda one: one.share)
    parts = (worst.u, worst.meters_u, worst.repeatability, worst.target_u)
    return PointNumber(*(round(100 * part / worst.mean, 4) for part in parts))
