"""Ticks of polled meters: one in each period, dithered or not."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from instruments.driver_kit import polling_ticks
from instruments.driver_kit.polling_ticks import Ticks

S = 1_000_000_000
PERIOD_S = 0.18


class _HostTime:
    """A clock that a sleep moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(polling_ticks.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(polling_ticks.time, "sleep", self.work)

    def work(self, seconds: float) -> None:
        self.now += seconds

    def ticks(self, ticks: Ticks, count: int, busy_s: float) -> NDArray[np.float64]:
        """When the ticks come while each is followed by ``busy_s`` of work."""
        ticks.restart()
        found = []
        while len(found) < count:
            if ticks.wait(0.5):
                found.append(self.now)
                self.work(busy_s)
        return np.array(found) - found[0]


@pytest.fixture
def host_time(monkeypatch: pytest.MonkeyPatch) -> _HostTime:
    return _HostTime(monkeypatch)


def test_regular_ticks_do_not_drift(host_time: _HostTime) -> None:
    t = host_time.ticks(Ticks(0.1), 100, 0.03)
    assert t == pytest.approx(np.arange(100) * 0.1)


def test_a_dithered_tick_is_anywhere_in_its_period_and_there_is_one_in_each(
    host_time: _HostTime,
) -> None:
    t = host_time.ticks(Ticks(0.1, dither=True, draws=Random(1)), 4000, 0.001)[1:]
    assert (t // 0.1).tolist() == pytest.approx(np.arange(1, 4000), abs=0.01)
    places = np.sort(t / 0.1 % 1)
    assert np.abs(places - np.linspace(0, 1, len(places))).max() < 0.03  # Kolmogorov: 1 in 1000
    again = host_time.ticks(Ticks(0.1, dither=True, draws=Random(1)), 4000, 0.001)[1:]
    assert again == pytest.approx(t)


def test_dithered_ticks_keep_the_time_that_a_reading_takes(host_time: _HostTime) -> None:
    t = host_time.ticks(Ticks(0.1, dither=True, least_s=0.05, draws=Random(2)), 1000, 0.001)
    assert np.diff(t).min() >= 0.05 - 1e-9
    assert t[-1] == pytest.approx(99.9, abs=0.3)


@pytest.mark.parametrize("busy_s", [0.09, 0.12, 0.25])
def test_a_meter_that_is_busy_for_long_is_asked_as_often_as_it_can(
    host_time: _HostTime, busy_s: float
) -> None:
    t = host_time.ticks(Ticks(0.1, dither=True, draws=Random(3)), 1000, busy_s)
    steps = np.diff(t)
    assert steps.min() >= busy_s - 1e-9
    assert steps.mean() < busy_s + 0.06
    if busy_s > 0.1:
        assert steps.std() > 0.01, "at the pace of the meter, which a load may have too"


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5, 2.0, 3.0, 0.37])
def test_a_load_in_step_with_the_interval_is_read_right(host_time: _HostTime, ratio: float) -> None:
    """The error of the mean stays within what independent readings would have."""
    period_s = 0.1 * ratio
    errors = []
    for seed in range(300):
        t = host_time.ticks(Ticks(0.1, dither=True, draws=Random(seed)), 100, 0.02)
        on = ((t + 0.013 * seed) / period_s) % 1 < 0.3
        errors.append(on.mean() - 0.3)
    independent = (0.3 * 0.7 / 100) ** 0.5
    assert np.std(errors) < 1.15 * independent
    assert abs(np.mean(errors)) < 4 * independent / 300**0.5
