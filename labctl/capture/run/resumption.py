"""What of a run that was cut off is kept, and what must be the same to go on with it.

The rig is one of this machine, and must agree with the header's. What is done comes from the events
of the run directory, and where times and device clocks go on from its files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labctl.analysis.readings.clock_fit import EPOCH_NS
from labctl.analysis.steady_state.rounds_end import PointValues, later_rounds
from labctl.capture.drive.changed_settings import Changed, left_changed
from labctl.capture.host.remote_host import TOKEN, HostSession
from labctl.capture.phases.repetition import repeated_preparation
from labctl.capture.run.expand import PlannedWork, phases_for, size_of_drives
from labctl.capture.run.resume_agreement import (
    in_words,
    phase_differences,
    plan_differences,
    rig_differences,
)
from labctl.config.plan import Plan, parse_plan
from labctl.config.rig import Rig
from labctl.errors import Refused
from labctl.record.drive_state import DriveState
from labctl.record.events import Event, EventKind, Outcome
from labctl.record.header import Header
from labctl.record.journal import reopen
from labctl.record.layout import HEADER_FILE, HOST_CLOCK
from labctl.record.phase import Pattern, Phase
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S, Timebase

CONNECTIONS_A_PROCESS = 100_000
"""More than one process can make: so connections of two processes never have the same number."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A run that can go on, and from where.

    ``done`` are phases, by index, that are not done again, ``values`` what those of rounds did.
    ``device_begin_ns`` lifts the device times of each channel above those that are recorded.
    """

    path: Path
    header: Header
    rig: Rig
    plan: Plan
    work: PlannedWork
    done: frozenset[int]
    values: Mapping[int, PointValues]
    timebase: Timebase
    device_begin_ns: Mapping[str, int]
    host_session: HostSession | None
    interrupted: Phase | None
    """The phase that was on when it was cut off; None between phases."""
    last_ns: int
    """The time of the last datum."""
    left: Mapping[str, Changed]
    """Settings of each drive and its host that the process before has changed, by the drive."""
    cut_bytes: Mapping[str, int] = field(default_factory=dict)
    """What a crash had torn off, by file."""

    def event_data(self) -> dict[str, Any]:
        """Data of the ``run_resumed`` event."""
        gap_ns = self.timebase.now_ns() - self.last_ns
        return {
            "anchor": asdict(self.timebase.anchor),
            "last_ns": self.last_ns,
            "gap_s": round(gap_ns / NS_PER_S, 3),
            "interrupted": None if self.interrupted is None else self.interrupted.index,
            "kept": sorted(self.done),
            "cut_bytes": dict(self.cut_bytes),
            "wall_offset_s": round(self.timebase.wall_offset_ns() / NS_PER_S, 6),
        }

    def refuse_others(
        self, states: Mapping[str, DriveState], identities: Mapping[str, str]
    ) -> None:
        """Refuse to go on with another drive or other meters. Raises Refused.

        ``states`` by the drive's name in the rig.
        """
        differences = [
            f"{name} is {now}, and was {self.header.identities[name]}"
            for name, now in identities.items()
            if self.header.identities.get(name, now) != now
        ]
        for name, state in states.items():
            before = self.header.drive_states.get(name, self.header.drive_state)
            for what in ("model", "serial", "size_bytes"):
                was, now = getattr(before, what, None), getattr(state, what)
                if was and now and was != now:
                    whose = f"drive {name}'s" if name else "the drive's"
                    difference = f"{whose} {what.replace('_', ' ')} is {now}, and was {was}"
                    differences.append(difference)
        if differences:
            raise Refused(
                f"{self.path} cannot go on: {'; '.join(differences)}. Put the bench back as it "
                "was, or begin a new run"
            )


def why_not(record: RunRecord) -> str:
    """Why a run cannot go on; empty when it can, as far as its record shows."""
    end = record.end
    if not record.header.phases:
        return "it is a record of the meters alone"
    if end is not None and end.data.get("outcome") == Outcome.COMPLETED:
        return "it is completed"
    if any(phase.pattern is Pattern.PROGRAM for phase in record.header.phases):
        return "it measured a program, which runs once: begin a new run with labctl measure"
    plan = parse_plan(record.header.plan_text, f"{record.path / HEADER_FILE}: plan")
    if plan.resume == "forbid":
        return 'its plan says resume = "forbid": begin a new run'
    return ""


def resumption(path: Path, rig: Rig, own_plan: tuple[Plan, str] | None = None) -> Resumption:
    """Prepare to go on with the run in ``path``: torn last records are cut.

    ``rig`` is of this machine. ``own_plan``: the plan and its text, where it is named here; else it
    comes from the header, which may name no file to be opened.

    Raises JournalError when it is no run or is still being recorded, ConfigurationError when this
    labctl does not take its rig or plan, Refused when it is over, must not go on, or was made with
    another rig or plan. Then nothing was touched.
    """
    record = RunRecord(path)
    header = record.header
    reason = why_not(record)
    if reason:
        raise Refused(f"{path} cannot go on: {reason}")
    size_bytes = size_of_drives(rig)
    plan = _agreed_plan(record, rig, own_plan, size_bytes)
    cut_bytes = reopen(path)
    last_ns = _last_ns_to_resume(record)
    done = _done(record.events, header.phases)
    interrupted = _interrupted(record.events, header.phases)
    kept = done - set(repeated_preparation(header.phases, done, plan.resume))
    return Resumption(
        path=path,
        header=header,
        rig=rig,
        plan=plan,
        work=PlannedWork(header.phases, size_bytes),
        done=frozenset(kept),
        values=_values(record.events, kept),
        timebase=Timebase.going_on(record.anchor, last_ns),
        device_begin_ns={
            info.name: _next_epoch(record, info.name) * EPOCH_NS
            for info in header.channels
            if info.clock == "device"
        },
        host_session=host_session(record),
        interrupted=interrupted,
        last_ns=last_ns,
        left={name: left_changed(record.events, name) for name in rig.drives},
        cut_bytes=cut_bytes,
    )


def _agreed_plan(
    record: RunRecord, rig: Rig, own_plan: tuple[Plan, str] | None, size_bytes: int | None
) -> Plan:
    """The plan to go on with. Raises Refused, ConfigurationError."""
    path = record.path

    def refuse(what: str, differences: Sequence[str], todo: str) -> None:
        if differences:
            raise Refused(f"{path} cannot go on {what}: {in_words(differences)}. {todo}")

    refuse(
        f"with the rig {rig.path}",
        rig_differences(record, rig),
        "Put the rig back as it was, name the right one (labctl run RIG --resume RUN), or begin a "
        "new run",
    )
    if own_plan is None:
        plan = parse_plan(record.header.plan_text, f"{path / HEADER_FILE}: plan")
        if any(sweep.replay for sweep in plan.sweeps):
            raise Refused(
                f"{path} cannot go on: its plan replays a trace, and no file is opened because a "
                "record names it. Name the plan, too: labctl run RIG PLAN --resume RUN"
            )
    else:
        plan, text = own_plan
        differences = plan_differences(record, text)
        refuse("with this plan", differences, "Name the one that it was begun with")
    refuse(
        "as its plan gives other phases here (another labctl, drive or trace?)",
        phase_differences(record, phases_for(rig, plan, plan.name, size_bytes)),
        "Begin a new run",
    )
    return plan


def _ends_before_resumption(events: Sequence[Event]) -> dict[int, Event]:
    """The event that ended each phase, where it was not begun again since."""
    ends: dict[int, Event] = {}
    for event in events:
        index = event.data.get("index")
        if isinstance(index, int):
            if event.kind == EventKind.PHASE_ENDED:
                ends[index] = event
            elif event.kind == EventKind.PHASE_STARTED:
                ends.pop(index, None)
    return ends


def _done(events: Sequence[Event], phases: Sequence[Phase]) -> set[int]:
    """Completed phases, and those of rounds that were left out because they were not needed."""
    ends = _ends_before_resumption(events)
    done = {index for index, end in ends.items() if end.data.get("outcome") == Outcome.COMPLETED}
    for event in events:
        last = event.data.get("index")
        if event.kind == EventKind.STEADY_STATE and isinstance(last, int) and last in done:
            done.update(later_rounds(phases, phases[last]))
    return done


def _interrupted(events: Sequence[Event], phases: Sequence[Phase]) -> Phase | None:
    """The phase that was begun last, unless it ended on its own."""
    started = [event.data.get("index") for event in events if event.kind == EventKind.PHASE_STARTED]
    if not started or not isinstance(started[-1], int) or not 0 <= started[-1] < len(phases):
        return None
    end = _ends_before_resumption(events).get(started[-1])
    over = end is not None and end.data.get("outcome") in (Outcome.COMPLETED, Outcome.FAILED)
    return None if over else phases[started[-1]]


def _values(events: Sequence[Event], done: set[int]) -> dict[int, PointValues]:
    found = {
        index: PointValues.from_json(end.data)
        for index, end in _ends_before_resumption(events).items()
        if index in done
    }
    return {index: one for index, one in found.items() if one is not None}


def _last_ns_to_resume(record: RunRecord) -> int:
    """The time of the last datum on the run's timebase."""
    times = [record.header.anchor.wall_ns, *(event.t_ns for event in record.events)]
    for info in record.header.channels:
        if info.clock != "device":
            times += record.readings(info.name)["t"][-1:].tolist()
    names = [info.name for info in record.header.channels if info.clock == "device"]
    for name in (*names, HOST_CLOCK):
        times += record.clock_pairs(name)["host_ns"][-1:].tolist()
    return max(times)


def _next_epoch(record: RunRecord, name: str) -> int:
    """The first epoch of a device clock that nothing is recorded in."""
    stamps = [*record.readings(name)["t"][-1:], *record.clock_pairs(name)["device_ns"][-1:]]
    return max((int(stamp) // EPOCH_NS + 1 for stamp in stamps), default=0)


def host_session(record: RunRecord) -> HostSession | None:
    """By what is found what the run has left on the drive's host; None where it has no session."""
    sessions = [event for event in record.events if event.kind == EventKind.HOST_SESSION]
    tokens = [event.data.get("token") for event in sessions]
    if not tokens or not isinstance(tokens[-1], str) or not TOKEN.fullmatch(tokens[-1]):
        return None
    times = sum(event.kind == EventKind.RUN_RESUMED for event in record.events) + 1
    clocks = [event for event in record.events if event.kind == EventKind.HOST_CLOCK]
    epochs = [event.data.get("epoch", 0) for event in clocks]
    return HostSession(
        str(tokens[-1]),
        times * CONNECTIONS_A_PROCESS,
        max((epoch + 1 for epoch in epochs if isinstance(epoch, int)), default=0),
    )
