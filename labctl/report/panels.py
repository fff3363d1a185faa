"""The phases of a run as people compare them: in panels, each along the axis that varies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from labctl.analysis.results import PhaseResult
from labctl.analysis.workload import ordinal
from labctl.record.phase import Phase, format_size

LARGE_BLOCK_BYTES = 64 * 1024
"""From this block size on, the work is given in bytes instead of operations."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What a panel is drawn along, and how a point of it is named."""

    name: str
    title: str
    value: Callable[[Phase], int]
    tick: Callable[[int], str]
    point: Callable[[int], str]
    """How a point is named where there is no axis title: ``QD 8``."""
    log2: bool = False
    """Whether charts space its points by their logarithm: from 4 to 32 are three doublings."""


QUEUE_DEPTH = Axis(
    "queue_depth",
    "queue depth",
    lambda phase: phase.queue_depth,
    str,
    lambda depth: f"QD {depth}",
    log2=True,
)
READ_SHARE = Axis(
    "read_pct",
    "reads (%)",
    lambda phase: phase.read_pct,
    str,
    lambda share: f"{share}% rd",
)
BLOCK_SIZE = Axis(
    "block_size",
    "block size (bytes)",
    lambda phase: phase.block_size_bytes,
    format_size,
    format_size,
    log2=True,
)
JOBS = Axis("jobs", "jobs", lambda phase: phase.jobs, str, lambda jobs: f"{jobs} jobs", log2=True)
POWER_STATE = Axis(
    "power_state",
    "NVMe power state",
    lambda phase: -1 if phase.power_state is None else phase.power_state,
    lambda state: "as it was" if state < 0 else f"PS{state}",
    lambda state: "as it was" if state < 0 else f"PS {state}",
)

_BY_PREFERENCE = (QUEUE_DEPTH, READ_SHARE, BLOCK_SIZE, JOBS, POWER_STATE)


@dataclass(frozen=True, slots=True)
class PanelPoint:
    """One phase in its panel. ``tick`` names it on the axis; points are in order.

    ``place`` is where charts put it on the axis: the logarithm to the base 2 of its value, or its
    number from 0 where the axis is none of sizes or a point comes again.
    """

    tick: str
    name: str
    result: PhaseResult
    place: float


@dataclass(frozen=True, slots=True)
class Panel:
    """Phases that differ in one axis only."""

    title: str
    sweep: str
    axis: Axis
    points: tuple[PanelPoint, ...]

    @property
    def in_bytes(self) -> bool:
        """Whether its work is given in MB/s, not in IOPS."""
        if self.axis is BLOCK_SIZE:
            return True
        return self.points[0].result.phase.block_size_bytes >= LARGE_BLOCK_BYTES


def _workload(phase: Phase, axis: Axis) -> str:
    parts = [phase.pattern.value]
    if phase.replay is not None:
        parts.append(phase.replay.name)
    elif axis is not BLOCK_SIZE:
        parts.append(format_size(phase.block_size_bytes))
    if axis is not QUEUE_DEPTH:
        parts.append(f"QD{phase.queue_depth}")
    if phase.pattern.mixed and axis is not READ_SHARE:
        parts.append(f"{phase.read_pct}% read")
    if phase.jobs > 1 and axis is not JOBS:
        parts.append(f"×{phase.jobs} jobs")
    if phase.buffer_compress_pct:
        parts.append(f"{phase.buffer_compress_pct}% compressible")
    if phase.power_state is not None and axis is not POWER_STATE:
        parts.append(f"PS{phase.power_state}")
    return " ".join(parts)


def axis_of(phases: Iterable[Phase]) -> Axis:
    """The axis of a sweep with these phases: the first along which one workload of them varies."""
    for axis in _BY_PREFERENCE:
        values: dict[str, set[int]] = {}
        for phase in phases:
            values.setdefault(_workload(phase, axis), set()).add(axis.value(phase))
        if any(len(seen) > 1 for seen in values.values()):
            return axis
    return QUEUE_DEPTH


def places_of(values: Sequence[int]) -> list[float]:
    """Where sizes are put on an axis: their logarithms to the base 2, rounded; their numbers from
    0 where there is none or one comes again."""
    if min(values, default=0) <= 0 or len(set(values)) < len(values):
        return [float(number) for number in range(len(values))]
    return [round(math.log2(value), 4) for value in values]


def _points(axis: Axis, results: Iterable[PhaseResult]) -> tuple[PanelPoint, ...]:
    seen: dict[int, int] = {}
    points: list[PanelPoint] = []
    ordered = sorted(results, key=lambda item: axis.value(item.phase))
    values = [axis.value(result.phase) for result in ordered]
    places = places_of(values) if axis.log2 else [float(n) for n in range(len(values))]
    for result, value, place in zip(ordered, values, places, strict=True):
        seen[value] = seen.get(value, 0) + 1
        again = f" ({ordinal(seen[value])})" if seen[value] > 1 else ""
        tick, name = axis.tick(value) + again, axis.point(value) + again
        points.append(PanelPoint(tick, name, result, place))
    return tuple(points)


def panels(results: Iterable[PhaseResult]) -> tuple[Panel, ...]:
    """Every measured phase of fio, once, in panels in the order of the run.

    Within a sweep of the plan, phases that differ only in the axis that the sweep varies are
    together, sorted along it. A phase that was repeated stays: its second time is ``(2nd)``.
    """
    sweeps: dict[str, list[PhaseResult]] = {}
    for result in results:
        if result.phase.pattern.io:
            sweeps.setdefault(result.phase.sweep, []).append(result)
    found: list[Panel] = []
    for sweep, members in sweeps.items():
        axis = axis_of([member.phase for member in members])
        workloads: dict[str, list[PhaseResult]] = {}
        for member in members:
            workloads.setdefault(_workload(member.phase, axis), []).append(member)
        found.extend(
            Panel(title=title, sweep=sweep, axis=axis, points=_points(axis, group))
            for title, group in workloads.items()
        )
    return _with_distinct_titles(found)


def depths_and_jobs(results: Iterable[PhaseResult]) -> dict[str, list[PhaseResult]]:
    """The work of which a sweep varies queue depth and jobs, by its name: all its phases, each
    pair of them once (the last)."""
    found: dict[tuple[str, str], dict[tuple[int, int], PhaseResult]] = {}
    for result in results:
        phase = result.phase
        key = phase.sweep, _workload(replace(phase, jobs=1), QUEUE_DEPTH)
        found.setdefault(key, {})[phase.queue_depth, phase.jobs] = result
    named: dict[str, list[PhaseResult]] = {}
    for (sweep, workload), pairs in found.items():
        if len({depth for depth, _ in pairs}) > 1 and len({jobs for _, jobs in pairs}) > 1:
            name = f"{workload} ({sweep})" if workload in named else workload
            named[name] = list(pairs.values())
    return named


def _with_distinct_titles(found: list[Panel]) -> tuple[Panel, ...]:
    """Panels of two sweeps with the same workload get the sweep's name into their title."""
    titles = [panel.title for panel in found]
    return tuple(
        replace(panel, title=f"{panel.title} ({panel.sweep})")
        if titles.count(panel.title) > 1
        else panel
        for panel in found
    )
