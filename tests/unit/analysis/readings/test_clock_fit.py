from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.analysis.readings.clock_fit import (
    EPOCH_NS,
    WANDER_NS,
    ClockMap,
    ClockPiece,
    fit_clock,
    without_setbacks,
)
from labctl.analysis.stats.line_band import band_between, highest_line_below, lower_hull
from labctl.record.layout import CLOCK_PAIR

HOST_NS = 1_700_000_000_000_000_000


def clock_pairs(
    device_s: np.ndarray, offset_s: float, drift_ppm: float, trip_s: np.ndarray, when: np.ndarray,
    tick_s: float = 0.0,
) -> np.ndarray:  # fmt: skip
    """Looks at a clock that shows ``device_s`` at the share ``when`` of each round trip."""
    device_ns = np.rint(device_s * 1e9).astype(np.int64)
    host_ns = truth_ns(device_ns, offset_s, drift_ppm) + np.rint((1 - when) * trip_s * 1e9).astype(
        np.int64
    )
    pairs = np.empty(len(device_s), CLOCK_PAIR)
    tick = round(tick_s * 1e9)
    pairs["device_ns"] = device_ns // tick * tick if tick else device_ns
    pairs["host_ns"] = host_ns
    pairs["round_trip_ns"] = np.rint(trip_s * 1e9).astype(np.int64)
    return pairs


def truth_ns(device_ns: np.ndarray, offset_s: float, drift_ppm: float) -> np.ndarray:
    stretched = np.rint(device_ns * (drift_ppm * 1e-6)).astype(np.int64)
    return HOST_NS + round(offset_s * 1e9) + device_ns + stretched


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 300),
    length_s=st.floats(0.01, 40_000),
    offset_s=st.floats(-1e6, 1e6),
    drift_ppm=st.floats(-900, 900),
    slowest_s=st.floats(1e-5, 5.0),
    tick_s=st.sampled_from([0.0, 1e-6, 1e-3, 0.1]),
)
def test_the_truth_lies_within_the_stated_bound_for_every_clock_and_poll_pattern(
    seed: int, count: int, length_s: float, offset_s: float, drift_ppm: float,
    slowest_s: float, tick_s: float,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    device_s = np.sort(rng.uniform(0, length_s, count))
    trip = np.maximum(rng.uniform(1e-6, slowest_s, count) ** rng.uniform(1, 3), 1e-8)
    pairs = clock_pairs(device_s, offset_s, drift_ppm, trip, rng.uniform(0, 1, count), tick_s)
    asked = np.rint(rng.uniform(device_s[0], device_s[-1], 50) * 1e9).astype(np.int64)
    clock = fit_clock(pairs, tick_s, int(asked.min()), int(asked.max()))
    error = np.abs(clock.to_host_ns(asked) - truth_ns(asked, offset_s, drift_ppm))
    assert clock.problems == ()
    assert error.max() <= clock.u_ns + 2


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), drift_ppm=st.floats(-900, 900))
def test_to_device_is_the_way_back(seed: int, drift_ppm: float) -> None:
    rng = np.random.default_rng(seed)
    device_s = np.sort(rng.uniform(0, 1000, 50))
    trip = rng.uniform(1e-4, 1e-2, 50)
    pairs = clock_pairs(device_s, 12.0, drift_ppm, trip, rng.uniform(0, 1, 50))
    clock = fit_clock(pairs, 0.0, 0, 10**12)
    stamps = np.sort(rng.integers(0, 10**12, 20))
    back = [clock.to_device_ns(int(host)) for host in clock.to_host_ns(stamps)]
    assert np.abs(np.array(back) - stamps).max() <= 2


def test_a_second_off_and_50_ppm_is_mapped_to_well_under_a_millisecond() -> None:
    rng = np.random.default_rng(5)
    device_s = np.arange(0.0, 3600.0, 1.0)
    trip = rng.uniform(3e-4, 3e-3, len(device_s))
    pairs = clock_pairs(device_s, 3.7, 50.0, trip, rng.uniform(0.1, 0.9, len(device_s)))
    clock = fit_clock(pairs, 0.0, 0, 3_600_000_000_000)
    assert clock.u_ns < 300_000
    assert clock.drift_ppm == pytest.approx(50.0, abs=0.2)


