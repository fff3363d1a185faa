"""Keithley DMM6500, DAQ6510, DMM7510: readings with the meter's own time stamps, from its buffer.

The meter measures into ``defbuffer1`` by a trigger model of three blocks: delay, measure, repeat.
The driver polls several times a second how far the buffer is filled and reads what is new. Facts
from the DMM6500 Reference Manual (DMM6500-901-01), for the DMM7510 from DMM7510-901-01 Rev. B:

- Reading does not erase, so the driver keeps a cursor. In fill mode CONT the index wraps at the
  end of the buffer, and the oldest readings are overwritten without an error.
- ``REL`` is the time since the first reading of the buffer. Whether that means the first one
  ever, or the oldest that is still there, the manual leaves open once the buffer has wrapped: a
  time that jumps back begins a new epoch.
- The repeating block counts (``TRIG:BLOC:BRAN:COUN``), so the loop ends by itself: a **dead man's
  switch**. The meter does not measure for ever after the end of the driver. It is armed again in
  good time; what the meter did not measure meanwhile shows in the stamps and is reported as
  ``lost``. The built-in models (``SimpleLoop``, ``DurationLoop``) are not used: they begin with a
  block that clears the buffer, and with it the readings that were not read yet.
- If the buffer is cleared all the same (at its panel, by another program), the loss is counted by
  the host's clock, and a new epoch begins.
- The loop has a delay before each measurement but no timer. What a measurement takes beyond its
  integration time is read off the first stamps, and the delay is made shorter by so much.

The manual does not say whether the stamp is taken at the beginning or the end of a measurement:
it is taken for the middle, with an uncertainty of half the integration time.

Each new start of the stamps is an epoch of device time (see
:class:`~instruments.reading.ClockPair`).
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from instruments.driver_kit.base_settings import NplcSettings
from instruments.driver_kit.batches import blocks_and_statuses
from instruments.driver_kit.counter_polling import POLL_S, CounterPolling
from instruments.driver_kit.scpi import parse_quantity
from instruments.driver_kit.scpi_multimeter import ScpiMultimeter
from instruments.drivers import Driver
from instruments.drivers.dmm6500_buffer import (
    BUFFER,
    FILLED_QUERY,
    GAP_INTERVALS,
    STAMP_U_S,
    StampAges,
    is_measuring,
    looks_cleared,
    new_indices,
    parse_filled,
    parse_stamped,
)
from instruments.errors import NoAnswer, ProtocolError, SettingRefused, WrongInstrument
from instruments.reading import (
    EPOCH_NS,
    Batch,
    Clock,
    ClockPair,
    HostClock,
    Identity,
    Status,
    StatusReading,
)
from instruments.transports.lines import MessageLine

_MAX_READINGS_PER_QUERY: Final = 1000
"""Readings taken by one query: about 40 kB."""
_MAX_UNREADABLE_IN_A_ROW: Final = 3
_STEPS_TO_TUNE: Final = 8
"""Steps between stamps from which the interval is known."""
_TUNED: Final = 0.01
_TOLERANCE: Final = 0.1
"""Of ``interval_s``: what is adjusted, and what is refused when it cannot be."""
_MIN_DELAY_S: Final = 1e-6
"""The delay block refuses less than 167 ns that is not 0."""
_MEASURE_BLOCK: Final = {"DMM6500": "MDIG", "DAQ6510": "MDIG", "DMM7510": "MEAS"}


class Dmm6500Settings(NplcSettings):
    """DC volts or DC amps on one fixed range, stamped by the meter."""

    model: Literal["DMM6500", "DAQ6510", "DMM7510"] = "DMM6500"
    dead_man_s: Annotated[float, Field(ge=10, le=100_000)] = 600.0
    """Measures on for at most so long after this program has died."""

    @model_validator(mode="after")
    def _dead_man_outlasts_interval(self) -> Self:
        if self.dead_man_s < 4 * self.interval_s:
            raise ValueError("dead_man_s must be at least four times interval_s")
        return self

    @property
    def default_baud(self) -> int:
        """See :class:`~instruments.driver_kit.base_settings.VisaAddress`."""
        return 115_200


class Dmm6500(ScpiMultimeter[Dmm6500Settings]):
    """One DMM6500. Its channel is ``voltage`` or ``current``, on the meter's clock."""

    def __init__(
        self,
        name: str,
        settings: Dmm6500Settings,
        clock: HostClock,
        line: MessageLine | None = None,
    ) -> None:
        channel = settings.channel(
            Clock.DEVICE,
            settings.limits_without_auto_zero(),
            settings.aperture_s,
            settings.aperture_s / 2 + STAMP_U_S,
            clock_tick_s=settings.interval_s + settings.aperture_s,
            mains_hz=settings.mains_hz,
        )
        super().__init__(name, settings, clock, line, channel)
        self._polls = CounterPolling(POLL_S)
        self._ages = StampAges(channel.clock_tick_s * 1e9)
        self._interval_ns = settings.interval_s * 1e9
        self._delay_s = 0.0
        self._tuned = False
        self._next_poll_ns = 0
        self._polled_ns = 0
        self._armed_ns = 0
        self._news_ns = 0
        self._capacity = 0
        self._cursor = 0
        self._epoch = -1
        self._stamp_ns: int | None = None
        self._last: tuple[float | Status, float] | None = None
        self._rereading = False  # all of the buffer, of which the oldest may have been delivered
        self._interval_known = False
        self._unreadable = 0
        self._steps_s: list[float] = []

    def open(self) -> Identity:
        """Connect, make sure of the model and that it speaks SCPI."""
        identity = super().open()
        language = self._scpi.ask("*LANG?").upper()
        if language != "SCPI":
            raise WrongInstrument(
                f"{self._scpi.name}: speaks {language}, not SCPI: send it *LANG SCPI (or menu "
                "System, Settings, Command Set) and switch it off and on"
            )
        return identity

    def start(self) -> None:
        """Reset, set up, take one zero, verify, and begin."""
        settings, scpi, node = self._settings, self._scpi, self._node
        scpi.reset("ABOR")
        scpi.send(f'SENS:FUNC "{node}"')
        scpi.send(f"SENS:{node}:RANG {settings.range:g}")
        scpi.send(f"SENS:{node}:NPLC {settings.nplc:g}")
        scpi.send(f"SENS:{node}:AZER OFF")
        scpi.send("SENS:AZER:ONCE")
        scpi.send("FORM:DATA ASC")
        # The default of seven digits resolves only 10 ms after a day.
        scpi.send("FORM:ASC:PREC 16")
        scpi.send(f'TRAC:FILL:MODE CONT,"{BUFFER}"')
        scpi.send(f'TRAC:CLE "{BUFFER}"')
        self._verify_settings(settings.nplc)
        scpi.expect_quantity("SYST:LFR?", settings.mains_hz, "its mains frequency (mains_hz)")
        self._capacity = int(scpi.ask_for(f'TRAC:POIN? "{BUFFER}"', parse_quantity))
        self._cursor = 0
        self._interval_ns = settings.interval_s * 1e9
        self._delay_s = settings.interval_s - settings.aperture_s
        self._tuned = False
        self._unreadable = 0
        self._begin_epoch()
        self._load_loop()
        self._arm()
        scpi.raise_device_errors("to measure by its trigger model")
        self._next_poll_ns = self._polled_ns = self._clock()
        self._panel.restart(self._polled_ns)

    def read(self) -> Batch:
        """Poll how far the buffer is filled and read what is new, about each 0.17 s."""
        wait_s = (self._next_poll_ns - self._clock()) * 1e-9
        if wait_s > 0:
            time.sleep(min(wait_s, 0.5))
        filled, asked_ns, answered_ns = self._ask_at_most_twice(FILLED_QUERY, parse_filled)
        if looks_cleared(self._cursor, *filled):
            filled, asked_ns, answered_ns = self._ask_at_most_twice(FILLED_QUERY, parse_filled)
        first, last = filled
        if changed := self._panel.changed(answered_ns):
            lost = StatusReading(self._channel.name, self._next_stamp_ns(), *changed)
            self.start()
            return Batch(statuses=(lost,))
        cleared: tuple[StatusReading, ...] = ()
        if looks_cleared(self._cursor, first, last):
            cleared = (self._cleared_buffer(last, answered_ns),)
        overrun = self._rereading = self._may_have_overrun(first, answered_ns)
        self._polled_ns = answered_ns
        if overrun:
            stretches = [(first, self._capacity), (1, last)]
        else:
            stretches = new_indices(self._cursor, first, last, self._capacity)
        batch = self._read_stretches(stretches, asked_ns, answered_ns)
        self._keep_armed(bool(stretches), answered_ns)
        if cleared:
            return replace(batch, statuses=(*cleared, *batch.statuses))
        if not overrun:
            return batch
        detail = "the buffer was not read in time"
        status = StatusReading(
            self._channel.name, self._next_stamp_ns(), Status.MEMORY_OVERFLOW, detail
        )
        return replace(batch, statuses=(*batch.statuses, status))

    def close(self) -> None:
        """Stop, and give the front panel back to continuous measurement."""
        self._scpi.close("ABOR", "TRIG:CONT REST", "logout")

    def _load_loop(self) -> None:
        """Build the trigger model, with the present delay."""
        if self._delay_s < _MIN_DELAY_S:
            self._delay_s = 0.0
        settings = self._settings
        count = round(settings.dead_man_s / settings.interval_s)
        self._scpi.send('TRIG:LOAD "Empty"')
        self._scpi.send(f"TRIG:BLOC:DEL:CONS 1,{self._delay_s:.6g}")
        self._scpi.send(f'TRIG:BLOC:{_MEASURE_BLOCK[settings.model]} 2,"{BUFFER}"')
        self._scpi.send(f"TRIG:BLOC:BRAN:COUN 3,{count},1")

    def _cleared_buffer(self, last: int, now_ns: int) -> StatusReading:
        """The loss where the buffer is shorter than it was: it holds ``last`` newer readings."""
        missed = (now_ns - self._polled_ns) / self._interval_ns - last
        stamp_ns = self._next_stamp_ns()
        self._cursor = 0
        self._begin_epoch()
        return StatusReading(
            self._channel.name,
            stamp_ns,
            Status.LOST,
            "somebody cleared the buffer",
            max(round(missed), 1),
        )

    def _arm(self) -> None:
        self._scpi.send("INIT")
        self._armed_ns = self._news_ns = self._clock()
        self._steps_s.clear()

    def _keep_armed(self, news: bool, now_ns: int) -> None:
        """Arm the loop again at half its time, or when the meter has stopped by itself."""
        if news:
            self._news_ns = now_ns
        silent_ns = now_ns - self._news_ns
        half_over = now_ns - self._armed_ns > self._settings.dead_man_s * 0.5e9
        stopped = silent_ns > max(1e9, 3 * self._interval_ns) and not is_measuring(self._scpi)
        tuned = self._tune()
        if half_over or stopped or tuned:
            self._scpi.send("ABOR")
            if tuned:
                self._load_loop()
            self._arm()
            self._scpi.raise_device_errors("to measure on")

    def _tune(self) -> bool:
        """Whether the delay was changed, once, so that readings come each ``interval_s``."""
        if self._tuned or not self._interval_known:
            return False
        self._tuned = True
        wanted_s = self._settings.interval_s
        excess_s = self._interval_ns * 1e-9 - wanted_s
        if excess_s > self._delay_s + _TOLERANCE * wanted_s:
            least_s = wanted_s + excess_s - self._delay_s
            raise SettingRefused(
                f"{self._scpi.name}: takes {least_s:.4g} s a reading with NPLC "
                f"{self._settings.nplc:g}: set interval_s to that or more"
            )
        if abs(excess_s) < _TUNED * wanted_s:
            return False
        self._delay_s = max(self._delay_s - excess_s, 0.0)
        self._interval_ns = wanted_s * 1e9
        return True

    def _begin_epoch(self) -> None:
        self._epoch += 1
        self._stamp_ns = self._last = None
        self._interval_known = False
        self._polls.restart()
        self._ages.restart()

    def _next_stamp_ns(self) -> int:
        if self._stamp_ns is None:
            return self._epoch * EPOCH_NS
        return self._stamp_ns + round(self._interval_ns)

    def _may_have_overrun(self, first: int, now_ns: int) -> bool:
        """Whether so long has passed that readings may have been overwritten before they were read.

        Then all that is there is taken, from the oldest on.
        """
        filled_ns = self._capacity * self._interval_ns
        return first > 1 and now_ns - self._polled_ns > 0.9 * filled_ns

    def _read_stretches(
        self, stretches: list[tuple[int, int]], asked_ns: int, answered_ns: int
    ) -> Batch:
        stamped: list[tuple[float | Status, float]] = []
        for begin, end in stretches:
            for low in range(begin, end + 1, _MAX_READINGS_PER_QUERY):
                high = min(low + _MAX_READINGS_PER_QUERY - 1, end)
                try:
                    stamped += self._ask_data(low, high)
                except ProtocolError as error:
                    # A garbled answer loses nothing: the buffer is read again.
                    self._scpi.resynchronise()
                    self._unreadable += 1
                    if self._unreadable >= _MAX_UNREADABLE_IN_A_ROW:
                        name = f"{self._scpi.name}: "
                        raise ProtocolError(name + str(error).removeprefix(name)) from None
                    return self._deliver(stamped, ())
                self._cursor = high
        self._unreadable = 0
        return self._deliver(stamped, (asked_ns, answered_ns))

    def _ask_data(self, low: int, high: int) -> list[tuple[float | Status, float]]:
        query = f'TRAC:DATA? {low},{high},"{BUFFER}",READ,REL'
        try:
            answer = self._scpi.ask(query)
        except NoAnswer as error:
            raise NoAnswer(f"{error}; {high - low + 1} readings were asked for") from None
        return parse_stamped(answer, high - low + 1)

    def _deliver(
        self, stamped: list[tuple[float | Status, float]], check: tuple[int, int] | tuple[()]
    ) -> Batch:
        """Blocks, what is missing between them, and, where the last one is known, the clock."""
        name = self._channel.name
        if self._rereading and self._last in stamped:
            stamped = stamped[stamped.index(self._last) + 1 :]
        self._follow_interval([seconds for _, seconds in stamped])
        t_ns: list[int] = []
        lost: list[StatusReading] = []
        for _, seconds in stamped:
            base = self._epoch * EPOCH_NS
            stamp = base + round(seconds * 1e9)
            previous = self._stamp_ns
            if previous is not None and stamp <= previous:
                self._begin_epoch()
                stamp += EPOCH_NS
            elif previous is not None:
                intervals = (stamp - previous) / self._interval_ns
                if intervals > GAP_INTERVALS and self._interval_known:
                    count = max(round(intervals) - 1, 1)
                    detail = f"{count} readings between {previous % EPOCH_NS * 1e-9:.3f} s and now"
                    lost.append(StatusReading(name, previous, Status.LOST, detail, count))
            self._stamp_ns = stamp
            t_ns.append(stamp)
        self._last = stamped[-1] if stamped else self._last
        blocks, statuses = blocks_and_statuses(name, t_ns, [reading for reading, _ in stamped])
        return Batch(blocks, (*lost, *statuses), self._clock_pairs(check))

    def _follow_interval(self, stamps_s: list[float]) -> None:
        """Measure the meter's real interval: the median, which single gaps do not change."""
        self._steps_s += [b - a for a, b in pairwise(stamps_s) if b > a]
        if len(self._steps_s) >= _STEPS_TO_TUNE:
            self._interval_ns = median(self._steps_s) * 1e9
            self._interval_known = True
            self._steps_s.clear()

    def _clock_pairs(self, check: tuple[int, int] | tuple[()]) -> tuple[ClockPair, ...]:
        if not check:
            return ()
        asked_ns, answered_ns = check
        if self._stamp_ns is None or not self._ages.is_of_now(
            self._stamp_ns, asked_ns, answered_ns
        ):
            self._next_poll_ns = answered_ns + round(POLL_S * 1e9)
            return ()
        count = self._stamp_ns % EPOCH_NS / self._interval_ns
        self._polls.add_poll(count, self._interval_ns, asked_ns, answered_ns)
        self._next_poll_ns = self._polls.next_poll_ns(answered_ns, self._interval_ns)
        pair = ClockPair(self._channel.name, self._stamp_ns, answered_ns, answered_ns - asked_ns)
        return (pair,)


DRIVER: Final = Driver(Dmm6500Settings, Dmm6500)
