"""Throttling found, its cause told, and none invented."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.run.summary import summarise
from labctl.analysis.stats.change_points import scatter_of_steps, segment_bounds
from labctl.analysis.throttle_result import ThrottleInterval, throttled_s
from labctl.analysis.throttling.detection import find_throttling
from labctl.analysis.throttling.signals import PhaseSignals
from labctl.analysis.throttling.temperature import Temperatures
from labctl.record.phase import Pattern
from tests.unit.synthetic_run import IDLE, Bench, Load, build

S = 1_000_000_000
WARNING = 80.0
Shape = Callable[[np.ndarray], np.ndarray]


def square(t: np.ndarray, stretches: list[tuple[float, float]], level: float) -> np.ndarray:
    factor = np.ones(len(t))
    for begin, end in stretches:
        factor[(t >= begin) & (t < end)] = level
    return factor


def on_and_off(t: np.ndarray, begin: float, on_s: float, off_s: float) -> np.ndarray:
    """Half the level for ``on_s`` in turn with all of it for ``off_s``, means of half seconds."""
    fine = t[:, None] + np.linspace(-0.25, 0.25, 51)
    down = (fine >= begin) & ((fine - begin) % (on_s + off_s) < on_s)
    return 1 - 0.5 * down.mean(axis=1)


def signals(
    shape: Shape,
    *,
    seed: int = 0,
    writes: bool = False,
    celsius: Shape | None = None,
    watts: Shape | None = None,
    noise: float = 0.02,
    duration_s: float = 180.0,
    begin_s: float = 0.0,
    index: int = 0,
    warning: float | None = WARNING,
    workload: str = "",
) -> PhaseSignals:
    """One phase; ``shape`` and ``watts`` are functions of the time since it began."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.25, duration_s, 0.5)
    slow = np.convolve(rng.normal(0, 1, len(t) + 9), np.full(10, 0.1), "valid")
    iops = 100_000 * shape(t) * (1 + noise * rng.normal(0, 1, len(t)) + noise / 2 * slow)
    seconds = np.arange(-30.0, duration_s + 30)
    sensors = {}
    if celsius is not None:
        heat = np.round(celsius(seconds) + rng.normal(0, 0.3, len(seconds)))
        when = ((begin_s + seconds) * S).astype(np.int64)
        sensors = {"composite": (when, heat)}
    power = watts or (lambda at: 4 + 6 * shape(at))

    def watts_between(begin_ns: int, end_ns: int) -> float | None:
        at = np.linspace(begin_ns / S - begin_s, end_ns / S - begin_s, 200)
        return float(power(at).mean())

    return PhaseSignals(
        index=index,
        begin_ns=round(begin_s * S),
        end_ns=round((begin_s + duration_s) * S),
        writes=writes,
        t_ns=((begin_s + t) * S).astype(np.int64),
        iops=iops,
        temperature=Temperatures.of(sensors, ("composite",), warning),
        watts_between=watts_between,
        workload=workload,
    )


def hysteresis(t: np.ndarray, stretches: list[tuple[float, float]]) -> np.ndarray:
    """Temperature that meets the warning where a stretch begins and falls 6 °C in it."""
    knots, values = [-30.0], [60.0]
    for begin, end in stretches:
        knots += [begin, end]
        values += [WARNING, WARNING - 6]
    knots.append(knots[-1] + 30)
    values.append(WARNING - 1)
    return np.interp(t, knots, values)


def matched(found: ThrottleInterval, truth: tuple[float, float], tolerance_s: float = 2.0) -> bool:
    return (
        abs(found.begin_ns / S - truth[0]) <= tolerance_s
        and abs(found.end_ns / S - truth[1]) <= tolerance_s
    )


