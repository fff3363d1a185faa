"""What a slow stretch was, told by what was seen of the drive elsewhere in the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labctl.analysis.stats.change_points import scatter_of_steps
from labctl.analysis.throttle_result import ThrottleInterval
from labctl.analysis.throttling.detection import find_throttling
from labctl.analysis.throttling.signals import PhaseSignals
from labctl.analysis.throttling.smart_counters import Counters
from labctl.record.events import Event
from tests.unit.analysis.throttling.test_detection import S, Shape, signals, square

LEVEL = 0.4


def means(stretches: list[tuple[float, float]], level: float = LEVEL) -> Shape:
    """``level`` in stretches and 1 outside, as means of half seconds: what fio would report."""

    def shape(t: np.ndarray) -> np.ndarray:
        fine = t[:, None] + np.linspace(-0.245, 0.245, 50)
        return square(fine.ravel(), stretches, level).reshape(fine.shape).mean(axis=1)

    return shape


def seconds(found: tuple[ThrottleInterval, ...], cause: str) -> list[tuple[float, float]]:
    return [(item.begin_ns / S, item.end_ns / S) for item in found if item.cause == cause]


def near(found: list[tuple[float, float]], wanted: list[tuple[float, float]]) -> bool:
    pairs = zip(found, wanted, strict=False)
    return len(found) == len(wanted) and all(
        abs(a - b) <= 2.0 for one, two in pairs for a, b in zip(one, two, strict=True)
    )


@pytest.mark.parametrize("begin_s", [70.0, 70.1, 70.2, 70.3, 70.4])
@pytest.mark.parametrize(("pause_s", "told"), [(1.0, 1), (1.1, 1), (1.3, 2), (1.4, 2)])
def test_how_long_a_drive_was_let_go_is_told_by_what_it_did_meanwhile(
    begin_s: float, pause_s: float, told: int
) -> None:
    """Wherever the statuses of fio happen to cut the pause."""
    stretches = [(40.0, begin_s), (begin_s + pause_s, 110.0)]
    phase = signals(means(stretches), celsius=lambda t: 79 + 0 * t, noise=0.005)
    wanted = stretches if told == 2 else [(40.0, 110.0)]
    assert near(seconds(find_throttling([phase]), "thermal"), wanted)


def test_many_short_pauses_are_one_stretch_and_longer_ones_before_it_are_not_part_of_it() -> None:
    short = [(20.0, 21.0), (22.5, 23.5), (25.0, 26.0)]
    long = [(27.5 + 2.9 * i, 29.5 + 2.9 * i) for i in range(20)]
    phase = signals(means([*short, *long]), celsius=lambda t: 79 + 0 * t, noise=0.005)
    found = find_throttling([phase])
    assert near(seconds(found, "thermal"), [(20.0, 26.0), (27.5, 84.6)])
    assert "on and off 3 times" in found[0].evidence


def slow_sensor(phase: PhaseSignals, every: int) -> PhaseSignals:
    """Its temperature read only once in so many seconds."""
    heat = phase.temperature
    sensors = tuple(
        replace(one, t_ns=one.t_ns[::every], celsius=one.celsius[::every]) for one in heat.sensors
    )
    return replace(phase, temperature=replace(heat, sensors=sensors))


def test_a_rise_to_what_the_workload_does_when_free_lets_the_drive_go_however_warm_it_looks() -> (
    None
):
    """A sensor that is read each 10 s has not seen yet that the drive has cooled."""
    first = signals(
        lambda t: square(t, [(45, 999)], LEVEL),
        writes=True,
        celsius=lambda t: np.interp(t, [0, 40], [60, 80]),
        duration_s=60.0,
        workload="w",
    )
    second = signals(
        lambda t: square(t, [(0, 20), (40, 60)], LEVEL),
        writes=True,
        celsius=lambda t: 80 + 0 * t,
        duration_s=60.0,
        begin_s=60.0,
        index=1,
        workload="w",
    )
    found = find_throttling([slow_sensor(first, 10), slow_sensor(second, 10)])
    assert near(seconds(found, "thermal"), [(45.0, 60.0), (60.0, 80.0), (100.0, 120.0)])


def test_a_fall_where_the_drive_began_to_throttle_before_is_heat_far_from_its_warning_too() -> None:
    """The warning temperature promises nothing of where a drive holds itself back."""
    moved = Counters.of(
        [
            Event(
                round(at * S),
                "drive_state",
                {"smart": {"thm_temp1_trans_count": n, "thm_temp1_total_time": 20 * n}},
            )
            for at, n in ((-1.0, 0), (59.0, 0), (81.0, 1), (300.0, 1))
        ]
    )
    shape: Shape = lambda t: square(t, [(60, 80)], LEVEL) * square(t, [(130, 150)], 0.6)  # noqa: E731
    heat: Shape = lambda t: np.where(np.isin(np.floor(t / 10), [6, 13]), 70.0, 60.0)  # noqa: E731
    phase = replace(signals(shape, celsius=heat, warning=90.0), counters=moved)
    found = find_throttling([phase])
    assert near(seconds(found, "thermal"), [(60.0, 80.0), (130.0, 150.0)])


def test_the_drives_counters_tell_heat_from_flash_where_energy_cannot() -> None:
    """Both fall in the same second, and each write takes more energy than before."""
    dip, hot = [(60.0, 67.0)], [(60.0, 999.0)]
    looks = [
        Event(
            round(at * S),
            "drive_state",
            {"smart": {"thm_temp1_trans_count": n, "thm_temp1_total_time": total}},
        )
        for at, n, total in ((-1, 0, 0), (55, 0, 0), (65, 1, 5), (75, 1, 15), (181, 1, 121))
    ]
    phase = signals(
        lambda t: square(t, hot, 0.7) * square(t, dip, 0.5),
        writes=True,
        celsius=lambda t: 78 + 0 * t,
        watts=lambda t: 4 + 10 * square(t, hot, 0.75),
    )
    found = find_throttling([replace(phase, idle_watts=4.0, counters=Counters.of(looks))])
    assert near(seconds(found, "thermal"), [(60.0, 180.0)])


def test_a_light_level_before_a_heavy_one_is_heat_where_no_warning_temperature_is_known() -> None:
    phase = signals(
        lambda t: square(t, [(40, 999)], 0.7) * square(t, [(80, 999)], 0.5),
        celsius=lambda t: np.interp(t, [-30, 40, 80], [40, 62, 68]),
        warning=None,
    )
    assert near(seconds(find_throttling([phase]), "thermal"), [(40.0, 180.0)])


def test_dips_of_the_flash_end_where_they_began_whatever_else_goes_on() -> None:
    """Inside of throttling, and with less energy for each write towards the end of each dip."""
    dips = [(60.0 + 30 * i, 74.0 + 30 * i) for i in range(4)]
    late = [(begin + 7, end) for begin, end in dips]
    phase = signals(
        lambda t: square(t, [(30, 999)], 0.25) * square(t, dips, 0.4),
        writes=True,
        celsius=lambda t: 79 + 0 * t,
        watts=lambda t: (
            4 + 20 * square(t, [(30, 999)], 0.25) * square(t, dips, 0.8) * square(t, late, 0.5)
        ),
    )
    found = find_throttling([replace(phase, idle_watts=4.0)])
    assert near(seconds(found, "garbage_collection"), dips)
    assert near(seconds(found, "thermal"), [(30.0, 180.0)])


def test_a_dip_that_its_phase_cut_off_is_known_by_one_of_another_phase() -> None:
    phases = [
        signals(
            lambda t, begin=begin: square(t, [(begin, begin + 8)], 0.3),
            writes=True,
            celsius=lambda t: 45 + 0 * t,
            watts=lambda t: 10 + 0 * t,
            duration_s=60.0,
            begin_s=60.0 * index,
            index=index,
            workload="w",
        )
        for index, begin in enumerate((30.0, 54.0))
    ]
    found = find_throttling([replace(phase, idle_watts=4.0) for phase in phases])
    assert near(seconds(found, "garbage_collection"), [(30.0, 38.0), (114.0, 120.0)])


def test_what_is_too_short_for_the_meters_is_judged_by_all_that_follows_it() -> None:
    """A cliff of the flash in a warm drive: meters that are read each second or two have no watts
    of its first level."""
    phase = signals(
        lambda t: square(t, [(60, 999)], 0.4) * (1 + 0.9 * ((t > 61.6) & (t < 64))),
        writes=True,
        celsius=lambda t: 78 + 0 * t,
        watts=lambda t: 10 + 0 * t,
    )
    watts = phase.watts_between

    def seldom(begin_ns: int, end_ns: int) -> float | None:
        return watts(begin_ns, end_ns) if end_ns - begin_ns >= 2 * S else None

    found = find_throttling([replace(phase, idle_watts=4.0, watts_between=seldom)])
    assert seconds(found, "thermal") == []


def test_levels_that_change_all_the_time_are_not_taken_for_noise() -> None:
    heavy = [(3.0, 4.0), (6.5, 7.5), (10.0, 11.0), (13.0, 14.0)]
    t = np.arange(0.25, 17.5, 0.5)
    level = square(t, [(0.0, 1.0)], 2.0) * means([(a + 0.3, b + 0.3) for a, b in heavy], 0.15)(t)
    noise = np.random.default_rng(3).normal(0, 1, len(t))
    assert scatter_of_steps(np.log(level * (1 + 0.001 * noise))) < 0.01


@pytest.mark.parametrize(("energy", "cause"), [(1.0, "unknown"), (1.6, "write_cache")])
def test_a_step_in_writes_whose_heat_was_not_recorded_is_the_cache_only_if_writes_cost_more(
    energy: float, cause: str
) -> None:
    phase = signals(
        lambda t: square(t, [(60, 999)], 0.5),
        writes=True,
        watts=lambda t: 4 + 10 * square(t, [(60, 999)], 0.5 * energy),
    )
    (found,) = find_throttling([replace(phase, idle_watts=4.0)])
    assert found.cause == cause
