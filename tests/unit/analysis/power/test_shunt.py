"""Shunts and ammeters in a rail: known answers by hand, and lines of the budget."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.estimate import Component
from labctl.analysis.phase_result import PhaseResult, RailResult
from labctl.analysis.power.budget import rail_result
from labctl.analysis.power.phase_power import phase_power
from labctl.analysis.power.shunt import UNKNOWN_KELVIN, burden_problems, temperature_problems
from labctl.analysis.readings.channel_series import ChannelSeries, RailSeries
from labctl.analysis.readings.clock_fit import ClockMap
from labctl.capture.meters.live_values import RecentValues, live_rail
from labctl.record.header import ChannelInfo, RailInfo
from tests.unit.config.test_rig import RIG, mistakes, parse_rig

S = 1_000_000_000
ROOT3 = math.sqrt(3)
SHUNT = RailInfo("12V", 12.0, "v.voltage", "i.voltage", shunt_ohm=0.1)


def channel(name: str, values: np.ndarray, scale: float = 1.0, floor: float = 0.0) -> ChannelSeries:
    stamps = np.rint(np.arange(len(values)) * 0.1 * S).astype(np.int64)
    info = ChannelInfo(name, "", "", interval_s=0.1, accuracy_floor=floor)
    return ChannelSeries(info, stamps, values, ClockMap(), scale)


def measured(
    info: RailInfo, volts: float, sensed: np.ndarray, celsius: ChannelSeries | None = None
) -> tuple[RailResult, dict[str, Component]]:
    """The rail's result over 10 s and its budget by name, from what both meters showed."""
    amps = channel(info.current, sensed, 1 / info.shunt_ohm if info.shunt_ohm else 1.0)
    rail = RailSeries(info, channel(info.voltage, np.full(len(sensed), volts)), amps, celsius)
    power = phase_power([rail], 0, 10 * S, 0)
    found = rail_result(power.rails[info.name], 10.0, 0.0, 0)
    assert power.total is not None
    assert power.total.mean == pytest.approx(found.watts.value)
    return found, {line.name: line for line in found.budget}


def steady(value: float) -> np.ndarray:
    return np.full(100, value)


def test_a_calibrated_shunt_has_its_certificates_uncertainty() -> None:
    """1 A at 12 V; U = 0.1 mΩ at k = 2 of 0.1 Ω: 0.05 % standard uncertainty, 6 mW."""
    info = replace(SHUNT, shunt_u_ohm=1e-4, shunt_k=2.0)
    result, lines = measured(info, 12.0, steady(0.1))
    assert result.watts.value == pytest.approx(12.0)
    assert lines["shunt"].watts == pytest.approx(6e-3)
    assert lines["shunt"].distribution == "normal"
    assert lines["shunt"].part == "gain"


def test_a_tolerance_is_a_limit() -> None:
    _, lines = measured(replace(SHUNT, shunt_tolerance_pct=0.5), 12.0, steady(0.1))
    assert lines["shunt"].watts == pytest.approx(0.005 * 12 / ROOT3)
    assert lines["shunt"].distribution == "rectangular"


def test_a_known_coefficient_is_corrected_and_its_temperature_is_in_the_budget() -> None:
    """R(35 °C) = 0.1 Ω · (1 + 400 ppm/K · 10 K) = 0.1004 Ω: 1 A shows 0.1004 V."""
    info = replace(SHUNT, shunt_ppm_per_kelvin=400.0, shunt_celsius=(33.0, 37.0))
    result, lines = measured(info, 12.0, steady(0.1004))
    assert result.amps.mean == pytest.approx(1.0)
    assert result.watts.value == pytest.approx(12.0)
    assert lines["shunt temperature"].watts == pytest.approx(12.0 * 400e-6 * 2 / ROOT3)
    assert "shunt coefficient" not in lines and "shunt self-heating" not in lines


def test_a_coefficient_of_unknown_sign_is_only_in_the_budget() -> None:
    """±20 ppm/K over 25 → at most 40 °C: 15 K."""
    info = replace(SHUNT, shunt_ppm_per_kelvin_limit=20.0, shunt_celsius=(20.0, 40.0))
    result, lines = measured(info, 12.0, steady(0.1))
    assert result.watts.value == pytest.approx(12.0)
    assert lines["shunt coefficient"].watts == pytest.approx(12.0 * 20e-6 * 15 / ROOT3)
    assert "shunt temperature" not in lines