def test_of_many_thermal_intervals_nearly_all_are_found_and_placed() -> None:
    rng = np.random.default_rng(7)
    wanted = hit = 0
    for seed in range(60):
        level = rng.uniform(0.35, 0.8)
        edges = np.cumsum(rng.uniform(4.0, 25.0, 8))
        stretches = [(float(a), float(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        found = find_throttling(
            [
                signals(
                    lambda t, stretches=stretches, level=level: square(t, stretches, level),
                    seed=seed,
                    celsius=lambda t, stretches=stretches: hysteresis(t, stretches),
                )
            ]
        )
        wanted += len(stretches)
        for truth in stretches:
            hit += any(matched(item, truth) and item.cause == "thermal" for item in found)
        assert len(found) <= len(stretches)
    assert hit / wanted >= 0.95


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.005, 0.03, 0.08])
def test_a_clean_phase_has_none(seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    decline = rng.uniform(-0.1, 0.1)
    phase = signals(
        lambda t: 1 + decline * t / 180,
        seed=seed,
        noise=noise,
        writes=bool(seed % 2),
        celsius=lambda t: 60 + 15 * (1 - np.exp(-(t + 30) / 60)),
    )
    assert find_throttling([phase]) == ()


def test_a_hot_but_willing_drive_has_none() -> None:
    assert find_throttling([signals(np.ones_like, celsius=lambda t: 82 + 0 * t)]) == ()


def test_the_whole_rest_of_a_phase() -> None:
    found = find_throttling(
        [
            signals(
                lambda t: square(t, [(60, 999)], 0.5),
                celsius=lambda t: np.minimum(60 + (t + 30) * 20 / 90, 80),
            )
        ]
    )
    assert [item.cause for item in found] == ["thermal"]
    assert matched(found[0], (60.0, 180.0))
    assert throttled_s(found, 0) == pytest.approx(120.0, abs=2.0)
    assert found[0].iops_before == pytest.approx(100_000, rel=0.03)
    assert found[0].iops_during == pytest.approx(50_000, rel=0.03)
    assert found[0].watts_before == pytest.approx(10.0, rel=0.02)
    assert "warning at 80 °C" in found[0].evidence


@pytest.mark.parametrize("lasts_s", [20.0, 40.0, 60.0])
@pytest.mark.parametrize("step_s", [0.0, 4.0])
def test_a_ramp_begins_where_it_leaves_the_level(lasts_s: float, step_s: float) -> None:
    """Straight, and in steps of a few per cent: not where a tenth is lost."""

    def shape(t: np.ndarray) -> np.ndarray:
        when = np.ceil(t / step_s) * step_s if step_s else t
        return 1 - 0.5 * np.clip((when - 60) / lasts_s, 0, 1)

    phase = signals(shape, celsius=lambda t: np.minimum(60 + (t + 30) * 20 / 90, 82))
    (found,) = find_throttling([phase])
    assert found.cause == "thermal"
    assert (found.begin_ns / S, found.end_ns / S) == pytest.approx((60.0, 180.0), abs=5.0)
    assert "by and by, begin ±" in found.evidence


def test_two_steps_close_to_each_other_are_no_ramp() -> None:
    """The first is too short for the meters, and so its watts are those of both."""
    phase = signals(
        lambda t: np.where(t < 60, 1.0, np.where(t < 62, 0.7, 0.5)),
        celsius=lambda t: np.minimum(60 + (t + 30) * 20 / 90, 82),
    )
    watts = phase.watts_between
    phase = replace(phase, watts_between=lambda a, b: watts(a, b) if b - a >= 3 * S else None)
    (found,) = find_throttling([phase])
    assert found.begin_ns / S == pytest.approx(60.0, abs=0.6)
    assert "by and by" not in found.evidence


def test_a_decline_that_began_in_a_cool_drive_is_not_of_heat() -> None:
    """It was at its limit only when IOPS had fallen far enough to be noticed."""
    found = find_throttling(
        [
            signals(
                lambda t: 1 - 0.5 * np.clip((t - 60) / 40, 0, 1),
                celsius=lambda t: np.interp(t, [60, 69], [60, 78]),
            )
        ]
    )
    assert [item.cause for item in found] == ["unknown"]
    assert found[0].begin_ns / S == pytest.approx(60.0, abs=3.0)
    assert found[0].celsius == pytest.approx(60.0, abs=6.0)


@pytest.mark.parametrize(
    ("shape", "writes", "more_energy", "warning", "wanted"),
    [
        ([(60, 999)], True, 1.2, None, {"unknown"}),
        ([(60, 999)], True, 1.0, None, {"thermal"}),
        ([(60, 999)], True, 1.2, WARNING, {"thermal"}),
        ([(60, 999)], False, 1.2, None, {"thermal"}),
        ([(60, 120), (140, 999)], True, 1.2, None, {"thermal"}),
    ],
)
def test_a_drive_that_stops_getting_warmer_may_have_filled_its_cache(
    shape: list[tuple[float, float]],
    writes: bool,
    more_energy: float,
    warning: float | None,
    wanted: set[str],
) -> None:
    phase = signals(
        lambda t: square(t, shape, 0.5),
        writes=writes,
        celsius=lambda t: np.minimum(60 + (t + 30) * 20 / 90, 80),
        watts=lambda t: np.where(square(t, shape, 0.5) < 1, 4 + 3 * more_energy, 10),
        warning=warning,
    )
    found = find_throttling([replace(phase, idle_watts=4.0)])
    assert {item.cause for item in found} == wanted
    assert len(found) == len(shape)


def test_watts_that_hardly_move_do_not_tell_heat_from_the_end_of_a_cache() -> None:
    phase = signals(
        lambda t: square(t, [(60, 999)], 0.5),
        writes=True,
        celsius=lambda t: np.minimum(60 + (t + 30) * 20 / 90, 80),
        watts=lambda t: np.where(t < 60, 4.4, 4.2),
        warning=None,
    )
    (found,) = find_throttling([replace(phase, idle_watts=4.0)])
    assert found.cause == "unknown"
    assert found.evidence.endswith("but the end of a write cache may look the same")


def test_a_slowdown_of_unknown_cause_goes_on_until_iops_rise() -> None:
    """In the phase after it, and in the one after that, of a drive of which nothing is known."""
    phases = [
        signals(shape, begin_s=180.02 * index, index=index, seed=index, workload=f"depth {index}")
        for index, shape in enumerate(
            (
                lambda t: square(t, [(60, 999)], 0.5),
                lambda t: 0.5 * np.ones_like(t),
                lambda t: square(t, [(-1, 70)], 0.5),
                np.ones_like,
            )
        )
    ]
    found = find_throttling(phases)
    assert [(item.phase_index, item.cause) for item in found] == [
        (0, "unknown"),
        (1, "unknown"),
        (2, "unknown"),
    ]
    assert matched(found[1], (180.02, 360.02))
    assert matched(found[2], (360.04, 430.04))


def test_light_then_heavy_is_one_interval() -> None:
    shape: Shape = lambda t: square(t, [(50, 90)], 0.7) * square(t, [(65, 80)], 0.5)  # noqa: E731
    found = find_throttling([signals(shape, celsius=lambda t: hysteresis(t, [(50, 90)]))])
    assert len(found) == 1
    assert matched(found[0], (50.0, 90.0))


@pytest.mark.parametrize(("pause_s", "told"), [(0.5, 1), (1.0, 1), (2.0, 2), (5.0, 2)])
def test_a_drive_let_go_for_less_than_can_be_resolved_throttled_all_the_time(
    pause_s: float, told: int
) -> None:
    stretches = [(40.0, 70.0), (70.0 + pause_s, 110.0)]
    found = find_throttling(
        [
            signals(
                lambda t: square(t, stretches, 0.4),
                celsius=lambda t: hysteresis(t, [(40.0, 110.0)]),
            )
        ]
    )
    assert [item.cause for item in found] == ["thermal"] * told
    assert matched(found[0], (40.0, 110.0 if told == 1 else 70.0))
    assert matched(found[-1], (40.0 if told == 1 else 70.0 + pause_s, 110.0))
    assert throttled_s(found, 0) == pytest.approx(70 - (pause_s if told == 2 else 0), abs=1.1)


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize(("on_s", "off_s"), [(0.6, 0.8), (0.9, 0.8), (1.7, 0.5)])
def test_throttling_that_goes_on_and_off_with_every_status_does_not_pass_for_noise(
    on_s: float, off_s: float, writes: bool
) -> None:
    """It makes up most of the phase, so that hardly anything else scatters less."""
    found = find_throttling(
        [
            signals(
                lambda t: on_and_off(t, 30.0, on_s, off_s),
                celsius=lambda t: np.interp(t, [-30, 30], [60, WARNING]),
                writes=writes,
                noise=0.004,
                duration_s=300.0,
            )
        ]
    )
    thermal = [item for item in found if item.cause == "thermal"]
    assert thermal[0].begin_ns / S == pytest.approx(30.0, abs=2.0)
    assert throttled_s(found, 0) > 60


def test_a_phase_that_starts_throttled() -> None:
    first = signals(lambda t: square(t, [(60, 999)], 0.5), celsius=lambda t: 60 + (t + 30) / 4.5)
    second = signals(
        lambda t: square(t, [(-1, 20)], 0.5),
        celsius=lambda t: np.where(t < 20, 80 - 0.35 * np.maximum(t, 0), 73),
        begin_s=180.02,
        index=1,
    )
    found = find_throttling([first, second])
    assert [(item.phase_index, item.cause) for item in found] == [(0, "thermal"), (1, "thermal")]
    assert matched(found[1], (180.02, 200.0))


def test_a_phase_that_is_throttled_from_end_to_end() -> None:
    first = signals(lambda t: square(t, [(60, 999)], 0.5), celsius=lambda t: 60 + (t + 30) / 4.5)

    def second(celsius: float, index: int, level: float, begin_s: float) -> PhaseSignals:
        return signals(
            lambda t: level + 0 * t,
            celsius=lambda t: celsius + 0 * t,
            begin_s=begin_s,
            index=index,
            seed=index,
            workload="randread 4k QD1",
        )

    hot = second(81, 1, 0.5, 180.02)
    cooled = second(65, 1, 0.5, 180.02)
    willing = second(60, 2, 1.0, 400.0)
    found = find_throttling([first, hot, willing])
    assert [(item.phase_index, item.cause) for item in found] == [(0, "thermal"), (1, "thermal")]
    assert throttled_s(found, 1) == pytest.approx(180.0)
    assert "unthrottled the same workload did 99872" in found[1].evidence
    assert throttled_s(find_throttling([first, cooled, willing]), 1) == 0.0
    as_good = find_throttling([first, second(81, 1, 0.97, 180.02), willing])
    assert [item.phase_index for item in as_good] == [0]


def test_the_end_of_a_dip_of_the_flash_does_not_let_a_hot_drive_go() -> None:
    """Before the dip it was too warm to be free. In the dip fewer IOPS take the same watts."""
    first = signals(lambda t: square(t, [(60, 999)], 0.5), celsius=lambda t: 60 + (t + 30) / 4.5)
    onset = 60 + 90 / 4.5
    second = signals(
        lambda t: 0.5 * square(t, [(100, 110)], 0.4),
        celsius=lambda t: np.where(t < 90, onset + 4, onset - 1),
        watts=lambda t: 7 + 0 * t,
        writes=True,
        begin_s=180.02,
        index=1,
        seed=1,
    )
    found = [item for item in find_throttling([first, second]) if item.phase_index == 1]
    (thermal,) = (item for item in found if item.cause == "thermal")
    assert (thermal.begin_ns, thermal.end_ns) == (second.begin_ns, second.end_ns)


def test_heat_alone_does_not_carry_throttling_over() -> None:
    """A drive that stays near its warning: what it does may be less, for a reason not known."""
    first = signals(lambda t: square(t, [(60, 999)], 0.5), celsius=lambda t: 60 + (t + 30) / 4.5)
    warm = [
        signals(
            lambda t: 0.1 + 0 * t, celsius=lambda t: 77 + 0 * t, begin_s=180.02 * i, index=i, seed=i
        )
        for i in (1, 2, 3)
    ]
    found = find_throttling([first, *warm])
    assert [(item.phase_index, item.cause) for item in found] == [
        (0, "thermal"),
        (1, "unknown"),
        (2, "unknown"),
        (3, "unknown"),
    ]
    assert found[1].evidence.startswith("may be thermal: the phase before ended throttled")
    assert "ended slower for a reason not known and no rise was seen" in found[2].evidence
    assert throttled_s(found, 1) == 0.0


def test_the_end_of_a_write_cache_is_not_throttling() -> None:
    found = find_throttling(
        [
            signals(
                lambda t: square(t, [(40, 999)], 0.2),
                writes=True,
                celsius=lambda t: 55 + 0.02 * t,
            )
        ]
    )
    assert [item.cause for item in found] == ["write_cache"]
    assert matched(found[0], (40.0, 180.0))
    assert throttled_s(found, 0) == 0.0


def test_heat_after_the_end_of_a_write_cache_is_found_too() -> None:
    shape: Shape = lambda t: square(t, [(40, 999)], 0.4) * square(t, [(100, 130)], 0.5)  # noqa: E731
    found = find_throttling(
        [signals(shape, writes=True, celsius=lambda t: hysteresis(t, [(100, 130)]))]
    )
    assert [item.cause for item in found] == ["write_cache", "thermal"]
    assert matched(found[1], (100.0, 130.0))


def test_dips_that_come_again_are_housekeeping() -> None:
    dips = [(30.0, 40.0), (75.0, 85.0), (120.0, 130.0)]
    found = find_throttling(
        [
            signals(
                lambda t: square(t, dips, 0.4),
                writes=True,
                celsius=lambda t: 55 + 0 * t,
                watts=lambda t: 10 + 0 * t,
            )
        ]
    )
    assert [item.cause for item in found] == ["garbage_collection"] * 3
    assert "one every 45 s" in found[0].evidence


def test_a_host_that_stalls() -> None:
    phase = signals(lambda t: square(t, [(70, 76)], 0.0), celsius=lambda t: 60 + 0 * t)
    found = find_throttling([phase])
    assert [item.cause for item in found] == ["host_stall"]
    assert matched(found[0], (70.0, 76.0))


def test_a_status_that_came_late_is_a_stall_too() -> None:
    """fio stood still for 8 s: one status over 8.5 s with half a second's worth of I/O."""
    phase = signals(np.ones_like)
    t = phase.t_ns / S
    kept = (t < 70) | (t > 78.5)
    when = np.concatenate([t[t < 70], [74.25], t[t > 78.5]])
    iops = np.concatenate([phase.iops[t < 70], [100_000 * 0.01], phase.iops[t > 78.5]])
    assert kept.sum() + 1 == len(when)
    late = PhaseSignals(0, 0, 180 * S, False, (when * S).astype(np.int64), iops, phase.temperature,
                        phase.watts_between)  # fmt: skip
    found = find_throttling([late])
    assert [item.cause for item in found] == ["host_stall"]
    assert matched(found[0], (70.0, 78.5))


def test_a_drop_in_a_cool_reading_drive_is_unknown() -> None:
    phase = signals(lambda t: square(t, [(70, 90)], 0.6), celsius=lambda t: 50 + 0 * t)
    assert [item.cause for item in find_throttling([phase])] == ["unknown"]


def test_without_a_warning_temperature_a_plateau_tells() -> None:
    phase = signals(
        lambda t: square(t, [(60, 999)], 0.5),
        celsius=lambda t: np.minimum(50 + (t + 30) / 3, 80),
        warning=None,
    )
    found = find_throttling([phase])
    assert [item.cause for item in found] == ["thermal"]
    assert "stopped rising" in found[0].evidence


def test_without_temperatures_nothing_is_called_thermal() -> None:
    found = find_throttling([signals(lambda t: square(t, [(60, 999)], 0.5))])
    assert [item.cause for item in found] == ["unknown"]
    assert found[0].celsius is None


def test_hours_are_looked_at_too() -> None:
    dips = [(float(b), float(b) + 35) for b in range(300, 7000, 150)]
    phase = signals(
        lambda t: square(t, dips, 0.5), writes=True, celsius=lambda t: 55 + 0 * t, duration_s=7200
    )
    found = find_throttling([phase])
    assert len(found) == len(dips)
    assert {item.cause for item in found} == {"garbage_collection"}


def test_too_few_points_say_nothing() -> None:
    assert find_throttling([signals(np.ones_like, duration_s=2.0)]) == ()


def test_segments_by_hand() -> None:
    y = np.array([1.0] * 10 + [3.0] * 7 + [1.0] * 9)
    assert segment_bounds(y, 0.1, 3) == [0, 10, 17, 26]
    assert segment_bounds(y, 1e6, 3) == [0, 26]
    assert segment_bounds(y[:4], 0.1, 3) == [0, 4]


def test_segments_are_those_of_ruptures() -> None:
    import ruptures

    rng = np.random.default_rng(3)
    y = np.repeat(rng.normal(0, 1, 12), rng.integers(5, 40, 12)) + rng.normal(0, 0.1, 1)
    y = y + rng.normal(0, 0.1, len(y))
    other = ruptures.Pelt(model="l2", min_size=3, jump=1).fit(y).predict(pen=0.5)
    assert segment_bounds(y, 0.5, 3) == [0, *other]


def test_noise_is_judged_without_the_changes() -> None:
    rng = np.random.default_rng(4)
    y = np.repeat([1.0, 0.5, 1.0], 100) + rng.normal(0, 0.03, 300)
    assert scatter_of_steps(y) == pytest.approx(0.03, rel=0.5)


def test_throttling_of_a_whole_run(tmp_path: Path) -> None:
    """From the journal: one phase throttles, the one before and after do not."""
    loads = (
        IDLE,
        Load(0.6, 0.6, 30.0, 100_000),
        Load(0.8, 0.7, 60.0, 300_000, shape=lambda t: square(t, [(20, 40)], 0.5)),
        Load(0.6, 0.6, 30.0, 100_000, Pattern.RANDWRITE),
    )
    begin = 2 + 10 + 30 + 2 * 0.015 + 20
    bench = Bench(
        loads=loads,
        celsius=lambda t: np.interp(t, [0, begin, begin + 20, 200], [50, 80, 74, 74]),
    )
    run = build(tmp_path, bench)
    summary = summarise(run.record)
    assert [(item.phase_index, item.cause) for item in summary.throttling] == [(2, "thermal")]
    assert summary.phases[2].throttled_s == pytest.approx(20.0, abs=2.0)
    assert [item.throttled for item in summary.phases] == [False, False, True, False]
    found = summary.throttling[0]
    assert found.watts_before is not None and found.watts_during is not None
    assert found.watts_during < found.watts_before
