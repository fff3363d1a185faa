"""A simulated Yokogawa WT310E that feeds a rail: its numbers change at the end of each update.

Told without the driver's tables: commands and register bits from IM WT310E-17EN, ranges from IM
WT310E-01EN, accuracy from IM WT310E-02EN (page 7-7).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import numpy as np

from instruments.reading import Accuracy
from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.probe import Probe
from instruments.simulated.meter_kit.scpi_server import ILLEGAL_VALUE, OUT_OF_RANGE, ScpiServer

_RATES_S = {"100MS": 0.1, "250MS": 0.25, "500MS": 0.5, "1S": 1.0, "2S": 2.0, "5S": 5.0}
_VOLTS = (15.0, 30.0, 60.0, 150.0, 300.0, 600.0)
_AMPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_OVER = 1.4
"""A number beyond 140 % of its range is INF."""
_COMPUTING_S = 0.012
"""From the end of a window until its numbers are there."""
_NOISE = 2e-5
"""Of the range."""
_FUNCTIONS = ("U", "I", "P", "WH")


class Wt310Meter(ScpiServer):
    """One element on DC."""

    possible_faults = ScpiServer.possible_faults | {Fault.MOVED}

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts, "YOKOGAWA", "WT310E", "F1.04")
        self._clock = parts.new_clock()
        self._seed = int(parts.new_rng("noise").integers(1 << 31))
        point = parts.config.point
        self._volts, self._amps = (
            Probe(parts.state, f"{point}.{quantity}") for quantity in ("voltage", "current")
        )
        self._errors_of = {
            name: parts.errors(Accuracy(0.1e-2, 0.2e-2, "told here"), name) for name in "UIP"
        }
        self.preset()
        self.on("*RST", self._reset)
        self.on_query("STATus:ERRor", self._next_error)
        self.ignore("STATus:QMESsage", "COMMunicate:REMote", "COMMunicate:HEADer", "NUMeric:FORMat")
        self.on("STATus:FILTer1", self._set_filter)
        self.on_query("STATus:EESR", self._query_events)
        self.on_query("STATus:CONDition", self._query_condition)
        self.on("INPut:MODE", self._set_mode)
        self.on_query("INPut:MODE", lambda: self._mode)
        self.on("INPut:VOLTage:RANGe", self._set_volts)
        self.on_query("INPut:VOLTage:RANGe", lambda: f"{self._ranges['U']:.1f}E+00")
        self.on("INPut:CURRent:RANGe", self._set_amps)
        self.on_query("INPut:CURRent:RANGe", lambda: f"{self._ranges['I'] * 1e3:.1f}E-03")
        self.on("RATE", self._set_rate)
        self.on_query("RATE", lambda: self._rate)
        self.on("NUMeric[:NORMal]:NUMber", self._set_number)
        for item in range(1, 5):
            self.on(f"NUMeric[:NORMal]:ITEM{item}", self._item_setter(item))
        self.on("NUMeric[:NORMal]:VALue", self._values, query=True)
        self.on("INTEGrate:MODE", self._need_reset_integration)
        self.on("INTEGrate:TIMer", self._need_reset_integration)
        self.on("INTEGrate:STARt", self._start_integration)
        self.on("INTEGrate:STOP", self._stop_integration)
        self.on("INTEGrate:RESet", self._reset_integration)
        self.on_query("INTEGrate:STATe", lambda: self._integration)

    def preset(self) -> None:
        """As after ``*RST``."""
        self._mode, self._rate = "RMS", "250MS"
        self._ranges = {"U": 600.0, "I": 20.0}
        self._items = {1: "U", 2: "I", 3: "P"}
        self._number = 3
        self._filtered = False
        self._seen = 0
        self._integration = "RES"
        self._integrated_from = 0.0
        self._over = False

    @property
    def update_ns(self) -> float:
        """Time from update to update on its own clock."""
        return _RATES_S[self._rate] * 1e9

    def _update(self) -> int:
        """The number of the last update whose numbers are there."""
        return math.floor((self._clock.now() - _COMPUTING_S * 1e9) / self.update_ns)

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Begin a fault; MOVED selects the next larger current range at once."""
        if fault is Fault.MOVED:
            larger = [value for value in _AMPS if value > self._ranges["I"]]
            self._ranges["I"] = larger[0] if larger else _AMPS[0]
            return
        await super().begin_fault(fault, seconds)

    async def _reset(self, _parameters: str) -> None:
        self.preset()

    async def _set_filter(self, parameters: str) -> None:
        self._filtered = parameters.upper() == "FALL"
        self._seen = self._update()

    def _query_events(self) -> str:
        if not self._filtered:
            return "0"
        seen, self._seen = self._seen, self._update()
        return str(int(self._seen > seen))

    def _query_condition(self) -> str:
        return str(1 << 6 if self._over else 0)

    async def _set_mode(self, parameters: str) -> None:
        if parameters.upper() not in ("RMS", "DC", "VMEAN"):
            raise ILLEGAL_VALUE
        self._mode = parameters.upper()

    async def _set_volts(self, parameters: str) -> None:
        await self._set_range("U", parameters, _VOLTS)

    async def _set_amps(self, parameters: str) -> None:
        await self._set_range("I", parameters, _AMPS)

    async def _set_range(self, name: str, parameters: str, ranges: tuple[float, ...]) -> None:
        self._refuse_while_integrating()
        wanted = [value for value in ranges if abs(value - float(parameters)) < 1e-6]
        if not wanted:
            raise OUT_OF_RANGE
        self._ranges[name] = wanted[0]

    async def _set_rate(self, parameters: str) -> None:
        self._refuse_while_integrating()
        if parameters.upper() not in _RATES_S:
            raise ILLEGAL_VALUE
        self._rate = parameters.upper()

    async def _set_number(self, parameters: str) -> None:
        self._number = int(parameters)

    def _item_setter(self, item: int) -> Callable[[str], Awaitable[None]]:
        async def define(parameters: str) -> None:
            function, _, element = parameters.upper().partition(",")
            if function not in _FUNCTIONS or element not in ("", "1"):
                raise ILLEGAL_VALUE
            self._items[item] = function

        return define

    async def _need_reset_integration(self, _parameters: str) -> None:
        self._refuse_while_integrating()

    def _refuse_while_integrating(self) -> None:
        if self._integration != "RES":
            raise ILLEGAL_VALUE

    async def _start_integration(self, _parameters: str) -> None:
        self._integration = "STAR"
        self._integrated_from = self._clock.now()

    async def _stop_integration(self, _parameters: str) -> None:
        if self._integration != "STAR":
            raise ILLEGAL_VALUE
        self._integration = "STOP"

    async def _reset_integration(self, _parameters: str) -> None:
        self._integration = "RES"

    async def _values(self, _parameters: str) -> str:
        end = self._update() * self.update_ns
        shown = {**await self._means(end - self.update_ns, end), "WH": math.nan}
        self._over = any(abs(shown[name]) > _OVER * self._ranges[name] for name in "UI")
        if self._integration != "RES" and "WH" in self._items.values():
            means = await self._means(self._integrated_from, max(end, self._integrated_from + 1e6))
            hours = max(end - self._integrated_from, 0.0) / 3.6e12
            shown["WH"] = means["P"] * hours
        return ",".join(self._text(shown, self._items[item + 1]) for item in range(self._number))

    async def _means(self, begin: float, end: float) -> dict[str, float]:
        window = [np.array([self._clock.to_host(t)], np.int64) for t in (begin, end)]
        true = [float((await probe.means(*window))[0]) for probe in (self._volts, self._amps)]
        rng = np.random.default_rng([self._seed, int(end // 1e6) & 0xFFFFFFFF])
        found = {}
        products = {**dict(zip("UI", true, strict=True)), "P": true[0] * true[1]}
        ranges = {**self._ranges, "P": self._ranges["U"] * self._ranges["I"]}
        for name, value in products.items():
            errors = self._errors_of[name]
            noise = rng.normal(0.0, _NOISE * ranges[name]) * bool(errors.gain)
            found[name] = value * (1 + errors.gain) + errors.offset * ranges[name] + noise
        return found

    def _text(self, shown: dict[str, float], name: str) -> str:
        value = shown[name]
        if self.faults.has(Fault.NAN) or math.isnan(value):
            return "NAN"
        too_large = {"P": self._over, "WH": False}.get(name)
        if too_large is None:
            too_large = abs(value) > _OVER * self._ranges[name]
        if self.faults.has(Fault.OVERLOAD) or too_large:
            return "INF"
        return f"{value:.5E}"
