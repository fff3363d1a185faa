"""Many differences at once: false alarms of a whole family, and what is found, on drawn runs.

The runs are made here from the physics that an independent study of false alarms used: the mean of
a phase of 60 s under white noise, noise that stays alike for 0.3 s or 20 s, 1/f noise, garbage
collection each 150 s, and runs that differ by 1 % as a whole. Six points, IOPS, watts, and both
in relation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from labctl.analysis.stats import rotation
from labctl.analysis.stats.rotation import LEVEL, Floats, contrasts, judged, planned_rotation


@pytest.fixture(autouse=True)
def few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "TURNS", 1_999)


POINTS = 6
SECONDS = 60
POOLS = np.repeat([0, 1, 2], POINTS)
Random = np.random.Generator


def white(random: Random, runs: int) -> Floats:
    return 0.03 * random.standard_normal((runs, POINTS, SECONDS)).mean(axis=2)


def alike_for(seconds: float) -> Callable[[Random, int], Floats]:
    """An Ornstein–Uhlenbeck process, stationary, in steps of a tenth of its time or a second."""

    def drawn(random: Random, runs: int) -> Floats:
        step = min(seconds / 3, 1.0)
        keep = np.exp(-step / seconds)
        steps = random.standard_normal((round(SECONDS / step), runs, POINTS))
        level, total = steps[0], np.zeros((runs, POINTS))
        for one in steps:
            level = keep * level + np.sqrt(1 - keep**2) * one
            total += level
        return np.asarray(0.03 * total / len(steps))

    return drawn


def pink(random: Random, runs: int) -> Floats:
    """1/f from a thousandth of a hertz up: a sum of processes, one an octave."""
    parts = [alike_for(2.0**octave)(random, runs) for octave in range(10)]
    return np.asarray(np.sum(parts, axis=0) / 5)


def collecting(random: Random, runs: int) -> Floats:
    """60 of each 150 s at 90 %, from a random moment on; a phase each 75 s."""
    begin = 150 * random.random((runs, 1, 1)) + 75 * np.arange(POINTS)[:, None]
    level = 1 - 0.1 * ((begin + np.arange(SECONDS)) % 150 < 60)
    return np.log(level.mean(axis=2))


def whole_runs(random: Random, runs: int) -> Floats:
    return 0.01 * random.standard_normal((runs, 1)) + white(random, runs) / 10


def one_restless_point(random: Random, runs: int) -> Floats:
    return white(random, runs) * np.array([1, 1, 1, 1, 1, 10])


REGIMES = {
    "white": white,
    "0.3 s": alike_for(0.3),
    "20 s": alike_for(20.0),
    "1/f": pink,
    "collection": collecting,
    "+1 % a run": whole_runs,
    "one restless point": one_restless_point,
}


def runs_of(regime: str, random: Random, runs: int, iops: float = 0.0) -> Floats:
    """Logarithms of IOPS, watts and IOPS/W of runs (rows); watts go with the IOPS in part."""
    drawn = REGIMES[regime](random, runs)
    watts = 0.4 * drawn + REGIMES[regime](random, runs) / 2
    return np.hstack([drawn + iops, watts, drawn + iops - watts])


def alarms(
    regime: str, drawn: int, base: int = 3, other: int = 3, iops: float = 0.0
) -> tuple[float, float]:
    """In what part of comparisons, and of gates that allow nothing, anything is found."""
    random = np.random.default_rng(7)
    worse = np.repeat([-1.0, 1.0, -1.0], POINTS)
    marks = gates = 0
    for _ in range(drawn):
        one, two = runs_of(regime, random, base), runs_of(regime, random, other, iops)
        marks += bool(judged(contrasts(one, two, POOLS), np.zeros(len(worse))).p.min() <= LEVEL)
        found = judged(contrasts(one * worse, two * worse, POOLS), np.zeros(len(worse)), worse=True)
        gates += bool(found.p.min() <= LEVEL / 2)
    return marks / drawn, gates / drawn


@pytest.mark.parametrize("regime", REGIMES)
def test_equal_sides_are_seldom_told_apart(regime: str) -> None:
    """100 comparisons: at a true level of 5 %, more than 10 come one time in 90; gates 2.5 %."""
    marks, gates = alarms(regime, 100)
    assert marks <= 0.10 and gates <= 0.06


@pytest.mark.parametrize("regime", ["white", "0.3 s", "20 s", "1/f", "+1 % a run"])
def test_a_change_of_five_percent_is_found_by_three_repeats(regime: str) -> None:
    _, gates = alarms(regime, 60, iops=np.log(0.95))
    assert gates >= 0.9


@pytest.mark.parametrize(("base", "other"), [(2, 2), (5, 1)])
def test_few_repeats_and_a_single_run_keep_the_level(base: int, other: int) -> None:
    marks, _ = alarms("+1 % a run", 100, base, other)
    assert marks <= 0.10


def test_one_point_is_student_s_t() -> None:
    random = np.random.default_rng(3)
    one, two = random.standard_normal((3, 1)), random.standard_normal((5, 1)) + 1.5
    found = judged(contrasts(one, two, np.zeros(1, int)), np.zeros(1))
    student = stats.ttest_ind(one[:, 0], two[:, 0])
    assert found.p[0] == pytest.approx(student.pvalue, abs=0.015)
    interval = student.confidence_interval(0.95)
    assert found.half_width[0] == pytest.approx((interval.high - interval.low) / 2, rel=0.06)


def test_a_limit_must_be_passed_too() -> None:
    random = np.random.default_rng(5)
    one = 1e-3 * random.standard_normal((3, 2))
    two = 1e-3 * random.standard_normal((3, 2)) + np.array([0.05, -0.05])
    both = contrasts(one, two, np.zeros(2, int))
    assert (judged(both, np.full(2, 0.04)).p <= LEVEL).all()
    assert (judged(both, np.full(2, 0.06)).p > LEVEL).all()
    p = judged(both, np.full(2, 0.04), worse=True).p
    assert p[0] <= LEVEL < p[1]
    assert (judged(both, np.zeros(2), families=3).p >= judged(both, np.zeros(2)).p).all()


def test_repeats_that_do_not_scatter_at_all() -> None:
    same, other = np.zeros((3, 2)), np.array([[0.0, 0.1]] * 3)
    found = judged(contrasts(same, other, np.array([0, 1])), np.zeros(2))
    assert found.p[0] == 1.0 and found.p[1] < 0.01
    nothing = judged(contrasts(same, same, np.array([0, 1])), np.zeros(2))
    assert (nothing.p == 1.0).all()


@pytest.mark.parametrize("repeats", [3, 6])
def test_what_was_planned_is_found(repeats: int) -> None:
    """The change that a plan promises at every point is found in 95 of 100 drawn comparisons."""
    spread = np.diag(np.full(6, 0.01))
    pools = np.repeat([0, 1], 3)
    smallest = planned_rotation(spread, pools, repeats).smallest()
    random = np.random.default_rng(11)
    found = [
        judged(
            contrasts(
                0.01 * random.standard_normal((repeats, 6)),
                0.01 * random.standard_normal((repeats, 6)) + smallest,
                pools,
            ),
            np.zeros(6),
        ).p
        <= LEVEL
        for _ in range(100)
    ]
    assert 0.88 <= np.mean(found) <= 1.0
