"""Reading the instruments: one owner thread each, which connects, reads and reconnects.

A lost instrument costs one event when it goes and one when it is back, and the gap. It never
ends a run by itself: changes are reported through :class:`Listener`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from instruments.errors import InstrumentError, SettingRefused, WrongInstrument
from instruments.instrument import Instrument
from instruments.reading import Batch, Block, ClockPair, HostClock, Identity, Status, StatusReading
from labctl.errors import JournalError
from labctl.printable import printable
from labctl.record.events import EventKind
from labctl.record.timebase import NS_PER_S

FIRST_RETRY_S = 0.5
LAST_RETRY_S = 1.0
"""Reconnection waits 0.5, 1, 1 … s. A meter is read again within 5 s of being back: an attempt
that just failed took at most 1.5 s (the time-out of opening), then 1 s, then opening and settings,
2.5 s where a reset takes no longer than 1 s."""
ATTEMPTS = 2
"""An instrument may be busy with what a client before left behind, or slow just once."""
SILENCE_S = 3.0
LISTENED_S = 2.0
"""The most that one read of an instrument counts for: a read takes no longer."""
SILENCE_INTERVALS = 6
"""An instrument is silent after 3 s or six missing readings, whichever is longer."""
STOP_WITHIN_S = 3.0
MOST_SPANS_IN_A_SECOND = 10
"""Of statuses of one channel that come and go, before they are counted by the second."""


class Recorder(Protocol):
    """Where readings and events go: the journal."""

    def readings(self, instrument: str, block: Block) -> None:
        """Record a block."""

    def clock_pairs(self, instrument: str, pairs: tuple[ClockPair, ...]) -> None:
        """Record samples of a device clock."""

    def event(self, kind: EventKind, t_ns: int | None = None, **data: Any) -> object:
        """Record an event."""


class Listener(Protocol):
    """Who wants to know while it happens. Called from the owner threads."""

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in."""

    def state(self, instrument: str, state: State, reason: str) -> None:
        """An instrument came or went."""


class State(StrEnum):
    """Where an instrument is in its life."""

    CONNECTING = "connecting"
    READING = "reading"
    LOST = "lost"
    STOPPED = "stopped"


@dataclass
class _Span:
    """Readings that are not numbers, one after another, for the same reason.

    ``flickers``: it was the last of many in a second. Then numbers may be between its readings, and
    it is over when there was none of them for a second: else each pair of readings would be two
    events, each of them synced to disk.
    """

    reading: StatusReading
    begin_ns: int
    count: int
    flickers: bool
    last_ns: int