def test_an_answer_that_came_late_does_not_pull() -> None:
    device_s = np.arange(0.0, 100.0, 1.0)
    trip = np.full(100, 1e-3)
    when = np.full(100, 0.5)
    calm = fit_clock(clock_pairs(device_s, 1.0, 10.0, trip, when), 0.0, 0, 10**11)
    trip[::7], when[::7] = 2.0, 0.01
    late = fit_clock(clock_pairs(device_s, 1.0, 10.0, trip, when), 0.0, 0, 10**11)
    stamps = np.arange(0, 10**11, 10**9)
    assert np.abs(calm.to_host_ns(stamps) - late.to_host_ns(stamps)).max() < 100_000
    assert late.problems == ()


def test_one_wrong_pair_is_dropped_and_said_so() -> None:
    device_s = np.arange(0.0, 100.0, 1.0)
    pairs = clock_pairs(device_s, 1.0, 10.0, np.full(100, 1e-3), np.full(100, 0.5))
    pairs["host_ns"][40] += 5_000_000_000
    clock = fit_clock(pairs, 0.0, 0, 10**11)
    assert "dropped: 1" in clock.problems[0]
    stamps = np.arange(0, 10**11, 10**9)
    assert np.abs(clock.to_host_ns(stamps) - truth_ns(stamps, 1.0, 10.0)).max() <= clock.u_ns


def test_a_clock_that_was_set_is_mapped_in_pieces_with_a_larger_doubt() -> None:
    device_s = np.arange(0.0, 200.0, 1.0)
    pairs = clock_pairs(device_s, 1.0, 10.0, np.full(200, 1e-3), np.full(200, 0.5))
    straight = fit_clock(pairs, 0.0, 0, 2 * 10**11)
    pairs["host_ns"][100:] += 50_000_000
    clock = fit_clock(pairs, 0.0, 0, 2 * 10**11)
    assert "straight pieces" in clock.problems[0]
    assert clock.u_ns > straight.u_ns
    early, late = np.array([50 * 10**9]), np.array([150 * 10**9])
    assert abs(int(clock.to_host_ns(early)[0] - truth_ns(early, 1.0, 10.0)[0])) <= clock.u_ns
    shifted = truth_ns(late, 1.0, 10.0)[0] + 50_000_000
    assert abs(int(clock.to_host_ns(late)[0] - shifted)) <= clock.u_ns


def test_a_wandering_clock_stays_within_its_doubt() -> None:
    rng = np.random.default_rng(1)
    device_s = np.arange(0.0, 7200.0, 1.0)
    trip = rng.uniform(1e-3, 2e-3, len(device_s))
    pairs = clock_pairs(device_s, 1.0, 10.0, trip, rng.uniform(0.1, 0.9, len(device_s)))
    wander = np.rint(4e6 * np.sin(device_s / 1500)).astype(np.int64)
    pairs["host_ns"] += wander
    clock = fit_clock(pairs, 0.0, 0, 7200 * 10**9)
    stamps = np.rint(device_s * 1e9).astype(np.int64)
    truth = truth_ns(stamps, 1.0, 10.0) + wander
    assert np.abs(clock.to_host_ns(stamps) - truth).max() <= clock.u_ns
    assert clock.u_ns < 5_000_000


def test_each_epoch_of_a_restarted_clock_is_mapped_apart() -> None:
    device_s = np.arange(1.0, 50.0, 1.0)
    trip, when = np.full(49, 1e-3), np.full(49, 0.5)
    first = clock_pairs(device_s, 0.0, 20.0, trip, when)
    second = clock_pairs(device_s, 60.0, 20.0, trip, when)
    second["device_ns"] += EPOCH_NS
    clock = fit_clock(np.concatenate([first, second]), 0.0, 10**9, EPOCH_NS + 49 * 10**9)
    assert clock.epochs == 2
    stamps = np.array([25 * 10**9, EPOCH_NS + 25 * 10**9])
    plain = np.array([25 * 10**9, 25 * 10**9])
    truth = [truth_ns(plain, 0.0, 20.0)[0], truth_ns(plain, 60.0, 20.0)[0]]
    mapped = clock.to_host_ns(stamps)
    assert np.abs(mapped - truth).max() <= clock.u_ns
    assert [clock.to_device_ns(int(host)) for host in mapped] == pytest.approx(stamps, abs=2)


