"""Simulated multimeters that measure when they are asked: SDM3065X, 34401A, Keithley 2000."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from instruments.simulated.meter_kit.dc_meter import DcMeter
from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.ranges import ranges_of
from instruments.simulated.meter_kit.scpi_server import NODES, ScpiError

_TRIGGER_DELAY_S = 1e-3
_ANSWER_DELAY_S = 3e-3
"""Before and after the integration."""
_FILTER_COUNT = 10
INIT_IGNORED = ScpiError(-213, "Init ignored")


_MAKERS_AND_NPLC = {
    "SDM3065X": ("Siglent Technologies", (0.005, 0.05, 0.5, 1.0, 10.0, 100.0)),
    "34401A": ("HEWLETT-PACKARD", (0.02, 0.2, 1.0, 10.0, 100.0)),
    "8846A": ("FLUKE", (0.02, 0.2, 1.0, 10.0, 100.0)),
    "2000": ("KEITHLEY INSTRUMENTS INC.", (0.01, 10.0)),
}


class PolledMeter(DcMeter):
    """``READ?`` takes as long as its integration, and a little more."""

    possible_faults = DcMeter.possible_faults | {Fault.STUCK}

    def __init__(self, parts: MeterParts, model: str, *called: str) -> None:
        maker, self.nplc_choices = _MAKERS_AND_NPLC[model]
        self._last = ""
        super().__init__(parts, model, maker, *called)
        self.ignore(*(f"[SENSe:]{node}[:DC]:AZ[:STATe]" for node, _ in NODES), "[SENSe:]ZERO:AUTO")
        self.on("READ", self._read, query=True)

    async def integrate(self) -> float:
        """Wait for one window; when it began on its own clock."""
        begin_ns = time.monotonic_ns() + round(_TRIGGER_DELAY_S * 1e9)
        begin = self.clock.from_host(begin_ns)
        done_ns = self.clock.to_host(begin + self.aperture_ns)
        await asyncio.sleep((done_ns - time.monotonic_ns()) * 1e-9 + _ANSWER_DELAY_S)
        return begin

    async def _read(self, _parameters: str) -> str:
        begin = await self.integrate()
        answer = (await self.measure(np.array([begin])))[0]
        if self.autorange:
            answer = await self._measure_on_another_range(answer, begin)
        if not self.faults.has(Fault.STUCK) or not self._last:
            self._last = answer
        return self._last

    async def _measure_on_another_range(self, answer: str, begin: float) -> str:
        value = abs(float(answer))
        ranges = ranges_of(self.model, self.function)
        fitting = [range_ for range_ in ranges if range_ >= value]
        if not fitting or fitting[0] == self.range:
            return answer
        self.range = fitting[0]
        return (await self.measure(np.array([begin])))[0]


class Keithley2000Meter(PolledMeter):
    """Measures continuously when switched on, and then will not be asked; has a filter."""

    function_suffix = ":DC"
    nplc_between = (0.01, 10.0)

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts, "2000", "MODEL 2000", "A20 /A02")
        self._continuous = True
        self.on("INITiate:CONTinuous", self._set_continuous)
        self.on_query("CONFigure", self._query_function)
        self.on("SYSTem:AZERo[:STATe]", self._need_idle)
        self.ignore("FORMat:ELEMents", "TRIGger:COUNt", "SAMPle:COUNt")
        for node, _ in NODES:
            self.on(f"[SENSe:]{node}[:DC]:AVERage:STATe", self._set_filter)

    def preset(self) -> None:
        """As after ``*RST``, which unlike switching on leaves it idle."""
        super().preset()
        self._continuous = False
        self._filter = True

    async def integrate(self) -> float:
        """One window; ten with the filter."""
        if self._continuous:
            raise INIT_IGNORED
        begin = await super().integrate()
        for _ in range(_FILTER_COUNT - 1 if self._filter else 0):
            await super().integrate()
        return begin

    async def _set_continuous(self, parameters: str) -> None:
        self._continuous = parameters.upper() in ("ON", "1")

    async def _set_filter(self, parameters: str) -> None:
        self._filter = parameters.upper() in ("ON", "1")

    async def _need_idle(self, _parameters: str) -> None:
        if self._continuous:
            raise INIT_IGNORED
