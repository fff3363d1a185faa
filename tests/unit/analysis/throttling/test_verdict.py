"""The verdict on a phase, limits on power, and throttling that goes on into the next phase."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labctl.analysis.power.unthrottled import unthrottled_pieces
from labctl.analysis.throttle_result import throttled_s, throttled_stretches
from labctl.analysis.throttling.detection import find_throttling
from labctl.analysis.throttling.run_knowledge import known
from labctl.analysis.throttling.signals import PhaseSignals
from labctl.analysis.throttling.smart_counters import Counters
from labctl.analysis.throttling.verdict import verdict
from labctl.record.events import Event
from tests.unit.analysis.throttling.test_detection import (
    WARNING,
    S,
    Shape,
    hysteresis,
    signals,
    square,
)


def counted(*said: tuple[float, dict[str, float]]) -> Counters:
    return Counters.of(told(round(t * S), data) for t, data in said)


def told(t_ns: int, data: dict[str, float]) -> Event:
    """The event in which a run tells it: of a look at SMART, or of a power state that was set."""
    if "state" in data:
        return Event(t_ns, "power_state", dict(data))
    return Event(t_ns, "drive_state", {"when": "before", "smart": data})


def test_a_cool_drive_did_not_throttle() -> None:
    phase = signals(np.ones_like, celsius=lambda t: 60 + 0 * t)
    found = verdict(phase, [])
    assert (found.verdict, found.why) == ("none seen", "at most 61 °C, warning at 80 °C")


def test_without_temperature_and_counters_it_cannot_be_excluded() -> None:
    assert verdict(signals(np.ones_like), []).verdict == "cannot be excluded"


def test_a_drive_that_was_hot_throughout() -> None:
    phase = signals(np.ones_like, celsius=lambda t: 82 + 0 * t)
    assert verdict(phase, []).verdict == "cannot be excluded"
    still = counted((0, {"thm_temp1_trans_count": 4}), (180, {"thm_temp1_trans_count": 4}))
    assert verdict(replace(phase, counters=still), []).verdict == "none seen"
    moved = counted((0, {"thm_temp1_trans_count": 4}), (180, {"thm_temp1_trans_count": 5}))
    assert verdict(replace(phase, counters=moved), []).verdict == "cannot be excluded"


def test_a_drive_that_says_that_it_throttles_is_believed_however_cool_it_is() -> None:
    phase = signals(np.ones_like, celsius=lambda t: 60 + 0 * t)
    level, events = "thermal_throttling_level", "thermal_throttling_events"
    held = counted((0, {events: 4, level: 1}), (180, {events: 4, level: 1}))
    found = verdict(replace(phase, counters=held), [])
    assert (found.verdict, found.why) == (
        "cannot be excluded",
        "the drive said that it throttles (level 1), but no stretch stands out",
    )
    free = counted((0, {events: 4, level: 0}), (180, {events: 4, level: 0}))
    assert verdict(replace(phase, counters=free), []).verdict == "none seen"
    (stretch,) = find_throttling([replace(phase, counters=held)])
    assert (stretch.cause, stretch.begin_ns) == ("thermal", phase.begin_ns)


def test_a_phase_that_scatters_near_the_warning_cannot_be_judged() -> None:
    """It came from below, but a fall would be hidden in what its statuses differ by."""
    for noise, wanted in ((0.01, "none seen"), (0.15, "cannot be excluded")):
        phase = signals(
            lambda t: np.ones(len(t)),
            celsius=lambda t: np.interp(t, [-30, 60], [50, WARNING]),
            noise=noise,
        )
        assert verdict(phase, find_throttling([phase])).verdict == wanted


@pytest.mark.parametrize(
    ("warning", "wanted"), [(WARNING, "none seen"), (None, "cannot be excluded")]
)
def test_a_step_in_writes_is_only_the_flash_where_the_drive_is_known_to_be_cool(
    warning: float | None, wanted: str
) -> None:
    phase = signals(
        lambda t: square(t, [(40, 999)], 0.5),
        writes=True,
        celsius=lambda t: 55 + 0.02 * t,
        warning=warning,
    )
    found = find_throttling([phase])
    assert [item.cause for item in found] == ["write_cache"]
    assert verdict(phase, found).verdict == wanted


def test_a_short_hot_phase_cannot_be_judged() -> None:
    phase = signals(np.ones_like, celsius=lambda t: 79 + 0 * t, duration_s=3.0)
    found = verdict(phase, [])
    assert found.verdict == "cannot be excluded"
    assert found.why.startswith("too short")


def test_throttled_says_why() -> None:
    phase = signals(
        lambda t: square(t, [(60, 100)], 0.5), celsius=lambda t: hysteresis(t, [(60, 100)])
    )
    found = verdict(phase, find_throttling([phase]))
    assert found.verdict == "throttled"
    assert "warning at 80 °C" in found.why


def test_a_phase_whose_every_second_was_counted() -> None:
    phase = signals(lambda t: 0.5 + 0 * t, celsius=lambda t: 75 + 0 * t)
    all_of_it = counted((0, {"thm_temp1_total_time": 7}), (180, {"thm_temp1_total_time": 186}))
    found = find_throttling([replace(phase, counters=all_of_it)])
    assert [(item.cause, item.duration_s) for item in found] == [("thermal", 180.0)]
    assert "the drive counted 179 s of throttling in 180 s" in found[0].evidence


def test_one_ceiling_of_watts_in_different_workloads_is_a_power_limit() -> None:
    shape: Shape = lambda t: square(t, [(60, 120)], 0.6)  # noqa: E731

    def limited(index: int, iops: float) -> object:
        phase = signals(
            shape,
            celsius=lambda t: 45 + 0 * t,
            watts=lambda t: np.where(shape(t) < 1, 7.0, 10.0 + index),
            begin_s=200.0 * index,
            index=index,
            seed=index,
        )
        return replace(phase, iops=phase.iops * iops)

    both = [limited(0, 1.0), limited(1, 0.5)]
    found = find_throttling(both)  # type: ignore[arg-type]
    assert [item.cause for item in found] == ["power_limit", "power_limit"]
    assert "a flat ceiling of 7.00 W" in found[0].evidence
    assert throttled_s(found, 0) == pytest.approx(60.0, abs=1.0)
    alone = find_throttling(both[:1])  # type: ignore[arg-type]
    assert [item.cause for item in alone] == ["unknown"]


def test_a_lower_power_state_is_a_power_limit() -> None:
    phase = signals(lambda t: square(t, [(60, 999)], 0.6), celsius=lambda t: 45 + 0 * t)
    states = counted((0, {"state": 0}), (60.2, {"state": 2, "max_watts": 7.6}))
    found = find_throttling([replace(phase, counters=states)])
    assert [item.cause for item in found] == ["power_limit"]
    assert "power state 2, at most 7.6 W" in found[0].evidence


def test_a_drive_that_goes_on_taking_power_is_no_host_that_stalls() -> None:
    phase = signals(
        lambda t: square(t, [(70, 76)], 0.0),
        celsius=lambda t: 50 + 0 * t,
        watts=lambda t: 9.8 + 0 * t,
    )
    assert [item.cause for item in find_throttling([replace(phase, idle_watts=4.0)])] == ["unknown"]
    idle = signals(lambda t: square(t, [(70, 76)], 0.0), celsius=lambda t: 50 + 0 * t)
    found = find_throttling([replace(idle, idle_watts=4.0)])
    assert [item.cause for item in found] == ["host_stall"]


def test_fast_on_and_off_is_one_stretch() -> None:
    stretches = [(60 + 4 * i, 62 + 4 * i) for i in range(10)]
    phase = signals(
        lambda t: square(t, [(float(a), float(b)) for a, b in stretches], 0.5),
        celsius=lambda t: np.where((t > 55) & (t < 100), 79.0, 60.0),
    )
    (found,) = find_throttling([phase])
    assert found.cause == "thermal"
    assert "on and off 10 times, 53% of the time down" in found.evidence
    assert (found.begin_ns / S, found.end_ns / S) == pytest.approx((60.0, 98.0), abs=1.0)


def test_dips_have_period_duration_and_depth_as_numbers() -> None:
    dips = [(30.0, 40.0), (75.0, 85.0), (120.0, 130.0)]
    phase = signals(
        lambda t: square(t, dips, 0.4),
        writes=True,
        celsius=lambda t: 55 + 0 * t,
        watts=lambda t: 10 + 0 * t,
    )
    for item in find_throttling([phase]):
        assert item.period_s == pytest.approx(45.0, abs=1.0)
        assert item.duration_s == pytest.approx(10.0, abs=1.0)
        assert item.depth == pytest.approx(0.6, abs=0.05)


def test_what_is_left_keeps_away_from_throttling() -> None:
    pieces = unthrottled_pieces(0, 60 * S, [(10 * S, 20 * S), (23 * S, 50 * S)])
    assert pieces == ((0, 9 * S), (51 * S, 60 * S))
    assert unthrottled_pieces(0, 60 * S, [(0, 60 * S)]) == ()
    assert unthrottled_pieces(0, 60 * S, []) == ((0, 60 * S),)


def test_stretches_that_overlap_count_once() -> None:
    phase = signals(
        lambda t: square(t, [(60, 100)], 0.5), celsius=lambda t: hysteresis(t, [(60, 100)])
    )
    (item,) = find_throttling([phase])
    twice = [item, replace(item, end_ns=item.end_ns + S)]
    assert len(throttled_stretches(twice, 0)) == 1
    assert throttled_s(twice, 0) == pytest.approx(41.0, abs=1.0)


def in_turn(*shapes: Shape) -> list[PhaseSignals]:
    """Cool phases of different workloads one after the other, at 7 W where they are slow."""

    def one(index: int, shape: Shape) -> PhaseSignals:
        return signals(
            shape,
            celsius=lambda t: 45 + 0 * t,
            watts=lambda t: np.where(shape(t) < 1, 7.0, 10.0 + index),
            duration_s=120.0,
            begin_s=120.5 * index,
            index=index,
            seed=index,
            workload=f"queue depth {index}",
        )

    return [one(index, shape) for index, shape in enumerate(shapes)]


def test_a_limit_of_power_goes_on_in_the_next_phase() -> None:
    both = in_turn(
        lambda t: np.where(t > 60, 0.7, 1.0),
        lambda t: np.where(t < 40, 0.6, 1.0),
    )
    both[1] = replace(both[1], iops=both[1].iops / 0.6 * 0.7)  # the same energy an operation
    found = find_throttling(both)
    assert [item.cause for item in found] == ["power_limit", "power_limit"]
    assert (found[0].begin_ns / S, found[1].end_ns / S) == pytest.approx((60, 160.5), abs=1.0)
    assert "at which the phase before ended" in found[1].evidence
    alone = find_throttling(both[1:])
    assert alone == ()


def test_a_power_state_that_limits_goes_on_until_it_is_changed() -> None:
    both = in_turn(
        lambda t: np.where(t > 60, 0.7, 1.0),
        lambda t: np.where(t < 40, 0.7, 1.0),
    )
    states = counted((0, {"state": 0}), (60.2, {"state": 2}), (160.6, {"state": 0}))
    found = find_throttling([replace(phase, counters=states) for phase in both])
    assert [item.cause for item in found] == ["power_limit", "power_limit"]
    assert "power state 2, as in the phase before" in found[1].evidence
    still = counted((0, {"state": 0}), (60.2, {"state": 2}))
    flat = in_turn(lambda t: np.where(t > 60, 0.7, 1.0), lambda t: np.full(len(t), 0.6))
    found = find_throttling([replace(phase, counters=still) for phase in flat])
    assert throttled_s(found, 1) == pytest.approx(120.0, abs=1.0)


def test_heat_that_was_counted_is_no_limit_that_goes_on() -> None:
    both = in_turn(
        lambda t: np.where(t > 60, 0.7, 1.0),
        lambda t: np.full(len(t), 0.7),
    )
    states = counted((0, {"state": 0}), (60.2, {"state": 2}))
    both = [replace(phase, counters=states) for phase in both]
    assert [item.cause for item in find_throttling(both)] == ["power_limit", "power_limit"]
    readings = counted(
        (0, {"state": 0}),
        (60.2, {"state": 2}),
        (120.4, {"thm_temp1_total_time": 7}),
        (240.6, {"thm_temp1_total_time": 127}),
    )
    both[1] = replace(both[1], counters=readings)
    found = find_throttling(both)
    assert [item.cause for item in found] == ["power_limit", "thermal"]
    assert "the drive counted 120 s" in found[1].evidence
    assert "next phase" not in found[0].evidence


def test_what_each_write_cost_more_for_is_not_carried_on() -> None:
    """Whatever the rest of the run shows: the next phase is as free as it looks."""
    before, phase = in_turn(lambda t: np.where(t > 60, 0.7, 1.0), np.ones_like)
    (fall,) = find_throttling([before])
    for costly in (False, True):
        what = known([before, phase], [replace(fall, costly=costly)], [], False)
        assert (what.free_of(phase) is not None) == costly


def test_iops_that_fall_near_the_warning_cannot_be_judged_however_slowly() -> None:
    """A twentieth in three minutes is not told, and no proof that there was none."""
    for lost, wanted in ((0.0, "none seen"), (0.05, "cannot be excluded")):
        phase = signals(
            lambda t, lost=lost: 1 - lost * t / 180,
            celsius=lambda t: np.interp(t, [-30, 60], [50, WARNING]),
            noise=0.003,
        )
        assert verdict(phase, find_throttling([phase])).verdict == wanted


def test_a_cool_sensor_that_is_not_the_drives_own_excludes_nothing() -> None:
    phase = signals(np.ones_like, celsius=lambda t: 40 + 0 * t)
    (sensor,) = phase.temperature.sensors
    beside = replace(phase.temperature, sensors=(replace(sensor, own=False, name="drive case"),))
    assert verdict(phase, []).verdict == "none seen"
    assert verdict(replace(phase, temperature=beside), []).verdict == "cannot be excluded"


def test_a_phase_after_one_that_ended_slow_cannot_be_judged() -> None:
    before, phase = in_turn(lambda t: np.where(t > 60, 0.7, 1.0), np.ones_like)
    found = find_throttling([before, phase])
    assert [item.cause for item in found] == ["unknown", "unknown"]
    assert (found[1].begin_ns, found[1].end_ns) == (phase.begin_ns, phase.end_ns)
    assert verdict(phase, found).verdict == "cannot be excluded"


@pytest.mark.parametrize(
    ("during_watts", "wanted"), [(7.0, "cannot be excluded"), (9.5, "none seen")]
)
def test_what_follows_the_end_of_a_cache_is_free_only_if_energy_shows_that_it_was_one(
    during_watts: float, wanted: str
) -> None:
    """Of a drive that names no warning temperature."""

    def one(index: int, shape: Shape, watts: Shape) -> PhaseSignals:
        phase = signals(
            shape,
            writes=True,
            celsius=lambda t: 55 + 0.02 * (t + 120.5 * index),
            watts=watts,
            duration_s=120.0,
            begin_s=120.5 * index,
            index=index,
            seed=index,
            warning=None,
            workload=f"queue depth {index}",
        )
        return replace(phase, idle_watts=4.0)

    phases = [
        one(0, lambda t: square(t, [(60, 999)], 0.5), lambda t: np.where(t > 60, during_watts, 10)),
        one(1, np.ones_like, lambda t: 10 + 0 * t),
    ]
    found = find_throttling(phases)
    assert [item.cause for item in found] == ["write_cache"]
    assert verdict(phases[1], found).verdict == wanted
