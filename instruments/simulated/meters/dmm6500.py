"""A simulated Keithley DMM6500: a buffer that wraps, with stamps of its own clock."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from instruments.driver_kit import specifications
from instruments.simulated.meter_kit.clock import MeterClock
from instruments.simulated.meter_kit.dc_meter import DcMeter, ErrorsOf, parse_number
from instruments.simulated.meter_kit.probe import Probe
from instruments.simulated.meter_kit.scpi_server import ILLEGAL_VALUE, OUT_OF_RANGE

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


class Dmm6500Meter(DcMeter):
    """Stamps each reading at the end of its window; nothing is erased by reading."""

    model = "DMM6500"
    nplc_choices = (0.0005, 12.0)
    nplc_between = (0.0005, 12.0)

    def __init__(
        self,
        name: str,
        probe: Probe,
        errors_of: ErrorsOf,
        clock: MeterClock,
        rng: np.random.Generator,
        memory: int | None = None,
        port: int = 0,
    ) -> None:
        self._capacity = memory or _CAPACITY
        self._runs: list[_Run] = []
        self._loop: tuple[float, float] | None = None
        self._running = False
        super().__init__(name, "KEITHLEY INSTRUMENTS", probe, errors_of, clock, rng, port=port)
        self._identity = f"KEITHLEY INSTRUMENTS,MODEL DMM6500,SIM{name.upper()},1.7.12b"
        self.on("*LANG", self._query_language, query=True)
        self.on("SYSTem:LFRequency", self._query_mains, query=True)
        self.on("[SENSe:]FUNCtion[:ON]", self._set_function)
        self.on("[SENSe:]AZERo:ONCE", self._ignore)
        for node in ("VOLTage", "CURRent"):
            self.on(f"[SENSe:]{node}[:DC]:AZERo[:STATe]", self._ignore)
        self.on("FORMat[:DATA]", self._ignore)
        self.on("FORMat:ASCii:PRECision", self._ignore)
        self.on("TRACe:FILL:MODE", self._ignore)
        self.on("TRACe:CLEar", self._clear_buffer)
        self.on("TRACe:POINts", self._query_capacity, query=True)
        self.on("TRACe:ACTual:STARt", self._query_first, query=True)
        self.on("TRACe:ACTual:END", self._query_last, query=True)
        self.on("TRACe:DATA", self._data, query=True)
        self.on("TRIGger:LOAD", self._load)
        self.on("TRIGger:STATe", self._query_state, query=True)
        self.on("TRIGger:CONTinuous", self._ignore)
        self.on("INITiate[:IMMediate]", self._initiate)

    def preset(self) -> None:
        """As after ``*RST``."""
        super().preset()
        self.nplc = 1.0
        self._runs = []
        self._running = False
        self._loop = None

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
        if self._loop is None:
            raise ILLEGAL_VALUE
        duration_s, delay_s = self._loop
        step_ns = (delay_s + _OVERHEAD_S) * 1e9 + self.aperture_ns
        begun = self.clock.now() + _TRIGGER_S * 1e9
        most = math.floor(duration_s * 1e9 / step_ns)
        self._runs.append(_Run(self._total(), begun, step_ns, self.aperture_ns, most))
        self._running = True

    async def _abort(self, _parameters: str) -> None:
        if self._running:
            self._runs[-1].most = self._total() - self._runs[-1].first
            self._running = False

    async def _load(self, parameters: str) -> None:
        fields = [field.strip() for field in parameters.split(",")]
        if fields[0].strip('"').upper() != "DURATIONLOOP":
            raise ILLEGAL_VALUE
        duration_s = parse_number(fields[1], {})
        delay_s = parse_number(fields[2], {}) if len(fields) > 2 else 0.0
        if not 500e-9 <= duration_s <= 1e5 or not (delay_s == 0 or 167e-9 <= delay_s <= 1e4):
            raise OUT_OF_RANGE
        self._loop = (duration_s, delay_s)

    async def _clear_buffer(self, _parameters: str) -> None:
        self._runs = []

    async def _query_state(self, _parameters: str) -> str:
        total = self._total()
        over = not self._running or total - self._runs[-1].first >= self._runs[-1].most
        return "IDLE;IDLE;3" if over else "RUNNING;RUNNING;2"

    async def _query_first(self, _parameters: str) -> str:
        total = self._total()
        return str(
            0 if total == 0 else 1 if total <= self._capacity else total % self._capacity + 1
        )

    async def _query_last(self, _parameters: str) -> str:
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

    async def _set_function(self, parameters: str) -> None:
        self.function = "current" if "CURR" in parameters.upper() else "voltage"
        self.range = max(specifications.allowed_ranges(self.model, self.function))

    async def _query_function(self, _parameters: str) -> str:
        return '"VOLT:DC"' if self.function == "voltage" else '"CURR:DC"'

    async def _query_language(self, _parameters: str) -> str:
        return "SCPI"

    async def _query_mains(self, _parameters: str) -> str:
        return "50"

    async def _query_capacity(self, _parameters: str) -> str:
        return str(self._capacity)
