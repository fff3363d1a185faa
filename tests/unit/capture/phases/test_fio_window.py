"""When a phase worked: fio's clock within the signals around it, and never outside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.capture.host.drive_host import HostMoment
from labctl.capture.phases.fio_clock import FioClock, PrintedTimes, fio_clock
from labctl.capture.phases.fio_window import FioWindow, window_between
from labctl.record.timebase import NS_PER_MS, NS_PER_S

RELEASE_NS = 1_000 * NS_PER_S
KNOWN = FioClock(1.0, 0.0, 20)


def printed_at(
    began_ms: Sequence[int], u_ns: int = 0, clock_ns: int | None = None
) -> list[PrintedTimes]:
    """Statuses with the begin that each of them gives, of a fio that counts right."""
    return [
        PrintedTimes(
            500 * number,
            HostMoment(
                RELEASE_NS + (at_ms + 500 * number) * NS_PER_MS,
                u_ns,
                None if clock_ns is None else clock_ns + 500 * number * NS_PER_MS,
            ),
        )
        for number, at_ms in enumerate(began_ms, 1)
    ]


def between(lasted_ms: int, printed: Sequence[PrintedTimes], runtime_ms: int) -> FioWindow:
    latest_ns = RELEASE_NS + lasted_ms * NS_PER_MS
    return window_between(RELEASE_NS, latest_ns, runtime_ms, printed, KNOWN)


def test_it_begins_where_fios_own_clock_says() -> None:
    window = between(10_020, printed_at((3, 4, 9, 4), NS_PER_MS), 10_000)
    assert window.begin_ns == RELEASE_NS + 4 * NS_PER_MS
    assert window.end_ns == window.begin_ns + 10 * NS_PER_S
    assert window.u_ns == 7 * NS_PER_MS, "2 of fio's, 1 of the clock, and they lie 5 apart"
    assert window.clock is None


def test_documents_that_agree_add_no_doubt() -> None:
    assert between(10_020, printed_at((3, 4, 4, 5), NS_PER_MS), 10_000).u_ns == 3 * NS_PER_MS


def test_what_fio_prints_when_it_exits_adds_no_doubt() -> None:
    assert between(10_040, printed_at((3, 4, 4, 5, 25), NS_PER_MS), 10_000).u_ns == 3 * NS_PER_MS


def test_the_first_io_on_another_host_is_reported_on_its_clock_and_between_its_bounds() -> None:
    window = between(10_020, printed_at([4], 50 * NS_PER_MS, 77_000), 10_000)
    assert window.u_ns == 22 * NS_PER_MS  # the signals leave it 20 ms
    assert window.clock is not None and window.clock.clock_begin_ns == 77_000
    assert window.clock.begin_not_before_ns == RELEASE_NS
    assert window.clock.begin_not_after_ns == RELEASE_NS + 20 * NS_PER_MS
    assert window.clock.status_u_ns == 0


def test_documents_that_contradict_each_other_leave_only_the_signals() -> None:
    window = between(10_400, printed_at((0, 3_600_000)), 10_000)
    assert (window.begin_ns, window.end_ns) == (RELEASE_NS, RELEASE_NS + 10_400 * NS_PER_MS)
    assert window.u_ns == 400 * NS_PER_MS and window.clock is None


def test_without_any_document_the_signals_are_the_window() -> None:
    window = between(1000, [], 0)
    assert (window.begin_ns, window.end_ns) == (RELEASE_NS, RELEASE_NS + NS_PER_S)
    assert window.u_ns == 5 * NS_PER_MS


def test_a_clock_that_few_statuses_show_is_as_uncertain_as_the_signals_leave_it() -> None:
    printed, latest_ns = printed_at((2, 2)), RELEASE_NS + 1_070 * NS_PER_MS
    window = window_between(RELEASE_NS, latest_ns, 1000, printed, None)
    assert window.end_ns - window.begin_ns == NS_PER_S
    assert window.u_ns == 72 * NS_PER_MS


def test_a_runtime_longer_than_the_time_between_the_signals_is_not_believed() -> None:
    window = window_between(
        RELEASE_NS, RELEASE_NS + 930 * NS_PER_MS, 1000, printed_at((-35, -65)), None
    )
    assert (window.begin_ns, window.end_ns) == (RELEASE_NS, RELEASE_NS + 930 * NS_PER_MS)
    assert window.u_ns >= 5 * NS_PER_MS


def test_a_late_signal_of_a_phase_too_short_for_its_rate_is_within_its_u() -> None:
    """A clock that is 7.93 % fast counts 1002 ms in 928.4; the signal comes 52.6 ms later."""
    printed = printed_at((-35, -65))
    window = window_between(RELEASE_NS, RELEASE_NS + 981 * NS_PER_MS, 1002, printed, None)
    assert abs(window.end_ns - RELEASE_NS - 1002 / 1.0793 * NS_PER_MS) <= window.u_ns


@given(
    lasted_ms=st.integers(0, 100_000),
    runtime_ms=st.integers(0, 200_000),
    began_ms=st.lists(st.integers(-40, 40), max_size=5),
    rate=st.one_of(st.none(), st.floats(0.8, 1.25)),
)
def test_no_clock_moves_it_out_of_its_signals(
    lasted_ms: int, runtime_ms: int, began_ms: list[int], rate: float | None
) -> None:
    latest_ns = RELEASE_NS + lasted_ms * NS_PER_MS
    fio = None if rate is None else FioClock(rate, 1e-3, 9)
    printed = printed_at(began_ms, NS_PER_MS)
    window = window_between(RELEASE_NS, latest_ns, runtime_ms, printed, fio)
    assert RELEASE_NS <= window.begin_ns <= window.end_ns <= latest_ns and window.u_ns > 0


def statuses_of(
    rate: float, seconds: float, delay_ms: float, rng: np.random.Generator
) -> tuple[list[PrintedTimes], int]:
    """What a fio prints each half second whose clock counts ``rate`` seconds in one, exponential
    delays between its noting and its printing, and its runtime at the end."""
    began_s = rng.uniform(0.0005, 0.004)
    at_s = np.append(np.arange(rng.uniform(0.05, 0.5), seconds, 0.5 / rate), seconds)
    shown_s = began_s + at_s + rng.exponential(delay_ms * 1e-3, len(at_s))
    printed = [
        PrintedTimes(
            int(at * rate * 1000),
            HostMoment(RELEASE_NS + int(shown * 1000) * NS_PER_MS, 0, None),
        )
        for at, shown in zip(at_s, shown_s, strict=True)
    ]
    return printed, round(began_s * NS_PER_S)


@pytest.mark.parametrize("seconds", [3, 6, 60])
@pytest.mark.parametrize("delay_ms", [0.3, 10.0])
@pytest.mark.parametrize("rate", [1.0, 1.00005, 1.0079, 1.0793, 0.93])
def test_begin_end_and_rate_are_within_their_u(seconds: int, delay_ms: float, rate: float) -> None:
    rng = np.random.default_rng(round(seconds * 1000 + delay_ms + rate * 1e6))
    covered, applied = [], 0
    for _ in range(200):
        printed, began_ns = statuses_of(rate, seconds, delay_ms, rng)
        done_ns = began_ns + seconds * NS_PER_S + round(rng.exponential(delay_ms + 2) * NS_PER_MS)
        runtime_ms = printed[-1].runtime_ms
        fio = fio_clock(printed)
        assert fio is not None
        window = window_between(RELEASE_NS, RELEASE_NS + done_ns, runtime_ms, printed, fio)
        length_ns = window.end_ns - window.begin_ns
        applied += abs(length_ns - runtime_ms * NS_PER_MS) > 4 * NS_PER_MS
        covered.append(
            (
                abs(fio.rate - rate) <= fio.u,
                abs(window.begin_ns - RELEASE_NS - began_ns) <= window.u_ns,
                abs(length_ns - seconds * NS_PER_S) <= 2 * window.u_ns,
            )
        )
        assert window.u_ns < max(1.0, delay_ms) * 30 * NS_PER_MS
    rate_cover, begin_cover, length_cover = np.mean(covered, axis=0)
    assert rate_cover >= 0.9 and length_cover >= 0.95
    assert begin_cover >= (0.95 if delay_ms < 1 else 0.85), "delays are only ever late"
    if abs(rate - 1) > 0.05:
        assert applied == 200
    elif abs(rate - 1) < 1e-4:
        assert applied <= 4, "a good clock is left alone"


def test_a_status_that_the_drive_held_up_makes_no_drift() -> None:
    printed, _ = statuses_of(1.0, 10, 0.5, np.random.default_rng(1))
    late = printed[-3]
    printed[-3] = PrintedTimes(late.runtime_ms, late.shown.before(-2 * NS_PER_S))
    fio = fio_clock(printed)
    assert fio is not None and not fio.matters(10 * NS_PER_S)


@pytest.mark.parametrize("rate", [1.0793, 0.93])
def test_a_status_that_was_held_up_hides_no_drift(rate: float) -> None:
    printed, _ = statuses_of(rate, 6, 0.5, np.random.default_rng(1))
    late = printed[7]
    printed[7] = PrintedTimes(late.runtime_ms, late.shown.before(-400 * NS_PER_MS))
    fio = fio_clock(printed)
    assert fio is not None and fio.matters(6 * NS_PER_S)
    assert abs(fio.rate - rate) <= fio.u < 0.002


def test_few_statuses_give_no_rate() -> None:
    printed, _ = statuses_of(1.0, 10, 0.5, np.random.default_rng(1))
    assert fio_clock([]) is None
    assert fio_clock(printed[:4]) is None
    assert fio_clock([*printed[:4], printed[-1]]) is not None
    assert fio_clock([printed[-1]] * 9) is None, "a runtime that stands"
