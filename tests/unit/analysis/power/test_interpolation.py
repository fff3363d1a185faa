"""Interpolation onto other times, against numpy's own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labctl.analysis.power.interpolation import interpolated

N = 40_000


@pytest.mark.parametrize("drift", [0.0, 70e-6, -70e-6, 3e-3, 0.5])
@pytest.mark.parametrize("offset", [-3.3, 0.0, 0.4, 7.0])
def test_series_on_clocks_that_drift_apart(drift: float, offset: float) -> None:
    """Times in whole ns, so that those of both series go to and fro where they meet."""
    rng = np.random.default_rng(1)
    t = np.rint(np.arange(N) * 4000.0)
    wanted = np.rint((np.arange(N) + offset) * 4000.0 * (1 + drift))
    values = rng.normal(size=N)
    found, known = interpolated(wanted, t, values, math.inf)
    assert known is None
    assert np.allclose(found, np.interp(wanted, t, values), rtol=0, atol=1e-12)


def test_what_is_too_far_from_a_reading_is_not_known() -> None:
    t = np.delete(np.arange(N) * 10.0, slice(20_000, 20_007))
    wanted = np.arange(100, N - 100) * 10.0 + 3.0
    _, known = interpolated(wanted, t, np.zeros(len(t)), 35.0)
    assert known is not None
    assert wanted[~known].tolist() == [199_993.0 + 10 * number for number in range(8)]
