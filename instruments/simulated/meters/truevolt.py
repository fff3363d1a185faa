"""A simulated Truevolt (34465A): a reading memory, filled by a sample timer.

Its 10 A are terminals of their own with one range: ``CURR:DC:RANG`` neither chooses nor tells it
(Truevolt Series Operating and Service Guide; of a 34461A that was asked, ``RANG? MAX`` is 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from instruments.simulated.meter_kit.dc_meter import DcMeter
from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.scpi_server import (
    ILLEGAL_VALUE,
    NODES,
    OUT_OF_RANGE,
    STALE,
    parse_number,
)

_NPLC_34461A = (0.02, 0.2, 1.0, 10.0, 100.0)
_NPLC_34465A = (0.001, 0.002, 0.006, 0.02, 0.06, 0.2, 1.0, 10.0, 100.0)


@dataclass(frozen=True, slots=True)
class _Model:
    """What distinguishes the models (Keysight 5991-1983EN), told without the driver's tables."""

    memory: int
    nplc_choices: tuple[float, ...]
    has_timer: bool


_MODELS = {
    "34461A": _Model(10_000, _NPLC_34461A, has_timer=False),
    "34465A": _Model(50_000, _NPLC_34465A, has_timer=True),
    "34470A": _Model(50_000, _NPLC_34465A, has_timer=True),
}
_10_A = 10.0
_FREE_RUN_OVERHEAD_S = 1.3e-3
_TIMER_MARGIN_S = 100e-6


class TruevoltMeter(DcMeter):
    """Samples into its memory whether it is read or not; the oldest readings are dropped."""

    possible_faults = DcMeter.possible_faults | {Fault.MEMORY_OVERFLOW}

    def __init__(self, parts: MeterParts) -> None:
        model = str(parts.config.settings["model"])
        self._facts = _MODELS[model]
        self.nplc_choices = self._facts.nplc_choices
        self._memory = parts.config.memory or self._facts.memory
        super().__init__(parts, model, "Keysight Technologies")
        self.ignore("TRIGger:DELay", *(f"[SENSe:]{node}[:DC]:ZERO:AUTO" for node, _ in NODES))
        self.on("[SENSe:]CURRent[:DC]:TERMinals", self._set_terminals)
        self.on_query("[SENSe:]CURRent[:DC]:TERMinals", lambda: "10" if self._on_10_a else "3")
        self.on("TRIGger:COUNt", self._set_trigger_count)
        self.on("SAMPle:COUNt", self._set_sample_count)
        self.on_query("SAMPle:COUNt", lambda: f"{self._sample_count:+.8E}")
        if self._facts.has_timer:
            self.on("SAMPle:SOURce", self._set_source)
            self.on("SAMPle:TIMer", self._set_timer)
            self.on("SAMPle:TIMer", self._query_timer, query=True)
        self.on("INITiate[:IMMediate]", self._initiate)
        self.on_query("DATA:POINts", lambda: f"{self._stored():+d}")
        self.on("R", self._read_and_erase, query=True)
        self.on_query("STATus:QUEStionable:CONDition", self._query_condition)

    @property
    def interval_ns(self) -> float:
        """Time from sample to sample on its own clock."""
        if self._timed and self._sample_count > 1:
            return self._timer_s * 1e9
        return self.aperture_ns + _FREE_RUN_OVERHEAD_S * 1e9

    @property
    def _on_10_a(self) -> bool:
        return self.function == "current" and self.range == _10_A

    @property
    def reported_range(self) -> float:
        """That of the terminals for 3 A, whichever are in use."""
        return self._of_3_a_terminals if self._on_10_a else self.range

    def _choose_range(self, wanted: float) -> None:
        super()._choose_range(wanted)
        if self.function == "current" and not self._on_10_a:
            self._of_3_a_terminals = self.range

    async def _set_range(self, parameters: str) -> None:
        if self.function == "current" and parse_number(parameters, {}) > 3.0:
            raise OUT_OF_RANGE
        await super()._set_range(parameters)

    async def _set_terminals(self, parameters: str) -> None:
        if parse_number(parameters, {}) not in (3.0, _10_A):
            raise ILLEGAL_VALUE
        self._choose_range(_10_A if parse_number(parameters, {}) == _10_A else 3.0)

    def preset(self) -> None:
        """As after switching on."""
        super().preset()
        self._of_3_a_terminals = 3.0
        self._begun: float | None = None
        self._taken = 0
        self._overflowed = False
        self._sample_count = self._trigger_count = 1.0
        self._timed = False
        self._timer_s = 1.0

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Have a fault; a memory overflow loses all but the newest reading in the memory, now: it
        overwrites the oldest, and never empties it under a driver that has just counted them."""
        if fault is Fault.MEMORY_OVERFLOW:
            self._taken += max(self._stored() - 1, 0)
            self._overflowed = True
            return
        await super().begin_fault(fault, seconds)

    def _stored(self) -> int:
        """Readings in memory; those that were dropped are counted as taken."""
        if self._begun is None:
            return 0
        elapsed = self.clock.now() - self._begun - self.aperture_ns
        done = math.floor(elapsed / self.interval_ns) + 1 if elapsed >= 0 else 0
        done = int(min(done, self._sample_count * self._trigger_count))
        if done - self._taken > self._memory:
            self._overflowed = True
            self._taken = done - self._memory
        return done - self._taken

    async def _initiate(self, _parameters: str) -> None:
        self._begun = self.clock.now()
        self._taken = 0
        self._overflowed = False

    async def _abort(self, _parameters: str) -> None:
        self._begun = None

    def _query_condition(self) -> str:
        self._stored()
        return f"{1 << 14 if self._overflowed else 0:+d}"

    async def _read_and_erase(self, parameters: str) -> str:
        stored = self._stored()
        if self._begun is None or stored == 0:
            raise STALE
        count = min(int(parse_number(parameters, {})) if parameters else stored, stored)
        index = np.arange(self._taken, self._taken + count, dtype=np.float64)
        self._taken += count
        content = ",".join(await self.measure(self._begun + index * self.interval_ns))
        length = str(len(content))
        return f"#{len(length)}{length}{content}"

    async def _set_trigger_count(self, parameters: str) -> None:
        self._trigger_count = parse_number(parameters, {"INF": math.inf, "INFINITY": math.inf})

    async def _set_sample_count(self, parameters: str) -> None:
        most = 1e9 if self._facts.has_timer else 1e6
        count = parse_number(parameters, {"MIN": 1.0, "MAX": most})
        if not 1 <= count <= most:
            raise OUT_OF_RANGE
        self._sample_count = count

    async def _set_source(self, parameters: str) -> None:
        if parameters.upper() not in ("TIM", "TIMER", "IMM", "IMMEDIATE"):
            raise ILLEGAL_VALUE
        self._timed = parameters.upper().startswith("TIM")

    async def _set_timer(self, parameters: str) -> None:
        wanted = parse_number(parameters, {"MIN": self._least_timer_s})
        if not 0 < wanted <= 3600:
            raise OUT_OF_RANGE
        self._timer_s = round(wanted, 6)

    async def _query_timer(self, parameters: str) -> str:
        least = parameters.upper().startswith("MIN")
        return f"{self._least_timer_s if least else self._timer_s:+.8E}"

    @property
    def _least_timer_s(self) -> float:
        return self.aperture_ns * 1e-9 + _TIMER_MARGIN_S
