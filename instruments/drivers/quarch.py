"""Quarch power modules (PPM, PAM) through QIS, the vendor's instrument server on TCP port 9722.

Facts from the ``help.txt`` that comes with QIS 1.55.1, from its own answers (it was run without a
module, and says ``Device USB::… Invalid or No Longer Valid`` of one that is gone), and from the
vendor's notes AN-012, AN-025, AN-026 (quarchpy-appnotes). A command ends with CR LF, an answer with
CR LF and ``>``; a command that begins with a module's name goes to that module. ``rec stream``
begins a stream, ``stream text all`` takes at most 3072 stripes out of QIS's buffer of 8 million,
``stream?`` says whether it runs and how many wait.

Device time is the time of the stripes: µs from the begin of their stream, by the module's clock.
Each stream begins a new epoch (see :class:`~instruments.reading.ClockPair`). QIS cannot be asked
for the module's time: the host knows when stripes arrived, which is an upper bound.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import Annotated, Final

from pydantic import Field, field_validator

from instruments.driver_kit.base_settings import NotNegative, QuantityLimits, require_one_of
from instruments.driver_kit.batches import joined
from instruments.drivers import Driver
from instruments.drivers.quarch_qis import ANSWER_S, PORT, QisSession, parse_modules
from instruments.drivers.quarch_readings import StripeReadings
from instruments.drivers.quarch_stream import (
    Column,
    StreamHeader,
    StreamState,
    parse_header,
    parse_state,
    parse_stripes,
)
from instruments.errors import (
    ConnectionLost,
    InstrumentError,
    NoAnswer,
    ProtocolError,
    SettingRefused,
)
from instruments.reading import (
    Batch,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
)
from instruments.transports.lines import ByteLine
from instruments.transports.tcp_line import TcpLine

BASE_US: Final = 4
"""Between samples of a module: 250 kS/s."""
AVERAGING: Final = {BASE_US: "0"} | {
    BASE_US << power: str(1 << power) if power < 10 else f"{1 << power - 10}k"
    for power in range(1, 16)
}
"""``record:averaging`` by µs of a stripe: 0, 2, 4 … 512, 1k … 32k samples (QPS's DeviceConfig)."""
_SCAN_S: Final = 15.0
"""``$scan`` for one address: ten times the module's timeout."""
_HEADER_S: Final = 1.5
_EVERY_S: Final = 0.05
_LONGEST_READ_NS: Final = 300_000_000
_STATE_EVERY: Final = 20
"""Reads: about each second."""
_WATCH_S: Final = 1.0
_SWITCH_S: Final = 5.0
_STOPS_S: Final = 0.2
_MOST_BEHIND_S: Final = 5.0
"""Stripes of this long may wait in QIS: a run would end without the last ones."""
_START_QIS: Final = "is QIS running there, and not only allowed to listen elsewhere?"
_OFF: Final = ("OFF", "PULLED")
_MODULE: Final = re.compile(r"(?:usb|tcp)::[A-Za-z0-9._-]+", re.IGNORECASE)
_SERVER: Final = re.compile(r"[A-Za-z0-9._-]+(?::\d{1,5})?")


class QuarchSettings(QuantityLimits):
    """One module behind a QIS, which of its rails are recorded, and how finely."""

    resource: str
    """The module as QIS lists it: ``usb::QTL1999-02-020``, ``tcp::…``."""
    server: str = "127.0.0.1"
    """Host of QIS, and its port where that is not 9722: ``lab-pc:9722``."""
    rails: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=64)], ...], Field(min_length=1)
    ]
    """The rails as the stream's header calls them: ``12V``, ``5V``, ``3.3V``."""
    stripe_us: int = 64
    """The module's averaging: 4 µs times a power of two up to 131,072 µs."""
    average: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Stripes in one reading."""
    latency_u_s: Annotated[float, Field(gt=0, le=1)] = 0.01
    """How much later than measured a stripe arrives at the least, ±: nobody states it."""
    power_cycle: bool = False
    voltage_pct_of_reading: NotNegative
    voltage_floor_volts: NotNegative
    current_pct_of_reading: NotNegative
    current_floor_amps: NotNegative
    power_pct_of_reading: NotNegative | None = None
    power_floor_watts: NotNegative | None = None
    """With both, the watts of each rail are recorded, too: the mean of the stripes' products."""

    @field_validator("resource")
    @classmethod
    def _is_a_module(cls, value: str) -> str:
        if not _MODULE.fullmatch(value):
            raise ValueError("is no module's name, such as usb::QTL1999-02-020")
        return value

    @field_validator("server")
    @classmethod
    def _is_a_host(cls, value: str) -> str:
        if not _SERVER.fullmatch(value) or not 0 < int(value.partition(":")[2] or PORT) < 65536:
            raise ValueError("is no host or host:port, such as 127.0.0.1 or lab-pc:9722")
        return value

    @field_validator("stripe_us")
    @classmethod
    def _is_a_resolution(cls, value: int) -> int:
        require_one_of(value, tuple(AVERAGING))
        return value

    @field_validator("rails")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len({channel_suffix(rail) for rail in value}) != len(value):
            raise ValueError("must name each rail once")
        return value

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of QIS."""
        host, _, port = self.server.partition(":")
        return host, int(port or PORT)

    def line(self, name: str) -> TcpLine:
        """The line to QIS, not opened yet."""
        return TcpLine(name, *self.address, _START_QIS)


def channel_suffix(rail: str) -> str:
    """A rail's name as part of a channel's."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", rail)


