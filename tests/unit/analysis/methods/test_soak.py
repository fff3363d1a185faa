"""From when on a temperature stands, on heating curves with a known end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.methods import soak
from labctl.analysis.steady_state.temperature import is_temperature_steady, steady_after_s
from labctl.config.plan import parse_plan
from labctl.record.phase import Pattern
from tests.unit.report_sample import summary_of

WINDOW_S = 300.0


def heating(
    tau_s: float, duration_s: float, end: float = 72.0, step: float = 1.0, rate: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """From 40 °C to ``end`` with a time constant, in whole steps of the sensor."""
    t_s = np.arange(0.0, duration_s, 1.0 / rate)
    celsius = end - (end - 40.0) * np.exp(-t_s / tau_s)
    return t_s, np.round(celsius / step) * step


@pytest.mark.parametrize("tau_s", [60.0, 180.0, 600.0])
def test_it_stands_near_its_end_and_not_before(tau_s: float) -> None:
    t_s, celsius = heating(tau_s, 12 * tau_s + 2 * WINDOW_S)
    after_s = steady_after_s(t_s, celsius, WINDOW_S)
    assert after_s is not None
    left = 32.0 * np.exp(-after_s / tau_s)
    assert left < 1.0 + tau_s / WINDOW_S


def test_a_drive_that_still_warms_up_does_not_stand() -> None:
    t_s, celsius = heating(3600.0, 2400.0)
    assert steady_after_s(t_s, celsius, WINDOW_S) is None


def test_throttling_on_and_off_at_the_limit_counts_as_standing() -> None:
    t_s = np.arange(0.0, 900.0)
    celsius = 70.0 + 2.0 * np.sign(np.sin(2 * np.pi * t_s / 20.0))
    assert steady_after_s(t_s, celsius, WINDOW_S) == pytest.approx(300.0, abs=1.0)


@given(st.floats(min_value=0, max_value=299.0), st.floats(min_value=0.2, max_value=10.0))
def test_less_than_a_window_never_stands(duration_s: float, rate: float) -> None:
    t_s = np.arange(0.0, duration_s, 1.0 / rate)
    assert not is_temperature_steady(t_s, np.full(len(t_s), 50.0), WINDOW_S)


def test_a_sensor_that_fell_silent_does_not_stand() -> None:
    t_s = np.concatenate([np.arange(0.0, 60.0), [400.0, 401.0]])
    assert not is_temperature_steady(t_s, np.full(len(t_s), 50.0), WINDOW_S)


def test_the_recovery_is_seen_in_the_work_after_the_cool_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same work comes again while the drive is hot (40 %), and once more when it is cool."""
    text = """
name = "soak"
[[sweeps]]
name = "hot"
pattern = "randread"
queue_depth = [8, 8]
duration_s = 60
[[sweeps]]
name = "cool"
pattern = "randread"
queue_depth = [8]
duration_s = 60
"""
    hot, still_hot, cool = summary_of(parse_plan(text, "p")).measured
    waited = replace(
        still_hot,
        phase=replace(still_hot.phase, pattern=Pattern.COOL, until_celsius=45.0),
        iops=None,
    )
    still_hot = replace(still_hot, iops=0.4 * (hot.iops or 0.0))
    cool = replace(cool, iops=hot.iops)
    celsius = np.array([70.0, 44.0])
    monkeypatch.setattr(soak, "_soak_temperature", lambda *_: ("drive", celsius, celsius))
    record: Any = None
    found = soak._recovery(record, [still_hot, waited, cool], hot, None)
    assert found is not None and found.reached
    assert found.iops_part == pytest.approx(1.0)
