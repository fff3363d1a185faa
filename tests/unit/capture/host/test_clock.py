"""The wall clock of a drive's host: bracketed, mapped with offset and drift, its steps noticed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from instruments.reading import ClockPair
from labctl.capture.host.clock import ClockSample, HostWallClock

S = 1_000_000_000
START_NS = 1_795_000_000 * S


class Host:
    """A host whose wall clock is off and drifts, asked over a line with uneven delays."""

    def __init__(self, offset_ns: int, drift: float = 0.0, tick_ns: int = 1) -> None:
        self.offset_ns, self.drift, self.tick_ns = offset_ns, drift, tick_ns
        self.pairs: list[ClockPair] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.clock = HostWallClock(
            self.pairs.append, lambda kind, **data: self.events.append((kind, data))
        )
        self._random = random.Random(7)

    def wall_ns(self, t_ns: int) -> int:
        return t_ns + self.offset_ns + round((t_ns - START_NS) * self.drift)

    def sample(self, t_ns: int, up: bool = True) -> None:
        """A sample whose answer was made at ``t_ns``; way there and back are of unlike length."""
        there, back = (round(self._random.expovariate(1 / 400_000)) + 300_000 for _ in range(2))
        reported = self.wall_ns(t_ns) // self.tick_ns * self.tick_ns
        wall = str(reported) if self.tick_ns == 1 else f"{reported // S}%N"
        uptime = f"{(t_ns - START_NS) / S + 1000:.2f}" if up else "-"
        sample = ClockSample.parse(t_ns - there, t_ns + back, wall, uptime)
        assert sample is not None
        self.clock.take(sample)

    def error_and_doubt_ns(self, t_ns: int) -> tuple[int, int]:
        moment = self.clock.moment_of(self.wall_ns(t_ns))
        return abs(moment.t_ns - t_ns), moment.u_ns


@pytest.mark.parametrize(("offset_s", "drift"), [(37.5, 50e-6), (-3600.0, -80e-6), (0.0, 0.0)])
def test_offset_and_drift_are_found_and_the_doubt_covers_the_error(
    offset_s: float, drift: float
) -> None:
    host = Host(round(offset_s * S), drift)
    for second in range(0, 400, 2):
        host.sample(START_NS + second * S)
    for second in (0, 100, 399, 410):
        error_ns, doubt_ns = host.error_and_doubt_ns(START_NS + second * S)
        assert error_ns <= doubt_ns < 1_500_000
    kind, data = host.events[0]
    assert kind == "host_clock" and len(host.events) == 1
    assert data["offset_ns"] == pytest.approx(offset_s * S, abs=2e6)


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("step_s", [5.0, -5.0])
def test_a_step_of_the_wall_clock_is_noticed_and_begins_an_epoch(step_s: float, up: bool) -> None:
    """Also backwards, and where the host does not tell its uptime."""
    host = Host(2 * S)
    for second in range(0, 40, 2):
        host.sample(START_NS + second * S, up)
    host.offset_ns += round(step_s * S)
    for second in range(40, 80, 2):
        host.sample(START_NS + second * S, up)
    assert [kind for kind, _ in host.events] == ["host_clock", "host_clock", "host_clock_step"]
    assert host.events[-1][1]["seconds"] == pytest.approx(step_s, abs=0.02)
    assert {pair.device_ns // 10**15 for pair in host.pairs} == {0, 1}
    error_ns, doubt_ns = host.error_and_doubt_ns(START_NS + 79 * S)
    assert error_ns <= doubt_ns < 1_500_000


def test_a_host_too_busy_to_read_its_two_clocks_together_made_no_step() -> None:
    host = Host(2 * S)
    host.sample(START_NS)
    asked_ns = START_NS + 2 * S
    late = ClockSample.parse(
        asked_ns, asked_ns + 400_000_000, str(host.wall_ns(asked_ns)), f"{1002 + 0.4:.2f}"
    )
    assert late is not None
    host.clock.take(late)
    assert [kind for kind, _ in host.events] == ["host_clock"]


def test_a_restarted_host_is_another_epoch_but_no_step() -> None:
    host = Host(2 * S)
    host.clock.booted("first")
    host.sample(START_NS)
    host.clock.booted("second")
    host.offset_ns += 60 * S
    host.sample(START_NS + 30 * S)
    assert [kind for kind, _ in host.events] == ["host_clock", "host_clock"]


def test_a_clock_given_in_whole_seconds_is_known_by_when_it_changes() -> None:
    """As busybox's date tells it."""
    host = Host(250_000_000, tick_ns=S)
    for number in range(400):
        host.sample(START_NS + number * (2 * S + 5_000_000))
    error_ns, doubt_ns = host.error_and_doubt_ns(START_NS + 800 * S)
    assert error_ns <= doubt_ns < S // 10  # a tenth of its tick


@pytest.mark.parametrize(
    ("wall", "wall_ns", "tick_ns"),
    [("1795265943123456789", 1795265943123456789, 1), ("1795265943%N", 1795265943 * S, S),
     ("1795265943N", 1795265943 * S, S), ("1795265943", 1795265943 * S, S)],
)  # fmt: skip
def test_what_date_says_with_and_without_nanoseconds(wall: str, wall_ns: int, tick_ns: int) -> None:
    sample = ClockSample.parse(0, 1, wall, "-")
    assert sample is not None
    assert (sample.wall_ns, sample.tick_ns, sample.up_ns) == (wall_ns, tick_ns, None)
    assert ClockSample.parse(0, 1, "date:", "-") is None
