"""What the slowest parts of a phase say of its mean."""

from __future__ import annotations

import numpy as np
import pytest

from labctl.analysis.steady_state.slow_part import (
    MOST,
    OF_A_LINE,
    RISES,
    below_a_line,
    rise,
    slow_part,
)


def test_of_independent_readings_the_mean_scatters_by_one_over_root_n() -> None:
    rng = np.random.default_rng(7)
    found = [slow_part(rng.normal(size=400)) for _ in range(300)]
    assert np.sqrt(np.mean([one.u**2 for one in found])) == pytest.approx(1 / 20, rel=0.03)
    assert np.mean([one.dof == MOST for one in found]) > 0.85
    ends = [one.end for one in found]
    assert np.sqrt(np.mean(np.square(ends))) == pytest.approx(OF_A_LINE / 20, rel=0.1)
    assert 0.03 < np.mean([one.rises > RISES for one in found]) < 0.15


def test_a_straight_line_ends_where_it_does() -> None:
    found = slow_part(np.linspace(-1.0, 1.0, 1000))
    assert found.end == pytest.approx(1.0, rel=2e-3)
    assert found.u < 0.1 * found.end


def test_readings_that_depend_on_each_other_scatter_more() -> None:
    rng = np.random.default_rng(7)
    readings = np.repeat(rng.normal(size=(300, 200)), 5, axis=1)
    found = [slow_part(one).u ** 2 for one in readings]
    assert np.mean(found) == pytest.approx(1 / 200, rel=0.1)


def test_what_comes_again_counts_no_longer_when_it_came_often() -> None:
    rng = np.random.default_rng(7)
    t = np.arange(1000) / 1000
    noise = 0.01 * rng.normal(size=1000)
    waves = [np.sin(2 * np.pi * times * t) + noise for times in (10.2, 2.2)]
    often, seldom = map(slow_part, waves)
    assert often.dof < MOST and seldom.u > 4 * often.u
    assert abs(waves[0].mean()) < 2 * often.u


def test_the_spectrum_of_flicker_noise_rises() -> None:
    j = np.arange(1, 129)
    rng = np.random.default_rng(7)
    assert rise(np.zeros(64)) == 0.0
    assert rise(np.ones(64)) == 0.0
    flicker = rng.chisquare(1, (200, 128)) * (1 + 30 / j)
    assert np.mean([rise(one) > RISES for one in flicker]) > 0.9
    assert below_a_line(np.where(j > 40, 100.0, 1.0)) == 32
