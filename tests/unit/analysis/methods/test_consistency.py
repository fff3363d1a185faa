from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.methods.consistency import consistency, find_dips, per_second

HALVES = np.arange(0.25, 600.0, 0.5)


def test_by_hand() -> None:
    """Seconds of 100, 110, 90, 100: σ = √(200/3), σ/mean 8.16 %, (110 − 90)/90."""
    t = np.array([0.2, 0.7, 1.2, 1.7, 2.2, 2.7, 3.2, 3.7])
    iops = np.array([90, 110, 100, 120, 80, 100, 95, 105.0])
    found = consistency(t, iops)
    assert found is not None
    assert (found.seconds, found.mean, found.min, found.max) == (4, 100.0, 90.0, 110.0)
    assert found.std == pytest.approx(np.sqrt(200 / 3))
    assert found.relative_std == pytest.approx(0.0816, abs=1e-4)
    assert found.spread == pytest.approx(20 / 90)
    assert found.dips is None


def test_only_the_last_400_s_count() -> None:
    iops = np.where(HALVES < 200, 300e3, 22e3)
    found = consistency(HALVES, iops)
    assert found is not None
    assert (found.begin_s, found.end_s, found.seconds) == (200.0, 600.0, 400)
    assert (found.mean, found.std) == (22e3, 0.0)


def test_garbage_collection_every_150_s_for_35_s() -> None:
    """The drive of the reviews: a 30 to 40 s dip every 150 s."""
    iops = np.where(HALVES % 150 < 35, 8e3, 24e3)
    found = consistency(HALVES, iops, tail_s=600)
    assert found is not None and found.dips is not None
    assert found.dips.count == 4
    assert found.dips.duration_s == pytest.approx(35.0)
    assert found.dips.period_s == pytest.approx(150.0)
    assert found.dips.depth == pytest.approx(2 / 3)
    assert found.dips.periodic


def test_dips_at_odd_times_are_not_periodic() -> None:
    iops = np.full(600, 24e3)
    for begin in (20, 60, 300, 500):
        iops[begin : begin + 5] = 5e3
    dips = find_dips(np.arange(600) + 0.5, iops)
    assert dips is not None
    assert (dips.count, dips.duration_s, dips.periodic) == (4, 5.0, False)
    assert dips.begins_s == (20.0, 60.0, 300.0, 500.0)


def test_a_drive_that_stood_still_has_no_spread() -> None:
    found = consistency(np.arange(10) + 0.5, np.array([0.0, *[100.0] * 9]))
    assert found is not None
    assert found.spread is None
    assert found.dips is not None and found.dips.period_s is None


def test_too_little_says_nothing() -> None:
    assert consistency(np.empty(0), np.empty(0)) is None
    assert consistency(np.array([0.5]), np.array([1.0])) is None


@given(st.lists(st.floats(1.0, 1e6), min_size=4, max_size=80), st.floats(0.1, 100.0))
def test_a_drive_twice_as_fast_is_as_consistent(values: list[float], factor: float) -> None:
    t = np.arange(len(values)) * 0.5 + 0.25
    one = consistency(t, np.array(values))
    other = consistency(t, np.array(values) * factor)
    assert one is not None and other is not None
    assert other.relative_std == pytest.approx(one.relative_std)
    assert other.spread == pytest.approx(one.spread)


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=50))
def test_seconds_keep_the_mean_where_each_has_as_many_values(values: list[float]) -> None:
    pairs = [value for value in values for _ in range(2)]
    _, found = per_second(np.arange(len(pairs)) * 0.5 + 0.25, np.array(pairs))
    assert found == pytest.approx(values)
