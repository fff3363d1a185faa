from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import t as student

from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.stats.running_stats import RunningStats
from labctl.analysis.stats.uncertainty import (
    combined,
    difference_components,
    expanded,
    left_by_digits,
    limit_component,
    ratio,
    scatter_of_mean,
    student_factor,
)


def test_independent_readings_give_the_plain_standard_error() -> None:
    y = np.random.default_rng(0).normal(10, 2, 100_000)
    stats = RunningStats(len(y))
    stats.add(y)
    scatter = stats.scatter()
    assert scatter.u == pytest.approx(2 / math.sqrt(len(y)), rel=0.5)
    assert scatter.n_effective > len(y) / 3


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.98])
def test_dependent_readings_count_for_fewer(keep: float) -> None:
    """First-order autoregression: n_eff = n·(1 − φ)/(1 + φ)."""
    rng = np.random.default_rng(1)
    n = 20_000
    ratios = []
    for _ in range(20):
        y = lfilter([1.0], [1.0, -keep], rng.normal(size=n))
        stats = RunningStats(n)
        stats.add(y)
        truth = math.sqrt((1 + keep) / (1 - keep) * y.var() / n)
        ratios.append(stats.scatter().u / truth)
    assert 0.9 < np.median(ratios) < 1.5


def test_a_step_that_the_readings_follow_is_hardly_scatter() -> None:
    y = np.concatenate([np.full(500, 10.0), np.full(500, 6.0)])
    y += np.random.default_rng(2).normal(0, 0.01, 1000)
    u = scatter_of_mean(y, float(y.var(ddof=1)), 1000).u
    assert u < 0.3, "taken as scatter with full autocorrelation it would be about 2 W"


def process(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    white = rng.normal(size=n)
    if kind == "1/f":
        spectrum = np.fft.rfft(white)
        spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
        return np.fft.irfft(spectrum, n)
    keep = {"white": 0.0, "0.3 s": math.exp(-0.1 / 0.3), "20 s": math.exp(-0.1 / 20)}[kind]
    return lfilter([1.0], [1.0, -keep], white, zi=[white[0] / math.sqrt(1 - keep**2) * keep])[0]


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("white", 0.95, 1.0), ("0.3 s", 0.7, 1.0), ("20 s", 0.0, 0.01), ("1/f", 0.0, 0.2)],
)
def test_what_one_phase_cannot_show_of_a_repetition_is_not_stated(
    kind: str, least: float, most: float
) -> None:
    """Phases of 60 s at 10 S/s: the share of them that state a repeatability."""
    rng = np.random.default_rng(5)
    stated = []
    for _ in range(300):
        y = 5 + process(kind, 600, rng)
        stated.append(scatter_of_mean(y, float(y.var(ddof=1)), 600).repeatability is not None)
    assert least <= np.mean(stated) <= most


def test_few_readings_count_by_their_plain_scatter() -> None:
    y = np.array([1.0, 2.0, 3.0, 4.0])
    scatter = scatter_of_mean(y, float(y.var(ddof=1)), 4)
    assert scatter.u == pytest.approx(math.sqrt(5 / 3 / 4))
    assert scatter.dof == 3


@given(st.lists(st.integers(1, 400), min_size=1, max_size=20), st.integers(1, 9000))
def test_moments_do_not_depend_on_how_the_series_is_cut(cuts: list[int], expected: int) -> None:
    y = np.random.default_rng(sum(cuts)).normal(100, 1, sum(cuts))
    whole, parts = RunningStats(expected), RunningStats(expected)
    whole.add(y)
    at = 0
    for cut in cuts:
        parts.add(y[at : at + cut])
        at += cut
    assert parts.n == len(y)
    assert parts.mean == pytest.approx(float(y.mean()))
    if len(y) > 1:
        assert parts.variance == pytest.approx(float(y.var(ddof=1)))
        assert parts.scatter().u == pytest.approx(whole.scatter().u)


def test_no_readings_have_no_mean() -> None:
    assert math.isnan(RunningStats(10).mean)
    assert math.isnan(RunningStats(10).variance)


@pytest.mark.parametrize("dof", [1, 2, 3, 5, 8, 10, 15, 20, 50, 100, 1000])
def test_the_table_is_students_distribution(dof: int) -> None:
    assert student_factor(dof) == pytest.approx(student.ppf(0.5 + 0.9545 / 2, dof), rel=0.01)


def test_a_limit_is_divided_by_the_root_of_three_and_is_never_exceeded() -> None:
    line = limit_component("gain", 0.3, "")
    assert line.watts == pytest.approx(0.3 / math.sqrt(3))
    assert expanded(5.0, [line]).u == pytest.approx(0.3)


def test_welch_satterthwaite_by_hand() -> None:
    """u = 3 and 4 with 9 and 16 degrees: (25)² / (81/9 + 256/16) = 25."""
    lines = [Component("a", "A", 3.0, "", 9.0), Component("b", "A", 4.0, "", 16.0)]
    assert combined(lines) == (pytest.approx(5.0), pytest.approx(25.0))
    assert expanded(0.0, lines).u == pytest.approx(5 * 2.11)


def test_one_meter_on_two_rails_is_one_error() -> None:
    lines = [Component("a", "B", 3.0, "", source="m gain") for _ in range(2)]
    assert combined(lines)[0] == pytest.approx(6.0)
    apart = [Component("a", "B", 3.0, "", source=f"m{i} gain") for i in range(2)]
    assert combined(apart)[0] == pytest.approx(math.sqrt(18))


def test_a_ratio_by_hand() -> None:
    result = ratio(Estimate(100_000.0, 0.0), Estimate(10.0, 0.1))
    assert result is not None
    assert (result.value, result.u) == (pytest.approx(10_000.0), pytest.approx(100.0))
    both = ratio(Estimate(30.0, 0.9), Estimate(10.0, 0.4))
    assert both is not None and both.u == pytest.approx(3.0 * 0.05)
    assert both is not None and both.repeatability is None
    again = ratio(Estimate(30.0, 0.9, 0.3), Estimate(10.0, 0.4, 0.1))
    assert again is not None and again.repeatability == pytest.approx(0.03 * math.sqrt(2))
    assert ratio(Estimate(1.0, 0.0), Estimate(0.0, 0.1)) is None


def test_the_gain_of_a_meter_counts_on_the_difference_only_once() -> None:
    load = [Component("g", "B", 0.10, "", source="i gain", part="gain"),
            Component("f", "B", 0.03, "", source="i floor")]  # fmt: skip
    idle = [Component("g", "B", 0.04, "", source="i gain", part="gain"),
            Component("f", "B", 0.04, "", source="i floor")]  # fmt: skip
    u, _ = combined(difference_components(load, idle, 0.6))
    assert u == pytest.approx(math.hypot(0.06, 0.03, 0.04))


def test_digits_that_a_value_does_not_move_by_stay_in_its_mean() -> None:
    assert left_by_digits(1e-3, 0.0) == pytest.approx(1e-3 / math.sqrt(12))
    assert left_by_digits(1e-3, 1e-6) < 1e-9
    assert left_by_digits(0.0, 0.0) == 0.0
