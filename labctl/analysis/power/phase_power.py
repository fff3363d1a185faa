"""Watts of a phase: P = Σ over rails of V·I.

The sum of all rails is made at the times of the slowest one, and only where all are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.estimate import Series
from labctl.analysis.power.interpolation import interpolated
from labctl.analysis.power.power_envelope import EnvelopeSearch, Windows
from labctl.analysis.power.rail_power import (
    FEWEST_READINGS,
    RELEASE_EVERY,
    RailPart,
    RailPower,
    RailWorker,
    corrected_for_shunt,
    part_edges,
)
from labctl.analysis.power.volts_times_amps import BRIDGED
from labctl.analysis.readings.channel_series import Floats, RailSeries
from labctl.analysis.stats.time_mean import TimeMean, bridged_steps
from labctl.analysis.stats.uncertainty import Scatter


@dataclass(frozen=True, slots=True)
class PhasePower:
    """All rails in one phase. ``total`` is None as soon as one rail is missing."""

    rails: dict[str, RailPower]
    total: Series | None
    total_scatter: Scatter | None
    total_process: Scatter | None
    missing: tuple[str, ...]
    """Rails without watts, and why: one line each."""
    windows: Windows | None = None
    """The largest means of the total over windows, where they were asked for."""


def phase_power(
    rails: Sequence[RailSeries],
    begin_ns: int,
    end_ns: int,
    boundary_u_ns: int,
    windows: bool = False,
) -> PhasePower:
    """Watts of every rail between two moments, and of all rails together.

    ``windows``: also their largest means over windows.
    """
    workers, missing = [], []
    for rail in rails:
        worker = RailWorker(rail, begin_ns, end_ns, boundary_u_ns)
        if worker.enough:
            workers.append(worker)
        else:
            missing.append(worker.why_not())
    if not workers:
        return PhasePower({}, None, None, None, tuple(missing))
    most = max(worker.most for worker in workers)
    edges = part_edges(most, begin_ns, end_ns)
    for worker in workers:
        worker.plan(edges)
    grid = min(workers, key=lambda worker: worker.expected)
    total = TimeMean(
        end_ns - begin_ns, grid.amps_interval, grid.expected, grid.rail.amps.info.dither
    )
    whole = len(workers) == len(rails)
    search = _search_of(workers, begin_ns, end_ns, whole) if windows else None
    for number in range(len(edges)):
        parts = [worker.part(number) for worker in workers]
        if search is not None:
            search.add([(part.t, part.watts) for part in parts])
        if whole:
            total.add(*_summed(parts, workers.index(grid), workers))
        if number % RELEASE_EVERY == RELEASE_EVERY - 1:
            for worker in workers:
                worker.release_pages()
    of_rails, of_all = ([None] * len(workers), None) if search is None else search.result()
    results = {}
    uncorrected = 0.0
    for worker, found in zip(workers, of_rails, strict=True):
        power = worker.result()
        if power is None:
            missing.append(worker.why_not())
        else:
            power = replace(power, windows=found)
            results[worker.rail.info.name] = corrected_for_shunt(power, begin_ns, end_ns)
            uncorrected += power.watts.mean
        worker.release_pages()
    if len(results) < len(rails) or total.n < FEWEST_READINGS:
        return PhasePower(results, None, None, None, tuple(missing))
    factor = sum(power.watts.mean for power in results.values()) / uncorrected if uncorrected else 1
    known = min(power.known for power in results.values())
    noise = math.hypot(*(power.noise_watts for power in results.values()))
    return PhasePower(
        results,
        total.series().scaled(factor),
        total.scatter_of_phase(known, noise).scaled(factor),
        total.scatter_of_process().scaled(factor),
        tuple(missing),
        None if of_all is None else of_all.scaled(factor),
    )


def _search_of(
    workers: Sequence[RailWorker], begin_ns: int, end_ns: int, whole: bool
) -> EnvelopeSearch:
    return EnvelopeSearch(
        [worker.rail for worker in workers],
        [worker.amps_interval for worker in workers],
        [worker.edge_ns for worker in workers],
        [worker.expected for worker in workers],
        (begin_ns, end_ns),
        whole,
    )


def _summed(
    parts: Sequence[RailPart], grid: int, workers: Sequence[RailWorker]
) -> tuple[Floats, Floats]:
    """Times, and the sum of all rails at the times of the slowest one where all are known."""
    t, total = parts[grid].t, parts[grid].watts
    if not len(t) or len(parts) == 1:
        return t, total
    total = total.copy()
    good: NDArray[np.bool_] | None = None
    for number, part in enumerate(parts):
        if number == grid:
            continue
        other_t, other = part.t, part.watts
        if not len(other_t):
            return np.empty(0), np.empty(0)
        if len(other_t) == len(t) and np.array_equal(other_t, t):
            total += other
            continue
        other_rail = workers[number]
        bridged = bridged_steps(
            other_t, other_rail.amps_interval, BRIDGED, other_rail.rail.amps.info.dither
        )
        values, known = interpolated(t, other_t, other, bridged)
        total += values
        if known is not None:
            good = known if good is None else good & known
    return (t, total) if good is None else (t[good], total[good])
