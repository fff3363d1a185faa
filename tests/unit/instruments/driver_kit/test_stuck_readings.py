from __future__ import annotations

import numpy as np
import pytest

from instruments.driver_kit.stuck_readings import StuckReadingDetector
from instruments.reading import Status


def reported(values: list[float]) -> list[Status | None]:
    watch = StuckReadingDetector()
    return [watch.check(value) for value in values]


def noisy(digits: float, count: int, seed: int = 1) -> list[float]:
    """Readings of a quiet input whose noise is ``digits`` (standard deviation) of the display."""
    return np.round(np.random.default_rng(seed).normal(1000, digits, count)).tolist()


@pytest.mark.parametrize("digits", [0.05, 0.2, 0.5, 1.0, 5.0, 100.0])
def test_an_honest_meter_is_never_blamed(digits: float) -> None:
    for seed in range(5):
        assert set(reported(noisy(digits, 20_000, seed))) == {None}


@pytest.mark.parametrize(("digits", "within"), [(1.0, 20), (100.0, 12), (0.5, 45)])
def test_a_stuck_value_is_noticed_soon_and_until_it_moves(digits: float, within: int) -> None:
    before = noisy(digits, 500)
    output = reported([*before, *[1001.0] * 200, *noisy(digits, 100, seed=2)])
    stuck = [index for index, status in enumerate(output) if status is Status.STUCK]
    assert 500 < stuck[0] <= 500 + within
    assert stuck == list(range(stuck[0], stuck[-1] + 1)), "one stretch: one event"
    assert 699 <= stuck[-1] <= 701


def test_being_stuck_does_not_count_as_noise() -> None:
    watch = StuckReadingDetector()
    for _ in range(5):
        for value in [*noisy(1.0, 60), *[1000.0] * 100]:
            last = watch.check(value)
        assert last is Status.STUCK


def test_readings_that_come_twice() -> None:
    output = reported([value for value in noisy(100.0, 200) for _ in range(2)])
    assert output[:40] == [None] * 40
    assert output[-1] is Status.DUPLICATE
    again = reported([*[v for v in noisy(100.0, 100) for _ in range(2)], *noisy(100.0, 50, seed=3)])
    assert again[-1] is None


def test_a_meter_that_never_changes_is_not_judged() -> None:
    assert set(reported([0.0] * 5000)) == {None}


def test_a_step_of_the_input_is_no_fault() -> None:
    quiet = noisy(1.0, 200)
    assert set(reported([*quiet, *[value + 5000 for value in quiet], *quiet])) == {None}


def test_after_a_restart_the_noise_is_still_known() -> None:
    watch = StuckReadingDetector()
    for value in noisy(100.0, 100):
        watch.check(value)
    watch.restart()
    assert [watch.check(7.0) for _ in range(12)][-1] is Status.STUCK
