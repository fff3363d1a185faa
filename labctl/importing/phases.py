"""What fio did as phases of the run: their plan, their channels, their events."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from instruments.reading import Block
from labctl.fio.documents import DIRECTIONS
from labctl.fio.status import intervals
from labctl.importing.work import Work
from labctl.record import journal
from labctl.record.events import EventKind, Outcome
from labctl.record.header import ChannelInfo
from labctl.record.phase import Pattern, Phase, Role, format_size
from labctl.record.timebase import NS_PER_MS, NS_PER_S

MEANT, MEANT_S = 0.01, 0.1
"""By how much a runtime may differ from whole seconds that were asked for: a part of it, s."""

STATUS_INTERVAL_S = 0.5
"""Stated of a status: as often as fio says one to labctl."""


@dataclass(frozen=True, slots=True)
class Idle:
    """How much of the recording before the first and after the last phase is idle; 0: none."""

    before_s: float = 0.0
    after_s: float = 0.0


def phases_of(works: Sequence[Work], idle: Idle | None = None) -> tuple[Phase, ...]:
    """The phases; those of one kind that follow each other are a sweep, where no plan says so."""
    phases: list[Phase] = []

    def kind(work: Work) -> tuple[Any, ...]:
        axes = work.pattern, work.block_size_bytes, work.read_pct, work.compress_pct
        return work.sweep_number, work.role, work.sweep, *axes

    def rest(role: Role, seconds: float) -> None:
        if seconds:
            phases.append(Phase(len(phases), role, "idle", Pattern.IDLE, seconds))

    rest(Role.IDLE_BEFORE, idle.before_s if idle else 0.0)
    for number, (_, group) in enumerate(groupby(works, key=kind), 1):
        for work in group:
            phases.append(
                Phase(
                    index=len(phases),
                    role=work.role,
                    sweep=work.sweep or f"{work.pattern} {format_size(work.block_size_bytes)}",
                    pattern=work.pattern,
                    duration_s=round(work.duration_s, 3),
                    block_size_bytes=work.block_size_bytes,
                    queue_depth=work.queue_depth,
                    jobs=work.jobs,
                    read_pct=work.read_pct,
                    buffer_compress_pct=work.compress_pct,
                    sweep_number=work.sweep_number if work.sweep else number,
                )
            )
    rest(Role.IDLE_AFTER, idle.after_s if idle else 0.0)
    return tuple(phases)


def of_fio(phases: Sequence[Phase]) -> list[Phase]:
    """Those that fio worked in, one for each of what it printed."""
    return [phase for phase in phases if phase.pattern.io]


def plan_text(name: str, phases: Sequence[Phase]) -> str:
    """The plan that these phases are of, as it would be written to run it again."""
    lines = [f'name = "{name}"', 'source = "inferred from what fio printed"']
    idle_s = {phase.role: phase.duration_s for phase in phases if not phase.pattern.io}
    lines.append(f"idle_before_s = {idle_s.get(Role.IDLE_BEFORE, 0.0):g}")
    lines.append(f"idle_after_s = {idle_s.get(Role.IDLE_AFTER, 0.0):g}")
    for sweep in _imported_phases_by_sweep(of_fio(phases)):
        phase, depths = sweep[0], [one.queue_depth for one in sweep]
        lines += [
            "",
            "[[sweeps]]",
            f'name = "{phase.sweep}"',
            f'pattern = "{phase.pattern}"',
            f'block_size = "{format_size(phase.block_size_bytes)}"',
            f"queue_depth = {depths if len(depths) > 1 else depths[0]}",
            f"jobs = {phase.jobs}",
            *([f"read_pct = {phase.read_pct}"] if phase.pattern.mixed else []),
            *(
                [f"buffer_compress_pct = {phase.buffer_compress_pct}"]
                if phase.buffer_compress_pct
                else []
            ),
            f"duration_s = {_asked_duration_s(phase):g}",
        ]
    return "\n".join(lines) + "\n"


def _imported_phases_by_sweep(phases: Sequence[Phase]) -> list[list[Phase]]:
    """Phases that follow each other and differ in their queue depth alone."""
    found: list[list[Phase]] = []
    for phase in phases:
        last = found[-1] if found else []
        alike = replace(phase, index=0, queue_depth=1, duration_s=_asked_duration_s(phase))
        if (
            last
            and replace(last[0], index=0, queue_depth=1, duration_s=_asked_duration_s(last[0]))
            == alike
            and phase.queue_depth not in [one.queue_depth for one in last]
        ):
            last.append(phase)
        else:
            found.append([phase])
    return found


def _asked_duration_s(phase: Phase) -> float:
    """How long fio was asked to work: it takes some milliseconds more or less."""
    whole = round(phase.duration_s)
    near = abs(phase.duration_s - whole) <= max(MEANT * phase.duration_s, MEANT_S)
    return float(whole) if whole and near else phase.duration_s


_FIGURES = (
    ("iops", "iops", "1/s"),
    ("bytes_per_s", "bytes_per_s", "B/s"),
    ("latency_mean_us", "latency", "µs"),
)
"""fio's figures over time: what a channel is called behind its direction, quantity, unit."""


