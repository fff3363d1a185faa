"""Series of runs of which the truth is known; nothing here is labctl's but the table it is given.

A series is what 30 runs of a lab would be: 40 points, of each watts, IOPS per watt and 99 %
latency. Watts and IOPS are drawn; IOPS per watt is their ratio, so that the columns depend on each
other as they do in a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.compare.series_table import RunOfSeries

Rng = np.random.Generator
Floats = NDArray[np.float64]

POINTS, RUNS = 40, 30
WATTS_SD, IOPS_SD, LATENCY_SD = 0.004, 0.003, 0.02
"""Of one run, as parts: how far equal runs of a drive differ."""
DAY_NS = 86_400 * 10**9

Noise = Callable[[Rng, int, int], Floats]
"""Runs × columns of standard deviation 1."""


def normal(rng: Rng, runs: int, columns: int) -> Floats:
    return rng.standard_normal((runs, columns))


def heavy(rng: Rng, runs: int, columns: int) -> Floats:
    found: Floats = rng.standard_t(3, (runs, columns)) / 3**0.5
    return found


def bad_runs(rng: Rng, runs: int, columns: int) -> Floats:
    """One run in twenty is off by 8 standard deviations, everywhere."""
    off = np.where(rng.random((runs, 1)) < 0.05, rng.choice([-8.0, 8.0], (runs, 1)), 0.0)
    found: Floats = rng.standard_normal((runs, columns)) + off
    return found


def alike(share: float) -> Noise:
    """A run is off at all points alike, by ``share`` of its variance."""

    def drawn(rng: Rng, runs: int, columns: int) -> Floats:
        common = rng.standard_normal((runs, 1))
        own = rng.standard_normal((runs, columns))
        return share**0.5 * common + (1 - share) ** 0.5 * own

    return drawn


def follows(autocorrelation: float) -> Noise:
    """A run is like the one before it."""

    def drawn(rng: Rng, runs: int, columns: int) -> Floats:
        found = rng.standard_normal((runs, columns))
        for run in range(1, runs):
            fresh = (1 - autocorrelation**2) ** 0.5 * found[run]
            found[run] = autocorrelation * found[run - 1] + fresh
        return found

    return drawn


def uneven(rng: Rng, runs: int, columns: int) -> Floats:
    """Points that scatter up to ten times as much as others."""
    return rng.standard_normal((runs, columns)) * 10.0 ** rng.uniform(-0.5, 0.5, (1, columns))


@dataclass
class Drawn:
    """A series before it is told to labctl: logarithms (runs × points), and the rest of a run."""

    watts: Floats
    iops: Floats
    latency: Floats
    begins_ns: list[int]
    conditions: list[dict[str, str]]
    meters: list[str] = field(default_factory=list)
    limit: float = 0.0005
    """What the meters allow, a part."""
    missing: NDArray[np.bool_] | None = None
    phases: list[tuple[Any, ...]] = field(default_factory=list)
    counted: list[int | None] = field(default_factory=list)

    @property
    def runs(self) -> int:
        return len(self.watts)


def series(rng: Rng, noise: Noise = normal, runs: int = RUNS, points: int = POINTS) -> Drawn:
    """Runs of a drive to which nothing happens, five days apart."""
    drawn = noise(rng, runs, 3 * points)
    sizes = rng.uniform(0.0, 3.0, 3 * points)
    watts, iops, latency = np.split(drawn, 3, axis=1)
    return Drawn(
        np.log(3.0) + sizes[:points] / 3 + WATTS_SD * watts,
        np.log(1e4) + sizes[points : 2 * points] + IOPS_SD * iops,
        np.log(100.0) + sizes[2 * points :] + LATENCY_SD * latency,
        [run * 5 * DAY_NS + 1_760_000_000 * 10**9 for run in range(runs)],
        [{"firmware": "1.0"} for _ in range(runs)],
        ["A"] * runs,
        phases=[()] * runs,
        counted=[None] * runs,
    )


def told(drawn: Drawn) -> list[RunOfSeries]:
    """What labctl makes of the records of such runs."""
    found = []
    for run in range(drawn.runs):
        values: dict[tuple[str, str], tuple[float, float, float, float]] = {}
        for point in range(drawn.watts.shape[1]):
            if drawn.missing is not None and drawn.missing[run, point]:
                continue
            watts, iops = drawn.watts[run, point], drawn.iops[run, point]
            name = f"randread 4k QD{point + 1}"
            own = WATTS_SD / 10
            for quantity, value, limit in (
                ("watts", watts, drawn.limit),
                ("iops_per_watt", iops - watts, drawn.limit),
                ("latency_p99_us", drawn.latency[run, point], 0.0),
            ):
                values[quantity, name] = (float(np.exp(value)), own, limit, limit / 10)
        found.append(_run(drawn, run, values))
    return found


def _run(
    drawn: Drawn, run: int, values: Mapping[tuple[str, str], tuple[float, float, float, float]]
) -> RunOfSeries:
    return RunOfSeries(
        run_id=f"run-{run:03d}", begin_ns=drawn.begins_ns[run], rig="rig", plan="plan", scale=1.0,
        drive=("drive", "S1"), phases=drawn.phases[run], outcome="completed",
        conditions=drawn.conditions[run], instruments=(drawn.meters[run],), zeros=(),
        values=values, throttled=0, celsius=None, drive_ios=drawn.counted[run],
    )  # fmt: skip


def stepped(
    drawn: Drawn, at: int, size: float, points: Sequence[int], firmware: str = "1.1"
) -> Drawn:
    """Watts of these points are higher by ``size`` (in standard deviations of a run) from run
    ``at`` on, with another firmware."""
    drawn.watts[at:, list(points)] += size * WATTS_SD
    for one in drawn.conditions[at:]:
        one["firmware"] = firmware
    return drawn
