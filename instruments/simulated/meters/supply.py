"""A simulated Rigol DP832 that feeds a rail and measures what it gives."""

from __future__ import annotations

import math

import numpy as np

from instruments.simulated.meter_kit import data_sheets
from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.probe import Probe
from instruments.simulated.meter_kit.scpi_server import ILLEGAL_VALUE, ScpiServer

_REFRESH_S = 0.1
_STEP, _NOISE = 1e-4, 2e-4
"""In V and A."""


class Dp832Supply(ScpiServer):
    """Three outputs, all on the same rail; one that is off reads zero."""

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts, "RIGOL TECHNOLOGIES", "DP832", "00.01.16")
        self._clock = parts.new_clock()
        self._rng = parts.new_rng("noise")
        self._sensors = [
            (
                Probe(parts.state, f"{parts.config.point}.{name}"),
                parts.errors(parts.limits(name, data_sheet), name, _NOISE),
            )
            for name, data_sheet in data_sheets.DP832.items()
        ]
        self._on = {"CH1": True, "CH2": True, "CH3": True}
        self.on("MEASure:ALL[:DC]", self._measure, query=True)
        self.on("OUTPut[:STATe]", self._switch)
        self.on("OUTPut[:STATe]", self._query_state, query=True)

    def _output(self, text: str) -> str:
        name = text.strip().upper() or "CH1"
        if name not in self._on:
            raise ILLEGAL_VALUE
        return name

    async def _switch(self, parameters: str) -> None:
        output, _, state = parameters.partition(",")
        if state.strip().upper() not in ("ON", "OFF", "1", "0"):
            raise ILLEGAL_VALUE
        self._on[self._output(output)] = state.strip().upper() in ("ON", "1")

    async def _query_state(self, parameters: str) -> str:
        return "ON" if self._on[self._output(parameters)] else "OFF"

    async def _measure(self, parameters: str) -> str:
        is_on = self._on[self._output(parameters)]
        refresh_ns = _REFRESH_S * 1e9
        end = math.floor(self._clock.now() / refresh_ns) * refresh_ns
        begin = np.array([self._clock.to_host(end - refresh_ns)], np.int64)
        until = np.array([self._clock.to_host(end)], np.int64)
        volts, amps = [
            float(errors.apply(await probe.means(begin, until) * is_on, self._rng, _STEP)[0])
            for probe, errors in self._sensors
        ]
        if self.faults.has(Fault.OVERLOAD):
            return "9.9E37,9.9E37,9.9E37"
        if self.faults.has(Fault.NAN):
            return "9.91E37,9.91E37,9.91E37"
        return f"{volts:.4f},{amps:.4f},{volts * amps:.3f}"
