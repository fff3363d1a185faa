"""A small draw of the judge; all of it: ``python -m tests.judge_stopping``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

from labctl.analysis.steady_state.enough import Quantity
from tests.judge_stopping.judging import (
    POINTS,
    SETTLED,
    WITHIN,
    Row,
    inside_two_periods,
    judge,
    row,
)
from tests.judge_stopping.loads import (
    LOADS,
    RARE,
    Load,
    bursts,
    decay,
    dips,
    drift,
    flicker,
    late,
    sawtooth,
    white,
)

SEED, PHASES = 20_261_123, 20


def of(loads: Sequence[Load], phases: int = PHASES) -> Row:
    return row([judge(load, phases, SEED, WITHIN) for load in loads])


def test_the_generators_share_no_code_with_what_is_judged() -> None:
    tree = ast.parse(Path(__file__).with_name("loads.py").read_text(encoding="utf-8"))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in imported if name and name.startswith(("labctl", "instruments"))]


def test_loads_have_names_of_their_own() -> None:
    assert len({load.name for load in LOADS}) == len(LOADS)


@pytest.mark.parametrize(
    "loads",
    [
        [white(share) for share in (0.01, 0.02, 0.04)],
        [bursts(1.0, 0.1, 0.2), bursts(2.0, 0.1, 0.2)],
    ],
)
def test_what_ends_by_itself_holds_and_saves_time(loads: list[Load]) -> None:
    found = of(loads)
    assert found.stopped >= 0.7 * found.phases, found
    assert found.drawn >= 0.95 and found.process >= 0.9, found
    assert found.over_usual < 0.95 and found.over_unsure < 1.6, found


@pytest.mark.parametrize(
    "loads",
    [
        [flicker(0.01, 0.0), flicker(0.02, 0.0)],
        [flicker(0.01, 0.01), flicker(0.03, 0.03)],
        [drift(0.12, 0.01), decay(0.2, 50.0, 0.01)],
        [late(25.0), late(120.0)],
        [drift(0.03, 0.01), drift(0.08, 0.01)],
    ],
)
def test_what_one_phase_cannot_know_is_refused(loads: list[Load]) -> None:
    found = of(loads, 12)
    assert found.refused and found.wrong <= 0.05, found


@pytest.mark.parametrize("beside", [0.0, 0.002])
def test_slow_noise_that_is_small_enough_ends_and_holds(beside: float) -> None:
    found = of([flicker(0.002, beside)], 12)
    assert found.stopped >= 6 and found.wrong == 0, found


def test_events_that_an_earlier_point_showed_are_held_against_later_ones() -> None:
    load = bursts(60.0, 1.0, 0.5, RARE)
    phases = judge(load, 2 * POINTS, SEED, WITHIN).phases
    for run in (phases[:POINTS], phases[POINTS:]):
        seen = next(k for k, one in enumerate(run) if one.event_s[Quantity.WATTS] > 0)
        assert not any(one.stopped for one in run[seen:])


def test_no_point_ends_inside_its_first_two_periods() -> None:
    judged = [
        judge(load, 3, SEED, target)
        for load in (sawtooth(150.0, 0.05, 0.01), dips(150.0, 0.1, 0.2, 0.01))
        for target in (WITHIN, SETTLED)
    ]
    assert inside_two_periods(judged) == 0
