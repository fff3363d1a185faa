"""What a phase needs to know before it ends, and what keeps it going."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from labctl.analysis.steady_state.enough import (
    CHECKS_GROW,
    Enough,
    Expected,
    Keeps,
    Known,
    MetersPart,
    Quantity,
    Target,
    last_check,
)
from labctl.analysis.steady_state.time_cells import MOST_CELLS, TimeCells, total

STEP_S = 0.1
Course = Callable[[float], float]


def fed(
    watts: Course,
    seconds: float,
    *,
    target: Target | None = None,
    expected: Expected | None = None,
    celsius: Course | None = None,
    noise: float = 0.0003,
    seed: int = 7,
) -> Enough:
    """A phase of so many seconds that drew ``watts``, and did 1,000 IOPS for each."""
    rng = np.random.default_rng(seed)
    phase = Enough(target or Target(), expected or Expected(180.0), ["12V"])
    for number in range(1, round(seconds / STEP_S) + 1):
        t_s = number * STEP_S
        phase.add_watts("12V", t_s, watts(t_s) * (1 + noise * rng.normal()))
        if number % 5 == 0:
            phase.add_iops(t_s, 1000 * watts(t_s) * (1 + noise * rng.normal()))
        if celsius is not None and number % 20 == 0:
            phase.add_celsius("drive", t_s, celsius(t_s))
    return phase


def level(t_s: float) -> float:
    return 6.0


def test_a_quiet_phase_ends_at_its_shortest_time() -> None:
    phase = fed(level, 20.0)
    assert Keeps.SHORTEST in phase.state(19.9).keeps
    state = phase.state(20.0)
    assert state.enough and state.checked_s == 20.0
    watts = state.known[Quantity.WATTS]
    assert watts.mean == pytest.approx(6.0, rel=1e-3)
    assert watts.repeatability <= watts.target_u and watts.meters_u == 0.0
    assert fed(level, 20.0, noise=0.0).state(20.0).enough


def test_at_the_longest_time_the_repeatability_is_that_of_independent_readings() -> None:
    found = [
        fed(level, 180.0, noise=0.01, seed=seed).state(180.0).known[Quantity.WATTS].repeatability
        for seed in range(7)
    ]
    n = int(last_check(180.0, 20.0) / STEP_S)
    ahead = 180.0 / (n * STEP_S) - 1
    line = ahead * math.hypot(1, 1) * 0.01 * 6.0 / math.sqrt(n)
    alone = 2 * 0.01 * 6.0 / math.sqrt(n)
    assert np.median(found) == pytest.approx(alone + line, rel=0.35)


def test_a_line_that_the_scatter_may_hide_counts_until_the_longest_time() -> None:
    target = Target({Quantity.WATTS: 0.005})
    short, long = (
        fed(level, 20.0, target=target, expected=Expected(longest_s), noise=0.01).state(20.0)
        for longest_s in (22.0, 600.0)
    )
    assert short.enough and long.keeps == (Keeps.TARGET,)
    assert long.known[Quantity.WATTS].repeatability > 0.02 * 6.0

    def rises(t_s: float) -> float:
        return 6.0 * (1 + 0.02 * t_s / 180)

    assert Keeps.TREND in fed(rises, 60.0, target=target).state(60.0).keeps
    assert Keeps.TREND not in fed(rises, 170.0, target=target).state(170.0).keeps


def test_u_is_that_of_the_meters_and_of_the_scatter_together() -> None:
    expected = Expected(180.0, meters=MetersPart(gain=0.002, floor_watts=0.003))
    known = fed(level, 20.0, expected=expected).state(20.0).known[Quantity.WATTS]
    assert known.meters_u == pytest.approx(0.015, rel=1e-3)
    assert known.meters_u < known.u <= known.meters_u + known.repeatability


def test_a_target_below_the_meters_is_never_reached() -> None:
    expected = Expected(180.0, meters=MetersPart(gain=0.01))
    target = Target({Quantity.WATTS: 0.005})
    assert Keeps.TARGET in fed(level, 180.0, target=target, expected=expected).state(180.0).keeps


def test_what_is_not_asked_for_keeps_nothing_going() -> None:
    def busy(t_s: float) -> float:
        return 6.0 if t_s % 20 < 10 else 9.0

    target = Target({Quantity.IOPS: 0.01})
    phase = Enough(target, Expected(180.0), ["12V"])
    for number in range(1, 201):
        phase.add_watts("12V", number * STEP_S, busy(number * STEP_S))
        phase.add_iops(number * STEP_S, 1000.0)
    assert phase.state(20.0).enough


@pytest.mark.parametrize(
    ("course", "keeps"),
    [
        (lambda t_s: 6.0 + 0.05 * t_s, Keeps.TREND),
        (lambda t_s: 6.0 if t_s < 8 or t_s > 12 else 9.0, Keeps.RANGE),
        (lambda t_s: 6.0 + 0.01 * np.sin(t_s / 6), Keeps.DEPENDENCE),
        (lambda t_s: 5.0 if 7.0 < t_s < 8.0 else 6.0, Keeps.RARE),
        (lambda t_s: 6.0 + 2.0 * np.sin(20.0 * t_s), Keeps.TARGET),
    ],
)
def test_what_the_mean_is_no_measure_of_keeps_it_going(course: Course, keeps: Keeps) -> None:
    state = fed(course, 20.0).state(20.0)
    assert keeps in state.keeps, state


def test_what_comes_again_counts_when_it_came_often_enough() -> None:
    def dips(t_s: float) -> float:
        return 5.0 if t_s % 30 > 28 else 6.0

    target = Target({Quantity.WATTS: 0.05, Quantity.IOPS: 0.05})
    assert Keeps.RARE in fed(dips, 130.0, target=target).state(130.0).keeps
    assert Keeps.RARE not in fed(dips, 300.0, target=target).state(300.0).keeps


def test_a_phase_that_writes_waits_for_collection() -> None:
    phase = fed(level, 300.0, expected=Expected(600.0, collection_s=200.0))
    assert Keeps.COLLECTION in phase.state(180.0).keeps
    assert Keeps.COLLECTION not in phase.state(300.0).keeps


def test_heat_keeps_it_going() -> None:
    moving = fed(level, 20.0, celsius=lambda t_s: 40 + t_s / 5)
    assert Keeps.TEMPERATURE in moving.state(20.0).keeps
    near = Expected(180.0, temperature_s=2.0, limit_celsius=70.0)
    creeping = fed(level, 20.0, expected=near, celsius=lambda t_s: 65 + t_s / 20)
    assert creeping.state(20.0).keeps == (Keeps.HEAT,)
    still = fed(level, 20.0, expected=near, celsius=lambda t_s: 65.0)
    assert still.state(20.0).enough


def test_a_drive_that_warmed_up_at_first_keeps_nothing_going() -> None:
    def warmed_up(t_s: float) -> float:
        return min(40 + t_s / 2, 50.0)

    expected = Expected(180.0, temperature_s=2.0)
    assert (
        Keeps.TEMPERATURE in fed(level, 30.0, expected=expected, celsius=warmed_up).state(30).keeps
    )
    assert fed(level, 45.0, expected=expected, celsius=warmed_up).state(45.0).enough


def test_a_slow_stretch_that_is_on_keeps_it_going() -> None:
    target = Target({Quantity.WATTS: 0.02, Quantity.IOPS: 0.02})

    def slows(t_s: float) -> float:
        return 5.5 if t_s > 42 else 6.0

    assert fed(slows, 42.0, target=target).state(42.0).enough
    assert Keeps.RARE in fed(slows, 44.0, target=target).state(44.0).keeps


def bursts(*at_s: float) -> Course:
    """Half as much again for half a second, at each of these moments."""

    def watts(t_s: float) -> float:
        return 9.0 if any(0 < t_s - begin_s <= 0.5 for begin_s in at_s) else 6.0

    return watts


def shown(phase: Enough, seconds: float) -> Mapping[Quantity, float]:
    """The largest event of a phase, at a check."""
    phase.state(seconds)
    return phase.largest_events_s()


def test_an_event_is_as_large_as_what_it_adds() -> None:
    found = shown(fed(bursts(20.0, 41.7), 60.0), 60.0)
    assert found[Quantity.WATTS] == pytest.approx(0.25, rel=0.05)
    assert found[Quantity.IOPS] == pytest.approx(0.25, rel=0.4), "of which there are fewer values"
    assert shown(fed(level, 60.0), 60.0)[Quantity.WATTS] == 0.0


def test_what_did_not_both_begin_and_end_is_no_event_of_known_size() -> None:
    def slows(t_s: float) -> float:
        return 5.0 if t_s > 42 else 6.0

    found = shown(fed(slows, 50.0), 50.0)
    assert found[Quantity.WATTS] == found[Quantity.IOPS] == 0.0


def test_what_an_earlier_point_showed_may_come_at_this_one() -> None:
    """Three such events in all of its time (the rule of three) are a limit of its number."""
    target = Target({Quantity.WATTS: 0.005})
    expected = Expected(600.0, meters=MetersPart(gain=0.001), event_s={Quantity.WATTS: 0.25})
    early = fed(level, 60.0, target=target, expected=expected).state(60.0)
    assert early.keeps == (Keeps.MAY_COME,)
    watts = early.known[Quantity.WATTS]
    checked_s = last_check(60.0, 20.0)
    assert watts.repeatability == pytest.approx(3 * 0.25 / checked_s * 6.0, rel=0.05)
    assert watts.u > watts.repeatability > watts.target_u
    late_s = 3 * 0.25 / 0.004
    assert (
        fed(level, late_s * CHECKS_GROW, target=target, expected=expected)
        .state(late_s * CHECKS_GROW)
        .enough
    )
    assert fed(level, 60.0, target=target).state(60.0).enough, "where no point showed any"


def test_what_came_often_enough_at_this_point_is_in_its_mean() -> None:
    target = Target({Quantity.WATTS: 0.004})
    often = bursts(*range(8, 180, 15))
    expected = Expected(600.0, event_s={Quantity.WATTS: 0.3})
    assert fed(often, 180.0, target=target, expected=expected).state(180.0).enough
    assert not fed(level, 180.0, target=target, expected=expected).state(180.0).enough


def test_small_events_say_nothing_of_a_larger_one_that_an_earlier_point_showed() -> None:
    target = Target({Quantity.WATTS: 0.02})
    expected = Expected(600.0, event_s={Quantity.WATTS: 2.0})
    often = fed(bursts(*range(8, 180, 15)), 180.0, target=target, expected=expected)
    assert Keeps.MAY_COME in often.state(180.0).keeps


def test_an_event_behind_the_last_check_is_known_to_later_points() -> None:
    phase = fed(bursts(171.9), 178.5)
    assert phase.state(178.5).checked_s < 171.9
    assert phase.largest_events_s()[Quantity.WATTS] == pytest.approx(0.25, rel=0.2)


def test_slow_noise_keeps_it_going_where_it_matters() -> None:
    """1/f noise of 0.05 %: too much for a target of 0.05 %, next to nothing for one of 1 %."""
    rng = np.random.default_rng(3)
    size = np.concatenate([[0], 1 / np.sqrt(np.arange(1, 4097))])
    turns = rng.standard_normal(4097) + 1j * rng.standard_normal(4097)
    wave = np.fft.irfft(size * turns, 8192)
    wave *= 0.0005 / wave.std()

    def wanders(t_s: float) -> float:
        return 6.0 * (1 + float(wave[round(t_s / STEP_S)]))

    fine, coarse = (Target({Quantity.WATTS: share}) for share in (0.0005, 0.01))
    assert Keeps.DEPENDENCE in fed(wanders, 100.0, target=fine, noise=0.0).state(100.0).keeps
    assert fed(wanders, 100.0, target=coarse, noise=0.0).state(100.0).enough


def test_throttling_keeps_it_going() -> None:
    phase = fed(level, 20.0)
    assert phase.state(20.0, throttles=True).keeps == (Keeps.THROTTLING,)
    assert phase.state(20.0).enough


def test_readings_that_stopped_keep_it_going() -> None:
    assert Keeps.NO_READINGS in fed(level, 20.0).state(30.0).keeps
    assert Keeps.NO_READINGS in Enough(Target(), Expected(180.0), ["12V"]).state(30.0).keeps
    first = Enough(Target(), Expected(180.0), ["12V"]).state(0.1)
    assert Keeps.FEW_READINGS in first.keeps and not first.enough


def test_checks_grow_and_one_is_at_the_shortest_time() -> None:
    assert last_check(20.0, 20.0) == 20.0
    assert last_check(20.0 * CHECKS_GROW - 0.1, 20.0) == 20.0
    assert last_check(20.0 * CHECKS_GROW + 0.1, 20.0) == pytest.approx(20.0 * CHECKS_GROW)
    assert last_check(19.9, 20.0) == pytest.approx(20.0 / CHECKS_GROW)
    assert last_check(0.0, 20.0) == 0.0


def test_asking_more_often_ends_nothing_sooner() -> None:
    target = Target({Quantity.WATTS: 0.004})
    phase = fed(level, 120.0, target=target, noise=0.002)
    asked = Enough(target, Expected(180.0), ["12V"])
    rng = np.random.default_rng(7)
    ended = []
    for number in range(1, 1201):
        t_s = number * STEP_S
        asked.add_watts("12V", t_s, 6.0 * (1 + 0.002 * rng.normal()))
        if number % 5 == 0:
            asked.add_iops(t_s, 6000.0 * (1 + 0.002 * rng.normal()))
        if asked.state(t_s).enough:
            ended.append(asked.state(t_s).checked_s)
    assert ended and set(ended) <= {last_check(t_s, 20.0) for t_s in np.arange(20.0, 121.0)}
    assert asked.state(120.0).known == phase.state(120.0).known


def test_defaults_cover_readings_and_temperature() -> None:
    assert Expected(180.0).least_s == 20.0
    assert Expected(180.0, reading_s=2.5).least_s == 40.0
    assert Expected(180.0, temperature_s=15.0).least_s == 30.0
    assert Expected(180.0, shortest_s=5.0).least_s == 5.0


def test_cells_keep_the_mean_over_time_in_fixed_memory() -> None:
    rng = np.random.default_rng(7)
    times = np.cumsum(rng.uniform(0.005, 0.03, 20_000))
    values = rng.normal(6.0, 1.0, len(times))
    cells = TimeCells(0.03)
    for t_s, value in zip(times.tolist(), values.tolist(), strict=True):
        cells.add(t_s, value)
    width_s, means = total([cells])
    assert MOST_CELLS // 2 <= len(means) < MOST_CELLS
    end_s = len(means) * width_s
    steps = np.diff(times, prepend=0.0)
    within = np.clip(end_s - (times - steps), 0.0, steps)
    assert means.mean() == pytest.approx(float(within @ values) / end_s, rel=1e-9)


def test_rails_are_added_up_where_both_have_come() -> None:
    one, other = TimeCells(0.1), TimeCells(0.1)
    for number in range(1, 101):
        one.add(number * 0.1 + 1e-9, 5.0)
        if number % 10 == 0:
            other.add(number * 0.1 - 0.03, 0.5)
    _, means = total([one, other])
    assert len(means) == 99 and means == pytest.approx(np.full(99, 5.5))


def test_a_reading_out_of_order_is_left_out() -> None:
    cells = TimeCells(1.0)
    for t_s, value in ((0.5, 1.0), (0.4, 99.0), (1.5, 1.0), (2.0, 1.0)):
        cells.add(t_s, value)
    assert cells.means(1.0) == pytest.approx(np.ones(2))


def test_a_settled_number_is_stated_no_better_than_what_lets_it_settle() -> None:
    def settled(seconds: float) -> Known:
        return fed(level, seconds, noise=0.01, seed=8).state(seconds).known[Quantity.WATTS]

    checks = [20.0 * CHECKS_GROW**number + 0.01 for number in range(44)]
    ends = next(
        at for at, s in enumerate(checks) if settled(s).repeatability <= settled(s).target_u
    )
    first, second = settled(checks[ends]), settled(checks[ends + 3])
    assert first.repeatability == pytest.approx(first.target_u)
    assert second.repeatability < first.repeatability


def test_a_number_that_was_not_good_enough_before_is_stated_no_better_than_its_target() -> None:
    """Of the first check that is good enough alone; a phase that goes on for its heat shows what it
    knows by then."""
    target = Target({Quantity.WATTS: 0.006})
    expected = Expected(180.0, meters=MetersPart(gain=0.002))
    phase = Enough(target, expected, ["12V"])
    rng = np.random.default_rng(11)
    shown = []
    for number in range(1, 1801):
        phase.add_watts("12V", number * STEP_S, 6.0 * (1 + 0.03 * rng.normal()))
        if number % 5 == 0:
            phase.add_iops(number * STEP_S, 1000.0)
        state = phase.state(number * STEP_S)
        if not shown or shown[-1].checked_s != state.checked_s:
            shown.append(state)
    ends = next(at for at, state in enumerate(shown) if state.enough)
    assert not shown[ends - 1].enough and shown[ends].checked_s > 20.0
    first, second = (shown[at].known[Quantity.WATTS] for at in (ends, ends + 1))
    assert first.u == pytest.approx(first.target_u)
    assert first.repeatability >= math.sqrt(0.006**2 - 0.002**2) * first.mean * 0.9999
    assert second.u < 0.99 * second.target_u, "it is stated as it was found from then on"


@pytest.mark.parametrize("noise", [0.0003, 0.001])
def test_a_number_that_is_good_enough_at_once_is_stated_as_it_was_found(noise: float) -> None:
    target = Target({Quantity.WATTS: 0.005})
    state = fed(level, 20.0, target=target, noise=noise).state(20.0)
    watts = state.known[Quantity.WATTS]
    assert state.enough and watts.u < 0.5 * watts.target_u
