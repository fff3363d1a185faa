"""Which points a ranging pass runs, and how it goes up."""

from __future__ import annotations

from pathlib import Path

from labctl.capture.meters.find_ranges import HEAVIEST_READS, ranging_plan, with_ranges
from labctl.config.plan import parse_plan
from labctl.config.rig import load_rig
from labctl.record.phase import Pattern

RIG = Path(__file__).parents[4] / "rigs" / "nvme-adapter.toml"
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