def fio_channels(works: Sequence[Work], phases: Sequence[Phase]) -> tuple[ChannelInfo, ...]:
    """fio's figures over time, where it said them on its way or in its logs."""
    intervals_s: dict[str, float] = {}
    for work, phase in zip(works, of_fio(phases), strict=True):
        for side in phase.directions if work.statuses else ():
            intervals_s.update({f"{side}.{name}": STATUS_INTERVAL_S for name, *_ in _FIGURES})
        for trace in work.traces:
            known = intervals_s.get(trace.channel, trace.interval_s)
            intervals_s[trace.channel] = min(known, trace.interval_s)
    return tuple(
        ChannelInfo(f"fio.{side}.{name}", quantity, unit, interval_s=intervals_s[f"{side}.{name}"])
        for side in DIRECTIONS
        for name, quantity, unit in _FIGURES
        if f"{side}.{name}" in intervals_s
    )


def write_phase(writer: journal.Journal, path: Path, work: Work, phase: Phase) -> None:
    """A phase's output, fio's figures over time, and its events."""
    folder = path / "fio" / phase.slug
    folder.mkdir(parents=True)
    stdout = folder / "stdout"
    if work.output is None:
        shutil.copyfile(work.file, stdout)
    else:
        stdout.write_text(work.output)
    for trace in work.traces:
        writer.readings("fio", Block(trace.channel, trace.t_ns, trace.values))
    logged = {trace.channel for trace in work.traces}
    before = None
    for status in work.statuses:
        if status.wall_ms is None or not status.total_ios:
            continue
        for side, found in intervals(before, status, status.wall_ms * NS_PER_MS).items():
            t_ns = np.array([found.t_ns], np.int64)
            for name, value in (
                ("iops", found.iops),
                ("bytes_per_s", found.bytes_per_s),
                ("latency_mean_us", found.latency_mean_us),
            ):
                if value is not None and f"{side}.{name}" not in logged:
                    writer.readings("fio", Block(f"{side}.{name}", t_ns, np.array([value])))
            before = status
    writer.event(EventKind.PHASE_STARTED, work.begin_ns, index=phase.index)
    writer.event(
        EventKind.PHASE_ENDED,
        work.end_ns,
        index=phase.index,
        outcome=Outcome.FAILED if work.error else Outcome.COMPLETED,
        reason=work.error,
        begin_ns=work.begin_ns,
        end_ns=work.end_ns,
        boundary_u_ns=work.boundary_u_ns,
        stdout_bytes=stdout.stat().st_size,
        runtime_ms=work.runtime_ms,
        total_ios=work.total_ios,
    )


def labels_of(works: Sequence[Work]) -> list[str]:
    """The phases as a person calls them."""
    return [phase.label for phase in phases_of(works)]


def write_idle(writer: journal.Journal, phase: Phase, begin_ns: int) -> None:
    """The events of an idle phase."""
    end_ns = begin_ns + round(phase.duration_s * NS_PER_S)
    writer.event(EventKind.PHASE_STARTED, begin_ns, index=phase.index)
    writer.event(
        EventKind.PHASE_ENDED, end_ns, index=phase.index, outcome=Outcome.COMPLETED, reason="",
        begin_ns=begin_ns, end_ns=end_ns, boundary_u_ns=0,
    )  # fmt: skip
