"""The resistance behind a rail, and the watts that means over an aperture are too high by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from labctl.analysis.power import rail_power
from labctl.analysis.power.budget import rail_result
from labctl.analysis.power.phase_power import PhasePower, phase_power
from labctl.analysis.power.source_resistance import (
    NAME,
    aperture_lines,
    sagged_watts,
    source_resistances,
)
from labctl.analysis.readings.channel_series import ChannelSeries, RailSeries
from labctl.analysis.readings.clock_fit import ClockMap
from labctl.analysis.run_summary import SourceResistance
from labctl.record.header import ChannelInfo, RailInfo

S = 1_000_000_000
OHM = 0.15
PHASE_S = 20


def channel(name: str, t: np.ndarray, values: np.ndarray, aperture_s: float) -> ChannelSeries:
    quantity = "voltage" if name.startswith("v") else "current"
    info = ChannelInfo(
        name, quantity, "", interval_s=0.1, aperture_s=aperture_s, accuracy_of_reading=1e-4
    )
    return ChannelSeries(info, np.rint(t * S).astype(np.int64), values, ClockMap())


def bench(
    levels: Sequence[tuple[float, float]],
    aperture_s: float = 0.02,
    amps_aperture_s: float | None = None,
    ohm: float = OHM,
    period_s: float = 0.007,
    noise: float = 0.0,
) -> tuple[list[PhasePower], list[float], RailSeries]:
    """Phases whose current is the one or the other of two, each half of 7 ms; and true watts."""
    draw = np.random.default_rng(3)
    step = 1e-4
    t = np.arange(0.0, PHASE_S * len(levels), step)
    which = np.minimum((t / PHASE_S).astype(int), len(levels) - 1)
    low, high = np.array(levels).T
    amps = np.where(t % period_s < period_s / 2, low[which], high[which])
    volts = 12.0 + 0.002 * t / t[-1] - ohm * amps
    truth = [float((volts * amps)[which == k].mean()) for k in range(len(levels))]

    def readings(values: np.ndarray, aperture: float) -> tuple[np.ndarray, np.ndarray]:
        every = 0.1 if aperture > 0.002 else 0.001
        begins = np.arange(0.01, t[-1] - 0.1, every)
        summed = np.concatenate([[0.0], np.cumsum(values)])
        first = np.rint(begins / step).astype(int)
        count = max(round(aperture / step), 1)
        means = (summed[first + count] - summed[first]) / count
        return begins + aperture / 2, means + noise * draw.standard_normal(len(means))

    amps_aperture = aperture_s if amps_aperture_s is None else amps_aperture_s
    rail = RailSeries(
        RailInfo("12V", 12.0, "v.voltage", "i.current"),
        channel("v.voltage", *readings(volts, aperture_s), aperture_s),
        channel("i.current", *readings(amps, amps_aperture), amps_aperture),
    )
    powers = [
        phase_power([rail], k * PHASE_S * S, (k + 1) * PHASE_S * S, 0) for k in range(len(levels))
    ]
    return powers, truth, rail


LEVELS = [(0.2, 0.2), (0.2, 1.8), (0.2, 1.0), (0.2, 1.8)]


def source_of(powers: list[PhasePower]) -> SourceResistance:
    return source_resistances(powers, [True, *[False] * (len(powers) - 1)])["12V"]


def test_the_resistance_is_seen_in_the_levels_whatever_the_supply_drifts_by() -> None:
    powers, _, _ = bench(LEVELS, noise=1e-4)
    found = source_of(powers)
    assert found.significant and found.steps == 3
    assert found.ohm.covers(OHM) and found.ohm.u < 0.02


def test_a_supply_that_regulates_at_the_drive_has_none() -> None:
    powers, _, _ = bench(LEVELS, ohm=0.0, noise=1e-3)
    found = source_of(powers)
    assert not found.significant and found.ohm.covers(0.0)
    assert not aperture_lines(powers[1].rails["12V"], found)


def test_one_level_shows_no_resistance() -> None:
    powers, _, _ = bench([(1.0, 1.0)] * 3)
    assert not source_resistances(powers, [False] * 3)


@pytest.mark.parametrize("amps_aperture_s", [None, 0.001])
def test_a_load_that_switches_inside_an_aperture_is_covered(amps_aperture_s: float | None) -> None:
    """0.2 and 1.8 A in 7 ms behind 0.15 Ω: 0.8 % too high, which no reading of 20 ms shows."""
    powers, truth, _ = bench(LEVELS, amps_aperture_s=amps_aperture_s)
    source = source_of(powers)
    for power, watts in zip(powers[1:], truth[1:], strict=True):
        rail = power.rails["12V"]
        line = aperture_lines(rail, source)[0]
        blind = rail_result(rail, PHASE_S, 0.0, 0).watts
        judged = rail_result(rail, PHASE_S, 0.0, 0, source)
        assert judged.watts.covers(watts) and judged.watts.value == blind.value
        assert line.name == NAME and line in judged.budget
    too_high = powers[1].rails["12V"].watts.mean - truth[1]
    assert too_high == pytest.approx(OHM * 0.64, rel=0.05)
    line = aperture_lines(powers[1].rails["12V"], source)[0]
    assert 0.95 * too_high < line.watts * 3**0.5 < 1.4 * too_high


def test_meters_that_follow_the_load_hide_little() -> None:
    powers, truth, _ = bench(LEVELS, aperture_s=0.001)
    rail = powers[1].rails["12V"]
    judged = rail_result(rail, PHASE_S, 0.0, 0, source_of(powers)).watts
    assert judged.covers(truth[1]) and rail.watts.mean == pytest.approx(truth[1], rel=2e-3)
    faster = [replace(one, info=replace(one.info, aperture_s=50e-6))
              for one in (rail.rail.volts, rail.rail.amps)]  # fmt: skip
    rail = replace(rail, rail=RailSeries(rail.rail.info, *faster))
    assert aperture_lines(rail, source_of(powers))[0].watts < 2e-4 * rail.watts.mean


def test_the_rig_may_say_how_far_the_load_swings() -> None:
    powers, _, _ = bench(LEVELS)
    source, power = source_of(powers), powers[1].rails["12V"]
    for swing in (0.0, 0.4):
        info = replace(power.rail.info, load_swing_amps=swing)
        line = aperture_lines(replace(power, rail=replace(power.rail, info=info)), source)[0]
        ohm = source.ohm.value + source.ohm.u
        assert line.watts * 3**0.5 == pytest.approx(ohm * swing**2 / 4)


def losing(lost: bool, ammeter_ohm: float = 0.0) -> tuple[list[PhasePower], float]:
    """Idle at 0.1 A, then 0.5 A and for one second of ten 1.1 A, behind 0.03 Ω; all readings of
    1.1 A are lost, or none; and true watts. The volts are measured before an ammeter, if it has a
    resistance."""
    t = np.arange(0.05, 2 * PHASE_S, 0.1)

    def amps_at(t: np.ndarray) -> np.ndarray:
        high = (t % 10 > 4) & (t % 10 < 5)
        return np.where(t < PHASE_S, 0.1, np.where(high, 1.1, 0.5))

    draw = np.random.default_rng(4)
    noise = 1e-4 * draw.standard_normal((2, len(t)))
    t_volts = t + 0.013
    kept = amps_at(t) < (0.8 if lost else 2.0)
    rail = RailSeries(
        RailInfo(
            "12V",
            12.0,
            "v.voltage",
            "i.current",
            volts_at="supply" if ammeter_ohm else "drive",
            burden_ohm=ammeter_ohm,
        ),
        channel("v.voltage", t_volts, 12.0 - 0.03 * amps_at(t_volts) + noise[0], 0.02),
        channel("i.current", t[kept], (amps_at(t) + noise[1])[kept], 0.02),
    )
    powers = [phase_power([rail], k * PHASE_S * S, (k + 1) * PHASE_S * S, 0) for k in range(2)]
    ohm = 0.03 + ammeter_ohm
    return powers, 0.9 * 0.5 * (12 - ohm * 0.5) + 0.1 * 1.1 * (12 - ohm * 1.1)


@pytest.mark.parametrize("ammeter_ohm", [0.0, 0.1, 0.3])
def test_the_voltage_shows_what_the_ammeter_lost(ammeter_ohm: float) -> None:
    powers, truth = losing(True, ammeter_ohm)
    rail, source = powers[1].rails["12V"], source_of(powers)
    assert not rail_result(rail, PHASE_S, 0.0, 0).watts.covers(truth)
    judged = rail_result(rail, PHASE_S, 0.0, 0, source)
    assert judged.watts.covers(truth)
    assert judged.watts.u < 2 * (truth - judged.watts.value)
    line = next(line for line in judged.budget if line.name == "not covered")
    assert "the voltage shows" in line.how


def test_it_shows_nothing_where_nothing_was_lost_or_no_resistance_is_known() -> None:
    powers, _ = losing(False)
    assert sagged_watts(powers[1].rails["12V"], source_of(powers)) == 0
    powers, _ = losing(True)
    assert sagged_watts(powers[1].rails["12V"], source_of(powers)) > 0
    assert sagged_watts(powers[1].rails["12V"], None) == 0


def test_it_shows_nothing_where_all_the_resistance_is_behind_the_volts() -> None:
    """Of a stiff supply, what the volts differ by is not the load's."""
    powers, _ = losing(True, 0.1)
    source, rail = source_of(powers), powers[1].rails["12V"]
    stiff = replace(source, ohm=replace(source.ohm, value=0.1 + 0.5 * source.ohm.u))
    assert stiff.significant and sagged_watts(rail, stiff) == 0


def test_what_was_lost_is_looked_for_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    powers, _ = losing(True)
    read, most = 0, 0

    def finite(self: ChannelSeries, *args: int) -> object:
        nonlocal read, most
        read += 1
        most = max(most, read)
        return whole(self, *args)

    def release(self: ChannelSeries) -> None:
        nonlocal read
        read = 0

    whole = ChannelSeries.finite
    monkeypatch.setattr(rail_power, "CHUNK", 4)
    for place in ("rail_power", "phase_power"):
        monkeypatch.setattr(f"labctl.analysis.power.{place}.RELEASE_EVERY", 2)
    monkeypatch.setattr(ChannelSeries, "finite", finite)
    monkeypatch.setattr(ChannelSeries, "release_pages", release)
    power = phase_power([powers[1].rails["12V"].rail], PHASE_S * S, 2 * PHASE_S * S, 0)
    assert power.rails["12V"].unread_volts
    assert most <= 12
