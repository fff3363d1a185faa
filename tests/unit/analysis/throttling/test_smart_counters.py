"""What the drive's own counters prove, and what they leave open."""

from __future__ import annotations

import math

from labctl.analysis.throttling.smart_counters import Counters
from labctl.record.events import Event

S = 1_000_000_000


def states(*said: tuple[float, dict[str, object]]) -> Counters:
    return Counters.of(told(round(t * S), data) for t, data in said)


def told(t_ns: int, data: dict[str, float]) -> Event:
    """The event in which a run tells it: of a look at SMART, or of a power state that was set."""
    if "state" in data:
        return Event(t_ns, "power_state", dict(data))
    return Event(t_ns, "drive_state", {"when": "before", "smart": data})


def test_a_counter_that_moved_between_the_readings_around_a_stretch() -> None:
    counters = states(
        (0, {"thm_temp1_trans_count": 3, "thm_temp1_total_time": 40}),
        (60, {"thm_temp1_trans_count": 4, "thm_temp1_total_time": 52}),
        (120, {"thm_temp1_trans_count": 4, "thm_temp1_total_time": 52}),
    )
    words = "times at the first thermal level 3 → 4, time at the first thermal level 40 → 52 s"
    assert counters.moved(10 * S, 50 * S) == words
    assert counters.moved(60 * S, 120 * S) is None
    assert counters.stood_still(60 * S, 120 * S)
    assert not counters.stood_still(10 * S, 50 * S)


def test_counters_that_were_always_zero_say_nothing() -> None:
    counters = states((0, {"thm_temp1_trans_count": 0}), (60, {"thm_temp1_trans_count": 0}))
    assert counters.moved(10 * S, 50 * S) is None
    assert not counters.stood_still(10 * S, 50 * S)


def test_missing_keys_wrong_kinds_and_other_events() -> None:
    counters = Counters.of(
        [
            Event(0, "drive_state", {"smart": {"thm_temp1_trans_count": "3"}}),
            Event(S, "phase_started", {"thm_temp1_trans_count": 1}),
            Event(2 * S, "drive_state", {"smart": {"thm_temp2_total_time": math.nan}}),
        ]
    )
    assert counters.readings == ()


def test_seconds_counted_for_all_of_a_stretch() -> None:
    counters = states((0, {"thm_temp1_total_time": 10}), (60, {"thm_temp1_total_time": 70}))
    assert counters.throttled_throughout(0, 60 * S) is not None
    partly = states((0, {"thm_temp1_total_time": 10}), (60, {"thm_temp1_total_time": 45}))
    assert partly.throttled_throughout(0, 60 * S) is None


def test_seconds_counted_beside_a_stretch_do_not_count_for_it() -> None:
    counters = states((0, {"thm_temp1_total_time": 0}), (600, {"thm_temp1_total_time": 60}))
    assert counters.throttled_throughout(300 * S, 360 * S) is None


def test_the_power_state_in_effect() -> None:
    counters = states((0, {"state": 0}), (30, {"state": 2, "max_watts": 6.0}))
    assert counters.power_limit(10 * S) is None
    assert counters.power_limit(40 * S) == ("power state 2, at most 6 W", 6.0)
    assert counters.changes_of_state() == (30 * S,)


def test_a_counter_that_moved_was_still_the_old_one_at_the_look_before() -> None:
    moved = {
        "since_ns": 20 * S,
        "moved": {"thm_temp1_trans_count": [3, 4]},
        "counters": {"thm_temp1_trans_count": 4, "thm_temp2_trans_count": 0},
    }
    found = Counters.of(
        [
            Event(0, "drive_state", {"smart": {"thm_temp1_trans_count": 3}}),
            Event(30 * S, "drive_counters", moved),
        ]
    )
    assert found.moved(21 * S, 29 * S) == "times at the first thermal level 3 → 4"
    assert found.moved(1 * S, 19 * S) is None
    assert found.stood_still(1 * S, 19 * S)


def throttling(events: int, level: int) -> dict[str, object]:
    return {"thermal_throttling_events": events, "thermal_throttling_level": level}


def test_throttling_events_that_a_drive_counted_are_a_proof() -> None:
    counters = states((0, throttling(3, 0)), (60, throttling(4, 1)))
    assert counters.moved(10 * S, 50 * S) == "thermal throttling events 3 → 4"
    assert counters.began(30 * S) is None  # the looks are too far apart
    close = states((0, throttling(3, 0)), (20, throttling(4, 1)))
    assert close.began(10 * S) == (0, 20 * S)


def test_a_drive_that_says_at_each_look_that_it_throttles_never_let_go() -> None:
    held = states((0, throttling(4, 1)), (30, throttling(4, 2)), (60, throttling(4, 1)))
    words = "the drive said for 60 s that it throttles (level 2)"
    assert held.throttled_throughout(1 * S, 59 * S) == words
    assert held.throttled_inside(0, 60 * S) == words
    assert held.moved(1 * S, 59 * S) is None
    assert not held.stood_still(1 * S, 59 * S)


def test_between_two_looks_it_may_have_let_go_if_an_event_was_counted_or_cannot_be() -> None:
    for first, last in ((4, 5), (255, 255)):
        counters = states((0, throttling(first, 1)), (60, throttling(last, 1)))
        assert counters.throttled_throughout(1 * S, 59 * S) is None
    pause = states((0, throttling(4, 1)), (30, throttling(4, 0)), (60, throttling(4, 1)))
    assert pause.throttled_throughout(1 * S, 59 * S) is None
    assert not pause.stood_still(1 * S, 59 * S)


def test_looks_beside_a_very_short_stretch_leave_no_time_to_speak_of() -> None:
    """Each is so close to an edge that it counts for either, and the later comes first."""
    counters = states((9.5, throttling(5, 2)), (10.5, throttling(5, 2)))
    assert counters.throttled_throughout(10 * S, round(10.1 * S)) is None
    assert counters.said(round(9.7 * S), round(9.8 * S)) is None
    assert states((10, throttling(5, 2))).said(round(10.1 * S), round(10.2 * S)) is None


def test_a_level_that_a_drive_does_not_tell_says_nothing() -> None:
    counters = states((0, {"thermal_throttling_events": 4}), (60, {"thermal_throttling_events": 4}))
    assert counters.throttled_throughout(1 * S, 59 * S) is None
    assert counters.said(1 * S, 59 * S) is None
    assert counters.stood_still(1 * S, 59 * S)


def test_a_look_at_which_the_drive_said_that_it_throttles() -> None:
    counters = states((0, throttling(4, 1)), (30, throttling(4, 3)), (60, throttling(4, 0)))
    assert counters.said(20 * S, 50 * S) == "the drive said that it throttles (level 3)"
    assert counters.said(40 * S, 70 * S) is None


def test_a_power_state_that_was_set_between_is_no_look_at_the_level() -> None:
    counters = states((0, throttling(4, 1)), (30, {"state": 1}), (60, throttling(4, 1)))
    assert counters.throttled_throughout(1 * S, 59 * S) is not None