def test_a_recording_that_a_second_process_went_on_with() -> None:
    device_s = np.arange(1.0, 50.0, 1.0)
    trip, when = np.full(49, 1e-3), np.full(49, 0.5)
    looks = np.concatenate([clock_pairs(device_s, 0.0, 20.0, trip, when),
                            clock_pairs(device_s, 60.0, 20.0, trip, when)])  # fmt: skip
    recorded = np.tile(np.arange(1, 50, dtype=np.int64) * 10**9, 2)
    stamps, looks["device_ns"] = without_setbacks(recorded, looks["device_ns"])
    assert (np.diff(stamps) > 0).all()
    clock = fit_clock(looks, 0.0, int(stamps[0]), int(stamps[-1]))
    assert clock.epochs == 2
    assert clock.problems == ()
    truth = np.concatenate(
        [truth_ns(recorded[:49], 0.0, 20.0), truth_ns(recorded[49:], 60.0, 20.0)]
    )
    assert np.abs(clock.to_host_ns(stamps) - truth).max() <= clock.u_ns
    back = [clock.to_device_ns(int(host)) for host in truth]
    assert np.abs(np.array(back) - stamps).max() <= clock.u_ns


def test_parts_that_cannot_be_told_apart_are_refused() -> None:
    steady = np.arange(5)
    with pytest.raises(ValueError, match="cannot be mapped"):
        without_setbacks(np.array([1, 2, 1, 2, 1]), np.array([1, 2, 1]))
    assert without_setbacks(steady, np.array([1, 3, 2]))[1].tolist() == [1, 3, 2]


@pytest.mark.parametrize("seed", range(20))
def test_a_device_that_only_pushes_is_mapped_by_the_lower_envelope(seed: int) -> None:
    rng = np.random.default_rng(seed)
    device_s = np.arange(0.0, 600.0, 0.5)
    pairs = clock_pairs(device_s, 2.0, -35.0, np.zeros(1200), np.zeros(1200))
    pairs["host_ns"] += np.rint(rng.exponential(2e6, 1200)).astype(np.int64)
    clock = fit_clock(pairs, 0.0, 0, 600 * 10**9)
    stamps = np.arange(0, 600 * 10**9, 10**9)
    error = np.abs(clock.to_host_ns(stamps) - truth_ns(stamps, 2.0, -35.0)).max()
    assert error <= clock.u_ns < 2_000_000


def test_a_few_pushes_leave_the_drift_in_the_doubt() -> None:
    device_s = np.array([0.2697, 0.6369, 1.1])
    pairs = clock_pairs(device_s, 2.0, 80.0, np.zeros(3), np.zeros(3), 1e-3)
    clock = fit_clock(pairs, 1e-3, 0, 100 * 10**9)
    stamps = np.arange(0, 100 * 10**9, 10**9)
    error = np.abs(clock.to_host_ns(stamps) - truth_ns(stamps, 2.0, 80.0)).max()
    assert error <= clock.u_ns < 20_000_000


def test_the_mean_of_arrivals_would_be_wrong() -> None:
    """Arrival time taken as sample time: off by the mean delay, more than the bound allows."""
    rng = np.random.default_rng(3)
    device_s = np.arange(0.0, 600.0, 0.5)
    pairs = clock_pairs(device_s, 2.0, 0.0, np.zeros(1200), np.zeros(1200))
    pairs["host_ns"] += np.rint(rng.exponential(20e6, 1200)).astype(np.int64)
    clock = fit_clock(pairs, 0.0, 0, 600 * 10**9)
    naive = np.mean(pairs["host_ns"] - pairs["device_ns"])
    assert abs(naive - HOST_NS - 2_000_000_000) > clock.u_ns


