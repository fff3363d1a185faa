"""The offset and the drift of long recordings, from steps of watts alone."""

from __future__ import annotations

import numpy as np
import pytest

from labctl.analysis.readings.step_alignment import align

PHASES, PHASE_S, PAUSE_S = 24, 300.0, 0.5


@pytest.mark.parametrize(
    ("drift_ppm", "ahead_s", "rate_hz"), [(-120, 71.0, 1), (140, -35.5, 5), (30, 2.25, 5)]
)
def test_two_hours_with_a_drifting_clock(drift_ppm: float, ahead_s: float, rate_hz: float) -> None:
    """A meter each of whose readings is the mean of the interval that ends with it."""
    rng = np.random.default_rng(3)
    begins = 30.0 + np.arange(PHASES) * (PHASE_S + PAUSE_S)
    spans = [(begin, begin + PHASE_S) for begin in begins.tolist()]
    t = np.arange(0, spans[-1][1] + 30.0, 1 / rate_hz)
    watts = 3.0 + rng.normal(0, 0.05, len(t))
    for number, (begin, end) in enumerate(spans):
        part = np.minimum(t, end) - np.maximum(t - 1 / rate_hz, begin)
        watts += np.clip(part, 0, None) * rate_hz * (2 + 0.4 * (number % 8))
    shown = t * (1 + drift_ppm * 1e-6) + ahead_s
    work = [("reads", 1000.0 * (number % 8 + 1)) for number in range(PHASES)]
    found = align(shown, watts, spans, [(-120.0, 120.0)], work)
    assert found.drift * 1e6 == pytest.approx(-drift_ppm, abs=20)
    for at in (spans[0][0], spans[-1][1]):
        true = -at * drift_ppm * 1e-6 - ahead_s
        assert abs(found.at(at) - true) <= found.u_s
    assert found.u_s < 1.0 / rate_hz
