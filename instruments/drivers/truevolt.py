"""Keysight Truevolt 34460A, 34461A, 34465A, 34470A; Agilent 34410A, 34411A: from the memory.

The meter samples on its own clock into its reading memory; the driver asks several times a
second how many readings there are and takes them out (``R?`` reads and erases, oldest first).
Facts from the Truevolt Series Operating and Service Guide and the 34410A/11A User's Guide.

Readings carry no times, so **device time is counted**: reading ``i`` of an acquisition began at
``i`` times the sample interval. The answer ``n`` to ``DATA:POIN?`` says that ``n`` readings are
complete, hence the device clock stands between the end of window ``n - 1`` and the end of the
next: that is a :class:`~instruments.reading.ClockPair` with a tick of one interval. The polls
are timed so that each halves what is unknown: a few pairs narrow it to well under a tick.

**Epochs.** Each acquisition counts from zero again, so each is an epoch of device time (see
:class:`~instruments.reading.ClockPair`). An acquisition begins at the start, after a reconnection,
after a memory overflow, and when all samples of one trigger were taken.

The 34460A and 34461A have no sample timer: they run free, and the interval is measured while
starting, to about 0.3 %; the slope of the fit takes the rest.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from instruments.driver_kit.base_settings import NplcSettings
from instruments.driver_kit.batches import blocks_and_statuses
from instruments.driver_kit.counter_polling import POLL_S, CounterPolling
from instruments.driver_kit.scpi import parse_block, parse_quantity, reading_or_unreadable
from instruments.driver_kit.scpi_multimeter import ScpiMultimeter
from instruments.drivers import Driver
from instruments.errors import ProtocolError, SettingRefused
from instruments.reading import (
    EPOCH_NS,
    Batch,
    Clock,
    ClockPair,
    HostClock,
    Status,
    StatusReading,
)
from instruments.transports.lines import MessageLine

_MAX_READINGS_PER_QUERY: Final = 2000
"""Readings taken by one ``R?``: 32 kB."""
_MEMORY_OVERFLOW: Final = 1 << 14
"""Questionable Data condition register: the oldest readings were lost."""
_CONVERSION_U_S: Final = 0.5e-3
"""From the end of a window until the reading counts as complete; the manual does not say."""
_FREE_RUN_MEASURE_S: Final = 1.5
_FREE_RUN_TOLERANCE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Model:
    memory: int
    timed: bool
    samples: int = 0
    """The most it takes for one trigger, where it has a sample timer."""


MODELS: Mapping[str, _Model] = {
    "34410A": _Model(50_000, timed=True, samples=50_000),
    "34411A": _Model(1_000_000, timed=True, samples=1_000_000),
    "34460A": _Model(memory=1_000, timed=False),
    "34461A": _Model(memory=10_000, timed=False),
    "34465A": _Model(50_000, timed=True, samples=1_000_000_000),
    "34470A": _Model(50_000, timed=True, samples=1_000_000_000),
}
"""Memory without the MEM option, and whether it has a sample timer."""


class TruevoltSettings(NplcSettings):
    """DC volts or DC amps on one fixed range, sampled each ``interval_s`` seconds."""

    model: Literal["34410A", "34411A", "34460A", "34461A", "34465A", "34470A"]

    @property
    def sets_interval(self) -> bool:
        """Whether it has a sample timer."""
        return MODELS[self.model].timed


_POINTS = re.compile(r"\+?(\d+);\+?(\d+)")


def parse_truevolt_points(text: str) -> tuple[int, int]:
    """Readings in memory and the Questionable condition, from ``12;0``. Raises ProtocolError."""
    match = _POINTS.fullmatch(text.strip())
    if match is None:
        raise ProtocolError(f"expected readings in memory and a condition, got {text[:60]!r}")
    return int(match[1]), int(match[2])


def parse_readings(answer: bytes) -> list[float | Status]:
    """The readings of an ``R?``. A single unreadable one is a status. Raises ProtocolError."""
    content = parse_block(answer).decode("ascii", errors="replace").strip()
    return [reading_or_unreadable(text) for text in content.split(",")] if content else []


class Truevolt(ScpiMultimeter[TruevoltSettings]):
    """One Truevolt. Its channel is ``voltage`` or ``current``, on the meter's clock."""

    def __init__(
        self,
        name: str,
        settings: TruevoltSettings,
        clock: HostClock,
        line: MessageLine | None = None,
    ) -> None:
        channel = settings.channel(
            Clock.DEVICE,
            settings.limits_without_auto_zero(),
            settings.aperture_s,
            _CONVERSION_U_S,
            clock_tick_s=settings.interval_s,
            mains_hz=settings.mains_hz,
        )
        super().__init__(name, settings, clock, line, channel)
        self._model = MODELS[settings.model]
        self._polls = CounterPolling(POLL_S)
        self._next_poll_ns = 0
        self._interval_ns = settings.interval_s * 1e9
        self._aperture_ns = settings.aperture_s * 1e9
        self._epoch = -1
        self._taken = 0
        self._begun_ns = 0

    def start(self) -> None:
        """Reset, set up, verify, take one zero, and begin."""
        settings, scpi, node = self._settings, self._scpi, self._node
        # An earlier client may have left it acquiring, with a full error queue.
        scpi.reset("ABOR")
        scpi.send(f"CONF:{node} {settings.range:g}")
        scpi.send(f"{node}:NPLC {settings.nplc:g}")
        scpi.send(f"{node}:ZERO:AUTO ONCE")
        scpi.send("TRIG:SOUR IMM")
        scpi.send("TRIG:DEL 0")
        if self._model.timed:
            scpi.send("SAMP:SOUR TIM")
            scpi.send(f"SAMP:TIM {settings.interval_s:g}")
            scpi.send(f"SAMP:COUN {self._model.samples}")
            scpi.send("TRIG:COUN 1")
        else:
            scpi.send("SAMP:COUN 1")
            scpi.send("TRIG:COUN INF")
        self._verify_settings(settings.nplc)
        if self._model.timed:
            least = scpi.ask_for("SAMP:TIM? MIN", parse_quantity)
            if settings.interval_s < least:
                raise SettingRefused(
                    f"{scpi.name}: interval_s = {settings.interval_s:g} is too short for NPLC "
                    f"{settings.nplc:g}: it recommends at least {least:g} s"
                )
            answer = scpi.expect_quantity("SAMP:TIM?", settings.interval_s, "the sample interval")
            self._interval_ns = answer * 1e9
        self._start_acquisition()
        if not self._model.timed:
            self._interval_ns = self._measured_interval_ns()
        self._next_poll_ns = self._clock()
        self._panel.restart(self._next_poll_ns)

    def read(self) -> Batch:
        """Poll how many readings there are and read them out, about each 0.17 s."""
        wait_s = (self._next_poll_ns - self._clock()) * 1e-9
        if wait_s > 0:
            time.sleep(min(wait_s, 0.5))
        points, overflow, answered_ns, pairs = self._poll()
        if overflow:
            return self._restart_acquisition(
                Status.MEMORY_OVERFLOW, "readings were not taken in time"
            )
        if changed := self._panel.changed(answered_ns):
            # Readings in the memory may be of the other function: they are dropped.
            lost = self._loss_status(*changed)
            self.start()
            return Batch(statuses=(lost,))
        if points == 0:
            if self._model.timed and self._taken >= self._model.samples:
                missed = (answered_ns - self._begun_ns) / self._interval_ns - self._taken
                detail = f"one trigger gives {self._taken} samples; triggered again"
                return self._restart_acquisition(Status.LOST, detail, max(round(missed), 1))
            return Batch(clock_pairs=pairs)
        try:
            asked = min(points, _MAX_READINGS_PER_QUERY)
            readings = parse_readings(self._scpi.ask_bytes(f"R? {asked}"))
            if len(readings) > asked:
                raise ProtocolError(f"{len(readings)} readings where {asked} were asked for")
        except ProtocolError as error:
            # The meter has erased an unknown number of readings: the count is lost.
            self._scpi.resynchronise()
            return self._restart_acquisition(Status.UNREADABLE, str(error))
        first = self._taken
        self._taken += len(readings)
        middle_ns = self._epoch * EPOCH_NS + round(self._aperture_ns / 2)
        t_ns = [middle_ns + round((first + i) * self._interval_ns) for i in range(len(readings))]
        blocks, statuses = blocks_and_statuses(self._channel.name, t_ns, readings)
        return Batch(blocks, statuses, pairs)

    def close(self) -> None:
        """Stop sampling and give the front panel back."""
        self._scpi.close("ABOR", "SYST:LOC")

    def _start_acquisition(self) -> None:
        self._scpi.send("INIT")
        self._begun_ns = self._clock()
        self._epoch += 1
        self._taken = 0
        self._polls.restart()

    def _restart_acquisition(self, status: Status, detail: str, count: int = 1) -> Batch:
        lost = self._loss_status(status, detail, count)
        self._scpi.send("ABOR")
        self._start_acquisition()
        self._scpi.raise_device_errors("to sample again")
        return Batch(statuses=(lost,))

    def _loss_status(self, status: Status, detail: str, count: int = 1) -> StatusReading:
        t_ns = self._epoch * EPOCH_NS + round(self._taken * self._interval_ns)
        return StatusReading(self._channel.name, t_ns, status, detail, count)

    def _poll(self) -> tuple[int, bool, int, tuple[ClockPair, ...]]:
        """Readings in memory, whether some were lost, time of the answer, clock pairs."""
        (points, condition), asked_ns, answered_ns = self._ask_at_most_twice(
            "DATA:POIN?;:STAT:QUES:COND?", parse_truevolt_points
        )
        complete = self._taken + points
        self._polls.add_poll(complete, self._interval_ns, asked_ns, answered_ns)
        self._next_poll_ns = self._polls.next_poll_ns(answered_ns, self._interval_ns)
        full = points >= self._model.memory and complete != self._model.samples
        overflow = bool(condition & _MEMORY_OVERFLOW) or full
        over = self._model.timed and complete >= self._model.samples
        if complete == 0 or overflow or over:
            return points, overflow, answered_ns, ()
        device_ns = round((complete - 1) * self._interval_ns + self._aperture_ns)
        pair = ClockPair(
            channel=self._channel.name,
            device_ns=self._epoch * EPOCH_NS + device_ns,
            host_ns=answered_ns,
            round_trip_ns=answered_ns - asked_ns,
        )
        return points, overflow, answered_ns, (pair,)

    def _measured_interval_ns(self) -> float:
        """Interval of the free run, from the moments at which the count steps."""
        steps: list[tuple[int, int]] = []
        seen = -1
        deadline = time.monotonic() + _FREE_RUN_MEASURE_S
        while time.monotonic() < deadline:
            points = int(parse_quantity(self._scpi.ask("DATA:POIN?")))
            if points != seen and seen >= 0:
                steps.append((points, self._clock()))
            seen = points
        if len(steps) < 2:
            raise SettingRefused(
                f"{self._scpi.name}: fewer than two readings in {_FREE_RUN_MEASURE_S:g} s: "
                "lower nplc, or use driver scpi_dmm"
            )
        (first, first_ns), (last, last_ns) = steps[0], steps[-1]
        interval_s = (last_ns - first_ns) / (last - first) * 1e-9
        expected_s = self._settings.interval_s
        if abs(interval_s - expected_s) > _FREE_RUN_TOLERANCE * expected_s:
            raise SettingRefused(
                f"{self._scpi.name}: a {self._settings.model} has no sample timer and runs at "
                f"{interval_s:.4g} s a reading with NPLC {self._settings.nplc:g}: "
                f"set interval_s = {interval_s:.3g}"
            )
        return interval_s * 1e9


DRIVER: Final = Driver(TruevoltSettings, Truevolt)
