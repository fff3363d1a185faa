"""Histograms of latency: the steps that fio's bins are put into, and sums of them."""

from __future__ import annotations

import math

import pytest

from labctl.fio.histogram import STEP, added, histogram


def bins_around(mean_us: float) -> dict[float, int]:
    """fio's bins of latencies that scatter about a mean, with a tail to the slow."""
    middles = [mean_us * 2 ** (number / 44) for number in range(-60, 260)]
    return {us: round(1e5 * math.exp(-abs(math.log(us / mean_us)) * 4)) for us in middles}


def test_a_step_has_all_ios_of_its_bins_and_no_others() -> None:
    bins = [{100.352: 3, 88.0: 2, 90.112: 1}, {100.352: 4, 0.5: 1, 2_080_374.784: 1}]
    assert histogram(bins) == {"0.5": 1, "76.11": 3, "90.51": 7, "1763488": 1}
    for edge in histogram([bins_around(3.0), bins_around(7e6)]):
        steps = math.log2(float(edge)) * 4
        assert steps == pytest.approx(round(steps), abs=0.01)
    assert pytest.approx(2.0) == STEP**4


def test_histograms_of_rounds_are_added_where_each_round_has_one() -> None:
    one, other = histogram([bins_around(80.0)]), histogram([bins_around(900.0)])
    assert sum(added([one, other]).values()) == sum(one.values()) + sum(other.values())
    assert list(map(float, added([other, one]))) == sorted(map(float, one.keys() | other.keys()))
    assert added([one, {}]) == {} == added([])