def test_a_shunt_warms_itself() -> None:
    """2 A in 0.1 Ω are 0.4 W; 50 K/W: 20 K; 500 ppm/K: 1 % more resistance."""
    info = replace(
        SHUNT, shunt_ppm_per_kelvin=500.0, shunt_kelvin_per_watt=50.0, shunt_celsius=(25.0, 25.0)
    )
    result, lines = measured(info, 12.0, steady(0.2))
    assert result.watts.value == pytest.approx(24.0 / 1.01)
    assert lines["shunt self-heating"].watts == pytest.approx(24.0 / 1.01 * 0.01 / ROOT3)


def test_what_heats_is_the_mean_square_of_the_current() -> None:
    """0 A and 2 A by turns: mean 1 A, mean square 2 A²."""
    info = replace(
        SHUNT, shunt_ppm_per_kelvin=1000.0, shunt_kelvin_per_watt=50.0, shunt_celsius=(25.0, 25.0)
    )
    result, _ = measured(info, 12.0, np.tile([0.0, 0.2, 0.2, 0.0], 25))
    assert result.watts.value == pytest.approx(12.0 / (1 + 1000e-6 * 50 * 0.1 * 2.0))


def test_the_temperature_may_come_from_a_channel() -> None:
    """30 to 34 °C by a probe of ±0.5 K: 32 °C ± 2.5 K; 100 ppm/K over 7 K."""
    info = replace(SHUNT, shunt_ppm_per_kelvin=100.0, shunt_temperature="probe.t1")
    celsius = channel("probe.t1", np.linspace(30.0, 34.0, 100), floor=0.5)
    result, lines = measured(info, 12.0, steady(0.1), celsius)
    assert result.watts.value == pytest.approx(12.0 / (1 + 700e-6))
    assert lines["shunt temperature"].watts == pytest.approx(
        result.watts.value * 100e-6 * 2.5 / ROOT3
    )
    assert "probe.t1" in lines["shunt temperature"].how
    assert temperature_problems([info], {"probe.t1": celsius}) == ()


def test_without_readings_the_range_stands_in_and_else_a_wide_one() -> None:
    silent = channel("probe.t1", np.empty(0))
    info = replace(SHUNT, shunt_ppm_per_kelvin=100.0, shunt_temperature="probe.t1")
    _, lines = measured(info, 12.0, steady(0.1), silent)
    assert lines["shunt temperature"].watts == pytest.approx(12 * 1e-4 * UNKNOWN_KELVIN / ROOT3)
    (line,) = temperature_problems([info], {"probe.t1": silent})
    assert "gave no temperature" in line and "25 K" in line
    ranged = replace(info, shunt_celsius=(20.0, 30.0))
    _, lines = measured(ranged, 12.0, steady(0.1), silent)
    assert lines["shunt temperature"].watts == pytest.approx(12 * 1e-4 * 5 / ROOT3)
    assert "the range of the rig" in temperature_problems([ranged], {})[0]


def test_volts_before_the_shunt_hold_its_drop() -> None:
    """12.1 V at the supply, 0.1 V across 0.1 Ω: 12 V and 1 A reach the drive, 12 W, not 12.1."""
    info = replace(SHUNT, volts_at="supply", shunt_tolerance_pct=1.0)
    result, lines = measured(info, 12.1, steady(0.1))
    assert result.watts.value == pytest.approx(12.0)
    assert result.volts.mean == pytest.approx(12.0)
    assert lines["shunt"].watts == pytest.approx(0.12 / ROOT3), "(V − v) · v / R goes with 1/R"
    behind, _ = measured(replace(info, volts_at="drive"), 12.0, steady(0.1))
    assert behind.watts.value == pytest.approx(12.0), "and the drop is not taken off twice"


def test_the_drop_of_an_ammeter_is_taken_off_with_its_uncertainty() -> None:
    """3.3 V · 1 A − 0.2 Ω · 1 A²; ±10 % of 0.2 W."""
    info = RailInfo("3V3", 3.3, "v.voltage", "i.current", volts_at="supply",
                    burden_ohm=0.2, burden_tolerance_pct=10.0)  # fmt: skip
    result, lines = measured(info, 3.3, steady(1.0))
    assert result.watts.value == pytest.approx(3.1)
    assert lines["burden"].watts == pytest.approx(0.02 / ROOT3)


