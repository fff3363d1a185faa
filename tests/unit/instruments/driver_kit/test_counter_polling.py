"""Polls of a counter: each halves what is unknown of when it counts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from instruments.driver_kit.counter_polling import CounterPolling

S = 1_000_000_000
PERIOD_S = 0.18


@settings(max_examples=200, deadline=None)
@given(
    interval_s=st.sampled_from([0.001, 0.01, 0.05, 0.25, 0.4, 1.0]),
    begin_s=st.floats(0, 1),
    drift_ppm=st.floats(-60, 60),
    trip_s=st.floats(1e-5, 5e-4),
)
def test_eighty_polls_know_the_count_to_about_a_round_trip(
    interval_s: float, begin_s: float, drift_ppm: float, trip_s: float
) -> None:
    """The bounds of each poll alone are an interval wide; together they must be far closer."""
    polls = CounterPolling(PERIOD_S)
    interval_ns = interval_s * S
    true_ns = interval_ns * (1 + drift_ppm * 1e-6)
    now = round((begin_s + interval_s) * S)
    lows, highs = [], []
    for _ in range(80):
        sent, received = now, now + round(trip_s * S)
        count = int(((sent + received) / 2 - begin_s * S) // true_ns)
        lows.append(sent - (count + 1) * true_ns)
        highs.append(received - count * true_ns)
        polls.add_poll(count, interval_ns, sent, received)
        now = polls.next_poll_ns(received, interval_ns)
        assert received + 0.2 * PERIOD_S * S <= now <= received + PERIOD_S * S
    assert max(lows) <= begin_s * S <= min(highs)
    known_ns = min(highs) - max(lows)
    assert known_ns <= trip_s * S + 0.001 * S


def test_a_counter_that_begins_anew_is_searched_anew() -> None:
    polls = CounterPolling(PERIOD_S)
    polls.add_poll(100, 0.01 * S, 2 * S, 2 * S + 1000)
    assert polls.next_poll_ns(2 * S + 1000, 0.01 * S) != 2 * S + 1000 + round(PERIOD_S * S)
    polls.restart()
    assert polls.next_poll_ns(2 * S, 0.01 * S) == 2 * S + round(PERIOD_S * S)


def test_a_poll_that_contradicts_the_others_begins_anew() -> None:
    polls = CounterPolling(PERIOD_S)
    for count, at_s in ((10, 1.005), (33, 1.235)):
        polls.add_poll(count, 0.01 * S, round(at_s * S), round(at_s * S) + 100_000)
    polls.add_poll(500, 0.01 * S, 2 * S, 2 * S + 100_000)
    assert 2.16 * S < polls.next_poll_ns(2 * S, 0.01 * S) <= 2.18 * S
