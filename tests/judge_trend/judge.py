"""Trials: series drawn, judged by labctl, and held against what was drawn."""

from __future__ import annotations

import multiprocessing
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from labctl.analysis.compare.trend import trend
from labctl.analysis.compare.trend_results import LevelChange, TrendSeries
from labctl.analysis.stats import series_changes
from tests.judge_trend import draws
from tests.judge_trend.draws import POINTS, RUNS, WATTS_SD, Drawn, Rng, series, stepped, told

Draw = Callable[[Rng], Drawn]

ALL = range(POINTS)


def _missing(rng: Rng) -> Drawn:
    """A tenth of the phases is missing, and runs that were cut off."""
    drawn = series(rng)
    drawn.missing = rng.random(drawn.watts.shape) < 0.1
    for run in rng.choice(RUNS, 4, replace=False):
        drawn.missing[run, int(rng.integers(POINTS)) :] = True
    return drawn


def _other_meters(rng: Rng, parts: float = 1.0) -> Drawn:
    """Other meters from the middle on; both sets are off by their limit, in opposite directions.

    ``parts`` 1 is the most that limits combined in quadrature allow between them."""
    drawn = series(rng)
    drawn.limit = 3 * WATTS_SD
    drawn.watts[RUNS // 2 :] += parts * drawn.limit * 2**0.5
    drawn.meters = ["A"] * (RUNS // 2) + ["B"] * (RUNS - RUNS // 2)
    return drawn


def _take_turns(rng: Rng, size: float = 0.0) -> Drawn:
    """Two firmwares take turns."""
    drawn = series(rng)
    for run in range(1, RUNS, 2):
        drawn.conditions[run]["firmware"] = "1.1"
    drawn.watts[1::2] += size * WATTS_SD
    return drawn


def _of(noise: draws.Noise, runs: int = RUNS, points: int = POINTS) -> Draw:
    return lambda rng: series(rng, noise, runs, points)


NOTHING: dict[str, Draw] = {
    "normal": _of(draws.normal),
    "normal, 8 runs": _of(draws.normal, 8),
    "normal, 12 runs": _of(draws.normal, 12),
    "normal, 100 runs, 5 points": _of(draws.normal, 100, 5),
    "all points alike by 80 %": _of(draws.alike(0.8)),
    "points that scatter up to ten times as much": _of(draws.uneven),
    "Student's t, 3 degrees of freedom": _of(draws.heavy),
    "one run in twenty off by 8 σ": _of(draws.bad_runs),
    "a tenth of the phases missing, runs cut off": _missing,
    "other meters, apart by all that they allow": _other_meters,
    "two firmwares that take turns, no difference": _take_turns,
    "like the run before, ρ = 0.3": _of(draws.follows(0.3)),
    "like the run before, ρ = 0.6": _of(draws.follows(0.6)),
    "like the run before, ρ = 0.3, 12 runs": _of(draws.follows(0.3), 12),
}
"""Series in which nothing happens."""


def judged(drawn: Drawn) -> TrendSeries:
    """What labctl tells of it. Other random orders each time: the same few for all series would be
    one draw of the critical value."""
    series_changes._SEED = zlib.crc32(drawn.watts.tobytes())
    (found,) = trend(told(drawn)).series
    return found


def rng_of(kind: str, seed: int, number: int) -> Rng:
    return np.random.default_rng([seed, number, zlib.crc32(kind.encode())])


def alarm(task: tuple[str, int, int]) -> Counter[str]:
    """One series without a change: whether one is told."""
    kind, seed, number = task
    found = judged(NOTHING[kind](rng_of(kind, seed, number)))
    real = [change for change in found.changes if change.real]
    return Counter(
        trials=1,
        alarms=bool(real),
        points=sum(len(change.moved) for change in real),
        outliers=len(found.outliers),
    )


SIZES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0)

PLACES: dict[str, tuple[int, int, Sequence[int]]] = {
    "30 runs, half way, one point": (30, 15, range(1)),
    "30 runs, half way, all points": (30, 15, ALL),
    "30 runs, the last 5, one point": (30, 25, range(1)),
    "30 runs, the last 5, all points": (30, 25, ALL),
    "30 runs, the last 3, all points": (30, 27, ALL),
    "30 runs, the last 2, all points": (30, 28, ALL),
    "12 runs, half way, all points": (12, 6, ALL),
    "12 runs, the last 3, all points": (12, 9, ALL),
    "8 runs, half way, all points": (8, 4, ALL),
}
"""Runs, the first with the step, and the points that make it."""


def power(task: tuple[str, float, int, int]) -> Counter[str]:
    """One step: at how many of its points it is found, where it is placed, whether U covers it."""
    kind, size, seed, number = task
    runs, at, points = PLACES[kind]
    drawn = series(rng_of(f"{kind} {size}", seed, number), runs=runs)
    # no firmware says where: that is what is judged here
    found = judged(stepped(drawn, at, size, points, firmware="1.0"))
    names = {f"randread 4k QD{point + 1}" for point in points}
    counts = Counter(trials=1, points=len(names))
    right = [
        change for change in found.changes
        if change.real and change.kind == "step" and change.first - 1 <= at <= change.last - 1
    ]  # fmt: skip
    mine = {
        one.point: one for change in right for one in change.moved
        if one.quantity == "watts" and one.point in names
    }  # fmt: skip
    counts["found"] += bool(mine)
    counts["points found"] += len(mine)
    counts["told"] += any(change.real for change in found.changes)
    if mine:
        best = min(right, key=lambda change: change.p)
        counts["placed"] += 1
        counts["exactly"] += best.run - 1 == at
        counts["within 1"] += abs(best.run - 1 - at) <= 1
        true = float(np.expm1(size * WATTS_SD))
        counts["with U"] += len(mine)
        counts["covered"] += sum(one.change.covers(true) for one in mine.values())
    return counts


def _drift(rng: Rng) -> Drawn:
    drawn = series(rng)
    drawn.watts += 6 * WATTS_SD * np.linspace(0.0, 1.0, RUNS)[:, None]
    return drawn


def _two_steps(rng: Rng) -> Drawn:
    """Up by 5 at run 11, which goes back at run 21."""
    drawn = stepped(series(rng), 10, 5.0, ALL)
    return stepped(drawn, 20, -5.0, ALL, firmware="1.2")


def _known_step(rng: Rng) -> Drawn:
    return stepped(series(rng), 15, 3.0, ALL)


def _bad_last_run(rng: Rng) -> Drawn:
    drawn = series(rng)
    drawn.watts[-1] += 15 * WATTS_SD
    return drawn


def _bad_run(rng: Rng) -> Drawn:
    drawn = series(rng)
    drawn.watts[12] += 15 * WATTS_SD
    return drawn


def _meters_and_firmware(rng: Rng) -> Drawn:
    """Other meters within their limits at run 16, another firmware, 5 σ, at run 24."""
    return stepped(_other_meters(rng, 0.7), 23, 5.0, ALL)


SHAPES: dict[str, Draw] = {
    "step of 3 σ at a new firmware": _known_step,
    "step of 5 σ, and back ten runs later": _two_steps,
    "drift of 6 σ from first to last": _drift,
    "two firmwares that take turns, 3 σ apart": lambda rng: _take_turns(rng, 3.0),
    "one run off by 15 σ": _bad_run,
    "the newest run off by 15 σ": _bad_last_run,
    "other meters, three times apart what they allow": lambda rng: _other_meters(rng, 3.0),
    "other meters within their limits, then a firmware, 5 σ": _meters_and_firmware,
}


def shape(task: tuple[str, int, int]) -> Counter[str]:
    """One series of a shape: what it was told as."""
    kind, seed, number = task
    found = judged(SHAPES[kind](rng_of(kind, seed, number)))
    words = sorted({_word(change) for change in found.changes if change.real})
    words += ["the newest run"] if any(one.newest for one in found.outliers) else []
    words += ["a run out of line"] if any(not one.newest for one in found.outliers) else []
    return Counter({"trials": 1, " and ".join(words) or "nothing": 1})


def _word(change: LevelChange) -> str:
    if change.kind == "step" and change.changed:
        return f"step at run {change.run}, {change.changed[0].name}"
    if change.kind == "step":
        return f"step at run {change.run}"
    return "the runs with a firmware" if change.kind == "state" else str(change.kind)


def all_of(
    trial: Callable[[tuple[object, ...]], Counter[str]],
    tasks: Sequence[tuple[object, ...]],
    workers: int,
    orders: int,
) -> Iterator[Counter[str]]:
    """The trials, in order, by so many processes and with so many random orders a search."""
    method = multiprocessing.get_context("forkserver")
    with method.Pool(workers, _with_orders, (orders,)) as pool:
        yield from pool.imap(trial, tasks, chunksize=4)


def _with_orders(orders: int) -> None:
    series_changes.ORDERS = orders
