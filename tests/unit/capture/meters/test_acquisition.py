"""Owners against an instrument whose every call is scripted."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from instruments.errors import ConnectionLost, NoAnswer, WrongInstrument
from instruments.reading import (
    Accuracy,
    Batch,
    Block,
    Channel,
    Clock,
    Identity,
    Quantity,
    Status,
    StatusReading,
)
from labctl.capture.meters import acquisition
from labctl.capture.meters.acquisition import MOST_SPANS_IN_A_SECOND, Acquisition, State

CHANNEL = Channel("voltage", Quantity.VOLTAGE, Clock.HOST, 0.01, 0.01, Accuracy(0, 0, "test"))


class Scripted:
    """Yields what the script says, one step a ``read``; an exception is raised."""

    def __init__(self, steps: list[Batch | BaseException], opens: list[Exception | None]) -> None:
        self.channels = (CHANNEL,)
        self.steps, self.opens = steps, opens
        self.calls: list[str] = []
        self.threads: set[int] = set()

    def _called(self, name: str) -> None:
        self.calls.append(name)
        self.threads.add(threading.get_ident())

    def open(self) -> Identity:
        self._called("open")
        problem = self.opens.pop(0) if self.opens else None
        if problem is not None:
            raise problem
        return Identity("Maker", "Model", "1")

    def start(self) -> None:
        self._called("start")

    def read(self) -> Batch:
        self._called("read")
        if not self.steps:
            time.sleep(0.01)
            return Batch()
        step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    def close(self) -> None:
        self._called("close")


class Seen:
    """A recorder and a listener that keep what they get."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.states: list[State] = []

    def readings(self, instrument: str, block: Block) -> None:
        self.values += block.values.tolist()

    def clock_pairs(self, instrument: str, pairs: Any) -> None:
        pass

    def event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        self.events.append((kind, data))

    def batch(self, instrument: str, batch: Batch) -> None:
        pass

    def state(self, instrument: str, state: State, reason: str) -> None:
        self.states.append(state)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]


def numbers(*values: float) -> Batch:
    times = np.arange(1, len(values) + 1, dtype=np.int64)
    return Batch(blocks=(Block("voltage", times, np.array(values)),))


def status(status: Status, t_ns: int = 1, count: int = 1) -> Batch:
    return Batch(statuses=(StatusReading("voltage", t_ns, status, count=count),))


def watch(instrument: Scripted, until: Callable[[Seen], bool]) -> Seen:
    seen = Seen()
    group = Acquisition({"m": instrument}, time.monotonic_ns, seen)
    group.record_to(seen)
    group.start()
    deadline = time.monotonic() + 10
    while not until(seen) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert group.stop() == []
    assert until(seen)
    return seen


def test_one_thread_does_everything_and_closes_last() -> None:
    meter = Scripted([numbers(1.0), numbers(2.0, 3.0)], [])
    seen = watch(meter, lambda seen: len(seen.values) == 3)
    assert seen.values == [1.0, 2.0, 3.0]
    assert len(meter.threads) == 1
    assert meter.calls[:3] == ["open", "start", "read"]
    assert meter.calls[-1] == "close"
    assert seen.events == []


def test_a_lost_meter_is_one_event_when_it_goes_and_one_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acquisition, "FIRST_RETRY_S", 0.01)
    gone = ConnectionLost("unplugged")
    meter = Scripted([numbers(1.0), gone, numbers(2.0)], [None, gone, gone, gone, None])
    seen = watch(meter, lambda seen: seen.values == [1.0, 2.0])
    assert seen.kinds == ["instrument_lost", "instrument_back"]
    assert seen.events[0][1] == {"instrument": "m", "reason": "unplugged"}
    assert seen.events[1][1]["gap_s"] > 0
    assert seen.states == [State.READING, State.LOST, State.READING]
    assert meter.calls.count("open") == 5
    assert meter.calls.count("close") == 5


def test_a_drivers_bug_does_not_take_the_run_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisition, "FIRST_RETRY_S", 0.01)
    meter = Scripted([numbers(1.0), ZeroDivisionError("oops"), numbers(2.0)], [])
    seen = watch(meter, lambda seen: seen.values == [1.0, 2.0])
    assert "driver failed: ZeroDivisionError: oops" in seen.events[0][1]["reason"]


def test_silence_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisition, "SILENCE_S", 0.1)
    meter = Scripted([numbers(1.0)], [])
    seen = watch(meter, lambda seen: bool(seen.events))
    assert seen.kinds[0] == "instrument_lost"
    said = re.fullmatch(r"silent for (\d+\.\d) s", seen.events[0][1]["reason"])
    assert said is not None and float(said[1]) >= 0.1


