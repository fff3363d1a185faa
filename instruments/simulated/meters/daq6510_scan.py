"""A simulated DAQ6510 that scans the channels of a card, each with a stamp of its own clock.

Commands as public programs for a DAQ6510 send them. Its channels have the drive's points by their
numbers: 101 and 102 volts and amps of 12 V, 103 and 104 those of 3.3 V.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from itertools import accumulate

import numpy as np

from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.probe import Probe
from instruments.simulated.meter_kit.scpi_server import (
    ILLEGAL_VALUE,
    OUT_OF_RANGE,
    UNDEFINED_HEADER,
    ScpiServer,
)

_POINTS = {101: "12V.voltage", 102: "12V.current", 103: "3V3.voltage", 104: "3V3.current"}
_MAINS_HZ = 50
_SWITCH_S = 4e-3
"""A relay settles."""
_CAPACITY = 100_000
_LIST = re.compile(r"(.*?),?\s*\(@([\d,]+)\)")


class Daq6510Meter(ScpiServer):
    """Each channel has a function, a range and an integration time of its own."""

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts, "KEITHLEY INSTRUMENTS", "MODEL DAQ6510", "1.7.12b")
        self._clock = parts.new_clock()
        self._probes = {number: Probe(parts.state, point) for number, point in _POINTS.items()}
        self.preset()
        self.on("*RST", self._reset)
        self.on("ABORt", self._abort)
        self.ignore("AZERo:ONCE", "FORMat[:DATA]", "FORMat:ASCii:PRECision", "TRACe:FILL:MODE")
        self.ignore("ROUTe:OPEN:ALL")
        self.on("[SENSe:]FUNCtion", self._set("function"))
        self.on("[SENSe:]FUNCtion", self._get("function"), query=True)
        for node in ("VOLTage", "CURRent"):
            self.on(f"[SENSe:]{node}[:DC]:AZERo", self._set("zero"))
            for header, key in (("RANGe", "range"), ("NPLC", "nplc")):
                self.on(f"[SENSe:]{node}[:DC]:{header}", self._set(key))
                self.on(f"[SENSe:]{node}[:DC]:{header}", self._get(key), query=True)
        self.on("ROUTe:SCAN:CREate", self._create)
        self.on("ROUTe:SCAN:COUNt:SCAN", self._set_count)
        self.on("ROUTe:SCAN:INTerval", self._set_interval)
        self.on_query("ROUTe:SCAN:INTerval", lambda: f"{self._interval_s:g}")
        self.on_query("SYSTem:LFRequency", lambda: "50")
        self.on("TRACe:CLEar", self._clear_buffer)
        self.on_query("TRACe:POINts", lambda: str(_CAPACITY))
        self.on_query("TRACe:ACTual:STARt", lambda: str(min(self._total(), 1)))
        self.on_query("TRACe:ACTual:END", lambda: str(self._total()))
        self.on("TRACe:DATA", self._data, query=True)
        self.on_query("TRIGger:STATe", self._query_state)
        self.on("INITiate[:IMMediate]", self._initiate)

    def preset(self) -> None:
        """As after ``*RST``."""
        self._settings: dict[int, dict[str, str]] = {
            number: {"function": "VOLT:DC", "range": "1000", "nplc": "1", "zero": "1"}
            for number in _POINTS
        }
        self._scanned: list[int] = []
        self._count, self._interval_s = 1, 0.0
        self._begun: float | None = None
        self._stopped: float | None = None

    def _set(self, key: str) -> Callable[[str], Awaitable[None]]:
        async def change(parameters: str) -> None:
            match = _LIST.fullmatch(parameters)
            if match is None:
                raise ILLEGAL_VALUE
            for number in match[2].split(","):
                if int(number) not in self._settings:
                    raise OUT_OF_RANGE
                self._settings[int(number)][key] = match[1].strip("\"'")

        return change

    def _get(self, key: str) -> Callable[[str], Awaitable[str]]:
        async def query(parameters: str) -> str:
            match = _LIST.fullmatch(parameters)
            if match is None:
                raise UNDEFINED_HEADER
            value = self._settings[int(match[2])][key]
            return f'"{value}"' if key == "function" else value

        return query

    async def _reset(self, _parameters: str) -> None:
        self.preset()

    async def _create(self, parameters: str) -> None:
        match = _LIST.fullmatch(parameters)
        if match is None:
            raise ILLEGAL_VALUE
        self._scanned = [int(number) for number in match[2].split(",")]

    async def _set_count(self, parameters: str) -> None:
        self._count = int(parameters)

    async def _set_interval(self, parameters: str) -> None:
        self._interval_s = float(parameters)

    async def _initiate(self, _parameters: str) -> None:
        """The scan's own trigger model begins by clearing the buffer, as the simple loops do."""
        if not self._scanned:
            raise ILLEGAL_VALUE
        self._begun, self._stopped = self._clock.now(), None

    async def _abort(self, _parameters: str) -> None:
        self._stopped = self._clock.now()

    async def _clear_buffer(self, _parameters: str) -> None:
        self._begun = None

    def _aperture_s(self, place: int) -> float:
        return float(self._settings[self._scanned[place]]["nplc"]) / _MAINS_HZ

    def _ends_s(self) -> list[float]:
        """When each channel is done, since the beginning of its scan."""
        steps = [_SWITCH_S + self._aperture_s(place) for place in range(len(self._scanned))]
        return list(accumulate(steps))

    def _total(self) -> int:
        """Readings in the buffer."""
        if self._begun is None:
            return 0
        now = self._clock.now() if self._stopped is None else self._stopped
        elapsed_s = (now - self._begun) * 1e-9
        scans = min(math.floor(elapsed_s / self._interval_s), self._count)
        into_s = elapsed_s - scans * self._interval_s
        more = sum(end <= into_s for end in self._ends_s()) if scans < self._count else 0
        return scans * len(self._scanned) + more

    def _query_state(self) -> str:
        over = self._stopped is not None or self._total() >= self._count * len(self._scanned)
        return "IDLE;IDLE;3" if over or self._begun is None else "RUNNING;RUNNING;2"

    async def _data(self, parameters: str) -> str:
        first, last, *_ = (field.strip() for field in parameters.split(","))
        begun = self._begun
        if begun is None or not 1 <= int(first) <= int(last) <= self._total():
            raise OUT_OF_RANGE
        ends_s = self._ends_s()
        origin_s = ends_s[0]
        fields: list[str] = []
        for index in range(int(first) - 1, int(last)):
            scan, place = divmod(index, len(self._scanned))
            end_s = scan * self._interval_s + ends_s[place]
            window = [
                np.array([self._clock.to_host(begun + t * 1e9)], np.int64)
                for t in (end_s - self._aperture_s(place), end_s)
            ]
            number = self._scanned[place]
            value = float((await self._probes[number].means(*window))[0])
            over = abs(value) > 1.2 * float(self._settings[number]["range"])
            text = "9.9E+37" if over or self.faults.has(Fault.OVERLOAD) else f"{value:.6E}"
            text = "9.91E+37" if self.faults.has(Fault.NAN) else text
            fields += [text, f"{end_s - origin_s:.9f}", str(number)]
        return ",".join(fields)