class Owner(threading.Thread):
    """The only thread that ever touches its instrument."""

    def __init__(
        self,
        name: str,
        instrument: Instrument,
        clock: HostClock,
        listener: Listener,
        attempts: int,
    ) -> None:
        super().__init__(name=f"owner-{name}", daemon=True)
        self.instrument = instrument
        self.instrument_name = name
        self.state = State.CONNECTING
        self.identity: Identity | None = None
        self.reason = "not connected yet"
        self.lost_at: float | None = None
        self.close_failed = False
        self.settled = threading.Event()
        self._clock = clock
        self._listener = listener
        self._attempts_left = attempts
        self._recorder: Recorder | None = None
        self._spans: dict[tuple[str, Status], _Span] = {}
        self._span_begins: dict[str, deque[int]] = {}
        self._stop_asked = threading.Event()
        self._last_reading_ns = self._lost_ns = clock()
        intervals = [channel.interval_s for channel in instrument.channels]
        self._silence_s = max(SILENCE_S, SILENCE_INTERVALS * max(intervals, default=0.0))

    def record_to(self, recorder: Recorder) -> None:
        """From now on, what is read is recorded."""
        self._recorder = recorder

    def ask_to_stop(self) -> None:
        """Leave at the next chance, with the instrument closed."""
        self._stop_asked.set()

    def run(self) -> None:
        """Connect, read, and connect again, until asked to stop.

        A driver may be anybody's: whatever it raises loses the instrument and nothing else.
        """
        retry_s = FIRST_RETRY_S
        while not self._stop_asked.is_set():
            try:
                self.identity = self.instrument.open()
                self.instrument.start()
                self._connected()
                retry_s = FIRST_RETRY_S
                self._read_until_stopped()
            except InstrumentError as error:
                self._lost(str(error))
                if isinstance(error, WrongInstrument | SettingRefused):
                    self._attempts_left = 0  # it would only be so again
            except BaseException as error:
                self._lost(f"driver failed: {type(error).__name__}: {error}")
            self._close()
            self._attempts_left -= 1
            if self._attempts_left <= 0:
                self.settled.set()
            if self._stop_asked.wait(retry_s):
                break
            retry_s = min(retry_s * 2, LAST_RETRY_S)
        self._end_every_span()
        self.state = State.STOPPED
        self.settled.set()

    def _close(self) -> None:
        """Close the instrument, and note whether that failed: it may not be local then."""
        try:
            self.instrument.close()
        except BaseException as error:
            self.close_failed = True
            self.reason += f"; driver failed in close: {type(error).__name__}: {error}"
        else:
            self.close_failed = False

    def _read_until_stopped(self) -> None:
        silent_s, before = 0.0, time.monotonic()
        while not self._stop_asked.is_set():
            batch = self.instrument.read()
            now = time.monotonic()
            # a pause of this process is not a silence of the meter
            silent_s += min(now - before, LISTENED_S)
            before = now
            if batch.blocks or batch.statuses:
                silent_s = 0.0
                self._last_reading_ns = self._clock()
            elif silent_s > self._silence_s:
                raise InstrumentError(f"silent for {silent_s:.1f} s")
            self._take(batch)

    def _take(self, batch: Batch) -> None:
        recorder = self._recorder
        if recorder is not None:
            try:
                for block in batch.blocks:
                    recorder.readings(self.instrument_name, block)
                if batch.clock_pairs:
                    recorder.clock_pairs(self.instrument_name, batch.clock_pairs)
            except JournalError:
                return  # the journal itself ends the run
        if batch.statuses or self._spans:
            self._follow_statuses(batch)
        self._listener.batch(self.instrument_name, batch)

    def _follow_statuses(self, batch: Batch) -> None:
        numbers = {block.channel: int(block.t_ns[-1]) for block in batch.blocks if len(block)}
        for reading in batch.statuses:
            key = (reading.channel, reading.status)
            now_ns = self._clock()
            self._end_spans(reading.channel, now_ns, but=key)
            span = self._spans.get(key)
            if span is not None:
                span.count, span.last_ns = span.count + reading.count, now_ns
            else:
                flickers = self._is_one_of_many(reading.channel, now_ns)
                self._spans[key] = _Span(reading, now_ns, reading.count, flickers, now_ns)
                self._event(
                    EventKind.STATUS_BEGAN,
                    channel=f"{self.instrument_name}.{reading.channel}",
                    status=reading.status.value,
                    detail=reading.detail,
                )
            if numbers.get(reading.channel, reading.t_ns) <= reading.t_ns:
                numbers.pop(reading.channel, None)
        for channel in numbers:
            self._end_spans(channel, self._clock())

    def _is_one_of_many(self, channel: str, now_ns: int) -> bool:
        """Whether so many spans of a channel have begun within a second, with one that begins."""
        begins = self._span_begins.setdefault(channel, deque(maxlen=MOST_SPANS_IN_A_SECOND))
        begins.append(now_ns)
        return len(begins) == MOST_SPANS_IN_A_SECOND and now_ns - begins[0] < NS_PER_S

    def _end_spans(self, channel: str, now_ns: int, but: tuple[str, Status] | None = None) -> None:
        """A number of the channel, or another status than ``but``: what was on is over."""
        for key, span in list(self._spans.items()):
            goes_on = span.flickers and now_ns - span.last_ns < NS_PER_S
            if key[0] == channel and key != but and not goes_on:
                self._end_span(key)

    def _end_every_span(self) -> None:
        """Nothing more comes."""
        for key in list(self._spans):
            self._end_span(key)

    def _end_span(self, key: tuple[str, Status]) -> None:
        span = self._spans.pop(key)
        self._event(
            EventKind.STATUS,
            channel=f"{self.instrument_name}.{span.reading.channel}",
            status=span.reading.status.value,
            detail=span.reading.detail,
            count=span.count,
            begin_ns=span.begin_ns,
            end_ns=self._clock(),
        )

    def _connected(self) -> None:
        was_lost = self.state is State.LOST
        self.state = State.READING
        self.lost_at = None
        self.settled.set()
        if was_lost:
            gap_s = round((self._clock() - self._lost_ns) / NS_PER_S, 3)
            self._event(
                EventKind.INSTRUMENT_BACK,
                instrument=self.instrument_name,
                gap_s=gap_s,
                identity=str(self.identity),
            )
        self._last_reading_ns = self._clock()
        self._listener.state(self.instrument_name, self.state, "")

    def _lost(self, reason: str) -> None:
        if self._stop_asked.is_set():
            return
        self.reason = reason
        if self.state is State.LOST:
            return
        self._lost_ns = self._last_reading_ns
        self.lost_at = time.monotonic()
        if self.state is State.CONNECTING:  # reported by the caller that waits for it
            self.state = State.LOST
        else:
            self._end_every_span()
            self._event(EventKind.INSTRUMENT_LOST, instrument=self.instrument_name, reason=reason)
            self.state = State.LOST
            self._listener.state(self.instrument_name, self.state, reason)

    def _event(self, kind: EventKind, **data: Any) -> None:
        if self._recorder is not None:
            with contextlib.suppress(JournalError):
                self._recorder.event(kind, **data)