class StandsStill(Scripted):
    """In the middle of a ``read`` the whole process stands still."""

    def read(self) -> Batch:
        if self.calls.count("read") == 1:
            time.sleep(0.5)
        return super().read()


def test_what_nobody_listened_to_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisition, "SILENCE_S", 0.2)
    monkeypatch.setattr(acquisition, "LISTENED_S", 0.05)
    meter = StandsStill([numbers(1.0), Batch(), numbers(2.0)], [])
    seen = watch(meter, lambda seen: len(seen.values) == 2)
    assert "instrument_lost" not in seen.kinds


def test_statuses_are_one_event_a_change_with_their_count() -> None:
    meter = Scripted(
        [
            numbers(1.0),
            status(Status.OVERLOAD),
            status(Status.OVERLOAD, count=4),
            status(Status.HOLD),
            numbers(2.0),
            numbers(3.0),
        ],
        [],
    )
    seen = watch(meter, lambda seen: seen.values == [1.0, 2.0, 3.0])
    assert seen.kinds == ["status_began", "status", "status_began", "status"]
    assert seen.events[1][1]["status"] == "overload"
    assert seen.events[1][1]["count"] == 5
    assert seen.events[3][1]["status"] == "hold"
    assert seen.events[1][1]["channel"] == "m.voltage"


@pytest.mark.parametrize("kinds", [(Status.UNREADABLE,), (Status.UNREADABLE, Status.HOLD)])
def test_statuses_that_flicker_are_counted_by_the_second(kinds: tuple[Status, ...]) -> None:
    """Good and bad readings in turn, thousands of them: not two synced events each."""
    turns = 2_000
    steps: list[Batch | BaseException] = []
    for turn in range(turns):
        steps += [status(kinds[turn % len(kinds)]), numbers(1.0)]
    seen = watch(Scripted(steps, []), lambda seen: len(seen.values) == turns)
    ended = [data for kind, data in seen.events if kind == "status"]
    assert sum(data["count"] for data in ended) == turns
    elapsed_s = (ended[-1]["end_ns"] - ended[0]["begin_ns"]) / 1e9
    assert len(ended) <= 2 * MOST_SPANS_IN_A_SECOND * (1 + elapsed_s)
    began = [data for kind, data in seen.events if kind == "status_began"]
    assert len(began) == len(ended)


def test_a_status_in_the_middle_of_a_batch_ends_with_the_next_number() -> None:
    batch = Batch(
        blocks=numbers(1.0, 2.0, 3.0).blocks,
        statuses=(StatusReading("voltage", 2, Status.OVERLOAD),),
    )
    seen = watch(Scripted([batch], []), lambda seen: len(seen.values) == 3)
    assert seen.kinds == ["status_began", "status"]


def test_a_meter_that_does_not_answer_once_is_asked_again_before_it_counts_as_missing() -> None:
    meter = Scripted([numbers(1.0)], [NoAnswer("busy")])
    group = Acquisition({"dmm": meter}, time.monotonic_ns, Seen())
    group.start()
    assert group.wait_settled(30) == {}
    group.stop()


def test_a_meter_of_another_model_is_not_asked_twice() -> None:
    meter = Scripted([], [WrongInstrument("a 34470A, not a 34465A")] * 100)
    group = Acquisition({"dmm": meter}, time.monotonic_ns, Seen(), attempts=1000)
    group.start()
    assert group.wait_settled(30) == {"dmm": "a 34470A, not a 34465A"}
    group.stop()


def test_a_meter_that_is_not_there_is_named_with_its_reason() -> None:
    seen = Seen()
    meter = Scripted([], [NoAnswer("no answer from 10.0.0.1; is it switched on?")] * 100)
    group = Acquisition({"dmm": meter}, time.monotonic_ns, seen)
    group.start()
    assert group.wait_settled(5) == {"dmm": "no answer from 10.0.0.1; is it switched on?"}
    assert group.stop() == []
    assert seen.events == []


@pytest.mark.parametrize("error", [ValueError("bug"), SystemExit(1)])
def test_a_driver_that_raises_in_close_is_read_again_and_reported(error: BaseException) -> None:
    class Raising(Scripted):
        def close(self) -> None:
            super().close()
            raise error

    meter = Raising([numbers(1.0), ConnectionLost("gone"), numbers(2.0)], [])
    seen = Seen()
    group = Acquisition({"m": meter}, time.monotonic_ns, seen)
    group.record_to(seen)
    group.start()
    deadline = time.monotonic() + 60
    while len(seen.values) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert seen.values == [1.0, 2.0]
    assert group.stop() == ["m"]
    assert "driver failed in close" in group.owners["m"].reason


def test_a_driver_that_ends_its_thread_is_read_again() -> None:
    meter = Scripted([numbers(1.0), SystemExit(1), numbers(2.0)], [])
    watch(meter, lambda seen: len(seen.values) == 2)
