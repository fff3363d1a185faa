"""A simulated Keithley DMM6500: a buffer that wraps, with stamps of its own clock."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from instruments.simulated.meter_kit.dc_meter import DcMeter
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.scpi_server import (
    ILLEGAL_VALUE,
    NODES,
    OUT_OF_RANGE,
    parse_number,
)

_CAPACITY = 100_000
_OVERHEAD_S = 1.1e-3
"""Of a measurement, beyond its integration and the delay of the loop."""
_TRIGGER_S = 4e-3


@dataclass
class _Run:
    """Measurements of one INIT, one after another on its own clock."""

    first: int
    """How many there were before, since the buffer was cleared."""
    begun: float
    step_ns: float
    aperture_ns: float
    most: int

    def done(self, now: float) -> int:
        """Finished at ``now``."""
        return max(min(math.floor((now - self.begun) / self.step_ns), self.most), 0)

    def begin_of(self, index: int) -> float:
        """When the window of a measurement began."""
        return self.begun + (index + 1) * self.step_ns - self.aperture_ns - _OVERHEAD_S * 1e9


def _is_delay(seconds: float) -> bool:
    return seconds == 0 or 167e-9 <= seconds <= 1e4


class Dmm6500Meter(DcMeter):
    """Stamps each reading at the end of its window; nothing is erased by reading."""

    nplc_choices = nplc_between = (0.0005, 12.0)
    function_suffix = ":DC"

    def __init__(self, parts: MeterParts) -> None:
        self._capacity = parts.config.memory or _CAPACITY
        super().__init__(parts, "DMM6500", "KEITHLEY INSTRUMENTS", "MODEL DMM6500", "1.7.12b")
        self.on_query("*LANG", lambda: "SCPI")
        self.on_query("SYSTem:LFRequency", lambda: "50")
        self.ignore(
            "[SENSe:]AZERo:ONCE",
            *(f"[SENSe:]{node}[:DC]:AZERo[:STATe]" for node, _ in NODES),
            "FORMat[:DATA]",
            "FORMat:ASCii:PRECision",
            "TRACe:FILL:MODE",
            "TRIGger:CONTinuous",
        )
        self.on("TRACe:CLEar", self._clear_buffer)
        self.on_query("TRACe:POINts", lambda: str(self._capacity))
        self.on_query("TRACe:ACTual:STARt", self._query_first)
        self.on_query("TRACe:ACTual:END", self._query_last)
        self.on("TRACe:DATA", self._data, query=True)
        self.on("TRIGger:LOAD", self._load)
        self.on("TRIGger:BLOCk:BUFFer:CLEar", self._block("clear"))
        self.on("TRIGger:BLOCk:DELay:CONStant", self._block("delay"))
        self.on("TRIGger:BLOCk:MDIGitize", self._block("measure"))
        self.on("TRIGger:BLOCk:BRANch:COUNter", self._block("repeat"))
        self.on_query("TRIGger:STATe", self._query_state)
        self.on("INITiate[:IMMediate]", self._initiate)

    def preset(self) -> None:
        """As after ``*RST``."""
        super().preset()
        self.nplc = 1.0
        self._runs: list[_Run] = []
        self._running = False
        self._blocks: dict[int, tuple[str, tuple[str, ...]]] = {}
        """The trigger model: what each block does, by its number, and its further parameters."""

    def _total(self) -> int:
        """Readings since the buffer was cleared."""
        if not self._runs:
            return 0
        return self._runs[-1].first + self._runs[-1].done(self.clock.now())

    def _begin_of(self, index: int) -> float:
        run = next(run for run in reversed(self._runs) if index >= run.first)
        return run.begin_of(index - run.first)

    def _stamp(self, index: int) -> float:
        return self._begin_of(index) + self.aperture_ns

    async def _initiate(self, _parameters: str) -> None:
        blocks = dict(self._blocks.values())
        if "measure" not in blocks:
            raise ILLEGAL_VALUE
        if "clear" in blocks:
            await self._clear_buffer("")
        delay_s = float(blocks["delay"][0]) if "delay" in blocks else 0.0
        step_ns = (delay_s + _OVERHEAD_S) * 1e9 + self.aperture_ns
        begun = self.clock.now() + _TRIGGER_S * 1e9
        most = int(blocks["repeat"][0]) if "repeat" in blocks else 1
        if "duration" in blocks:
            most = math.floor(float(blocks["duration"][0]) * 1e9 / step_ns)
        self._runs.append(_Run(self._total(), begun, step_ns, self.aperture_ns, most))
        self._running = True

    async def _abort(self, _parameters: str) -> None:
        if self._running:
            self._runs[-1].most = self._total() - self._runs[-1].first
            self._running = False

    async def _load(self, parameters: str) -> None:
        name, *fields = (field.strip() for field in parameters.split(","))
        name = name.strip("\"'").upper()
        if name not in ("EMPTY", "DURATIONLOOP"):
            raise ILLEGAL_VALUE
        self._blocks = {}
        if name == "DURATIONLOOP":
            duration_s = parse_number(fields[0], {})
            delay = fields[1] if len(fields) > 1 else "0"
            if not 500e-9 <= duration_s <= 1e5 or not _is_delay(parse_number(delay, {})):
                raise OUT_OF_RANGE
            # In the firmware the models SimpleLoop and LoopUntilEvent begin with this block.
            loop = (("clear", ()), ("delay", (delay,)), ("measure", ()), ("duration", (fields[0],)))
            self._blocks = dict(enumerate(loop, 1))

    def _block(self, kind: str) -> Callable[[str], Awaitable[None]]:
        async def define(parameters: str) -> None:
            number, *fields = (field.strip() for field in parameters.split(","))
            if kind == "delay" and not _is_delay(parse_number(fields[0], {})):
                raise OUT_OF_RANGE
            if kind == "repeat" and int(fields[1]) not in self._blocks:
                raise ILLEGAL_VALUE
            self._blocks[int(parse_number(number, {}))] = (kind, tuple(fields))

        return define

    async def _clear_buffer(self, _parameters: str) -> None:
        self._runs = []

    def _query_state(self) -> str:
        total = self._total()
        over = not self._running or total - self._runs[-1].first >= self._runs[-1].most
        return "IDLE;IDLE;3" if over else "RUNNING;RUNNING;2"

    def _query_first(self) -> str:
        total = self._total()
        first = total % self._capacity + 1 if total > self._capacity else min(total, 1)
        return str(first)

    def _query_last(self) -> str:
        total = self._total()
        return str(0 if total == 0 else (total - 1) % self._capacity + 1)

    async def _data(self, parameters: str) -> str:
        first, last, *_ = (field.strip() for field in parameters.split(","))
        low, high = int(parse_number(first, {})), int(parse_number(last, {}))
        total = self._total()
        if not 1 <= low <= high <= min(total, self._capacity):
            raise OUT_OF_RANGE
        newest = total - 1
        indices = [newest - (newest - (i - 1)) % self._capacity for i in range(low, high + 1)]
        begins = np.array([self._begin_of(index) for index in indices], np.float64)
        values = await self.measure(begins)
        origin = self._stamp(0)
        stamps = [(self._stamp(index) - origin) * 1e-9 for index in indices]
        return ",".join(f"{v},{t:.9f}" for v, t in zip(values, stamps, strict=True))
