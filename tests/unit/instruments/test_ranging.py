from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruments.driver_kit import specifications
from instruments.errors import SettingRefused
from instruments.reading import Batch, Block, Status, StatusReading
from labctl.capture.meters.find_ranges import PeakHold, range_to_lock

DECADES = (0.1, 1.0, 10.0)


@pytest.mark.parametrize(
    ("peak", "margin", "expected"),
    [
        (0.07, 0.25, 0.1),
        (0.08, 0.25, 0.1),
        (0.081, 0.25, 1.0),
        (-0.5, 0.25, 1.0),
        (0.0, 0.25, 0.1),
        (9.0, 0.25, 10.0),
        (10.0, 0.25, 10.0),
        (1.0, 0.0, 1.0),
    ],
)
def test_the_smallest_range_that_holds_peak_and_margin(
    peak: float, margin: float, expected: float
) -> None:
    assert range_to_lock(DECADES, peak, margin) == expected
    assert range_to_lock(DECADES[::-1], peak, margin) == expected


def test_no_range_is_large_enough() -> None:
    with pytest.raises(SettingRefused, match=r"above the largest range, 10: use a smaller shunt"):
        range_to_lock(DECADES, 10.5)


@pytest.mark.parametrize(
    ("ranges", "peak", "margin"), [((), 1, 0), (DECADES, 1, -1), (DECADES, math.nan, 0)]
)
def test_what_makes_no_sense(ranges: tuple[float, ...], peak: float, margin: float) -> None:
    with pytest.raises(ValueError, match="cannot choose"):
        range_to_lock(ranges, peak, margin)


@given(st.floats(0, 900), st.floats(0, 2))
def test_the_peak_always_fits(peak: float, margin: float) -> None:
    for model in ("34465A", "SDM3065X", "2000", "DM3058", "XDM1041"):
        ranges = specifications.allowed_ranges(model, "voltage")
        chosen = range_to_lock(ranges, peak, margin)
        assert chosen >= peak
        smaller = [value for value in ranges if value < chosen]
        assert not smaller or smaller[-1] < peak * (1 + margin)


def test_a_ranging_pass() -> None:
    hold = PeakHold()
    assert hold.peak("current") is None
    for values in ([0.1, -0.72], [0.3]):
        t_ns = np.arange(len(values), dtype=np.int64)
        hold.take(Batch((Block("current", t_ns, np.array(values)),)))
    assert hold.peak("current") == 0.72
    hold.take(Batch(statuses=(StatusReading("current", 5, Status.NO_VALUE),)))
    assert hold.peak("current") == 0.72
    hold.take(Batch(statuses=(StatusReading("current", 5, Status.OVERLOAD),)))
    with pytest.raises(SettingRefused, match="largest range"):
        hold.peak("current")
