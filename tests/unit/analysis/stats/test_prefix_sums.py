"""Prefix sums by integers against exact sums."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.stats.prefix_sums import prefix_sums


@given(
    st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=80),
    st.floats(-1e9, 1e9),
    st.floats(1.0, 1e3),
)
def test_they_are_the_exact_sums_but_for_the_stated_rounding(
    values: list[float], before: float, looser: float
) -> None:
    most = max(map(abs, values)) * looser
    sums = np.array(values)
    prefix_sums(sums, most, before)
    exact = [float(one + Fraction(before)) for one in accumulate(map(Fraction, values))]
    n = len(values)
    # the last bits of what they are beside "before", and of the size that sums have room for
    allowed = n * (n * most * 2.0**-50) + 4 * abs(before) * 2.0**-52 + n * most * 2.0**-49
    assert np.abs(sums - exact).max() <= allowed


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-300, 1e300])
def test_sums_of_any_size(size: float) -> None:
    sums = np.array([size, -size, size, size])
    prefix_sums(sums, size, 0.0)
    assert sums.tolist() == pytest.approx([size, 0.0, size, 2 * size], rel=1e-12, abs=0)


def test_none() -> None:
    prefix_sums(np.empty(0), 1.0, 5.0)
