"""Mains ripple: what is left of it in a mean, against sums over a sine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.power.mains_ripple import left_of_ripple
from labctl.record.header import ChannelInfo


def channel(interval_s: float, aperture_s: float, mains_hz: float = 50.0) -> ChannelInfo:
    return ChannelInfo(
        name="i12.voltage", quantity="voltage", unit="V",
        interval_s=interval_s, aperture_s=aperture_s, mains_hz=mains_hz,
    )  # fmt: skip


@pytest.mark.parametrize("interval_s", [0.01, 0.02, 0.1])
def test_readings_at_the_same_place_of_the_ripple_keep_what_integration_leaves(
    interval_s: float,
) -> None:
    """sin(π·100 Hz·4 ms)/(π·100 Hz·4 ms) = 0.757; of 50 Hz 0.935 where it aliases too."""
    expected = 0.757 if interval_s == 0.01 else 0.935
    for duration_s in (5.0, 3600.0):
        left = left_of_ripple(channel(interval_s, 0.004), duration_s)
        assert left == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("nplc", [1, 2, 10])
def test_whole_mains_periods_leave_nothing(nplc: int) -> None:
    assert left_of_ripple(channel(0.02 * nplc, 0.02 * nplc), 10.0) == 0.0


def test_unknown_mains_say_nothing() -> None:
    assert left_of_ripple(channel(0.01, 0.004, mains_hz=0.0), 10.0) == 0.0


def test_eleven_milliseconds_average_it_out() -> None:
    assert left_of_ripple(channel(0.011, 0.004), 5.0) < 0.02


@given(
    interval_ms=st.floats(5, 200),
    fill=st.floats(0.05, 0.95),
    phase=st.floats(0, 1),
    duration_s=st.floats(2, 30),
    wander=st.floats(-0.002, 0.002),
    harmonic=st.sampled_from([50.0, 100.0]),
)
def test_no_mean_over_a_sine_exceeds_it(
    interval_ms: float, fill: float, phase: float, duration_s: float, wander: float, harmonic: float
) -> None:
    interval_s = interval_ms * 1e-3
    aperture_s = fill * interval_s
    middles = np.arange(int(duration_s / interval_s)) * interval_s
    angle = 2 * np.pi * harmonic * (1 + wander)
    edges = [angle * (middles + side * aperture_s / 2) + 2 * np.pi * phase for side in (-1, 1)]
    means = (np.cos(edges[0]) - np.cos(edges[1])) / (angle * aperture_s)
    left = left_of_ripple(channel(interval_s, aperture_s), len(middles) * interval_s)
    # An aperture of whole periods rejects the nominal frequency; the wander leaves 0.2 %.
    assert abs(means.mean()) <= left + 0.01
