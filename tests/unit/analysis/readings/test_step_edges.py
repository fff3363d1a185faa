"""Offsets by the edges of phases: also where begins and ends do not agree."""

from __future__ import annotations

import numpy as np
import pytest

from labctl.analysis.readings.step_edges import fit_edges

INTERVAL_S = 0.05
SPANS = [(5.0 + 8 * k, 10.0 + 8 * k) for k in range(8)]


@pytest.mark.parametrize("goes_on_s", [0.0, 0.06, 0.1, 0.14])
@pytest.mark.parametrize("first", [0.0, 5.5])
def test_a_drive_that_goes_on_after_fio_has_ended_leaves_the_offset_inside_its_doubt(
    goes_on_s: float, first: float
) -> None:
    """``first``: the recording begins there; from 5.5 on the begin of the first phase is not in it,
    and late ends are more than begins."""
    t = np.arange(first, 75.0, INTERVAL_S)
    for seed in range(20):
        watts = 2.0 + np.random.default_rng(seed).normal(0, 0.02, len(t))
        for begin, end in SPANS:
            inside = np.clip((t + INTERVAL_S / 2 - begin) / INTERVAL_S, 0, 1) - np.clip(
                (t + INTERVAL_S / 2 - end - goes_on_s) / INTERVAL_S, 0, 1
            )
            watts += 3.0 * inside
        fit = fit_edges(t, watts, SPANS, 0.0, INTERVAL_S)
        assert fit is not None
        assert abs(fit.offset) <= fit.u, (seed, fit)
