"""Keithley DAQ6510 with a multiplexer card: several rails with one meter, one after another.

The meter goes through its channels once in ``interval_s``; each reading is stamped by the meter's
own clock when that channel was measured, so the delay from channel to channel is in the times, and
volts and amps of a rail are brought together by them. All channels have one clock.

Commands as public programs for a DAQ6510 send them (``FUNC 'VOLT:DC', (@101:110)``,
``ROUT:SCAN:CRE``, ``ROUT:SCAN:COUN:SCAN``, ``ROUT:SCAN:INT``, ``AZERo:ONCE``, and ``TRAC:DATA?``
with READ, REL, CHAN), and buffer and stamps as for the ``dmm6500``. Whether the stamp is of the
beginning or the end of a measurement is not documented: it is taken for the middle, with half the
integration time as uncertainty.

The scans are counted: the meter stops by itself ``dead_man_s`` after this program. It is started
again in good time. What was not read is read before, then the buffer is cleared: a new epoch of
device time (see :class:`~instruments.reading.ClockPair`), and the scans between are ``lost``. So it
is where somebody else clears it: those are counted by the host's clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from instruments.driver_kit import specifications
from instruments.driver_kit.base_settings import (
    DcFunction,
    DriverSettings,
    NotNegative,
    Positive,
    VisaAddress,
    accuracy_from_rig,
    require_nplc,
    require_one_of,
)
from instruments.driver_kit.batches import blocks_and_statuses, joined
from instruments.driver_kit.counter_polling import POLL_S
from instruments.driver_kit.scpi import (
    ScpiSession,
    parse_quantity,
    parse_seconds,
    reading_or_unreadable,
)
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
)
from instruments.errors import ProtocolError, SettingRefused
from instruments.reading import (
    EPOCH_NS,
    Batch,
    Block,
    Channel,
    Clock,
    ClockPair,
    HostClock,
    Identity,
    Quantity,
    Status,
    StatusReading,
)
from instruments.transports.lines import MessageLine

_MODEL: Final = "DAQ6510"
_MAX_READINGS_PER_QUERY: Final = 500
_SWITCHING_S: Final = 0.01
"""From channel to channel at least: relays of the usual cards settle in some milliseconds."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{1,40}$")]


class ScanInput(DriverSettings):
    """One channel of the card."""

    number: Annotated[int, Field(ge=101, le=299)]
    """Slot and channel: 101 to 140, 201 to 240."""
    function: DcFunction
    range: Positive
    nplc: Positive = 1.0
    accuracy_pct_of_reading: NotNegative
    accuracy_floor: NotNegative
    """V or A, of meter and card."""

    @model_validator(mode="after")
    def _meter_has_it(self) -> Self:
        require_one_of(self.range, specifications.allowed_ranges(_MODEL, self.function))
        require_nplc(self.nplc, _MODEL)
        return self

    @property
    def node(self) -> str:
        """The function in commands."""
        return "VOLT:DC" if self.function == "voltage" else "CURR:DC"


