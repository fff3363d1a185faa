from __future__ import annotations

import numpy as np
import pytest

from labctl.analysis.stats.time_mean import TimeMean, bridged_steps


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
