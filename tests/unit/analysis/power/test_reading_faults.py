"""Readings that are repeated, cut off or lost with the load, and digits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.power.phase_power import phase_power
from labctl.analysis.power.rail_power import RailPower
from labctl.analysis.power.reading_faults import (
    LOST_WITH_LOAD,
    LossTest,
    RepeatCounter,
    Repeats,
    clipped,
    digit_of,
    stuck_in,
)
from labctl.analysis.readings.channel_series import RailSeries
from labctl.record.header import RailInfo
from tests.unit.analysis.power.test_phase_power import series

S = 1_000_000_000


def counted(values: np.ndarray, cut: int | None = None) -> Repeats:
    counter = RepeatCounter()
    for part in [values] if cut is None else [values[:cut], values[cut:]]:
        counter.add(part)
    return counter.result()


@given(st.lists(st.integers(0, 2), min_size=2, max_size=60), st.integers(1, 59))
def test_repeats_are_counted_whatever_the_parts(digits: list[int], cut: int) -> None:
    values = np.array(digits, float)
    found = counted(values, min(cut, len(values) - 1))
    assert found == counted(values)
    assert found.equal == int((np.diff(values) == 0).sum())
    runs = [len(run) for run in "".join("=" if d == 0 else " " for d in np.diff(values)).split()]
    assert found.longest == max(runs, default=0) + 1
    moves = np.abs(np.diff(values))
    assert found.least_move == min(moves[moves > 0], default=math.inf)
    assert found.least_moves == int((moves == found.least_move).sum())
    assert found.at_max == int((values == values.max()).sum())
    below = values[values < values.max()]
    assert found.below_max == (int((below == below.max()).sum()) if len(below) else 0)


def noisy(seed: int, level: float = 0.8, n: int = 600) -> np.ndarray:
    return level + 0.01 * np.random.default_rng(seed).normal(size=n)


def test_a_value_that_stays_from_one_load_to_the_next_is_stuck() -> None:
    held = noisy(0)
    held[300:] = held[300]
    rest = np.full(600, held[300])
    phases = [counted(one) for one in (noisy(1, 0.2), held, rest, noisy(2, 1.2))]
    assert stuck_in(phases, [False, True, True, True]) == {1, 2}


def test_a_resting_drive_may_draw_just_one_digit() -> None:
    quiet = np.full(600, 0.003)
    phases = [counted(one) for one in (quiet, noisy(1), quiet.copy())]
    assert stuck_in(phases, [False, True, False]) == set()


def test_a_coarse_meter_is_not_stuck() -> None:
    """Volts of 10 mV digits are the same for minutes, and twitch at the edge of a digit."""
    rng = np.random.default_rng(3)
    phases = [counted(np.round(12.063 + 0.001 * rng.normal(size=600), 2)) for _ in range(4)]
    assert stuck_in(phases, [False, True, True, True]) == set()


@pytest.mark.parametrize("sag", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("seed", range(40))
def test_a_value_that_drifts_within_two_digits_is_not_stuck(seed: int, sag: float) -> None:
    """Eight readings a phase of a voltmeter whose mean moves by a digit in half a minute: in the
    middle of a digit all are equal, at its edge no two are; and the rail may sag under load."""
    rng = np.random.default_rng(seed)
    volts = 3.3105 + 0.001 * np.sin(np.arange(48) / 14 + rng.uniform(0, 6))
    readings = np.round(volts + 0.0001 * rng.normal(size=48) + 0.0004 * (-1) ** np.arange(48), 3)
    phases = [counted(one) for one in readings.reshape(6, 8) - np.eye(6, 8) * sag]
    assert stuck_in(phases, [False, True, True, True, True, False]) == set()


def test_many_equal_maxima_are_a_wall() -> None:
    assert clipped(counted(np.minimum(noisy(4), 0.805)), None)
    assert clipped(counted(np.minimum(noisy(4, n=50), 0.82)), 0.82) is bool(
        (noisy(4, n=50) >= 0.82).sum() >= 3
    )
    assert not clipped(counted(noisy(4)), 0.8)
    assert not clipped(counted(np.tile([0.2, 1.8], 300)), None), "two levels without noise"
    assert not clipped(counted(np.round(noisy(4), 2)), None), "a coarse meter"
    millivolts = [
        1,
        0,
        1,
        1,
        1,
        1,
        0,
        1,
        0,
        1,
        2,
        5,
        6,
        6,
        5,
        6,
        6,
        5,
        5,
        6,
        6,
        5,
        5,
        5,
        6,
        5,
        6,
        5,
    ]
    assert not clipped(counted(3.3 + np.array(millivolts) / 1e3), 22.0), "few coarse readings"


def power_of(lost: np.ndarray, amps: np.ndarray, ohm: float = 0.05) -> RailPower:
    t = np.arange(len(amps)) * 0.1 + 0.05
    volts = 12.0 - ohm * amps + 1e-4 * np.random.default_rng(0).normal(size=len(t))
    item = RailSeries(
        RailInfo("12V", 12, "v", "i"),
        series("v.voltage", t, volts),
        series("i.current", t[~lost], amps[~lost]),
    )
    return phase_power([item], 0, round(len(t) * 0.1 * S), 0).rails["12V"]


def test_readings_that_are_lost_while_the_volts_sag_are_lost_with_the_load() -> None:
    amps = noisy(5, 0.5)
    for begin in range(40, 600, 70):
        amps[begin : begin + 5] += 0.6
    assert power_of(amps > 0.8, amps).lost_at > LOST_WITH_LOAD
    at_random = [
        power_of(np.random.default_rng(seed).random(600) < 0.1, amps).lost_at for seed in range(20)
    ]
    assert max(np.abs(at_random)) < LOST_WITH_LOAD


def test_gaps_of_one_stall_are_one_occurrence_whatever_the_load_was_just_then() -> None:
    """A busy host loses a tenth of a second five times within two, while the drive is not yet
    throttled: that was in the hot part of the phase by chance."""
    amps = noisy(6, 0.2) + np.where(np.arange(600) < 120, 1.0, 0.0)
    for begin in range(0, 580, 20):
        lost = np.zeros(600, dtype=bool)
        lost[begin + 1 : begin + 20 : 4] = True
        assert abs(power_of(lost, amps).lost_at) < LOST_WITH_LOAD, begin


def test_inrush_in_a_doubtful_edge_may_have_been_in_the_phase() -> None:
    """2.4 A for 0.2 s where the time is not known to 0.2 s: what was left out counts."""
    t = np.arange(0.05, 14.0, 0.1)
    amps = np.where((t > 5.0) & (t < 9.0), 0.8, 0.1)
    amps[(t > 4.9) & (t < 5.1)] = 2.4
    current = series("i.current", t, amps, 0.02)
    doubtful = replace(current, info=replace(current.info, time_u_s=0.2))
    volts = series("v.voltage", t, np.full(len(t), 12.0), 0.02)
    for one, expected in ((current, 0.0), (doubtful, 1.6 * 12 * 0.3 / 4)):
        item = RailSeries(RailInfo("12V", 12, "v", "i"), volts, one)
        power = phase_power([item], 5 * S, 9 * S, 0).rails["12V"]
        assert power.edge_watts == pytest.approx(expected, abs=0.2)


def test_all_moves_that_meet_the_same_load_count_whatever_the_rounding_of_their_sums() -> None:
    """Two gaps in a level of 35 parts: 32 of 1024 moves meet as much, more than one in 40."""
    t = np.arange(1024) * 1e6 + 5e5
    for seed in range(10):
        watts = np.random.default_rng(seed).uniform(0.2, 0.9, 1024)
        watts[300:335] = 1.5
        losses = LossTest(1024e6)
        losses.add(t, watts, np.array([310, 313]), t, np.full(1024, 12.0))
        assert losses.lost_at((float(watts.mean()), float(watts.var())), (12.0, 0.0)) == 0


def test_the_digit_of_values_that_move_by_whole_ones_is_found() -> None:
    t = np.arange(0.0, 60.0, 0.1)
    whole = series("i.current", t, np.repeat([0.003, 0.005, 0.004], 200))
    assert digit_of(whole) == pytest.approx(0.001)
    assert digit_of(series("i.current", t, noisy(1))) == 0.0