@given(
    volts=st.floats(3.0, 13.0),
    amps=st.floats(0.01, 3.0),
    ohm=st.floats(0.001, 0.2),
    alpha=st.floats(-500, 500),
    celsius=st.floats(0, 60),
    theta=st.floats(0, 60),
    before=st.booleans(),
)
def test_what_is_known_of_a_shunt_is_corrected(
    volts: float, amps: float, ohm: float, alpha: float, celsius: float, theta: float, before: bool
) -> None:
    """Whatever the shunt, the drive's own watts come out, to the square of a small number."""
    true_ohm = ohm
    for _ in range(20):
        rise = theta * true_ohm * amps**2
        true_ohm = ohm * (1 + alpha * 1e-6 * (celsius + rise - 25.0))
    shown = volts + amps * true_ohm if before else volts
    info = replace(
        SHUNT, shunt_ohm=ohm, shunt_ppm_per_kelvin=alpha, shunt_kelvin_per_watt=theta,
        shunt_celsius=(celsius, celsius), volts_at="supply" if before else "drive",
    )  # fmt: skip
    result, _ = measured(info, shown, steady(amps * true_ohm))
    second_order = 3 * (alpha * 1e-6) ** 2 * (35 + rise) * (rise + 1) + 1e-9
    assert result.watts.value == pytest.approx(volts * amps, rel=second_order + 1e-6)
    assert result.volts.mean == pytest.approx(volts, rel=1e-9)


def test_the_live_view_takes_the_drop_off_too() -> None:
    info = replace(SHUNT, volts_at="supply")
    assert live_rail(info, RecentValues.of(12.1), RecentValues.of(0.1)).watts == pytest.approx(12.0)
    assert live_rail(info, RecentValues.of(12.1), None).volts is None
    at_drive = replace(info, volts_at="drive")
    assert live_rail(at_drive, RecentValues.of(12.0), RecentValues.of(0.1)).volts == 12.0


def phases_of(result: RailResult) -> list[PhaseResult]:
    return [_Phase({"12V": result})]  # type: ignore[list-item]


class _Phase:
    """What :func:`burden_problems` looks at of a phase."""

    def __init__(self, rails: dict[str, RailResult]) -> None:
        self.rails = rails


def test_a_drop_that_takes_the_rail_out_of_tolerance_is_told() -> None:
    """11.6 V at the supply are within ±5 %; 0.3 V of drop leave 11.3 V, which are not."""
    info = replace(SHUNT, volts_at="supply")
    low, _ = measured(info, 11.6, steady(0.3))
    (line,) = burden_problems([info], phases_of(low))
    assert "0.3 V across 0.1 Ω" in line and "11.300 V" in line and "11.400 V" in line
    assert burden_problems([replace(info, tolerance_pct=8.0)], phases_of(low)) == ()
    bad_supply, _ = measured(info, 11.3, steady(0.01))
    assert burden_problems([info], phases_of(bad_supply)) == (), "that is not the shunt's doing"


SHUNT_KEYS = "shunt_ohm = 0.05, shunt_tolerance_pct = 0.1"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (
            "shunt_ohm = 0.05, shunt_tolerance_pct = 0.1, shunt_u_ohm = 1e-5",
            "only one of both",
        ),
        ("shunt_ohm = 0.05, shunt_ppm_per_kelvin = 20", "needs shunt_celsius"),
        ("shunt_ohm = 0.05, shunt_celsius = [30, 20]", "the lower temperature comes first"),
        ("shunt_ohm = 0.05, shunt_u_ohm = -1", "greater than 0"),
        ("shunt_ohm = 0.05, burden_ohm = 0.1", "burden_ohm is of an ammeter"),
        ("shunt_kelvin_per_watt = 20", "shunt_kelvin_per_watt needs shunt_ohm"),
    ],
)
def test_keys_of_a_shunt_that_contradict_each_other(keys: str, told: str) -> None:
    found = mistakes(RIG.replace(SHUNT_KEYS, keys))
    assert any(key.startswith("rails.12V.current") and told in text for key, text in found.items())


def test_an_ammeter_behind_the_voltmeter_must_have_its_resistance() -> None:
    text = RIG.replace('voltage = "v12.voltage"', 'voltage = "v12.voltage"\nvolts_at = "supply"')
    assert parse_rig(text, "rig.toml").rail_infos()[0].drop_ohm == 0.05
    current = f'{{ channel = "i12.voltage", {SHUNT_KEYS} }}'
    found = mistakes(text.replace(current, '"i12.voltage"'))
    assert "needs current.burden_ohm" in found["rails.12V"]


def test_the_shunts_temperature_must_be_a_temperature() -> None:
    keys = f"{SHUNT_KEYS}, shunt_ppm_per_kelvin = 20, shunt_temperature = "
    good = parse_rig(RIG.replace(SHUNT_KEYS, f'{keys}"drive_temp.composite"'), "rig.toml")
    assert good.rail_infos()[0].shunt_temperature == "drive_temp.composite"
    found = mistakes(RIG.replace(SHUNT_KEYS, f'{keys}"v12.voltage"'))
    assert "must be temperature" in found["rails.12V.current.shunt_temperature"]
