"""Which points a ranging pass runs, how it goes up, and which range it chooses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruments.driver_kit import specifications
from instruments.errors import SettingRefused
from labctl.capture.meters.find_ranges import (
    HEAVIEST_READS,
    range_to_lock,
    ranging_plan,
    with_ranges,
)
from labctl.config.find_rig import EXAMPLES
from labctl.config.plan import parse_plan
from labctl.config.rig import load_rig
from labctl.record.phase import Pattern

RIG = EXAMPLES / "nvme-adapter.toml"
DECADES = (0.1, 1.0, 10.0)
PLAN = """
name = "p"
[[sweeps]]
pattern = "randread"
block_size = "128k"
queue_depth = [1, 256]
duration_s = 60
[[sweeps]]
pattern = "randrw"
read_pct = [70, 30]
queue_depth = [1, 16]
duration_s = 60
"""


def test_the_heaviest_points_are_most_writes_and_most_bytes_under_way() -> None:
    phases = ranging_plan(parse_plan(PLAN, "p").expand()).expand()
    points = [
        (phase.pattern, phase.read_pct, phase.queue_depth) for phase in phases if phase.pattern.io
    ]
    assert points == [(Pattern.RANDRW, 30, 16), (Pattern.RANDREAD, 100, 256)]
    assert sum(phase.duration_s for phase in phases) < 15


def test_without_a_plan_nothing_is_written() -> None:
    plan = ranging_plan(())
    assert plan.sweeps == [HEAVIEST_READS]
    assert not any(phase.writes for phase in plan.expand())


def test_another_range_changes_the_channel_and_its_accuracy() -> None:
    rig = load_rig(RIG)
    changed = with_ranges(rig, {"i12": 1.0})
    before, after = rig.channels["i12"][0], changed.channels["i12"][0]
    assert (before.range, after.range) == (0.1, 1.0)
    assert after.accuracy.floor != before.accuracy.floor
    assert changed.channels["v12"] == rig.channels["v12"]


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
