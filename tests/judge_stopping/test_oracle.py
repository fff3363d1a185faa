"""Oracles against known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labctl.analysis.steady_state.enough import Target
from labctl.analysis.steady_state.slow_part import OF_FLICKER, SLOWEST_S
from tests.judge_stopping.judging import SETTLED, WITHIN
from tests.judge_stopping.loads import Rise, correlated, flicker, white
from tests.judge_stopping.oracle import FEWEST_TO_EXCLUDE, oracle, stated_u, unseen


def test_the_oracle_knows_how_long_white_noise_takes() -> None:
    load = white(0.06)
    course = load.phases(np.random.default_rng(1), 400)
    allowed = 0.0035 * 2 / 1.69
    found = oracle(np.random.default_rng(2), course, WITHIN)
    assert found.all_s == pytest.approx(0.1 * (2 * 0.06 / allowed) ** 2, rel=0.2)


@pytest.mark.parametrize(
    ("target", "meters", "within"), [(WITHIN, 0.0015, 0.005), (SETTLED, 0.0, 0.001)]
)
def test_beside_white_noise_one_that_is_unsure_allows_for_a_line(
    target: Target, meters: float, within: float
) -> None:
    course = white(0.01).phases(np.random.default_rng(1), 400)
    seconds = np.arange(20.0, 180.0)
    of_mean = 0.01 / np.sqrt(10 * seconds)
    of_line = math.sqrt(3) * of_mean * (180 - seconds) / seconds
    u = [
        stated_u(meters, 0.674 * b, math.hypot(a, b)) for a, b in zip(of_mean, of_line, strict=True)
    ]
    found = oracle(np.random.default_rng(2), course, target)
    assert course.rise is None
    assert found.unsure_s == pytest.approx(seconds[np.array(u) <= within][0], rel=0.06)


def test_of_1_f_noise_it_allows_for_all_down_to_a_day() -> None:
    rise = flicker(0.01, 0.0).phases(np.random.default_rng(1), 1).rise
    assert rise is not None and rise.ends_hertz == pytest.approx(1 / 720)
    seconds = np.array([20.0, 100.0])
    known = rise.level * (np.log(720 / seconds) + OF_FLICKER)
    whole = rise.level * (np.log(SLOWEST_S / seconds) + OF_FLICKER)
    assert unseen(rise, seconds) ** 2 == pytest.approx(whole - known, rel=0.02)


def test_memory_counts_as_1_f_noise_until_half_of_the_phases_exclude_that() -> None:
    rise = correlated(0.01, 2.0).phases(np.random.default_rng(1), 1).rise
    assert rise is not None
    excluded_s = FEWEST_TO_EXCLUDE * math.pi * 2.0
    before, after = unseen(rise, np.array([excluded_s - 1, excluded_s + 1]))
    assert before**2 > 2 * rise.below / 2 / excluded_s and after == 0


def test_half_of_flat_spectra_pass_the_best_test_for_a_rise() -> None:
    rng = np.random.default_rng(1)
    for count, least, most in ((FEWEST_TO_EXCLUDE - 1, 0.4, 0.5), (FEWEST_TO_EXCLUDE, 0.5, 0.6)):
        rises = count / np.arange(1, count + 1)
        weights = 1 - 1 / rises
        squares = rng.chisquare(1, (40_000, count))
        passes = np.quantile((squares * rises) @ weights, 0.05)
        assert least < np.mean(squares @ weights <= passes) < most


def test_nothing_unseen_where_the_rise_ends_at_a_day() -> None:
    assert unseen(Rise(1.0, 1 / SLOWEST_S, 0.0), np.array([60.0])) == pytest.approx(0.0)
