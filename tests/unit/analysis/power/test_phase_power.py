"""Watts: hand-computed cases, and the wrong ways, each of which must be seen to be wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.estimate import Estimate
from labctl.analysis.power.budget import phase_energy, rail_result, total_watts
from labctl.analysis.power.interpolation import interpolated
from labctl.analysis.power.phase_power import phase_power
from labctl.analysis.power.volts_times_amps import rail_watts
from labctl.analysis.readings.channel_series import ChannelSeries, RailSeries, ordered
from labctl.analysis.readings.clock_fit import ClockMap
from labctl.analysis.readings.edge_lag import edge_lag, lag_problems, rail_lags
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.analysis.run.summary import summarise
from labctl.analysis.stats.uncertainty import expanded_u
from labctl.record.header import ChannelInfo, RailInfo
from labctl.record.layout import CLOCK_PAIR
from labctl.record.phase import Pattern, Phase, Role
from tests.unit.synthetic_run import (
    CHANNELS,
    IDLE,
    WORK,
    Bench,
    Load,
    Meter,
    build,
    good_meter,
)

S = 1_000_000_000


def series(
    name: str, t_s: np.ndarray, values: np.ndarray, aperture_s: float = 0.0, scale: float = 1.0
) -> ChannelSeries:
    interval = float(np.median(np.diff(t_s))) if len(t_s) > 1 else 0.1
    info = ChannelInfo(
        name,
        "voltage" if name.startswith("v") else "current",
        "",
        interval_s=interval,
        aperture_s=aperture_s,
        accuracy_of_reading=0.001,
        accuracy_floor=0.002,
    )
    stamps = np.rint(t_s * S).astype(np.int64)
    return ChannelSeries(info, stamps, np.asarray(values, dtype=float), ClockMap(), scale)


def rail(name: str, t_v: np.ndarray, v: np.ndarray, t_i: np.ndarray, i: np.ndarray) -> RailSeries:
    volts, amps = series(f"v{name}.voltage", t_v, v), series(f"i{name}.current", t_i, i)
    return RailSeries(RailInfo(name, 12.0, volts.info.name, amps.info.name), volts, amps)


def constant(name: str, volts: float, amps: float, seconds: float = 10.0) -> RailSeries:
    t = np.arange(0.0, seconds, 0.1)
    return rail(name, t, np.full(len(t), volts), t, np.full(len(t), amps))


def test_answers_that_came_late_widen_the_doubt_of_their_phase_alone() -> None:
    info = ChannelInfo("v.voltage", "voltage", "V", interval_s=0.1, time_u_s=0.01)
    late = np.array([(5 * S, 5 * S, 60_000_000)], CLOCK_PAIR)
    stamps = np.arange(100) * (S // 10)
    channel = ChannelSeries(info, stamps, np.ones(100), ClockMap(), late=late)
    assert channel.doubt_ns(4 * S, 6 * S) == 30e6
    assert channel.doubt_ns(6 * S, 8 * S) == 10e6


def test_the_sum_of_products_and_not_the_product_of_sums() -> None:
    """12 V · 1 A + 3.3 V · 0.1 A = 12.33 W. (12 + 3.3) · (1 + 0.1) = 16.83 W is wrong."""
    rails = [constant("12V", 12.0, 1.0), constant("3V3", 3.3, 0.1)]
    power = phase_power(rails, 0, 10 * S, 0)
    assert power.total is not None
    assert power.total.mean == pytest.approx(12.33)
    budgets = [rail_result(item, 10.0, 0.0, 0) for item in power.rails.values()]
    total = total_watts(power, budgets)
    assert total is not None
    assert total.value == pytest.approx(12.33)
    assert not total.covers(16.83)


def test_the_mean_of_products_and_not_the_product_of_means() -> None:
    """A rail that sags under load: 12 V · 1 A and 10 V · 3 A in turn is 21 W, not 11 V · 2 A."""
    t = np.arange(0.0, 10.0, 0.1)
    heavy = np.arange(len(t)) % 2 == 1
    sagging = rail("12V", t, np.where(heavy, 10.0, 12.0), t, np.where(heavy, 3.0, 1.0))
    power = phase_power([sagging], 0, 10 * S, 0).rails["12V"]
    assert power.watts.mean == pytest.approx(21.0, rel=0.005)
    assert power.together


def test_volts_are_taken_at_the_instant_of_the_amps() -> None:
    """V = 10 + t read at whole seconds, I = 2 A read half a second later: P = 2 · (10 + t)."""
    t = np.arange(0.0, 10.0)
    t_watts, watts = rail_watts(t[:-1] + 0.5, np.full(9, 2.0), t, 10.0 + t, 2.5)
    assert watts == pytest.approx(2.0 * (10.0 + t_watts))


def test_only_readings_wholly_inside_the_phase_count() -> None:
    """Windows of 1 s each second from 0.5 s on, phase 2.2 s … 7.8 s: those at 3.5 … 6.5 s."""
    t = np.arange(0.5, 10.0)
    amps = np.where((t > 2.7) & (t < 7.3), 1.0, 100.0)
    volts = series("v.voltage", t, np.full(len(t), 12.0), 1.0)
    item = RailSeries(RailInfo("12V", 12, "v", "i"), volts, series("i.current", t, amps, 1.0))
    power = phase_power([item], round(2.2 * S), round(7.8 * S), 0).rails["12V"]
    assert power.watts.n == 4
    assert power.watts.max == 12.0
    assert power.covered == pytest.approx(4 / 5.6)
    wider = phase_power([item], round(2.99 * S), round(7.01 * S), 20_000_000).rails["12V"]
    assert wider.watts.n == 2, "the doubt about the edges narrows what counts"


def test_a_dropout_is_missing_and_not_zero_watts() -> None:
    t = np.arange(0.0, 10.0, 0.1)
    kept = (t < 3) | (t >= 4.5)
    gap = rail("12V", t, np.full(len(t), 12.0), t[kept], np.full(int(kept.sum()), 1.0))
    power = phase_power([gap], 0, 10 * S, 0)
    found = power.rails["12V"]
    assert found.watts.mean == pytest.approx(12.0)
    assert found.watts.min == pytest.approx(12.0)
    assert found.covered == pytest.approx(0.85, abs=0.02)
    result = rail_result(found, 10.0, 0.0, 0)
    assert not result.watts.covers(0.85 * 12.0), "counted as 0 W it would be 10.2 W"


def test_what_a_gap_may_hide_widens_the_uncertainty() -> None:
    t = np.arange(0.0, 10.0, 0.1)
    amps = 1.0 + 0.3 * (np.arange(len(t)) % 2)
    kept = (t < 3) | (t >= 4.5)
    volts = np.full(len(t), 12.0)
    whole = phase_power([rail("12V", t, volts, t, amps)], 0, 10 * S, 0).rails["12V"]
    gap = phase_power([rail("12V", t, volts, t[kept], amps[kept])], 0, 10 * S, 0).rails["12V"]
    lines = {line.name: line.watts for line in rail_result(gap, 10.0, 0.0, 0).budget}
    seconds = 1.6 - 5 * 0.1 + 0.05  # two readings stand for half of five intervals each
    assert lines["not covered"] == pytest.approx(seconds / 10 * 1.8 / math.sqrt(3), rel=0.1)
    assert rail_result(gap, 10, 0, 0).watts.u > 1.1 * rail_result(whole, 10, 0, 0).watts.u


def test_volts_are_not_interpolated_over_a_gap_of_volts() -> None:
    t = np.arange(0.0, 10.0, 0.1)
    kept = (t < 3) | (t >= 4.5)
    holed = rail("12V", t[kept], np.full(int(kept.sum()), 12.0), t, np.full(len(t), 1.0))
    power = phase_power([holed], 0, 10 * S, 0).rails["12V"]
    assert power.watts.n == pytest.approx(85, abs=4)
    assert power.covered == pytest.approx(0.85, abs=0.03)


def test_a_gap_of_volts_is_bounded_by_the_current_that_was_read_in_it() -> None:
    """The drive falls from 20 W to 8 W while V is away: the readings that are left say 20 W."""
    t = np.arange(0.0, 10.0, 0.05)
    away = (t >= 8.3) & (t < 9.95)
    amps = np.where(away, 8.0, 20.0) / 12.0
    holed = rail("12V", t[~away], np.full(int((~away).sum()), 12.0), t, amps)
    found = phase_power([holed], 0, 10 * S, 0).rails["12V"]
    assert found.watts.std == pytest.approx(0.0, abs=1e-9)
    truth = float((12.0 * amps).mean())
    assert abs(found.watts.mean - truth) > 1.5
    assert rail_result(found, 10.0, 0.0, 0).watts.covers(truth)


def test_a_gap_of_both_may_have_been_at_the_level_of_the_phase_beside() -> None:
    t = np.arange(0.0, 10.0, 0.1)
    kept = (t < 3) | (t >= 4.5)
    tk = t[kept]
    gap = rail("12V", tk, np.full(len(tk), 12.0), tk, np.full(len(tk), 1.0))
    found = phase_power([gap], 0, 10 * S, 0).rails["12V"]
    assert found.unseen == pytest.approx(0.11)
    lines = {line.name: line.watts for line in rail_result(found, 10.0, 7.0, 0).budget}
    assert lines["not covered"] == pytest.approx(0.11 * 7.0 / math.sqrt(3), rel=0.05)


def test_a_rail_that_was_hardly_read_has_no_watts() -> None:
    """V is away for 3.7 s of 4 s in which the drive begins to throttle."""
    t = np.arange(0.025, 4.0, 0.05)
    tv = t[t < 0.3]
    holed = rail("12V", tv, np.full(len(tv), 12.0), t, np.where(t < 1.0, 1.7, 1.4))
    power = phase_power([holed, constant("3V3", 3.3, 0.1, 4.0)], 0, 4 * S, 0)
    assert set(power.rails) == {"3V3"}
    assert power.total is None
    assert power.missing[0].startswith("12V: no watts, readings cover only ")
    assert power.missing[0].endswith("% of the phase (at least 80% are needed)")


@pytest.mark.parametrize("where", [(0.0, 2.5), (3.0, 5.5), (7.5, 10.0)])
def test_a_gap_counts_wherever_it_lies(where: tuple[float, float]) -> None:
    t = np.arange(0.05, 10.0, 0.1)
    kept = t[(t < where[0]) | (t >= where[1])]
    gap = rail("12V", t, np.full(len(t), 12.0), kept, np.full(len(kept), 1.0))
    assert "cover only 7" in phase_power([gap], 0, 10 * S, 0).missing[0]


@given(st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_a_short_phase_keeps_its_slow_meters(volts_at: float, amps_at: float) -> None:
    """2 S/s and 3 s: the readings at both edges straddle them, which is no gap."""
    tv, ti = np.arange(volts_at, 20.0, 0.5), np.arange(amps_at, 20.0, 0.5)
    volts = series("v.voltage", tv, np.full(len(tv), 12.0), 0.45)
    amps = series("i.current", ti, np.full(len(ti), 1.0), 0.45)
    slow = RailSeries(RailInfo("12V", 12.0, "v", "i"), volts, amps)
    power = phase_power([slow], 6 * S, 9 * S, 20_000_000)
    assert power.total is not None
    assert power.rails["12V"].unseen == 0.0


def test_without_one_rail_there_is_no_total() -> None:
    nothing = rail("3V3", np.array([1.0]), np.array([3.3]), np.array([1.0]), np.array([0.1]))
    power = phase_power([constant("12V", 12.0, 1.0), nothing], 0, 10 * S, 0)
    assert set(power.rails) == {"12V"}
    assert power.total is None
    assert "3V3: no watts, only 1 voltage and 1 current" in power.missing[0]
    assert total_watts(power, [rail_result(power.rails["12V"], 10.0, 0.0, 0)]) is None


def test_what_is_not_a_number_is_not_a_reading() -> None:
    t = np.arange(0.0, 10.0, 0.1)
    amps = np.full(len(t), 1.0)
    amps[20:25] = np.nan
    power = phase_power([rail("12V", t, np.full(len(t), 12.0), t, amps)], 0, 10 * S, 0)
    assert power.rails["12V"].watts.mean == pytest.approx(12.0)
    assert power.rails["12V"].watts.n == len(t) - 5
    amps[20:25] = [np.inf, -np.inf, np.nan, np.inf, -np.inf]
    power = phase_power([rail("12V", t, np.full(len(t), 12.0), t, amps)], 0, 10 * S, 0)
    assert power.rails["12V"].watts.n == len(t) - 5


def test_an_edge_is_seen_though_readings_are_not_numbers() -> None:
    t = np.arange(0.03, 10.0, 0.1)
    amps = np.where(t < 5, 1.0, 2.0) + 0.001 * np.sin(np.arange(len(t)))
    amps[::4] = np.nan
    amps[1::16] = np.inf
    amps[5::16] = -np.inf
    phases = [Phase(i, Role.MEASURE, "", Pattern.RANDREAD, 5.0) for i in range(2)]
    spans = [
        PhaseSpan(phases[0], "completed", 0, 5 * S),
        PhaseSpan(phases[1], "completed", 5 * S, 10 * S),
    ]
    lag = edge_lag("12V", series("i.current", t, amps, 0.05), spans, None)
    assert lag is not None
    assert lag.consistent
    assert math.isfinite(lag.lag_ms) and math.isfinite(lag.u_ms)


def sagging(
    late_s: float, digits: int, phase_s: float = 5.013
) -> tuple[RailSeries, list[PhaseSpan]]:
    """12 V behind 0.1 Ω, 1 A and 2 A by turns; the voltmeter's times are ``late_s`` late."""
    rng = np.random.default_rng(1)
    t = np.arange(0.03, 8 * phase_s, 0.1)
    fine = t[:, None] + np.linspace(-0.025, 0.025, 51)[None, :]  # each aperture of 50 ms
    amps = 1.0 + ((fine // phase_s) % 2).mean(axis=1)
    volts = np.round(12.0 - 0.1 * amps + rng.normal(0, 2e-4, len(t)), digits)
    info = RailInfo("12V", 12.0, "v.voltage", "i.current")
    current = series("i.current", t, amps + rng.normal(0, 1e-3, len(t)), 0.05)
    voltage = series("v.voltage", t + late_s, volts, 0.05)
    edges = [round(i * phase_s * S) for i in range(9)]
    phases = [Phase(i, Role.MEASURE, "", Pattern.RANDREAD, phase_s) for i in range(8)]
    spans = [PhaseSpan(one, "completed", *edges[i : i + 2]) for i, one in enumerate(phases)]
    return RailSeries(info, voltage, current), spans


def test_edges_between_the_same_two_readings_tell_no_more_than_one() -> None:
    """Phases of 5 s and a reading each 0.1 s: each edge lies 45 ms behind the end of one reading's
    aperture and 5 ms before the next, and may be anywhere between: −20 ms ± 25 ms."""
    rail_, spans = sagging(0.0, 6, phase_s=5.0)
    for lag in rail_lags(rail_, spans, None):
        assert lag.edges == 7 and lag.consistent
        assert lag.lag_ms == pytest.approx(-20.0, abs=2.0)
        assert lag.u_ms == pytest.approx(2 * 25 / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize("late_ms", [0.0, 40.0, -25.0])
@pytest.mark.parametrize("digits", [6, 2])
def test_each_channel_of_a_rail_has_its_lag(late_ms: float, digits: int) -> None:
    """Seven edges; the voltage sags by 0.1 V, ten digits of a coarse meter."""
    rail_, spans = sagging(late_ms * 1e-3, digits)
    amps, volts = rail_lags(rail_, spans, None)
    assert (amps.channel, volts.channel) == ("i.current", "v.voltage")
    assert amps.consistent and abs(amps.lag_ms) <= amps.u_ms and amps.edges == 7
    assert abs(volts.lag_ms - late_ms) <= 1.5 * volts.u_ms
    assert volts.u_ms < 10.0
    assert volts.consistent is (late_ms == 0.0)
    told = lag_problems((amps, volts))
    assert len(told) == (late_ms != 0.0)
    assert all(line.startswith("12V: v.voltage follows the workload ") for line in told)


def test_one_edge_alone_contradicts_no_clock() -> None:
    """The workload itself may have stepped late there: only the scatter of edges shows that."""
    rail_, spans = sagging(0.2, 6)
    few, two = rail_lags(rail_, spans[:2], None)[1], rail_lags(rail_, spans[:3], None)[1]
    assert (few.edges, two.edges) == (1, 2)
    assert few.lag_ms > 2 * few.u_ms and few.consistent
    assert not two.consistent


def test_a_channel_without_a_step_has_no_lag() -> None:
    """A voltmeter of one digit in 12 V does not see the sag."""
    rail_, spans = sagging(0.0, 0)
    assert [lag.channel for lag in rail_lags(rail_, spans, None)] == ["i.current"]


@pytest.mark.parametrize("count", [10, 300_000])
def test_readings_in_order_are_left_as_they_are(count: int) -> None:
    stamps, raw = np.arange(count), np.ones(count)
    same_stamps, same_raw, problems = ordered(stamps, raw)
    assert same_stamps is stamps and same_raw is raw
    assert problems == ()


@pytest.mark.parametrize("place", [3, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 299_998])
def test_readings_out_of_order_are_sorted(place: int) -> None:
    stamps = np.arange(300_000)
    stamps[[place, place + 1]] = stamps[[place + 1, place]]
    raw = stamps.astype(float)
    sorted_stamps, sorted_raw, problems = ordered(stamps, raw)
    assert (sorted_stamps == np.arange(300_000)).all() and (sorted_raw == sorted_stamps).all()
    assert problems == ("readings out of order in 1 place, sorted by time",)


def test_readings_twice_or_not_numbers_are_dropped() -> None:
    stamps = np.array([1, 2, 2, 3, 4, 5])
    raw = np.array([1.0, 2.0, 9.0, np.nan, np.inf, 5.0])
    kept_stamps, kept, problems = ordered(stamps, raw)
    assert kept_stamps.tolist() == [1, 2, 5] and kept.tolist() == [1.0, 2.0, 5.0]
    assert problems == (
        "2 readings not a number, skipped",
        "1 reading with the time of another, dropped",
    )


def test_rails_of_different_rates_meet_on_the_slower_grid() -> None:
    slow, fast = np.arange(0.0, 10.0, 0.5), np.arange(0.0, 10.0, 0.01)
    a = rail("12V", slow, np.full(20, 12.0), slow, 1.0 + slow)
    b = rail("3V3", fast, np.full(1000, 3.0), fast, 2.0 - 0.1 * fast)
    total = phase_power([a, b], 0, 10 * S, 0).total
    assert total is not None
    assert total.n == 20
    watts = 12 * (1 + slow) + 3 * (2 - 0.1 * slow)
    by_hand = (watts[:-1] + watts[1:]).sum() * 0.25 + watts[-1] * 0.5  # joules of 10 s
    assert total.mean == pytest.approx(by_hand / 10)
    assert total.max == pytest.approx(12 * 10.5 + 3 * 1.05)


@given(st.integers(0, 2**32 - 1), st.integers(2, 200), st.integers(1, 200))
def test_interpolation_is_that_of_numpy(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.5, 1.5, n))
    values = rng.normal(size=n)
    wanted = np.sort(rng.uniform(t[0] - 1, t[-1] + 1, m))
    result, known = interpolated(wanted, t, values, 1e9)
    assert result == pytest.approx(np.interp(wanted, t, values))
    assert known is None


def _over_time(t: np.ndarray, values: np.ndarray, begin: float, end: float) -> float:
    """The mean by the trapezoidal rule; at the ends the level of the reading next to them."""
    t, values = np.array([begin, *t, end]), np.array([values[0], *values, values[-1]])
    return float(np.trapezoid(values, t) / (end - begin))


@pytest.mark.long
@given(st.integers(0, 2**32 - 1))
def test_long_phases_worked_on_in_parts_give_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t_v = np.cumsum(rng.uniform(0.8e-4, 1.2e-4, 90_000))
    t_i = t_v + rng.uniform(-0.3e-4, 0.3e-4)
    v, i = 12 + 0.01 * rng.normal(size=90_000), 1 + 0.1 * rng.normal(size=90_000)
    begin, end = round((t_v[10] + 4e-5) * S), round((t_v[-10] + 4e-5) * S)
    power = phase_power([rail("12V", t_v, v, t_i, i)], begin, end, 0).rails["12V"]
    inside_i = (t_i * S >= begin) & (t_i * S <= end)
    inside_v = (t_v * S >= begin) & (t_v * S <= end)
    expected = np.interp(t_i[inside_i], t_v[inside_v], v[inside_v]) * i[inside_i]
    assert power.watts.n == len(expected)
    span = begin / S, end / S
    mean = _over_time(t_i[inside_i], expected, *span)
    assert power.watts.mean == pytest.approx(mean, rel=1e-8)
    assert power.watts.min == pytest.approx(float(expected.min()))
    assert power.watts.std == pytest.approx(float(expected.std(ddof=1)), rel=1e-3)
    assert power.volts.mean == pytest.approx(
        _over_time(t_v[inside_v], v[inside_v], *span), rel=1e-8
    )
    assert power.covered > 0.999


@pytest.mark.parametrize("faster_s", [0.07, 0.05, 0.3])
def test_an_interval_that_changes_with_the_load_gives_no_bias(faster_s: float) -> None:
    """6 W for 30 s, a reading each 100 ms, then 12 W for 30 s at another interval: 9 W."""
    t = np.concatenate([np.arange(0.02, 30.0, 0.1), np.arange(30.02, 60.0, faster_s)])
    amps = np.where(t < 30.0, 0.5, 1.0)
    power = phase_power([rail("12V", t, np.full(len(t), 12.0), t, amps)], 0, 60 * S, 0)
    result = rail_result(power.rails["12V"], 60.0, 0.0, 0)
    assert result.watts.value == pytest.approx(9.0, abs=6 * faster_s / 60)
    assert result.watts.covers(9.0) and result.covered > 0.99


def test_readings_lost_at_random_are_fewer_samples() -> None:
    """20 % lost: 30 such phases have a number, which holds the truth within 1 %."""
    held = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        t = np.arange(0.02, 60.0, 0.1)
        amps = 0.8 * (1 + 0.05 * rng.normal(size=len(t)))
        kept = rng.random(len(t)) > 0.2
        tk = t[kept]
        item = rail("12V", tk, np.full(len(tk), 12.0), tk, amps[kept])
        result = rail_result(phase_power([item], 0, 60 * S, 0).rails["12V"], 60.0, 0.0, 0)
        assert result.watts.u < 0.01 * result.watts.value
        held.append(result.watts.covers(9.6))
    assert np.mean(held) >= 0.9


def test_what_the_readings_integrate_is_known_and_not_sampled() -> None:
    """The same scatter of readings of 100 ms each 100 ms, of 20 ms, and of no known length: U of
    the phase; how it would come out again does not depend on it."""
    rng = np.random.default_rng(5)
    t = np.arange(0.05, 60.0, 0.1)
    amps = 0.8 * (1 + 0.05 * rng.normal(size=len(t)))
    us, again = [], []
    for aperture_s in (0.0999, 0.02, 0.0):
        volts = series("v.voltage", t, np.full(len(t), 12.0), aperture_s)
        item = RailSeries(RailInfo("12V", 12, "v", "i"), volts, series("i.c", t, amps, aperture_s))
        power = phase_power([item], 0, 60 * S, 0).rails["12V"]
        us.append(power.scatter.u)
        again.append(power.process_scatter.u)
    assert us[1] == pytest.approx(us[2] * math.sqrt(0.8), rel=0.01)
    assert us[0] < 0.2 * us[1]
    assert again[0] == pytest.approx(again[2], rel=0.05)


def test_the_noise_of_a_meter_is_not_taken_for_what_it_integrates() -> None:
    """Without stated limits of error all that scatters may be the meter's own noise."""
    rng = np.random.default_rng(6)
    t = np.arange(0.05, 60.0, 0.1)
    volts = series("v.voltage", t, np.full(len(t), 12.0), 0.0999)
    amps = series("i.current", t, 0.8 + 0.04 * rng.normal(size=len(t)), 0.0999)
    unknown = replace(amps, info=replace(amps.info, accuracy_floor=0.0))
    found = [
        phase_power([RailSeries(RailInfo("12V", 12, "v", "i"), volts, one)], 0, 60 * S, 0)
        for one in (amps, unknown)
    ]
    known, plain = (one.rails["12V"].scatter.u for one in found)
    assert plain == pytest.approx(12 * 0.04 / math.sqrt(len(t)), rel=0.1)
    assert known < 0.1 * plain


def test_a_step_in_the_middle_costs_hardly_anything() -> None:
    """0.6 A, then 1.2 A, a minute in all: half a reading's interval is all that is unknown."""
    t = np.arange(0.02, 60.0, 0.1)
    amps = np.where(t < 31.3, 0.6, 1.2)
    power = phase_power([rail("12V", t, np.full(len(t), 12.0), t, amps)], 0, 60 * S, 0)
    found = power.rails["12V"]
    truth = 12 * (0.6 * 31.3 + 1.2 * 28.7) / 60
    assert abs(found.watts.mean - truth) < found.scatter.expanded_u < 0.002 * truth
    assert found.process_scatter.expanded_u > 0.02 * truth


def test_the_budget_by_hand() -> None:
    """12 V · 1 A, limits 0.1 % + 2 mV and 0.1 % + 2 mA: rectangular, each limit over √3."""
    power = phase_power([constant("12V", 12.0, 1.0)], 0, round(9.9 * S), 0).rails["12V"]
    lines = {line.name: line.watts for line in rail_result(power, 9.9, 0.0, 0).budget}
    root = math.sqrt(3)
    assert lines["voltage gain"] == pytest.approx(0.012 / root)
    assert lines["voltage floor"] == pytest.approx(0.002 / root)
    assert lines["current gain"] == pytest.approx(0.012 / root)
    assert lines["current floor"] == pytest.approx(0.024 / root)
    assert lines["scatter"] == pytest.approx(0.0, abs=1e-9)
    # the largest limit is used up; of both gains together, 4.55 % are further out on its side
    expected = 0.024 + 2 * 0.012 - 0.012 * math.sqrt(8 * (1 - 0.9545))
    assert rail_result(power, 9.9, 0.0, 0).watts.u == pytest.approx(expected, rel=5e-3)


def test_errors_of_one_logger_are_one_error_whatever_the_channel_and_range() -> None:
    """Volts, and volts across a shunt, on two ranges of one instrument: both gains add up."""
    t = np.arange(0.0, 10.0, 0.1)
    volts = series("v.ch1", t, np.full(100, 12.0))
    across = series("v.ch2", t, np.full(100, 0.05), scale=20.0)
    volts = replace(volts, info=replace(volts.info, range=20.0))
    across = replace(across, info=replace(across.info, range=0.1, accuracy_floor=1e-6))
    info = RailInfo("12V", 12.0, "v.ch1", "v.ch2", shunt_ohm=0.05)
    power = phase_power([RailSeries(info, volts, across)], 0, 10 * S, 0).rails["12V"]
    budget = rail_result(power, 10.0, 0.0, 0).budget
    sources = {line.name: line.source for line in budget}
    assert sources["voltage gain"] == sources["current gain"] == "v voltage gain"
    assert sources["voltage floor"] == sources["current floor"] == "v voltage floor"
    assert expanded_u(budget) >= 2 * 0.001 * 12.0


def test_a_shunt_turns_volts_into_amps_with_its_tolerance() -> None:
    """10 mV over 0.01 Ω (±0.5 %) is 1 A; a floor of 2 mV would be 0.2 A."""
    t = np.arange(0.0, 10.0, 0.1)
    volts = series("v.voltage", t, np.full(100, 12.0))
    across = series("s.voltage", t, np.full(100, 0.010), scale=100.0)
    info = RailInfo("12V", 12.0, "v", "s", shunt_ohm=0.01, shunt_tolerance_pct=0.5)
    power = phase_power([RailSeries(info, volts, across)], 0, 10 * S, 0).rails["12V"]
    assert power.watts.mean == pytest.approx(12.0)
    lines = {line.name: line.watts for line in rail_result(power, 10.0, 0.0, 0).budget}
    assert lines["shunt"] == pytest.approx(0.005 * 12 / math.sqrt(3))
    assert lines["current floor"] == pytest.approx(12 * 0.2 / math.sqrt(3))


def test_alignment_counts_with_the_step_at_the_edge() -> None:
    power = phase_power([constant("12V", 12.0, 1.0)], 0, 10 * S, 5_000_000).rails["12V"]
    lines = {line.name: line.watts for line in rail_result(power, 10.0, 6.0, 5_000_000).budget}
    assert lines["alignment"] == pytest.approx(0.005 / 10 * 6 / math.sqrt(3))


def test_energy_is_watts_times_duration_and_doubts_both() -> None:
    joules = phase_energy(Estimate(10.0, 0.1), 180.0, 0)
    assert (joules.value, joules.u) == (pytest.approx(1800.0), pytest.approx(18.0))
    assert phase_energy(Estimate(10.0, 0.1), 180.0, 10**9).u > 20.0


def test_the_truth_lies_within_the_stated_uncertainty(tmp_path: Path) -> None:
    """Meters off by up to their limits, clocks by seconds and ±50 ppm, dependent noise."""
    covered, relative = [], []
    for seed in range(30):
        rng = np.random.default_rng(1000 + seed)
        rate = (2.0, 10.0, 50.0)[seed % 3]
        meters = {name: good_meter(name, rng, rate) for name in CHANNELS}
        run = build(tmp_path / str(seed), Bench(seed=seed, meters=meters))
        for item in summarise(run.record).phases:
            assert item.watts is not None
            covered.append(item.watts.covers(run.mean_watts[item.phase.index]))
            relative.append(item.watts.u / item.watts.value)
            covered += [
                result.watts.covers(run.rail_watts[name][item.phase.index])
                for name, result in item.rails.items()
            ]
    assert len(covered) > 500
    assert np.mean(covered) >= 0.95
    assert np.median(relative) < 0.01


def test_an_unsynchronised_clock_gives_no_watts_and_says_why(tmp_path: Path) -> None:
    meters = {"i12.current": Meter(device_clock=True, clock_offset_s=4.0, never_asked=True)}
    run = build(tmp_path, Bench(meters=meters))
    summary = summarise(run.record)
    assert all(item.watts is None for item in summary.phases)
    assert all("3V3" in item.rails and "12V" not in item.rails for item in summary.phases)
    assert any("i12.current" in line and "without samples" in line for line in summary.problems)


def test_a_device_clock_taken_for_the_hosts_would_be_wrong(tmp_path: Path) -> None:
    """The same run read without mapping: four seconds off, the phases' means mix."""
    rng = np.random.default_rng(0)
    meters = {name: replace(good_meter(name, rng), clock_offset_s=4.0) for name in CHANNELS}
    loads = [replace(load, duration_s=6.0) for load in WORK]
    run = build(tmp_path, Bench(loads=loads, meters=meters))
    summary = summarise(run.record)
    right = [item.watts.covers(run.mean_watts[item.phase.index]) for item in summary.phases]  # type: ignore[union-attr]
    assert all(right)
    header = run.path / "run.json"
    text = header.read_text().replace('"clock": "device"', '"clock": "host"')
    header.write_text(text)
    for name in CHANNELS:
        file = run.path / "channels" / name
        readings = np.fromfile(file, dtype=[("t", "<i8"), ("v", "<f8")])
        readings["t"] += 1_700_000_000_000_000_000 - 100 * S
        readings.tofile(file)
    unmapped = summarise(run.record)
    wrong = [
        item.watts is None or not item.watts.covers(run.mean_watts[item.phase.index])
        for item in unmapped.phases
    ]
    assert sum(wrong) >= 4
    assert any(not lag.consistent for lag in unmapped.edge_lags) or not unmapped.edge_lags


def test_a_lost_meter_leaves_a_hole_and_not_a_lower_mean(tmp_path: Path) -> None:
    meters = {"i12.current": Meter(lost=((16.0, 17.5),))}
    run = build(tmp_path, Bench(meters=meters, noise_pct=0.5))
    item = summarise(run.record).phases[1]
    assert item.watts is not None
    assert item.watts.covers(run.mean_watts[1])
    assert item.rails["12V"].covered == pytest.approx(0.85, abs=0.03)
    assert any("12V: readings cover" in note for note in item.notes)


def test_a_clock_that_is_off_is_seen_in_the_data(tmp_path: Path) -> None:
    """A current meter whose times are 60 ms late though it says they are good to 1 ms."""
    loads = (IDLE, *(Load(0.4 + 0.4 * (i % 2), 0.4, 8.0, 1e5) for i in range(8)))
    run = build(tmp_path, Bench(loads=loads, noise_pct=1.0))
    honest = {lag.channel: lag for lag in summarise(run.record).edge_lags}["i12.current"]
    assert honest.consistent
    assert abs(honest.lag_ms) <= honest.u_ms + 1
    file = run.path / "channels" / "i12.current"
    readings = np.fromfile(file, dtype=[("t", "<i8"), ("v", "<f8")])
    readings["t"] += 60_000_000
    readings.tofile(file)
    late = {lag.channel: lag for lag in summarise(run.record).edge_lags}["i12.current"]
    assert late.lag_ms == pytest.approx(60.0, abs=max(5.0, late.u_ms))
    assert not late.consistent
    told = [line for line in summarise(run.record).problems if line.startswith("12V: ")]
    assert len(told) == 1 and "clock's bound" in told[0]
