"""What a rig makes of points that end when their numbers are good enough."""

from __future__ import annotations

import pytest

from labctl.capture.run.expand import phases_for
from labctl.capture.run.live_points import least_point_s
from labctl.config.find_rig import EXAMPLES
from labctl.config.plan import parse_plan
from labctl.config.rig import load_rig
from labctl.errors import ConfigurationError

PLAN = """
name = "p"
{until}
[[sweeps]]
pattern = "{pattern}"
duration_s = {seconds}
"""


def planned(until: str, pattern: str = "randread", seconds: int = 600) -> list[float]:
    """The least seconds of each phase on an example rig."""
    rig = load_rig(EXAMPLES / "nvme-adapter.toml")
    plan = parse_plan(PLAN.format(until=until, pattern=pattern, seconds=seconds), "p.toml")
    return [least_point_s(rig, phase) for phase in phases_for(rig, plan, "p.toml", 1 << 40)]


def test_a_target_below_what_the_meters_know_is_refused_with_what_they_know() -> None:
    with pytest.raises(ConfigurationError) as caught:
        planned("until_pct = { watts = 0.001, iops = 1 }")
    (mistake,) = caught.value.mistakes
    assert mistake.key == "until_pct.watts" and "out of reach" in mistake.allowed
    least = float(mistake.allowed.partition(" to ")[2].partition(" %")[0])
    assert planned(f"until_pct = {{ watts = {2 * least} }}")
    with pytest.raises(ConfigurationError):
        planned(f"until_pct = {{ watts = {least / 2} }}")


def test_the_shortest_time_is_that_of_the_rule_or_the_plan() -> None:
    idle, point, after = planned('until = "settled"')
    assert idle == after == 10.0 and 16 <= point < 600
    assert planned('until = "settled"\nmin_duration_s = 5')[1] == 5.0
    assert planned('until = "settled"', "randwrite")[1] > point, "garbage collection may come"
    assert planned('until = "settled"', seconds=3)[1] == 3.0
    assert planned("")[1] == 600.0