class Daq6510ScanSettings(VisaAddress):
    """The channels by their names, each measured once in ``interval_s`` seconds."""

    mains_hz: Literal[50, 60] = 50
    interval_s: Positive = Field(le=60)
    inputs: Annotated[dict[Name, ScanInput], Field(min_length=1, max_length=40)]
    dead_man_s: Annotated[float, Field(ge=60, le=100_000)] = 3600.0
    """Scans on for at most so long after this program has died."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        numbers = [one.number for one in self.inputs.values()]
        if len(set(numbers)) < len(numbers):
            raise ValueError("inputs: each channel of the card once")
        least_s = sum(self.aperture_s(one) + _SWITCHING_S for one in self.inputs.values())
        if self.interval_s < least_s:
            raise ValueError(f"interval_s must be at least {least_s:.3g}: all channels in turn")
        if self.dead_man_s < 10 * self.interval_s:
            raise ValueError("dead_man_s must be at least ten times interval_s")
        return self

    def aperture_s(self, one: ScanInput) -> float:
        """Integration time of a channel."""
        return one.nplc / self.mains_hz

    @property
    def default_baud(self) -> int:
        """See :class:`~instruments.driver_kit.base_settings.VisaAddress`."""
        return 115_200


Scanned = tuple[int, float | Status, float]
"""Number of the channel, its reading, seconds of the meter."""


def parse_scanned(text: str, count: int) -> list[Scanned]:
    """``count`` readings from ``value,seconds,channel,value,…``. Raises ProtocolError."""
    fields = text.strip().split(",")
    if len(fields) != 3 * count:
        raise ProtocolError(f"expected {count} readings with stamps, got {len(fields)} fields")
    return [
        (int(parse_quantity(number)), reading_or_unreadable(value), parse_seconds(seconds))
        for value, seconds, number in zip(fields[::3], fields[1::3], fields[2::3], strict=True)
    ]


class Daq6510Scan:
    """One DAQ6510. Its channels have the names of the inputs, on the meter's clock."""

    def __init__(
        self,
        name: str,
        settings: Daq6510ScanSettings,
        clock: HostClock,
        line: MessageLine | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._scpi = ScpiSession(name, line or settings.line(name), settings.timeout_s)
        self._names: Mapping[int, str] = {one.number: name for name, one in settings.inputs.items()}
        self._interval_ns = settings.interval_s * 1e9
        self._capacity = 0
        self._cursor = 0
        self._epoch = -1
        self._stamps: dict[str, int] = {}
        """The last one of each channel in this epoch."""
        self._next_poll_ns = self._armed_ns = self._news_ns = 0
        self.channels = tuple(self._describe(name, one) for name, one in settings.inputs.items())
        self._ages = StampAges(max(channel.clock_tick_s for channel in self.channels) * 1e9)

    def open(self) -> Identity:
        """Connect and make sure of the model."""
        self._scpi.open()
        self._scpi.resynchronise()
        return self._scpi.expect_identity(_MODEL, self._settings.serial)

    def start(self) -> None:
        """Reset, set up each channel, verify, and begin to scan."""
        scpi, settings = self._scpi, self._settings
        scpi.reset("ABOR")
        for one in settings.inputs.values():
            node, where = one.node, f"(@{one.number})"
            scpi.send(f'FUNC "{node}",{where}')
            scpi.send(f"{node}:RANG {one.range:g},{where}")
            scpi.send(f"{node}:NPLC {one.nplc:g},{where}")
            scpi.send(f"{node}:AZER OFF,{where}")
        scpi.send("AZER:ONCE")
        scpi.send("FORM:DATA ASC")
        scpi.send("FORM:ASC:PREC 16")
        scpi.send(f'TRAC:FILL:MODE CONT,"{BUFFER}"')
        numbers = ",".join(str(one.number) for one in settings.inputs.values())
        scpi.send(f"ROUT:SCAN:CRE (@{numbers})")
        scpi.send(f"ROUT:SCAN:COUN:SCAN {round(settings.dead_man_s / settings.interval_s)}")
        scpi.send(f"ROUT:SCAN:INT {settings.interval_s:g}")
        scpi.wait_until_done()
        scpi.raise_device_errors("its settings")
        for one in settings.inputs.values():
            node, where = one.node, f"(@{one.number})"
            function = scpi.ask(f"FUNC? {where}").strip('"').upper()
            if function != node:
                raise SettingRefused(f"{scpi.name}: {one.number} measures {function}, not {node}")
            scpi.expect_quantity(f"{node}:RANG? {where}", one.range, f"the range of {one.number}")
            scpi.expect_quantity(f"{node}:NPLC? {where}", one.nplc, f"NPLC of {one.number}")
        scpi.expect_quantity("ROUT:SCAN:INT?", settings.interval_s, "the interval of the scan")
        scpi.expect_quantity("SYST:LFR?", settings.mains_hz, "its mains frequency (mains_hz)")
        self._capacity = int(scpi.ask_for(f'TRAC:POIN? "{BUFFER}"', parse_quantity))
        self._begin()

    def read(self) -> Batch:
        """What is new in the buffer, about each 0.17 s."""
        wait_s = (self._next_poll_ns - self._clock()) * 1e-9
        if wait_s > 0:
            time.sleep(min(wait_s, 0.5))
        batch = self._take()
        now_ns = self._clock()
        self._next_poll_ns = now_ns + round(POLL_S * 1e9)
        half_over = now_ns - self._armed_ns > self._settings.dead_man_s * 0.5e9
        silent = now_ns - self._news_ns > max(1e9, 3 * self._interval_ns)
        if not half_over and not (silent and not is_measuring(self._scpi)):
            return batch
        self._scpi.send("ABOR")
        rest = self._take()
        lost = self._lost_scans(self._clock(), 0.0, "the scan was started again")
        self._begin()
        return joined([batch, rest, Batch(statuses=lost)])

    def close(self) -> None:
        """Stop, open the relays, and give the front panel back."""
        self._scpi.close("ABOR", "ROUT:OPEN:ALL", "logout")

    def _begin(self) -> None:
        """Clear the buffer and scan: a new epoch."""
        self._scpi.send(f'TRAC:CLE "{BUFFER}"')
        self._scpi.send("INIT")
        self._scpi.raise_device_errors("to scan")
        self._begin_epoch()
        self._next_poll_ns = self._armed_ns = self._news_ns = self._clock()

    def _begin_epoch(self) -> None:
        self._epoch += 1
        self._cursor = 0
        self._stamps = {}
        self._ages.restart()

    def _take(self) -> Batch:
        """The readings that are new, and a sample of the clock where all of them were read."""
        asked_ns = self._clock()
        cleared: tuple[StatusReading, ...] = ()
        scanned: list[Scanned] = []
        try:
            first, last = self._scpi.ask_for(FILLED_QUERY, parse_filled)
            if looks_cleared(self._cursor, first, last):
                first, last = self._scpi.ask_for(FILLED_QUERY, parse_filled)
            answered_ns = self._clock()
            if not last:  # nothing came yet, or it was cleared: then the next reading tells
                return Batch()
            if looks_cleared(self._cursor, first, last):
                held = last / len(self._names)
                cleared = self._lost_scans(answered_ns, held, "somebody cleared the buffer")
                self._begin_epoch()
                self._news_ns = answered_ns
            for begin, end in new_indices(self._cursor, first, last, self._capacity):
                for low in range(begin, end + 1, _MAX_READINGS_PER_QUERY):
                    high = min(low + _MAX_READINGS_PER_QUERY - 1, end)
                    query = f'TRAC:DATA? {low},{high},"{BUFFER}",READ,REL,CHAN'
                    scanned += parse_scanned(self._scpi.ask(query), high - low + 1)
                    self._cursor, self._news_ns = high, answered_ns
        except ProtocolError as error:
            # Reading erases nothing: what this answer should have given is asked for again.
            self._scpi.resynchronise()
            batch = self._deliver(scanned)
            unreadable = self._all(Status.UNREADABLE, str(error))
            return replace(batch, statuses=(*cleared, *batch.statuses, *unreadable))
        batch = self._deliver(scanned)
        pairs = self._clock_pairs(asked_ns, answered_ns)
        return Batch(batch.blocks, (*cleared, *batch.statuses), pairs)

    def _deliver(self, scanned: list[Scanned]) -> Batch:
        """Blocks, and the scans that are missing between them."""
        base_ns = self._epoch * EPOCH_NS
        blocks: list[Block] = []
        statuses: list[StatusReading] = []
        for number, name in self._names.items():
            mine = [(value, seconds) for at, value, seconds in scanned if at == number]
            t_ns = [base_ns + round(seconds * 1e9) for _, seconds in mine]
            for stamp in t_ns:
                previous = self._stamps.get(name)
                apart = 0.0 if previous is None else (stamp - previous) / self._interval_ns
                if previous is not None and apart > GAP_INTERVALS:
                    count = max(round(apart) - 1, 1)
                    detail = f"{count} scans are missing"
                    statuses.append(StatusReading(name, previous, Status.LOST, detail, count))
                self._stamps[name] = stamp
            some_blocks, some_statuses = blocks_and_statuses(
                name, t_ns, [value for value, _ in mine]
            )
            blocks += some_blocks
            statuses += some_statuses
        return Batch(tuple(blocks), tuple(statuses))

    def _clock_pairs(self, asked_ns: int, answered_ns: int) -> tuple[ClockPair, ...]:
        newest_ns = max(self._stamps.values(), default=None)
        if newest_ns is None or not self._ages.is_of_now(newest_ns, asked_ns, answered_ns):
            return ()
        return tuple(
            ClockPair(name, newest_ns, answered_ns, answered_ns - asked_ns)
            for name in self._names.values()
        )

    def _lost_scans(self, now_ns: int, held: float, detail: str) -> tuple[StatusReading, ...]:
        """At least one scan; ``held`` of those since the last news are in the buffer.

        None where nothing came yet: a meter that never scans is silent.
        """
        count = max(round((now_ns - self._news_ns) / self._interval_ns - held), 1)
        return tuple(
            StatusReading(name, stamp, Status.LOST, detail, count)
            for name, stamp in self._stamps.items()
        )

    def _all(self, status: Status, detail: str) -> tuple[StatusReading, ...]:
        base_ns = self._epoch * EPOCH_NS
        return tuple(
            StatusReading(name, self._stamps.get(name, base_ns), status, detail)
            for name in self._names.values()
        )

    def _describe(self, name: str, one: ScanInput) -> Channel:
        settings = self._settings
        aperture_s = settings.aperture_s(one)
        longest_s = max(settings.aperture_s(other) for other in settings.inputs.values())
        return Channel(
            name=name,
            quantity=Quantity(one.function),
            clock=Clock.DEVICE,
            interval_s=settings.interval_s,
            aperture_s=aperture_s,
            accuracy=accuracy_from_rig(one.accuracy_pct_of_reading, one.accuracy_floor),
            range=one.range,
            clock_tick_s=settings.interval_s + longest_s,
            time_u_s=aperture_s / 2 + STAMP_U_S,
            mains_hz=settings.mains_hz,
        )


DRIVER: Final = Driver(Daq6510ScanSettings, Daq6510Scan)
