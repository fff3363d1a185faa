"""Simulated meters that measure all the time: a DM3058 on a socket, an XDM1041 on a serial line."""

from __future__ import annotations

import asyncio
import math
import time

import numpy as np

from instruments.simulated.meter_kit.clock import MeterClock
from instruments.simulated.meter_kit.dc_meter import OVER_RANGE
from instruments.simulated.meter_kit.faults import Fault, Faults
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.ranges import ranges_of
from instruments.simulated.meter_kit.scpi_server import (
    ILLEGAL_VALUE,
    NODES,
    OUT_OF_RANGE,
    UNDEFINED_HEADER,
    Handler,
    ScpiInterpreter,
    ScpiServer,
    parse_number,
)
from instruments.simulated.meter_kit.serial_meter import SerialMeter

DIGITS = {"DM3058": 240_000, "XDM1041": 55_000}
"""Counts of its display: full scale over resolution."""
REFRESH_S = {
    "DM3058": {"S": 0.4, "M": 0.05, "F": 0.008},
    "XDM1041": {"S": 0.5, "M": 0.25, "F": 0.15},
}
_NOISE = 2e-5
"""Of the range: a few digits."""
_CHANGE_S = 0.4
"""A Rigol takes no command while its relays switch."""


class FreeRunningConverter:
    """Converts one window after another; the last one that is over is its reading."""

    def __init__(self, parts: MeterParts, clock: MeterClock, model: str, faults: Faults) -> None:
        self.function = "voltage"
        self.rate = "S"
        self._model = model
        self._parts = parts
        self._probe = parts.probe()
        self._clock = clock
        self._seed = int(parts.new_rng("noise").integers(1 << 31))
        self._faults = faults
        self._stuck: float | None = None
        self.range = self.ranges[-1]

    @property
    def ranges(self) -> tuple[float, ...]:
        """Of its function, ascending."""
        return ranges_of(self._model, self.function)

    def choose(self, function: str, range_: float | None = None) -> None:
        """Another function or range. Raises ScpiError."""
        self.function = function
        fitting = [value for value in self.ranges if range_ is None or value >= range_ * 0.999]
        if not fitting:
            raise OUT_OF_RANGE
        self.range = fitting[0] if range_ is not None else fitting[-1]

    def move(self) -> None:
        """Somebody turns the range at the front panel."""
        self.range = min((r for r in self.ranges if r > self.range), default=self.ranges[0])

    async def last(self) -> float | None:
        """The reading; None while it is too large."""
        refresh_ns = REFRESH_S[self._model][self.rate] * 1e9
        end = math.floor(self._clock.now() / refresh_ns) * refresh_ns
        begin_ns, end_ns = self._clock.to_host(end - refresh_ns), self._clock.to_host(end)
        true = await self._probe.means(np.array([begin_ns]), np.array([end_ns]))
        errors = self._parts.range_errors(self._model, self.function, self.range, _NOISE)
        # The same window has the same noise, however often it is asked for.
        rng = np.random.default_rng([self._seed, int(end // refresh_ns) & 0xFFFFFFFF])
        shown = float(errors.apply(true, rng, self.range / DIGITS[self._model])[0])
        if self._faults.has(Fault.STUCK):
            shown = self._stuck = shown if self._stuck is None else self._stuck
        else:
            self._stuck = None
        over = self._faults.has(Fault.OVERLOAD) or abs(shown) > OVER_RANGE * self.range
        return None if over else shown


class Dm3058Meter(ScpiServer):
    """Rigol's own command set, after CMDSET; takes no command for a while after each change."""

    possible_faults = ScpiServer.possible_faults | {Fault.STUCK, Fault.MOVED}

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts, "Rigol Technologies", "DM3058", "01.01")
        self._meter = FreeRunningConverter(parts, parts.new_clock(), "DM3058", self.faults)
        self._language = "AGILENT"
        self._ready = 0.0
        self.on("CMDSET", self._set_language)
        self.on("FUNCtion", self._query_function, query=True)
        self.on("TRIGger:SOURce", self._require_rigol_commands)
        for node, function in NODES:
            self.on(f"FUNCtion:{node}:DC", self._set_function(function))
            self.on(f"MEASure:{node}:DC", self._set_range(function))
            self.on(f"MEASure:{node}:DC", self._measure, query=True)
            self.on(f"MEASure:{node}:DC:RANGe", self._query_range, query=True)
            self.on(f"RATE:{node}:DC", self._set_rate)
            self.on(f"RATE:{node}:DC", self._query_rate, query=True)

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Begin a fault that lasts ``seconds``."""
        if fault is Fault.MOVED:
            self._meter.move()
            return
        await super().begin_fault(fault, seconds)

    async def _require_rigol_commands(self, _parameters: str) -> None:
        if self._language != "RIGOL":
            raise UNDEFINED_HEADER
        await asyncio.sleep(max(self._ready - time.monotonic(), 0.0))

    async def _set_language(self, parameters: str) -> None:
        self._language = parameters.upper()

    def _set_function(self, function: str) -> Handler:
        async def choose(_parameters: str) -> None:
            await self._require_rigol_commands("")
            self._meter.choose(function)
            self._ready = time.monotonic() + _CHANGE_S

        return choose

    def _set_range(self, function: str) -> Handler:
        async def choose(parameters: str) -> None:
            await self._require_rigol_commands("")
            index = int(parse_number(parameters, {"MIN": 0, "MAX": len(self._meter.ranges) - 1}))
            if self._meter.function != function:
                raise ILLEGAL_VALUE
            if not 0 <= index < len(self._meter.ranges):
                raise OUT_OF_RANGE
            self._meter.range = self._meter.ranges[index]
            self._ready = time.monotonic() + _CHANGE_S

        return choose

    async def _set_rate(self, parameters: str) -> None:
        await self._require_rigol_commands("")
        if parameters.upper() not in ("S", "M", "F"):
            raise ILLEGAL_VALUE
        self._meter.rate = parameters.upper()

    async def _query_function(self, _parameters: str) -> str:
        await self._require_rigol_commands("")
        return {"voltage": "DCV", "current": "DCI"}[self._meter.function]

    async def _query_range(self, _parameters: str) -> str:
        await self._require_rigol_commands("")
        return str(self._meter.ranges.index(self._meter.range))

    async def _query_rate(self, _parameters: str) -> str:
        await self._require_rigol_commands("")
        return self._meter.rate

    async def _measure(self, _parameters: str) -> str:
        await self._require_rigol_commands("")
        value = await self._meter.last()
        if self.faults.has(Fault.NAN):
            return "9.910000e+37"
        return "9.900000e+37" if value is None else f"{value:.6e}"


class Xdm1041Meter(SerialMeter):
    """SCPI of a kind: no ``*OPC?``, no error queue, silence for what it does not know."""

    possible_faults = SerialMeter.possible_faults | {
        Fault.OVERLOAD,
        Fault.NAN,
        Fault.IDENTITY,
        Fault.STUCK,
        Fault.MOVED,
    }

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts)
        self._meter = FreeRunningConverter(parts, self.clock, "XDM1041", self.faults)
        self._scpi = ScpiInterpreter(parts.name, "OWON", "XDM1041", "V4.1.0,3", self.faults)
        self._buffer = b""
        self._messages: asyncio.Queue[str] = asyncio.Queue()
        for node, function in NODES:
            self._scpi.on(f"CONFigure:{node}:DC", self._configure(function))
        self._scpi.on("RATE", self._set_rate)
        self._scpi.on_query("RATE", lambda: self._meter.rate)
        self._scpi.on_query("FUNCtion", lambda: f'"{self._meter.function[:4].upper()}"')
        self._scpi.on_query("RANGE", self._query_range)

    async def start(self) -> dict[str, str]:
        """Plug in; the VISA resource."""
        address = await super().start()
        return {"resource": f"ASRL{address['port']}::INSTR"}

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Begin a fault that lasts ``seconds``."""
        if fault is Fault.MOVED:
            self._meter.move()
            return
        await super().begin_fault(fault, seconds)

    def received(self, data: bytes) -> None:
        """Collect lines."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._messages.put_nowait(line.decode("ascii", errors="replace").strip())

    async def serve(self) -> None:
        """Answer one message after another."""
        while True:
            message = await self._messages.get()
            if message.upper() in ("*OPC?", "SYST:ERR?"):
                continue
            if message.upper() in ("MEAS?", "MEAS1?"):
                answer: str | None = await self._measure()
            else:
                answer = await self._scpi.answer(message)
            if answer is not None:
                self.send(answer.encode("ascii") + b"\r\n")

    async def _measure(self) -> str:
        value = await self._meter.last()
        if self.faults.has(Fault.NAN):
            return "nan"
        return "1E+9" if value is None else f"{value:.6E}"

    def _configure(self, function: str) -> Handler:
        async def configure(parameters: str) -> None:
            self._meter.choose(function, parse_number(parameters, {"AUTO": 0.0}))

        return configure

    async def _set_rate(self, parameters: str) -> None:
        if parameters.upper() in ("S", "M", "F"):
            self._meter.rate = parameters.upper()

    def _query_range(self) -> str:
        unit = "V" if self._meter.function == "voltage" else "A"
        small = self._meter.range < 1
        return f"{self._meter.range * (1000 if small else 1):g} {'m' if small else ''}{unit}"
