"""Percentiles of several jobs together, against numpy's of latencies that were drawn."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from labctl.fio.percentiles import PERCENTILES, Distribution, percentiles_of
from labctl.fio.results import mean_direction
from tests.fio_result import final_result

Floats = NDArray[np.float64]

SHAPES = {
    "fast": lambda rng, n: rng.gamma(9.0, 10e3, n),
    "slow": lambda rng, n: rng.gamma(2.0, 900e3, n),
    "two humps": lambda rng, n: np.where(
        rng.random(n) < 0.97, rng.normal(90e3, 5e3, n), rng.normal(9e6, 1e6, n)
    ),
    "long tail": lambda rng, n: 50e3 * rng.pareto(1.3, n) + 40e3,
}


def binned(ns: Floats) -> Floats:
    """Latencies as fio keeps them: the middle of one of 64 bins of each power of two."""
    width = 2.0 ** np.maximum(np.floor(np.log2(np.maximum(ns, 1.0))) - 6, 0)
    return np.floor(ns / width) * width + width / 2


def smallest(values: Floats, percent: float) -> float:
    """The smallest value that at least so many per cent stay up to."""
    return float(np.percentile(values, percent, method="inverted_cdf"))


def side(ns: Floats, bins: bool) -> dict[str, Any]:
    """One direction as fio prints it of these latencies."""
    kept = binned(ns)
    table = {
        "min": int(ns.min()), "max": int(ns.max()), "mean": float(ns.mean()), "N": len(ns),
        "percentile": {f"{float(name):.6f}": smallest(kept, float(name)) for name in PERCENTILES},
    }  # fmt: skip
    if bins:
        at, counts = np.unique(kept, return_counts=True)
        reported = zip(at.tolist(), counts.tolist(), strict=True)
        table["bins"] = {str(int(one)): count for one, count in reported}
    return {"total_ios": len(ns), "io_bytes": 4096 * len(ns), "runtime": 1000, "lat_ns": table}


def document(*jobs: Floats, bins: bool) -> str:
    sides = [{"jobname": "j", "error": 0, "read": side(ns, bins)} for ns in jobs]
    return json.dumps({"fio version": "fio-3.33", "jobs": sides})


def drawn(rng: np.random.Generator, first: str, second: str, share: float) -> tuple[Floats, Floats]:
    count = 40_000
    parts = ((first, round(count * share)), (second, round(count * (1 - share))))
    one, two = (np.maximum(SHAPES[name](rng, n), 1000.0) for name, n in parts)
    return one, two


MIXTURES = [
    ("fast", "slow", 0.5), ("fast", "slow", 0.985), ("slow", "two humps", 0.2),
    ("two humps", "fast", 0.7), ("long tail", "slow", 0.9), ("long tail", "two humps", 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "share"), MIXTURES)
def test_with_bins_percentiles_of_two_unlike_jobs_are_exact(
    first: str, second: str, share: float
) -> None:
    jobs = drawn(np.random.default_rng(5), first, second, share)
    result = final_result(document(*jobs, bins=True))
    assert result is not None and result.read is not None and result.notes == ()
    assert result.read.latency_bounds_us == {}
    together = np.concatenate(jobs)
    for name, us in result.read.latency_percentiles_us.items():
        assert us == pytest.approx(smallest(binned(together), float(name)) * 1e-3, rel=1e-3)
        truth_us = smallest(together, float(name)) * 1e-3
        assert us == pytest.approx(truth_us, rel=0.01), "within half a bin of the I/Os themselves"
    assert set(result.read.latency_percentiles_us) == set(PERCENTILES)


@pytest.mark.parametrize(("first", "second", "share"), MIXTURES)
def test_without_bins_the_truth_is_within_the_bounds(first: str, second: str, share: float) -> None:
    jobs = drawn(np.random.default_rng(7), first, second, share)
    result = final_result(document(*jobs, bins=False))
    assert result is not None and result.read is not None
    together = binned(np.concatenate(jobs))
    bounds = result.read.latency_bounds_us
    assert bounds, "unlike jobs are not known exactly"
    for name, us in result.read.latency_percentiles_us.items():
        truth_us = smallest(together, float(name)) * 1e-3
        low, high = bounds.get(name, (us, us))
        assert low <= us <= high
        assert low * (1 - 1e-9) <= truth_us <= high * (1 + 1e-9), name
        rows = [smallest(binned(job), float(name)) * 1e-3 for job in jobs]
        assert min(rows) * 0.999 <= low and high <= max(rows) * 1.001, "between its parts"
    (note,) = result.notes
    assert note.startswith("read latencies of several together are known within bounds: p")


def test_rounds_of_a_phase_have_bounds_that_hold_all_their_ios() -> None:
    rng = np.random.default_rng(11)
    rounds = [rng.gamma(4.0, 20e3 * factor, 20_000) for factor in (1.0, 1.02, 0.97, 1.05, 1.0)]
    results = [final_result(document(ns, bins=True)) for ns in rounds]
    sides = [one.read for one in results if one is not None and one.read is not None]
    mean = mean_direction(sides)
    assert mean is not None
    together = binned(np.concatenate(rounds))
    for name in ("50", "99", "99.9"):
        low, high = mean.latency_bounds_us[name]
        assert low <= smallest(together, float(name)) * 1e-3 <= high
        assert high / low < 1.35
    again = mean_direction([mean, sides[0]])
    assert again is not None and again.latency_bounds_us["99"][0] <= high


def test_like_jobs_need_no_bounds() -> None:
    ns = np.random.default_rng(3).gamma(9.0, 10e3, 5000)
    one, two = (final_result(document(*[ns] * n, bins=False)) for n in (1, 2))
    assert one is not None and two is not None and one.read is not None and two.read is not None
    assert two.read.latency_bounds_us == {} and two.notes == ()
    assert two.read.latency_percentiles_us == one.read.latency_percentiles_us


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10_000),
            st.dictionaries(st.sampled_from([float(p) for p in PERCENTILES]), st.floats(0, 1e9)),
            st.floats(0, 1e9),
            st.floats(0, 1e9),
        ),
        max_size=5,
    )
)
def test_whatever_a_table_holds_a_value_is_between_its_bounds(
    parts: list[tuple[int, dict[float, float], float, float]],
) -> None:
    found = [
        Distribution(count, table, table, min_us, max_us) for count, table, min_us, max_us in parts
    ]
    values, bounds = percentiles_of(found)
    for name, (low, high) in bounds.items():
        assert low <= values[name] <= high


@pytest.mark.parametrize("bins", [{"x": 3}, {"1000": None}, {"1000": -4}, [], 7, {}])
def test_bins_that_are_none_are_left_out(bins: object) -> None:
    jobs = [side(np.full(100, at), True) for at in (1e5, 3e5)]
    jobs[0]["lat_ns"]["bins"] = bins
    text = json.dumps({"jobs": [{"jobname": "j", "read": one} for one in jobs]})
    result = final_result(text)
    assert result is not None and result.read is not None
    assert result.read.latency_bounds_us or result.read.latency_percentiles_us
