"""A regime, drawn, written, read by labctl and held against the truth.

labctl is asked as its user would: ``labctl.open_run`` and the columns of ``phases.csv``.
"""

from __future__ import annotations

import multiprocessing
import re
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import labctl
from tests.judge.benches import Regime
from tests.judge.disk import PhaseTruth, write
from tests.judge.own import OWN
from tests.judge.regimes import ORDINARY
from tests.judge.scoring import Row, Statement, rows
from tests.judge.sick import SICK

REGIMES = [*ORDINARY, *OWN, *SICK]

COLUMNS = {
    "watts": ("watts", "watts_u"),
    "joules": ("joules", "joules_u"),
    "above idle": ("marginal_watts", "marginal_watts_u"),
    "IOPS/W": ("iops_per_watt", "iops_per_watt_u"),
}


ONE_SIDED = ("at least", "lower bound")
"""Words of the notes of a phase whose value has no U, because it may be more."""

BOUND = re.compile(r"at least ([\d.]+) W")


def run_of(regime: Regime, seed: int, run: int) -> list[Statement]:
    """The statements on the phases with work of one run (or of the idle one, where that is all)."""
    words = [seed, run, zlib.crc32(regime.name.encode())]
    rng = np.random.default_rng(words)
    scene = regime.draw(rng, regime.phases)
    with tempfile.TemporaryDirectory(prefix="labctl-judge-") as folder:
        path, truth = write(Path(folder), scene, rng)
        opened = labctl.open_run(path)
        table = opened.table()
        again = _again(run, opened)
        notes = [(*one.notes, *opened.summary.problems) for one in opened.phases]
    if regime.quantities == ("repeatability",):
        return again
    idle = truth[0] if scene.works[0].role == "idle_before" else None
    return [
        _statement(run, index, quantity, true, idle, table, notes[index])
        for index, (work, true) in enumerate(zip(scene.works, truth, strict=True))
        if work.role == "measure"
        for quantity in regime.quantities
    ]


def _statement(
    run: int, index: int, quantity: str, true: PhaseTruth, idle: PhaseTruth | None,
    table: dict[str, Any], notes: tuple[str, ...],
) -> Statement:  # fmt: skip
    value, u = (table[name][index] if name in table else None for name in COLUMNS[quantity])
    truth = {
        "watts": true.watts,
        "joules": true.joules,
        "above idle": true.watts - (idle.watts if idle else 0.0),
        "IOPS/W": true.ios / true.joules,
    }[quantity]
    bounds = [float(found) for note in notes for found in BOUND.findall(note)]
    at_least = (
        value is not None
        and u is None
        and any(word in note for note in notes for word in ONE_SIDED)
    )
    noted_least_watts = max(bounds, default=None) if quantity == "watts" else None
    return Statement(
        run, index, quantity, truth, _number(value), _number(u), at_least, notes, noted_least_watts
    )


def _again(run: int, opened: labctl.RunData) -> list[Statement]:
    """Of equal phases the first against the second, the third against the fourth …"""
    phases = [one for one in opened.phases if one.phase.role == "measure"]
    found = []
    for one, two in zip(phases[::2], phases[1::2], strict=False):
        if one.watts is None or two.watts is None:
            continue
        widths = one.watts.repeatability, two.watts.repeatability
        u = None if None in widths else float(np.hypot(*widths))
        found.append(
            Statement(
                run, one.phase.index, "repeatability", two.watts.value, one.watts.value, u,
                at_least=False, notes=one.notes,
            )
        )  # fmt: skip
    return found


def _number(value: Any) -> float | None:
    return None if value is None or value == "" else float(value)


def judge(regime: Regime, seed: int, phases: int) -> tuple[list[Row], list[Statement]]:
    """The rows of a regime of at least so many phases."""
    statements: list[Statement] = []
    for run in range(-(-phases // regime.phases)):
        statements += run_of(regime, seed, run)
    return rows(regime, statements), statements


def _one(task: tuple[str, int, int]) -> tuple[str, list[Statement]]:
    name, seed, run = task
    return name, run_of(named(name), seed, run)


def judge_all(
    chosen: Sequence[Regime], seed: int, phases: int, workers: int
) -> Iterator[tuple[list[Row], list[Statement]]]:
    """The rows of each regime, as soon as they are known."""
    tasks = [
        (regime.name, seed, run) for regime in chosen for run in range(-(-phases // regime.phases))
    ]
    statements: dict[str, list[Statement]] = {regime.name: [] for regime in chosen}
    left = {regime.name: -(-phases // regime.phases) for regime in chosen}
    with multiprocessing.get_context("forkserver").Pool(workers) as pool:
        for name, found in pool.imap(_one, tasks):
            statements[name] += found
            left[name] -= 1
            if not left[name]:
                yield rows(named(name), statements[name]), statements.pop(name)


def named(name: str) -> Regime:
    for regime in REGIMES:
        if regime.name == name:
            return regime
    raise SystemExit(f"no regime {name!r}")
