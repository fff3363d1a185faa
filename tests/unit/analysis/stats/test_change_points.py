"""Where a level goes over into a slope."""

from __future__ import annotations

import numpy as np
import pytest

from labctl.analysis.stats.change_points import bend


@pytest.mark.parametrize("at", [10, 40, 70])
def test_a_bend_is_found_within_what_it_says(at: int) -> None:
    rng = np.random.default_rng(at)
    missed = 0
    for _ in range(50):
        y = -0.01 * np.maximum(np.arange(100) - at, 0) + rng.normal(0, 0.03, 100)
        found = bend(y)
        assert found is not None
        missed += abs(found[0] - at) > found[1]
    assert missed <= 8


def test_a_step_is_no_bend() -> None:
    rng = np.random.default_rng(1)
    y = np.repeat([0.0, -0.3], 40) + rng.normal(0, 0.03, 80)
    assert bend(y) is None


def test_too_few_points_have_none() -> None:
    assert bend(np.array([1.0, 1.0, 0.5])) is None


@pytest.mark.parametrize("at", [8, 40, 90])
def test_an_exact_bend_is_found_exactly(at: int) -> None:
    assert bend(-0.1 * np.maximum(np.arange(100) - at, 0)) == (at, 0)
