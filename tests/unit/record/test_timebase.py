from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from labctl.record.timebase import Anchor, Timebase

WHOLE = st.integers(min_value=0, max_value=2**62)


@given(WHOLE, WHOLE, WHOLE)
def test_there_and_back(wall_ns: int, monotonic_ns: int, t_ns: int) -> None:
    anchor = Anchor(wall_ns, monotonic_ns, "boot")
    assert anchor.from_monotonic_ns(anchor.to_monotonic_ns(t_ns)) == t_ns


def test_it_starts_at_the_wall_clock_and_follows_the_monotonic_one() -> None:
    timebase = Timebase()
    assert abs(timebase.now_ns() - time.time_ns()) < 1_000_000_000
    before = time.monotonic_ns()
    first = timebase.now_ns()
    assert first >= timebase.anchor.from_monotonic_ns(before)


def test_a_stepped_wall_clock_moves_the_offset_and_no_reading() -> None:
    """An anchor whose wall clock was an hour off is what a step of an hour looks like later."""
    true = Anchor.take()
    stepped = Timebase(Anchor(true.wall_ns - 3600 * 10**9, true.monotonic_ns, true.boot_id))
    assert abs(stepped.wall_offset_ns() - 3600 * 10**9) < 10**9
    now_ns = stepped.now_ns()
    assert abs(stepped.from_wall_ns(time.time_ns()) - now_ns) < 10**9
