"""A simulated DMM6500 with a thermistor or an RTD at its terminals: commands of DMM6500-901-01."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.scpi_server import ILLEGAL_VALUE, OUT_OF_RANGE, ScpiServer

_MAINS_HZ = 50
_INTEGRATIONS = 2
"""The sensor and its zero: auto-zero is on after ``*RST``."""
_NOISE_KELVIN = 0.005
_TYPES = {
    "THER": {"2252", "5000", "10000"},
    "RTD": {"PT100", "D100", "F100", "PT385", "PT3916", "USER"},
}


class ThermometerMeter(ScpiServer):
    """It measures volts until it is told otherwise."""

    possible_faults = ScpiServer.possible_faults | {Fault.OPEN_SENSOR, Fault.MOVED}

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts, "KEITHLEY INSTRUMENTS", "MODEL DMM6500", "1.7.12b")
        self._probe = parts.probe()
        self._rng = parts.new_rng("noise")
        self._error_kelvin = float(parts.new_rng("offset").uniform(-0.05, 0.05))
        self.preset()
        self.on("*RST", self._reset)
        self.ignore("ABORt", "TRIGger:CONTinuous", "SENSe:TEMPerature:UNIT")
        self.on("[SENSe:]FUNCtion[:ON]", self._set_function)
        self.on_query("[SENSe:]FUNCtion[:ON]", lambda: f'"{self._function}"')
        self.on("SENSe:TEMPerature:TRANsducer", self._set_transducer)
        self.on("SENSe:TEMPerature:THERmistor", self._set_type)
        self.on("SENSe:TEMPerature:RTD:TWO", self._set_type)
        self.on("SENSe:TEMPerature:NPLCycles", self._set_nplc)
        self.on("SENSe:TEMPerature:NPLC", self._set_nplc)
        self.on_query("SENSe:TEMPerature:NPLC", lambda: f"{self._nplc:g}")
        self.on("READ", self._read, query=True)

    def preset(self) -> None:
        """As after ``*RST``."""
        self._function, self._transducer, self._nplc = "VOLT:DC", "TC", 1.0

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Begin a fault; MOVED selects another function at once."""
        if fault is Fault.MOVED:
            self._function = "RES"
            return
        await super().begin_fault(fault, seconds)

    async def _reset(self, _parameters: str) -> None:
        self.preset()

    async def _set_function(self, parameters: str) -> None:
        self._function = parameters.strip("\"'").upper()

    async def _set_transducer(self, parameters: str) -> None:
        if parameters.upper() not in _TYPES:
            raise ILLEGAL_VALUE
        self._transducer = parameters.upper()

    async def _set_type(self, parameters: str) -> None:
        if parameters.upper() not in _TYPES.get(self._transducer, ()):
            raise ILLEGAL_VALUE

    async def _set_nplc(self, parameters: str) -> None:
        if not 0.0005 <= float(parameters) <= 12:
            raise OUT_OF_RANGE
        self._nplc = float(parameters)

    async def _read(self, _parameters: str) -> str:
        await asyncio.sleep(_INTEGRATIONS * self._nplc / _MAINS_HZ)
        now = np.array([time.monotonic_ns()], np.int64)
        true = float((await self._probe.means(now - 1_000_000, now))[0])
        if self._function != "TEMP":
            return "1.2E-03"
        if self.faults.has(Fault.OPEN_SENSOR) or self.faults.has(Fault.OVERLOAD):
            return "9.9E+37"
        if self.faults.has(Fault.NAN):
            return "9.91E+37"
        return f"{true + self._error_kelvin + self._rng.normal(0.0, _NOISE_KELVIN):.6E}"
