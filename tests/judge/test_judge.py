"""A small draw with a fixed seed; the whole one is ``make judge``."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from tests.judge.judging import REGIMES, named, run_of
from tests.judge.loads import Steps, cut, flicker, level, restless, square
from tests.judge.pairs import trial
from tests.judge.scoring import rows

SEED, RUNS = 20_261_122, 3

OWN_WAYS = ("labctl", "labctl.cli.main")
"""What of labctl the judge may ask: what its users have."""


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None
            names.add(node.module)
    return names


def test_the_judge_shares_no_code_with_what_it_judges() -> None:
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        for name in imported(file):
            top = name.split(".")[0]
            assert top != "instruments" and top != "dashboards", f"{file.name} imports {name}"
            assert top != "labctl" or name in OWN_WAYS, f"{file.name} imports {name}"
            assert top != "tests" or name.startswith("tests.judge"), f"{file.name}: {name}"


def test_an_integral_is_that_of_steps_of_ten_microseconds() -> None:
    rng = np.random.default_rng(1)
    drawn = square(3.0, 1.0, 4.0, 0.0073, 0.4, -0.002) * restless(rng, 3.0, 0.1, 0.3)
    drawn = drawn * flicker(rng, 3.0, 0.05) + level(3.0, 0.5)
    fine = np.arange(0.7, 2.1, 1e-5)
    assert drawn.integral().mean(0.7, 2.1) == pytest.approx(drawn.at(fine + 5e-6).mean(), rel=2e-4)


def test_a_piece_of_steps_has_the_levels_of_the_whole() -> None:
    whole = Steps(np.array([-1.0, 0.5, 2.0, 9.0]), np.array([1.0, 2.0, 3.0]))
    assert cut(whole, 3.0).integral().until(3.0) == pytest.approx(0.5 + 3.0 + 3.0)


def test_coloured_factors_scatter_as_much_as_they_say() -> None:
    rng = np.random.default_rng(2)
    for forgets_s in (0.0, 0.05, 0.3):
        stds = [restless(rng, 60.0, 0.1, forgets_s).values.std() for _ in range(5)]
        assert np.mean(stds) == pytest.approx(0.1, rel=0.1), forgets_s


def test_regimes_have_names_of_their_own() -> None:
    assert len({regime.name for regime in REGIMES}) == len(REGIMES) >= 60


WIDEST = {
    "white noise": 0.006,
    "noise of 0.3 s": 0.0075,
    "noise of 5 s": 0.005,
    "1/f noise": 0.008,
    "linear drift": 0.005,
    "one step": 0.007,
    "decay": 0.004,
    "garbage collection": 0.008,
    "5 % lost at random": 0.008,
    "20 % lost at random": 0.011,
    "gapless meters": 0.006,
    "interval changes": 0.005,
    "interval changes with load": 0.007,
    "clocks: curved": 0.015,
    "clocks: restart": 0.010,
    "clocks: only sends": 0.020,
    "three rails, DAQ gain at its limit": 0.013,
    "volts 2 S/s, amps 50 S/s": 0.007,
    "late over USB": 0.008,
    "warm shunt": 0.013,
    "volts before the ammeter": 0.018,
    "all at once": 0.0115,
    "white noise, swing stated": 0.0035,
    "noise of 0.3 s, swing stated": 0.0045,
}
"""Median U of regimes that hold, as a share of the watts: no wider than this."""


@pytest.mark.parametrize("name", WIDEST)
def test_the_truth_is_inside_u_and_u_is_no_wider_than_needed(name: str) -> None:
    regime = named(name)
    statements = [one for run in range(RUNS) for one in run_of(regime, SEED, run)]
    for row in rows(regime, statements):
        assert row.given >= 0.95, row.line()
        assert row.cover + row.cover_u >= 0.95, row.line()
        if row.quantity == "watts":
            assert row.median_u <= WIDEST[name], row.line()


@pytest.mark.parametrize("kind", ["20 s"])
def test_the_gate_passes_equal_repeats_and_finds_five_per_cent(kind: str) -> None:
    counts = trial(kind, SEED, 0)
    assert not counts["three: alarm"] and counts["three: found"]
    assert not counts["one: alarm"], "one run each cannot tell"
