"""Pairs and triples of runs that are equal, or 5 % apart, for ``labctl compare`` and its gate.

A run has six points, whose watts and IOPS vary alike. Equal runs are drawn anew from one process,
on the same meters: how far they differ is how the drive varies from run to run.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from labctl.cli.main import app
from tests.judge.benches import Rng, pair, twelve
from tests.judge.clocks import quartz
from tests.judge.disk import Scene, Work, write
from tests.judge.loads import Steps, flicker, level, restless, spells, square
from tests.judge.meters import Meter, Rail

POINTS, SECONDS = 6, 60.0
REPEATS = 3
CHANGE = 1.05

Varies = Callable[[Rng], list[Steps]]
"""The factor of each point of one run."""


def _each(draw: Callable[[Rng], Steps]) -> Varies:
    return lambda rng: [draw(rng) for _ in range(POINTS)]


def _collection(period_s: float) -> Varies:
    """Collection for a third of each period, wherever in it the run begins."""

    def draw(rng: Rng) -> list[Steps]:
        lag = float(rng.uniform(0, period_s))
        whole = square((SECONDS + 0.1) * POINTS, 1.0, 0.7, period_s, 1 / 3, -lag)
        found = []
        for point in range(POINTS):
            begin = point * (SECONDS + 0.1)
            shifted = Steps(whole.edges - begin, whole.values)
            inner = shifted.edges[(shifted.edges > 0) & (shifted.edges < SECONDS)]
            edges = np.concatenate([[0.0], inner, [SECONDS]])
            found.append(Steps(edges, shifted.at(edges[:-1])) * restless(rng, SECONDS, 0.01))
        return found

    return draw


def _run_to_run(rng: Rng) -> list[Steps]:
    """1 % from run to run, of all points alike, and white noise."""
    factor = 1 + 0.01 * float(rng.normal())
    return [restless(rng, SECONDS, 0.05) * factor for _ in range(POINTS)]


def _short_collection(rng: Rng) -> Steps:
    return spells(rng, SECONDS, [(1.0, 10.0, 20.0), (0.7, 2.0, 6.0)])


VARIES: dict[str, Varies] = {
    "white": _each(lambda rng: restless(rng, SECONDS, 0.05)),
    "0.3 s": _each(lambda rng: restless(rng, SECONDS, 0.05, 0.3)),
    "20 s": _each(lambda rng: restless(rng, SECONDS, 0.05, 20.0)),
    "1/f": _each(lambda rng: flicker(rng, SECONDS, 0.05)),
    "+1 % run to run": _run_to_run,
    "collection, some seconds": _each(_short_collection),
    "collection, 150 s": _collection(150.0),
}


def _scene(
    rng: Rng, name: str, varies: Varies, rail: Rail, meters: list[Meter], change: float
) -> Scene:
    works = [Work(level(10.0, 1.0) * restless(rng, 10.0, 0.02), 0.0, "idle_before")]
    for point, factor in enumerate(varies(rng)):
        # What changes is the watts: the same work costs more.
        watts = 1.0 * change + (2.0 + point) * change
        works.append(Work(factor * watts, 40_000.0 * (1 + point), pace=factor))
    fresh = [replace(one, clock=quartz(rng)) for one in meters]
    return Scene(works, [rail], fresh, gap_s=0.1, run=name)


def trial(kind: str, seed: int, number: int) -> Counter[str]:
    """One pair and one triple each, equal and apart: the gate's verdicts, counted."""
    rng = np.random.default_rng([seed, number, zlib.crc32(kind.encode())])
    rail = twelve(rng)
    meters = pair(rng, rail)
    counts: Counter[str] = Counter(trials=1)
    with tempfile.TemporaryDirectory(prefix="labctl-judge-") as folder:
        sides: dict[str, list[Path]] = {}
        for side, change in (("A", 1.0), ("B", 1.0), ("C", CHANGE)):
            for repeat in range(REPEATS):
                name = f"{side}{repeat}"
                scene = _scene(rng, name, VARIES[kind], rail, meters, change)
                sides.setdefault(side, []).append(write(Path(folder), scene, rng)[0])
        one = {side: runs[:1] for side, runs in sides.items()}
        for word, chosen in (("one", one), ("three", sides)):
            equal = _gate(chosen["A"], chosen["B"], 0)
            apart = _gate(chosen["A"], chosen["C"], 0)
            counts[f"{word}: alarm"] += _failed(equal)
            counts[f"{word}: significant"] += any(
                cell["difference"] == "significant"
                for row in equal["rows"]
                for cell in row["cells"]
            )
            counts[f"{word}: found"] += _failed(apart)
            counts[f"{word}: open"] += not _failed(apart) and "undecided" in json.dumps(
                apart["gate"]
            )
    return counts


def trial_of(task: tuple[str, int, int]) -> Counter[str]:
    """The trial of a kind, a seed and a number."""
    return trial(*task)


def _failed(comparison: dict[str, Any]) -> bool:
    return not comparison["gate"]["passed"]


def _gate(base: list[Path], other: list[Path], allowed_pct: float) -> dict[str, Any]:
    """What the gate says of the second side, no quantity of which may be worse by more."""
    words = ["compare", *_sides(base, other), "--json"]
    for quantity in ("watts", "iops", "iops_per_watt"):
        words += ["--allow", f"{quantity}={allowed_pct:g}"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    if result.exit_code not in (0, 1):
        raise RuntimeError(result.output)
    comparison: dict[str, Any] = json.loads(result.stdout)
    return comparison


def _sides(base: list[Path], other: list[Path]) -> list[str]:
    between = ["--against"] if len(base) > 1 else []
    return [*map(str, base), *between, *map(str, other)]