class Acquisition:
    """All instruments of a rig, each with its owner thread."""

    def __init__(
        self,
        instruments: Mapping[str, Instrument],
        clock: HostClock,
        listener: Listener,
        attempts: int = ATTEMPTS,
    ) -> None:
        """``attempts``: how often each may fail to connect before it counts as missing."""
        self.owners = {
            name: Owner(name, instrument, clock, listener, attempts)
            for name, instrument in instruments.items()
        }

    def start(self) -> None:
        """Let every owner connect, all at once."""
        for owner in self.owners.values():
            owner.start()

    def wait_settled(self, timeout_s: float) -> dict[str, str]:
        """Wait until each is connected or counts as missing; the reasons of those that are."""
        deadline = time.monotonic() + timeout_s
        for owner in self.owners.values():
            owner.settled.wait(max(deadline - time.monotonic(), 0.0))
        return {
            name: owner.reason
            for name, owner in self.owners.items()
            if owner.state is not State.READING
        }

    def identities(self) -> dict[str, str]:
        """The identity that each connected instrument reports, as in the record."""
        return {
            name: printable(str(owner.identity))
            for name, owner in self.owners.items()
            if owner.identity is not None
        }

    def record_to(self, recorder: Recorder) -> None:
        """From now on, what is read is recorded."""
        for owner in self.owners.values():
            owner.record_to(recorder)

    def stop(self, timeout_s: float = STOP_WITHIN_S) -> list[str]:
        """Close every instrument; the names of those that were open once, and did not let go in
        time or whose driver failed to close."""
        for owner in self.owners.values():
            owner.ask_to_stop()
        deadline = time.monotonic() + timeout_s
        for owner in self.owners.values():
            if owner.is_alive():
                owner.join(max(deadline - time.monotonic(), 0.0))
        return [
            name
            for name, owner in self.owners.items()
            if owner.identity is not None and (owner.is_alive() or owner.close_failed)
        ]