class Quarch:
    """One module. Channels ``voltage_…``, ``current_…`` of each rail, on its clock."""

    def __init__(
        self,
        name: str,
        settings: QuarchSettings,
        clock: HostClock,
        line: ByteLine | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._qis = QisSession(name, line or settings.line(name), settings.resource)
        watts = settings.rig_limits(Quantity.POWER) is not None
        quantities = [Quantity.VOLTAGE, Quantity.CURRENT, *([Quantity.POWER] if watts else [])]
        self.channels = tuple(
            self._channel(rail, quantity) for rail in settings.rails for quantity in quantities
        )
        self._readings = StripeReadings(self.channels, settings.average, watts=watts)
        self._header: StreamHeader | None = None
        self._streaming = False
        self._reads = 0
        self._next_read_s = 0.0

    def open(self) -> Identity:
        """Connect to QIS and make sure that it sees the module."""
        version = self._qis.open()
        module = self._settings.resource
        names = parse_modules(self._qis.ask("$list details"))
        seen = {name.lower() for name in names}
        if module.lower() not in seen and module.lower().startswith("tcp::"):
            self._qis.ask(f"$scan {module}", _SCAN_S)
            names = parse_modules(self._qis.ask("$list details"))
            seen = {name.lower() for name in names}
        if module.lower() not in seen:
            raise ConnectionLost(
                f"{self._name}: QIS does not see {module}; it sees "
                f"{', '.join(names) or 'no module'}"
            )
        model = self._qis.ask_module("hello?").splitlines()[0:1]
        return Identity(
            "Quarch", "".join(model), serial=module.partition("::")[2], notes=(f"QIS {version}",)
        )

    def start(self) -> None:
        """Send all settings, begin a stream, and make sure of its rails and its period."""
        self._take_over()
        self._begin()

    def read(self) -> Batch:
        """The readings of about 50 ms, or more where more wait."""
        assert self._header is not None
        time.sleep(min(max(self._next_read_s - time.monotonic(), 0.0), _EVERY_S))
        self._next_read_s = time.monotonic() + _EVERY_S
        begin_ns = now_ns = self._clock()
        batches: list[Batch] = []
        all_taken = False
        while not all_taken and now_ns - begin_ns < _LONGEST_READ_NS:
            stripes = parse_stripes(self._qis.stripes("stream text all"), self._header)
            now_ns = self._clock()
            batches.append(self._readings.batch(stripes, now_ns))
            all_taken = stripes.all_taken
        self._reads += 1  # and not the time: a recorded session takes the same turns
        if self._reads % _STATE_EVERY == 0 or not all_taken:
            batches.append(self._renew_stream(all_taken))
        return joined(batches)

    def close(self) -> None:
        """Stop the stream, and leave the module as it is."""
        if self._streaming:
            with contextlib.suppress(InstrumentError):
                self._qis.send_module("rec stop", _STOPS_S)
        self._streaming = False
        self._qis.close()

    @property
    def may_switch(self) -> bool:
        """Whether the rig says ``power_cycle = true``."""
        return self._settings.power_cycle

    def switch(self, on: bool) -> None:
        """Switch the module's outputs. Raises SettingRefused, and whatever the line raises."""
        if not self._settings.power_cycle:
            raise SettingRefused(
                f"{self._name}: the rig does not allow it: set power_cycle = true there, if the "
                "drive on this module may lose its power"
            )
        self._command(f"run:power {'up' if on else 'down'}")
        deadline = time.monotonic() + _SWITCH_S
        while True:
            answer = self._qis.ask_module("run:power?").upper()
            if any(word in answer for word in _OFF) != on and not answer.startswith("FAIL"):
                return
            if time.monotonic() > deadline or answer.startswith("FAIL"):
                raise SettingRefused(
                    f"{self._name}: its outputs are {answer[:40]!r} after switching them "
                    f"{'on' if on else 'off'}"
                )
            time.sleep(0.1)

    def _channel(self, rail: str, quantity: Quantity) -> Channel:
        settings = self._settings
        interval_s = settings.stripe_us * settings.average / 1e6
        return Channel(
            name=f"{quantity}_{channel_suffix(rail)}",
            quantity=quantity,
            clock=Clock.DEVICE,
            interval_s=interval_s,
            aperture_s=interval_s,
            accuracy=settings.limits(quantity),
            clock_tick_s=1e-6,
            time_u_s=settings.latency_u_s,
        )

    def _command(self, command: str) -> None:
        answer = self._qis.ask_module(command)
        if answer != "OK":
            raise SettingRefused(
                f"{self._name}: answered {command} with {answer[:80]!r}, not with OK"
            )

    def _state(self) -> StreamState:
        return parse_state(self._qis.ask_module("stream?"))

    def _take_over(self) -> None:
        """End a stream that a dead program left on. Raises ConnectionLost: somebody reads it.

        Stripes that nobody takes pile up in QIS; their number falls when somebody does.
        """
        state = self._state()
        waiting, deadline = state.buffered, time.monotonic() + _WATCH_S
        while state.running and time.monotonic() < deadline:
            time.sleep(0.1)
            state = self._state()
            if state.running and state.buffered < waiting:
                raise ConnectionLost(
                    f"{self._name}: another program streams from {self._settings.resource}; end it "
                    "there first"
                )
            waiting = state.buffered
        if state.running:
            self._stop()

    def _stop(self) -> None:
        self._qis.ask_module("rec stop")
        deadline = time.monotonic() + ANSWER_S
        while self._state().running:
            if time.monotonic() > deadline:
                raise NoAnswer(f"{self._name}: its stream does not stop")
            time.sleep(0.05)
        self._streaming = False

    def _begin(self) -> None:
        settings = self._settings
        for command in (
            "stream mode header v3",
            "stream mode resample off",
            "record:trigger:mode manual",
            f"record:averaging {AVERAGING[settings.stripe_us]}",
        ):
            self._command(command)
        answer = self._qis.ask_module("rec stream")
        if answer != "OK":
            raise ConnectionLost(f"{self._name}: no stream begins: {answer[:80]!r}")
        self._streaming = True
        self._header = header = self._read_header()
        if header.period_ns != settings.stripe_us * 1000:
            raise SettingRefused(
                f"{self._name}: a stripe each {header.period_ns / 1000:g} µs although "
                f"stripe_us = {settings.stripe_us} was set"
            )
        self._readings.begin(header, [self._columns_of(header, rail) for rail in settings.rails])
        self._reads = 0

    def _read_header(self) -> StreamHeader:
        deadline = time.monotonic() + _HEADER_S
        while "not available" in (text := self._qis.ask_module("stream text header")).lower():
            if time.monotonic() > deadline:
                raise NoAnswer(f"{self._name}: no stream header within {_HEADER_S:g} s")
            time.sleep(0.05)
        try:
            return parse_header(text)
        except ProtocolError as error:
            raise ProtocolError(f"{self._name}: {error}") from None

    def _columns_of(self, header: StreamHeader, rail: str) -> tuple[Column, Column]:
        volts = header.column(rail, Quantity.VOLTAGE)
        amps = header.column(rail, Quantity.CURRENT)
        if volts is None or amps is None:
            missing = "volts" if volts is None else "amps"
            raise SettingRefused(
                f"{self._name}: its stream has no {missing} of a rail {rail}; it has "
                f"{', '.join(header.names)}: which fixture, and which output mode, is set?"
            )
        return volts, amps

    def _renew_stream(self, all_taken: bool) -> Batch:
        """Begin a new stream where this one ended, or where far more waits than is taken."""
        state = self._state()
        seconds = state.buffered * self._settings.stripe_us * 1e-6
        if state.running and seconds <= _MOST_BEHIND_S:
            return Batch()
        if state.running:
            self._stop()
            detail = f"{seconds:.0f} s of stripes waited in QIS: set a larger stripe_us"
        elif not state.stopped:
            raise ProtocolError(f"{self._name}: expected the stream's state, got {state.text!r}")
        elif not all_taken:
            return Batch()
        elif state.overran:
            detail = f"a buffer overran (QIS: {state.text}): set a larger stripe_us"
        else:
            detail = f"somebody or something else stopped the stream (QIS: {state.text})"
        self._begin()
        return self._readings.lost_between(self._clock(), detail)


DRIVER: Final = Driver(QuarchSettings, Quarch)
