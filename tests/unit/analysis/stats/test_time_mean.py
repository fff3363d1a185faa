from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.stats.time_mean import LOST, TimeMean, bridged_steps, mean_over_time


def drawn_moments(rng: np.random.Generator, count: int) -> np.ndarray:
    """One at any moment of each interval of 1."""
    return np.arange(count) + rng.uniform(0, 1, count)


def test_readings_at_any_moment_of_their_intervals_leave_nothing_out() -> None:
    t = drawn_moments(np.random.default_rng(1), 500)
    dithered, regular = TimeMean(500.0, 1.0, 500, dither=1.0), TimeMean(500.0, 1.0, 500)
    for one in (dithered, regular):
        one.add(t, np.ones(500))
    assert dithered.covered == pytest.approx(500, abs=1.0)
    assert regular.covered < 490, "as though readings were lost"
    assert dithered.not_covered < 1.5
    longest = bridged_steps(t, 1.0, 2.5, 1.0)
    assert np.all(np.diff(t) <= longest)


def test_readings_lost_between_dithered_ones_are_noticed() -> None:
    t = drawn_moments(np.random.default_rng(2), 500)
    t = t[(t < 200) | (t > 220)]
    mean = TimeMean(500.0, 1.0, 500, dither=1.0)
    mean.add(t, np.ones(len(t)))
    assert mean.covered == pytest.approx(481, abs=2)
    assert mean.missing(1.0) == pytest.approx(15, abs=1.5)


@given(steps=st.lists(st.floats(0.01, 20), min_size=1, max_size=40), seed=st.integers(0, 2**32 - 1))
def test_the_mean_of_readings_at_hand_is_that_of_readings_taken_part_by_part(
    steps: list[float], seed: int
) -> None:
    t = 3.0 + np.concatenate(([0.0], np.cumsum(steps)))
    values = np.random.default_rng(seed).normal(12.0, 0.5, len(t))
    span = float(t[-1] - t[0])
    parts = TimeMean(span, span / (len(t) - 1), len(t))
    parts.add(t[:1] - t[0], values[:1])
    parts.add(t[1:] - t[0], values[1:])
    # where lost readings are told from the others, a part has fewer to tell it by
    if max(steps) <= LOST * min(steps):
        assert mean_over_time(t, values) == pytest.approx(parts.mean, rel=1e-12)
    whole = TimeMean(span, span / (len(t) - 1), len(t))
    whole.add(t - t[0], values)
    assert mean_over_time(t, values) == pytest.approx(whole.mean, rel=1e-12)
