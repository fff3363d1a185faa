"""Simulated ElmorLabs PMD2 and PMD-USB on a pseudo terminal, as the maker's programs talk to them.

Commands of a PMD2 (github.com/ElmorLabs/PMD2-Python): 0 its name and a NUL, 1 EE 15 and the
firmware, 2 twelve bytes of unique number, 4 a packed structure: u16 Vdd, i16 temperature of the
chip, ten times i16 mV, i32 mA, i32 mW, four u16 of watts and ten u8. Of a PMD-USB
(github.com/ElmorLabs/PMDLogger, pmd-usb-serial-interface-fast): 0 its name, 1 EE 0A and the
firmware, 4 the configuration, 6 eight converter words, 12 bits on the left, volts at 7.568 mV and
amps at 48.8 mA a step, to which the offsets in the configuration are to be added.
"""

from __future__ import annotations

import struct
import time
from typing import Final

import numpy as np

from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.probe import Probe
from instruments.simulated.meter_kit.serial_meter import SerialMeter

_AVERAGE_S: Final = 0.002
_PMD2_PLACES: Final = {"12V": 0, "3V3": 3}
"""Which of the ten sensors are the drive's rails: ATX 12 V, and ATX 3.3 V."""
_USB_PLACES: Final = {"12V": 0}
_IDLE_VOLTS: Final = (12.08, 5.02, 5.05, 3.31, 0.0, 12.1, 12.1, 0.0, 0.0, 0.0)
"""What the connectors have on which no drive hangs."""
_OFFSETS: Final = (3, -2, 0, 1, -1, 0, 2, -3)


class PmdMeter(SerialMeter):
    """Answers each command; both boards measure all their rails at once."""

    possible_faults = SerialMeter.possible_faults | {Fault.IDENTITY, Fault.LOST_BYTES}

    def __init__(self, parts: MeterParts, model: str) -> None:
        """``point`` is ``rails``."""
        super().__init__(parts)
        self._model = model
        volts, amps = parts.limits("voltage"), parts.limits("current")
        places = _PMD2_PLACES if model == "PMD2" else _USB_PLACES
        self._sensors = {
            place: (
                (Probe(parts.state, f"{name}.voltage"), parts.errors(volts, f"{name} V")),
                (Probe(parts.state, f"{name}.current"), parts.errors(amps, f"{name} A")),
            )
            for name, place in places.items()
        }

    def received(self, data: bytes) -> None:
        """Answer each command in turn."""
        self._spawn(self._answer_all(data))

    async def _answer_all(self, data: bytes) -> None:
        for command in data:
            answer = await self._answer(command)
            if self.faults.has(Fault.LOST_BYTES):
                answer = answer[:-5]
            self.send(answer)

    async def _answer(self, command: int) -> bytes:
        pmd2 = self._model == "PMD2"
        product = 0x17 if self.faults.has(Fault.IDENTITY) else 0x15 if pmd2 else 0x0A
        if command == 0:
            return f"ElmorLabs {self._model}".encode() + (b"\0" if pmd2 else b"")
        if command == 1:
            return bytes([0xEE, product, 0 if pmd2 else 5])
        if pmd2 and command == 2:
            return bytes(range(0x10, 0x1C))
        if pmd2 and command == 4:
            return self._pmd2_values(await self._rails(10))
        if not pmd2 and command == 4:
            return struct.pack("<BxH8bB", 5, 0x1234, *_OFFSETS, 0).ljust(26, b"\0")
        if not pmd2 and command == 6:
            return self._usb_values(await self._rails(4))
        return b""

    async def _rails(self, count: int) -> list[tuple[float, float]]:
        """Volts and amps of all sensors, over the time before now."""
        end_ns = time.monotonic_ns()
        window = np.array([end_ns - round(_AVERAGE_S * 1e9)]), np.array([end_ns])
        found = [(_IDLE_VOLTS[place], 0.0) for place in range(count)]
        for place, sensors in self._sensors.items():
            volts, amps = [
                float(errors.apply(await probe.means(*window), self._rng, 1e-4)[0])
                for probe, errors in sensors
            ]
            found[place] = volts, amps
        return found

    def _pmd2_values(self, rails: list[tuple[float, float]]) -> bytes:
        watts = [volts * amps for volts, amps in rails]
        body = b"".join(
            struct.pack("<hii", round(volts * 1e3), round(amps * 1e3), round(volts * amps * 1e3))
            for volts, amps in rails
        )
        sums = struct.pack("<4H", 0, 0, *(round(sum(watts)) for _ in range(2)))
        return struct.pack("<Hh", 3300, 312) + body + sums + bytes(10)

    def _usb_values(self, rails: list[tuple[float, float]]) -> bytes:
        steps = [
            round(value / step)
            for rail in rails
            for value, step in zip(rail, (0.007568, 0.0488), strict=True)
        ]
        words = [(step - offset) << 4 for step, offset in zip(steps, _OFFSETS, strict=True)]
        return struct.pack("<8h", *words)
