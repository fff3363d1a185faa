"""When a phase worked: fio's clock within the signals around it, and never outside them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labctl.capture.host.drive_host import HostMoment
from labctl.capture.phases.fio_window import window_between
from labctl.record.timebase import NS_PER_MS, NS_PER_S

RELEASE_NS = 1_000 * NS_PER_S


def test_it_begins_where_fios_own_clock_says() -> None:
    began = [HostMoment(RELEASE_NS + at * NS_PER_MS, NS_PER_MS, None) for at in (3, 4, 9)]
    window = window_between(RELEASE_NS, RELEASE_NS + 10_020 * NS_PER_MS, 10_000, began)
    assert window.begin_ns == RELEASE_NS + 4 * NS_PER_MS
    assert window.end_ns == window.begin_ns + 10 * NS_PER_S
    assert window.u_ns == 7 * NS_PER_MS, "2 of fio's, 1 of the clock, and they lie 5 apart"
    assert window.clock is None


def test_documents_that_agree_add_no_doubt() -> None:
    began = [HostMoment(RELEASE_NS + at * NS_PER_MS, NS_PER_MS, None) for at in (3, 4, 4, 5)]
    window = window_between(RELEASE_NS, RELEASE_NS + 10_020 * NS_PER_MS, 10_000, began)
    assert window.u_ns == 3 * NS_PER_MS


def test_the_first_io_on_another_host_is_told_on_its_clock_and_between_its_bounds() -> None:
    began = [HostMoment(RELEASE_NS + 4 * NS_PER_MS, 50 * NS_PER_MS, 77_000)]
    window = window_between(RELEASE_NS, RELEASE_NS + 10_020 * NS_PER_MS, 10_000, began)
    assert window.u_ns == 22 * NS_PER_MS  # the signals leave it 20 ms
    assert window.clock is not None and window.clock.clock_begin_ns == 77_000
    assert window.clock.begin_not_before_ns == RELEASE_NS
    assert window.clock.begin_not_after_ns == RELEASE_NS + 20 * NS_PER_MS


def test_documents_that_contradict_each_other_leave_only_the_signals() -> None:
    began = [HostMoment(RELEASE_NS + at * NS_PER_S, 0, None) for at in (0, 3600)]
    window = window_between(RELEASE_NS, RELEASE_NS + 10_400 * NS_PER_MS, 10_000, began)
    assert (window.begin_ns, window.end_ns) == (RELEASE_NS, RELEASE_NS + 10_400 * NS_PER_MS)
    assert window.u_ns == 400 * NS_PER_MS and window.clock is None


def test_without_any_document_the_signals_are_the_window() -> None:
    window = window_between(RELEASE_NS, RELEASE_NS + NS_PER_S, 0, [])
    assert (window.begin_ns, window.end_ns) == (RELEASE_NS, RELEASE_NS + NS_PER_S)
    assert window.u_ns == 5 * NS_PER_MS


@given(
    lasted_ms=st.integers(0, 100_000),
    runtime_ms=st.integers(0, 200_000),
    began_ms=st.lists(st.integers(-40, 40), max_size=5),
)
def test_no_clock_moves_it_out_of_its_signals(
    lasted_ms: int, runtime_ms: int, began_ms: list[int]
) -> None:
    latest_ns = RELEASE_NS + lasted_ms * NS_PER_MS
    began = [HostMoment(RELEASE_NS + at * NS_PER_MS, NS_PER_MS, None) for at in began_ms]
    window = window_between(RELEASE_NS, latest_ns, runtime_ms, began)
    assert RELEASE_NS <= window.begin_ns <= window.end_ns <= latest_ns and window.u_ns > 0
