"""What the slowest parts of a phase say of its mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labctl.analysis.steady_state.slow_part import (
    MOST,
    OF_A_LINE,
    SLOWEST_S,
    below_a_line,
    flicker,
    slow_part,
)


def test_of_independent_readings_the_mean_scatters_by_one_over_root_n() -> None:
    rng = np.random.default_rng(7)
    found = [slow_part(rng.normal(size=400)) for _ in range(300)]
    assert np.sqrt(np.mean([one.u**2 for one in found])) == pytest.approx(1 / 20, rel=0.03)
    assert np.mean([one.dof == MOST for one in found]) > 0.85
    ends = [one.end for one in found]
    assert np.sqrt(np.mean(np.square(ends))) == pytest.approx(OF_A_LINE / 20, rel=0.1)
    assert 0.03 < np.mean([one.flicker > 0 for one in found]) < 0.15


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
    assert flicker(np.zeros(64)) == 0.0
    assert flicker(np.ones(64)) == 0.0
    found = [flicker(one) for one in rng.chisquare(1, (200, 128)) * (1 + 30 / j)]
    assert np.mean([one > 0 for one in found]) > 0.9
    assert np.median(found) == pytest.approx(math.sqrt(30), rel=0.2)
    alone = [flicker(one) ** 2 for one in rng.chisquare(1, (200, 128)) / j]
    assert np.mean(alone) == pytest.approx(1.0, rel=0.15)
    assert below_a_line(np.where(j > 40, 100.0, 1.0)) == 32


def test_the_mean_of_flicker_noise_has_all_that_is_slower() -> None:
    """Means over parts of a long series of noise whose spectrum is 1/f down to one in all of it."""
    rng = np.random.default_rng(7)
    count, parts = 1 << 18, 1 << 8
    size = np.zeros(count // 2 + 1)
    size[1:] = 1 / np.sqrt(np.arange(1, len(size)))
    turns = rng.standard_normal((8, len(size))) + 1j * rng.standard_normal((8, len(size)))
    waves = np.fft.irfft(size * turns, count).reshape(-1, count // parts)
    found = [slow_part(wave) for wave in waves[::16]]
    seconds = SLOWEST_S / parts
    stated = np.sqrt(np.mean([one.u_of_mean(seconds) ** 2 for one in found]))
    assert stated == pytest.approx(waves.mean(axis=1).std(), rel=0.25)
    flat = np.sqrt(np.mean([one.u**2 for one in found]))
    assert flat < 0.3 * stated