def test_a_host_clock_maps_to_itself() -> None:
    stamps = np.array([1, 2, 3])
    assert (ClockMap().to_host_ns(stamps) == stamps).all()
    assert ClockMap().to_device_ns(7) == 7
    assert ClockMap().u_between_ns(0, 10) == 0.0


def test_doubt_between_two_moments_is_that_of_the_worst_piece_between_them() -> None:
    """A piece in the middle is known to 50 ms only, those at both ends to 0.1 ms."""
    pieces = tuple(
        ClockPiece(s * 10**9, s * 10**9, s * 10**9, s * 10**9, 0.0,
                   np.array([u_ns]), np.zeros(1), 0.0)
        for s, u_ns in ((0, 1e5), (10, 5e7), (20, 1e5))
    )  # fmt: skip
    clock = ClockMap(pieces)
    assert clock.u_between_ns(5 * 10**9, 25 * 10**9) == 5e7
    assert clock.u_between_ns(1 * 10**9, 9 * 10**9) == 1e5
    assert clock.u_between_ns(22 * 10**9, 22 * 10**9) == 1e5


def test_doubt_of_a_piece_is_that_of_its_far_end() -> None:
    piece = ClockPiece(0, 0, 0, 0, 0.0, np.array([1e3]), np.array([1e-5]), 0.0)
    later = replace(piece, device_begin_ns=10**10, host_begin_ns=10**10, device_ref_ns=10**10,
                    host_ref_ns=10**10)  # fmt: skip
    clock = ClockMap((piece, later))
    assert clock.u_between_ns(0, 11 * 10**9) == pytest.approx(1e3 + 1e5)


def test_a_clock_that_was_never_looked_at_is_refused() -> None:
    with pytest.raises(ValueError, match="without samples"):
        fit_clock(np.empty(0, CLOCK_PAIR), 0.0, 0, 1)


def test_many_looks_are_quick() -> None:
    import time

    rng = np.random.default_rng(0)
    device_s = np.arange(100_000) * 0.3
    trip = rng.uniform(1e-4, 1e-2, len(device_s))
    pairs = clock_pairs(device_s, 1.0, 30.0, trip, rng.uniform(0, 1, len(device_s)))
    begin = time.perf_counter()
    fit_clock(pairs, 1e-3, 0, 30_000 * 10**9)
    assert time.perf_counter() - begin < 1.0


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 60))
def test_the_hull_lies_below_all_points(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 20, count).astype(float), rng.normal(size=count)
    hull_x, hull_y = lower_hull(x, y)
    assert (np.interp(x, hull_x, hull_y) <= y + 1e-12).all()
    assert (np.diff(np.diff(hull_y) / np.diff(hull_x)) > 0).all()


def test_the_band_between_two_gates_by_hand() -> None:
    """Gates [-1, 1] at x = 0 and x = 10: slopes ±0.2, and ±1 at both ends."""
    x = np.array([0.0, 10.0])
    band = band_between(x, np.ones(2), x, -np.ones(2), 5.0)
    assert band is not None
    assert (band.slopes.min(), band.slopes.max()) == pytest.approx((-0.2, 0.2))
    assert band.limits(0.0) == pytest.approx((-1.0, 1.0))
    assert band.limits(20.0) == pytest.approx((-3.0, 3.0))


def test_gates_that_exclude_each_other_have_no_band() -> None:
    x = np.array([0.0, 1.0, 2.0])
    upper = np.array([1.0, -5.0, 1.0])
    assert band_between(x, upper, x, upper - 1.0, 100.0) is None


def test_the_envelope_by_hand() -> None:
    height, slope = highest_line_below(np.array([0.0, 1, 2, 3]), np.array([0.0, 5, 2, 9]), 100.0)
    assert (height, slope) == pytest.approx((0.0, 1.0))


def test_the_allowance_for_wander_is_small_against_the_target() -> None:
    assert WANDER_NS <= 5e6 / 50
