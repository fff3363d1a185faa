"""The phases of a run as people compare them: in panels, each along the axis that varies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.workload import ordinal
from labctl.record.phase import Phase, format_size

LARGE_BLOCK_BYTES = 64 * 1024
"""From this block size on, the work is given in bytes instead of operations."""
_CLOSEST = 0.05
"""Of the length of an axis: two points that are closer leave less than 10 pixels for a bar."""


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
    """Whether charts space its points by their logarithm, if they can: from 4 to 32 are three
    doublings."""


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

POWER_LIMIT = Axis(
    "power_limit_watts",
    "power limit (W)",
    lambda phase: round(100 * (phase.power_limit_watts or 0.0)),
    lambda hundredths: f"{hundredths / 100:g} W" if hundredths else "none",
    lambda hundredths: f"≤ {hundredths / 100:g} W" if hundredths else "not limited",
)

_BY_PREFERENCE = (QUEUE_DEPTH, READ_SHARE, BLOCK_SIZE, JOBS, POWER_STATE, POWER_LIMIT)


@dataclass(frozen=True, slots=True)
class PanelPoint:
    """One phase in its panel. ``tick`` names it on the axis; points are in order.

    ``place`` is where charts put it on the axis (:func:`placed`).
    """

    tick: str
    name: str
    result: PhaseResult
    place: float = 0.0


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


def _panel_workload(phase: Phase, axis: Axis) -> str:
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
    if phase.power_limit_watts is not None and axis is not POWER_LIMIT:
        parts.append(f"≤{phase.power_limit_watts:g} W")
    return " ".join(parts)


def axis_of(phases: Iterable[Phase]) -> Axis:
    """The axis of a sweep with these phases: the first along which one workload of them varies."""
    for axis in _BY_PREFERENCE:
        values: dict[str, set[int]] = {}
        for phase in phases:
            values.setdefault(_panel_workload(phase, axis), set()).add(axis.value(phase))
        if any(len(seen) > 1 for seen in values.values()):
            return axis
    return QUEUE_DEPTH


def places_of(values: Sequence[int]) -> list[float]:
    """Where sizes are put on an axis: their logarithms to the base 2, rounded; their numbers from
    0 where there is none."""
    if min(values, default=0) <= 0:
        return [float(number) for number in range(len(values))]
    return [round(math.log2(value), 4) for value in values]


def _panel_axis_values(axis: Axis, results: Iterable[PhaseResult]) -> list[tuple[int, int]]:
    """The value of each phase along an axis, and how often it came so far."""
    seen: Counter[int] = Counter()
    found = []
    for result in results:
        value = axis.value(result.phase)
        seen[value] += 1
        found.append((value, seen[value]))
    return found


def _values_along_panel(panel: Panel) -> list[tuple[int, int]]:
    return _panel_axis_values(panel.axis, [point.result for point in panel.points])


def placed(found: Sequence[Panel]) -> tuple[Panel, ...]:
    """The panels with a place for each point: one value has one place in all along an axis.

    Places are the logarithms of values to the base 2 where the axis is one of sizes, no point
    comes again, and no two of a panel are closer than ``_CLOSEST``. Else they are the numbers from
    0 on of all values that there are, with one more for each time that a value comes again.
    """
    places: dict[str, dict[tuple[int, int], float]] = {}
    for axis in {panel.axis.name: panel.axis for panel in found}.values():
        values = [_values_along_panel(panel) for panel in found if panel.axis.name == axis.name]
        known = sorted(set(chain.from_iterable(values)))
        at = dict(zip(known, places_of([value for value, _ in known]), strict=True))
        span = max(at.values()) - min(at.values())
        closest = min((at[b] - at[a] for one in values for a, b in pairwise(one)), default=span)
        if not axis.log2 or closest < _CLOSEST * span or any(again > 1 for _, again in known):
            at = {value: float(number) for number, value in enumerate(known)}
        places[axis.name] = at
    return tuple(
        replace(
            panel,
            points=tuple(
                replace(point, place=places[panel.axis.name][value])
                for point, value in zip(panel.points, _values_along_panel(panel), strict=True)
            ),
        )
        for panel in found
    )


def _points(axis: Axis, results: Iterable[PhaseResult]) -> tuple[PanelPoint, ...]:
    ordered = sorted(results, key=lambda item: axis.value(item.phase))
    points: list[PanelPoint] = []
    for result, (value, times) in zip(ordered, _panel_axis_values(axis, ordered), strict=True):
        again = f" ({ordinal(times)})" if times > 1 else ""
        points.append(PanelPoint(axis.tick(value) + again, axis.point(value) + again, result))
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
            workloads.setdefault(_panel_workload(member.phase, axis), []).append(member)
        found.extend(
            Panel(title=title, sweep=sweep, axis=axis, points=_points(axis, group))
            for title, group in workloads.items()
        )
    return _with_distinct_titles(placed(found))


def depths_and_jobs(results: Iterable[PhaseResult]) -> dict[str, list[PhaseResult]]:
    """The work of which a sweep varies queue depth and jobs, by its name: all its phases, each
    pair of them once (the last)."""
    found: dict[tuple[str, str], dict[tuple[int, int], PhaseResult]] = {}
    for result in results:
        phase = result.phase
        key = phase.sweep, _panel_workload(replace(phase, jobs=1), QUEUE_DEPTH)
        found.setdefault(key, {})[phase.queue_depth, phase.jobs] = result
    named: dict[str, list[PhaseResult]] = {}
    for (sweep, workload), pairs in found.items():
        if len({depth for depth, _ in pairs}) > 1 and len({jobs for _, jobs in pairs}) > 1:
            name = f"{workload} ({sweep})" if workload in named else workload
            named[name] = list(pairs.values())
    return named


def _with_distinct_titles(found: Sequence[Panel]) -> tuple[Panel, ...]:
    """Panels of two sweeps with the same workload get the sweep's name into their title."""
    titles = [panel.title for panel in found]
    return tuple(
        replace(panel, title=f"{panel.title} ({panel.sweep})")
        if titles.count(panel.title) > 1
        else panel
        for panel in found
    )
