"""What is unknown of the phases' own times, from the steps of the watts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from labctl.analysis.readings.phase_shifts import fit_shifts

LENGTH_S = 5.0
LEVELS = (6.0, 9.0, 7.0, 12.0, 5.0, 11.0)
DOUBTS = np.array([0.9, 0.75, 0.6, 0.45, 0.3, 0.15])
"""Of jobs that waited for each other: the end of all, and of each the gaps behind it (s)."""

Floats = NDArray[np.float64]


def _stated(count: int) -> list[tuple[float, float]]:
    """One after another, 0.15 s apart."""
    return [(10.0 + k * (LENGTH_S + 0.15), 10.0 + k * (LENGTH_S + 0.15) + LENGTH_S)
            for k in range(count)]  # fmt: skip


def _watts(t: Floats, spans: list[tuple[float, float]], interval: float, seed: int) -> Floats:
    """Readings, each the mean over its interval, of phases that really were at ``spans``."""
    watts = 2.0 + np.random.default_rng(seed).normal(0, 0.02, len(t))
    for (begin, end), level in zip(spans, LEVELS, strict=False):
        part = np.clip((t + interval / 2 - begin) / interval, 0, 1)
        part -= np.clip((t + interval / 2 - end) / interval, 0, 1)
        watts += (level - 2.0) * part
    return watts


@pytest.mark.parametrize("interval", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("gap_s", [0.0, 0.02, 0.3])
def test_gaps_between_jobs_that_waited_are_found(interval: float, gap_s: float) -> None:
    stated = _stated(6)
    late = [(5 - k) * (0.15 - gap_s) for k in range(6)]
    true = [(a + own, b + own) for (a, b), own in zip(stated, late, strict=True)]
    t = np.arange(0.0, 60.0, interval)
    for seed in range(10):
        watts = _watts(t, true, interval, seed)
        found = fit_shifts(t, watts, stated, DOUBTS, 0.0, interval)
        assert found is not None
        left = np.array(late) - found.shifts + found.offset
        assert (np.abs(left) <= found.u + interval / 2).all(), (seed, left, found.u)
        assert found.u.mean() < 0.7 * DOUBTS.mean()
        assert interval > 0.01 or found.u.max() < 0.05


def test_a_phase_without_a_step_keeps_its_doubt_and_has_that_of_the_offset() -> None:
    stated = _stated(6)
    t = np.arange(0.0, 60.0, 0.05)
    watts = _watts(t, [*stated[:2], (stated[2][0], stated[3][1]), *stated[4:]], 0.05, 1)
    doubts = np.full(6, 0.15)  # six fios, each with an end of its own
    found = fit_shifts(t, watts, stated, doubts, 0.0, 0.05)
    assert found is not None
    assert found.u[[2, 3]].min() > 0.3  # of its own time, and of what the others' rest on
    assert (np.abs(found.shifts + found.offset) <= found.u + 0.025).all()


def test_watts_without_a_step_say_nothing() -> None:
    t = np.arange(0.0, 60.0, 0.05)
    watts = 2.0 + np.random.default_rng(1).normal(0, 0.1, len(t))
    assert fit_shifts(t, watts, _stated(6), DOUBTS, 0.0, 0.05) is None


def test_phases_that_are_shorter_than_is_stated_are_not_moved() -> None:
    """fio counted 5 s in 4.6."""
    t = np.arange(0.0, 60.0, 0.05)
    watts = _watts(t, [(12.0 + 4.7 * k, 16.6 + 4.7 * k) for k in range(6)], 0.05, 1)
    assert fit_shifts(t, watts, _stated(6), DOUBTS, 0.0, 0.05) is None


def test_a_phase_that_was_not_seen_may_be_as_far_off_as_it_was_moved() -> None:
    """It drew what the drive draws at rest, and is moved as those beside it, whose times are less
    sure than its own."""
    stated = [(10.0 + 10.0 * k, 15.0 + 10.0 * k) for k in range(6)]
    doubts = np.array([0.05, 0.6, 0.1, 0.6, 0.05, 0.05])
    late = np.array([0.0, 0.5, 0.0, 0.5, 0.0, 0.0])
    seen = [(a + own, b + own) for (a, b), own in zip(stated, late, strict=True)]
    del seen[2]
    t = np.arange(0.0, 75.0, 0.02)
    for seed in range(5):
        found = fit_shifts(t, _watts(t, seen, 0.02, seed), stated, doubts, 0.0, 0.02)
        assert found is not None
        left = np.abs(late - found.shifts + found.offset)
        assert (left <= found.u + 0.01).all(), (left, found.u)
        assert found.u[[0, 1, 3, 4, 5]].max() < 0.06
