"""A simulated SCPI multimeter that measures DC: ranges, aperture, noise, answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.ranges import ranges_of
from instruments.simulated.meter_kit.scpi_server import (
    NODES,
    OUT_OF_RANGE,
    ScpiServer,
    parse_number,
)

OVER_RANGE = 1.2
"""20 % over a range is still measured."""
_OVERLOAD, _NAN = 9.9e37, 9.91e37
_RESOLUTION, _NOISE = 1e-7, 3e-6
"""Of the range: more digits than its noise."""
_RESET_S = 0.05
_MAINS_HZ = 50


class DcMeter(ScpiServer):
    """Function, range, NPLC, and the readings that follow from them."""

    possible_faults = ScpiServer.possible_faults | {Fault.MOVED}
    nplc_choices: tuple[float, ...]
    nplc_between: tuple[float, float] | None = None
    """Limits of NPLC, where any value between them is accepted."""
    function_suffix = ""
    """Of the answer to ``FUNC?``."""

    def __init__(
        self, parts: MeterParts, model: str, maker: str, called: str = "", firmware: str = "1.0"
    ) -> None:
        """``called`` is the model in its identity, if not ``model``."""
        super().__init__(parts, maker, called or model, firmware)
        self.model = model
        self.clock = parts.new_clock()
        self._parts = parts
        self._probe = parts.probe()
        self._rng = parts.new_rng("noise")
        self.autorange = False
        self.preset()
        for node, function in NODES:
            optional = f"[SENSe:]{node}[:DC]"
            self.on(f"CONFigure:{node}[:DC]", self._configure(function))
            self.on(f"{optional}:RANGe", self._set_range)
            self.on_query(f"{optional}:RANGe", lambda: f"{self.reported_range:+.8E}")
            self.on(f"{optional}:RANGe:AUTO", self._set_autorange)
            self.on(f"{optional}:NPLC", self._set_nplc)
            self.on_query(f"{optional}:NPLC", lambda: f"{self.nplc:+.8E}")
        self.on_query("[SENSe:]FUNCtion[:ON]", self._query_function)
        self.on("[SENSe:]FUNCtion[:ON]", self._set_function)
        self.ignore("TRIGger:SOURce")
        self.on("*RST", self._reset)
        self.on("ABORt", self._abort)

    @property
    def aperture_ns(self) -> float:
        """Integration time on its own clock."""
        return self.nplc / _MAINS_HZ * 1e9

    @property
    def reported_range(self) -> float:
        """What it answers where it is asked for its range."""
        return self.range

    def preset(self) -> None:
        """As after switching on."""
        self._choose_function("voltage")
        self.nplc = 10.0

    async def measure(self, begin: NDArray[np.float64]) -> list[str]:
        """The texts of readings whose windows begin at ``begin`` (ns) on the meter's clock."""
        end = begin + self.aperture_ns
        host_begin = np.array([self.clock.to_host(t) for t in begin], np.int64)
        host_end = np.array([self.clock.to_host(t) for t in end], np.int64)
        true = await self._probe.means(host_begin, host_end)
        errors = self._parts.range_errors(self.model, self.function, self.range, _NOISE)
        shown = errors.apply(true, self._rng, self.range * _RESOLUTION)
        if self.faults.has(Fault.OVERLOAD):
            shown[:] = _OVERLOAD
        elif self.faults.has(Fault.NAN):
            shown[:] = _NAN
        else:
            over = np.abs(shown) > OVER_RANGE * self.range
            shown[over] = np.copysign(_OVERLOAD, shown[over])
        return [f"{value:+.8E}" for value in shown]

    def _configure(self, function: str) -> Callable[[str], Any]:
        async def configure(parameters: str) -> None:
            await self._abort("")
            self.function = function
            ranges = ranges_of(self.model, function)
            first = parameters.split(",")[0].strip() or "AUTO"
            extremes = {"AUTO": ranges[-1], "MAX": ranges[-1], "MIN": ranges[0], "DEF": ranges[-1]}
            self._choose_range(parse_number(first, extremes))

        return configure

    def _choose_range(self, wanted: float) -> None:
        ranges = ranges_of(self.model, self.function)
        fitting = [value for value in ranges if value >= wanted * (1 - 1e-9)]
        if not fitting:
            raise OUT_OF_RANGE
        self.range = fitting[0]

    async def _set_range(self, parameters: str) -> None:
        self._choose_range(parse_number(parameters, {}))
        self.autorange = False

    async def _set_autorange(self, parameters: str) -> None:
        self.autorange = parameters.upper() in ("ON", "1")

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Begin a fault; MOVED selects the next larger range at once."""
        if fault is Fault.MOVED:
            ranges = ranges_of(self.model, self.function)
            self.range = min((r for r in ranges if r > self.range), default=ranges[0])
            return
        await super().begin_fault(fault, seconds)

    async def _set_nplc(self, parameters: str) -> None:
        wanted = parse_number(
            parameters, {"MIN": self.nplc_choices[0], "MAX": self.nplc_choices[-1]}
        )
        if self.nplc_between is not None:
            if not self.nplc_between[0] <= wanted <= self.nplc_between[1]:
                raise OUT_OF_RANGE
            self.nplc = wanted
            return
        fitting = [value for value in self.nplc_choices if value >= wanted * (1 - 1e-9)]
        if not fitting or wanted <= 0:
            raise OUT_OF_RANGE
        self.nplc = fitting[0]

    def _choose_function(self, function: str) -> None:
        self.function = function
        self.range = max(ranges_of(self.model, function))

    async def _set_function(self, parameters: str) -> None:
        self._choose_function("current" if "CURR" in parameters.upper() else "voltage")

    def _query_function(self) -> str:
        return f'"{self.function[:4].upper()}{self.function_suffix}"'

    async def _reset(self, _parameters: str) -> None:
        await self._abort("")
        self.preset()
        await asyncio.sleep(_RESET_S)

    async def _abort(self, _parameters: str) -> None:
        return None
