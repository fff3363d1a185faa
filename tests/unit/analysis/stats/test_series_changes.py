"""Steps, drifts, states and outliers in drawn series; chances by counting and by scipy."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from labctl.analysis.stats import series_changes
from labctl.analysis.stats.rotation import LEVEL
from labctl.analysis.stats.series_candidates import (
    FEWEST_RUNS,
    Candidate,
    CandidateKind,
    candidates_of,
)
from labctl.analysis.stats.series_changes import ChangeModel, find_changes
from labctl.analysis.stats.series_fit import (
    dark_uncertainty,
    fitted,
    smallest_step,
    student_limit,
)

Floats = NDArray[np.float64]


@pytest.fixture(autouse=True)
def _few_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_changes, "ORDERS", 399)


def judged(
    values: Floats, fixed: list[Floats] | None = None, states: int = 0, named: int = -1
) -> tuple[tuple[Candidate, ...], ChangeModel]:
    n, m = values.shape
    runs = [("firmware", "2", np.arange(n) % states == 0)] if states else []
    found = candidates_of([float(run) for run in range(n)], frozenset({named}), runs)
    pools = np.arange(m) % 2
    return found, find_changes(values, pools, found, [fixed or []] * m, np.zeros_like(values))


def noise(n: int = 30, m: int = 20, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((n, m))


def test_a_step_is_found_where_it_is_in_the_columns_that_have_it() -> None:
    values = noise()
    values[18:, :8] += 5.0
    candidates, model = judged(values)
    (one,) = model.found
    assert candidates[one.candidate].kind is CandidateKind.STEP
    assert one.first <= 18 <= one.last
    assert one.last - one.first <= 2
    assert set(one.columns) == set(range(8))
    assert max(one.p) <= LEVEL


def test_nothing_is_nothing() -> None:
    assert not judged(noise(seed=1))[1].found


def test_a_step_goes_where_something_is_known_to_have_changed() -> None:
    values = noise(seed=4)
    values[15:, :3] += 3.0
    values[14, :3] += 1.6  # half way: it may have been there
    candidates, model = judged(values, named=15)
    assert candidates[model.found[0].candidate].at == 15


def test_two_steps_are_two() -> None:
    values = noise(seed=2)
    values[10:20] += 5.0
    candidates, model = judged(values)
    assert sorted(candidates[one.candidate].at for one in model.found) == [10, 20]


def test_a_drift_is_no_step() -> None:
    values = noise(seed=3) + 8.0 * np.linspace(0.0, 1.0, 30)[:, None]
    candidates, model = judged(values)
    assert candidates[model.found[0].candidate].kind is CandidateKind.DRIFT


def test_firmwares_that_take_turns_are_told_by_their_runs() -> None:
    values = noise(seed=5)
    values[::2] += 4.0
    candidates, model = judged(values, states=2)
    (one,) = model.found
    assert candidates[one.candidate].kind is CandidateKind.STATE


def test_a_single_run_is_no_step_but_out_of_line() -> None:
    values = noise(seed=6)
    values[[12, 29]] += 12.0
    _, model = judged(values)
    assert not model.found
    assert set(np.flatnonzero(model.outliers.any(axis=1))) == {12, 29}


def test_a_run_that_is_uncertain_itself_is_not_out_of_line() -> None:
    values = noise(seed=6)
    values[12] += 12.0
    found = candidates_of([float(run) for run in range(30)], frozenset())
    own = np.zeros_like(values)
    own[12] = 6.0
    model = find_changes(values, np.zeros(20, dtype=np.int64), found, [[]] * 20, own)
    assert not model.outliers.any()


def test_a_step_is_found_beside_an_outlier_and_missing_values() -> None:
    values = noise(seed=7)
    values[20:] += 4.0
    values[5] += 15.0
    values[np.random.default_rng(1).random(values.shape) < 0.15] = np.nan
    candidates, model = judged(values)
    assert [candidates[one.candidate].at for one in model.found] == [20]
    assert model.outliers[5].any()


def test_what_fixed_regressors_explain_is_no_change() -> None:
    values = noise(seed=8)
    meters = (np.arange(30) >= 15).astype(float)
    values[15:] += 20.0
    values[23:] += 5.0
    candidates, model = judged(values, fixed=[meters])
    assert [candidates[one.candidate].at for one in model.found] == [23]


def test_runs_that_follow_each_other_widen_what_a_change_must_exceed() -> None:
    values = noise(n=40, m=40, seed=9)
    for run in range(1, 40):
        values[run] = 0.6 * values[run - 1] + 0.8 * values[run]
    _, model = judged(values)
    assert model.autocorrelation > 0.3
    assert model.alike > 1.3


def test_fewer_runs_than_can_show_anything_are_refused() -> None:
    n = FEWEST_RUNS - 1
    choices = len(list(combinations(range(n), 3)))
    assert 2 / choices > LEVEL, "not even the most extreme order of seven is rare enough"
    assert 2 / len(list(combinations(range(FEWEST_RUNS), 3))) <= LEVEL
    with pytest.raises(ValueError, match="8 runs"):
        judged(noise(n=n))


def test_what_can_be_told_is_infinite_where_too_few_runs_show_nothing() -> None:
    assert smallest_step(4.0, 0.01, 20, 1) == math.inf
    assert smallest_step(4.0, 0.01, 6, 2) == math.inf
    assert smallest_step(4.0, 0.01, 15, 15) == pytest.approx(0.04 * math.sqrt(2 / 15))


@pytest.mark.parametrize("freedom", [7.0, 12.0, 28.0, 200.0])
def test_the_limit_of_students_t_is_that_of_scipy(freedom: float) -> None:
    chance = LEVEL / 3600
    exact = float(stats.t.isf(chance, freedom))
    assert exact <= student_limit(chance, freedom) * 1.001 <= 1.04 * exact


def test_a_fit_is_that_of_least_squares() -> None:
    y = noise(m=1, seed=10)[:, 0]
    step, line = (np.arange(30) >= 12).astype(float), np.linspace(0.0, 1.0, 30)
    y[4] = np.nan
    out = np.zeros(30, dtype=bool)
    out[7] = True
    kept = np.flatnonzero(~np.isnan(y) & ~out)
    table = np.column_stack([np.ones(30), step, line])[kept]
    fit = fitted(y, [step, line], out)
    assert fit.coefficients == pytest.approx(np.linalg.lstsq(table, y[kept], rcond=None)[0][1:])
    inverse = np.linalg.inv(table.T @ table)
    assert fit.roots == pytest.approx(np.sqrt(np.diag(inverse))[1:])


def test_dark_uncertainty_is_what_the_runs_do_not_explain() -> None:
    rng = np.random.default_rng(11)
    own = np.full(20_000, 3.0)
    both = rng.normal(0.0, 5.0, 20_000)
    assert dark_uncertainty(both, own) == pytest.approx(4.0, rel=0.03)
    assert dark_uncertainty(rng.normal(0.0, 1.0, 100), np.full(100, 3.0)) == 0.0


@pytest.mark.long
def test_one_series_in_twenty_shows_a_change_that_is_none() -> None:
    alarms = sum(bool(judged(noise(n=20, m=40, seed=1000 + one))[1].found) for one in range(300))
    assert alarms <= stats.binom.isf(1e-4, 300, LEVEL)
