"""What the points of a run say of each other while they are measured."""

from __future__ import annotations

import numpy as np

from labctl.analysis.steady_state.enough import Keeps
from labctl.capture.meters.live_watts import LiveWatts
from labctl.capture.run.live_points import LivePoints
from labctl.config.find_rig import EXAMPLES
from labctl.config.rig import load_rig
from labctl.record.phase import Pattern, Phase, Role, Until
from labctl.record.timebase import NS_PER_S

RIG = EXAMPLES / "nvme-adapter.toml"


def live_points() -> LivePoints:
    rig = load_rig(RIG)
    return LivePoints(rig, {}, LiveWatts(rig.rail_infos(), rig.channel_infos, lambda: 0))


def point(index: int, pattern: Pattern, seconds: float = 3600.0) -> Phase:
    read_pct = 0 if pattern is Pattern.RANDWRITE else 100
    return Phase(
        index, Role.MEASURE, "s", pattern, seconds, 4096, 8, 1, read_pct,
        sweep_number=1, until=Until(iops_pct=1.0),
    )  # fmt: skip


def keeps(points: LivePoints, phase: Phase, *stalls_s: float) -> tuple[str, ...]:
    """What keeps a point going after 240 s of steady I/O, but for stalls of two seconds."""
    rng = np.random.default_rng(phase.index)
    points.over()
    points.began(phase, 0)
    for number in range(1, 481):
        t_s = number / 2
        stalls = any(0 < t_s - begin_s <= 2.0 for begin_s in stalls_s)
        points.status(
            phase.index, "", round(t_s * NS_PER_S), 100.0 if stalls else rng.normal(9000.0, 10.0)
        )
    state = points.state(240 * NS_PER_S, {})
    assert state is not None and state.iops is not None
    return state.keeps


def test_what_one_point_showed_keeps_later_ones_that_do_the_same_work_going() -> None:
    points = live_points()
    read, write = Pattern.RANDREAD, Pattern.RANDWRITE
    assert Keeps.MAY_COME.value not in keeps(points, point(1, read))
    assert Keeps.RARE.value in keeps(points, point(2, read), 100.0)
    assert Keeps.MAY_COME.value in keeps(points, point(3, read))
    assert Keeps.MAY_COME.value not in keeps(points, point(4, write))
    assert Keeps.RARE.value in keeps(points, point(5, write), 60.0, 130.0)
    assert Keeps.MAY_COME.value in keeps(points, point(6, write))
    assert Keeps.MAY_COME.value not in keeps(live_points(), point(7, read)), "of another run"
