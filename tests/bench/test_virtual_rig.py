"""The simulated rig in a time of its own, with which ``make bench-hours`` measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.analysis.steady_state.enough import Keeps
from labctl.record.phase import Pattern, Phase, Role, Until
from labctl.record.point_end import PointState
from tests.benchmarks.hours_saved import done
from tests.benchmarks.virtual_rig import VirtualRig, six_digit_rig, work

pytestmark = [pytest.mark.bench, pytest.mark.long, pytest.mark.timeout(1800)]

PERIOD_S, DIP_S = 150.0, 35.0
COLLECTS = {
    "garbage_collection.spare_bytes": 1_000_000_000,
    "garbage_collection.dip_period_s": PERIOD_S,
    "garbage_collection.dip_s": DIP_S,
}


def point(index: int, pattern: Pattern, duration_s: float, until: Until) -> Phase:
    read_pct = 0 if pattern is Pattern.RANDWRITE else 100
    return Phase(
        index, Role.MEASURE, "s", pattern, duration_s, 4096, 8, 1, read_pct,
        sweep_number=1, until=until,
    )  # fmt: skip


def test_no_point_stops_inside_its_first_two_periods_of_collection(tmp_path: Path) -> None:
    """Points of random writes on a drive that collects garbage each 150 s: wherever in its period
    one begins, it goes on until two of them were whole, if it ends early at all."""
    rig = six_digit_rig(tmp_path, 3)
    virtual = VirtualRig(rig, 3, COLLECTS)
    seen = []
    for index, until in enumerate([Until(), Until(watts_pct=2.0), Until(watts_pct=20.0)]):
        found = work(virtual, point(index, Pattern.RANDWRITE, 600.0, until))
        virtual.go_on(37_000)
        seen.append((until.words, found.seconds))
        assert found.seconds >= min(2 * PERIOD_S, found.phase.duration_s), seen


def test_labctl_s_results_of_it_hold_the_truth(tmp_path: Path) -> None:
    """Idle and at work; and a point that writes says what keeps it going."""
    rig = six_digit_rig(tmp_path, 4)
    phases = (
        Phase(0, Role.IDLE_BEFORE, "idle", Pattern.IDLE, 10.0),
        *(point(index, Pattern.RANDREAD, 180.0, Until()) for index in (1, 2)),
        point(3, Pattern.RANDWRITE, 60.0, Until()),
    )
    found = done(rig, 4, phases, ends=True, folder=tmp_path)
    for one, result in zip(found.worked, found.results, strict=True):
        assert result.watts is not None and result.watts.covers(one.watts), one
    state = found.worked[3].state
    assert isinstance(state, PointState) and Keeps.COLLECTION.value in state.keeps
