"""The simulated Extech 380803 power analyser."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.probe import Probe
from instruments.simulated.meter_kit.serial_meter import SerialMeter


def extech_reply(watts: float, amps: float, volts: float, power_factor: float) -> bytes:
    """The four blocks that answer a space."""
    values = (watts, amps, volts, power_factor)
    return b"".join(b"\x02\x00" + _extech_value(value) + b"\x03" for value in values)


def _extech_value(value: float) -> bytes:
    decimals = next((n for n in (3, 2, 1) if round(abs(value) * 10**n) < 2000), 0)
    count = min(round(abs(value) * 10**decimals), 1999)
    bits = int(value >= 0) | (count >= 1000) << 1
    for place, digit in zip((2, 6, 10), f"{count % 1000:03d}", strict=True):
        bits |= int(f"{int(digit):04b}"[::-1], 2) << place
    bits |= int(f"{decimals:02b}"[::-1], 2) << 14
    return bytes((bits & 0xFF, bits >> 8))


class ExtechMeter(SerialMeter):
    """Answers a space with watts, amps, volts and power factor of one rail."""

    possible_faults = SerialMeter.possible_faults | {Fault.NAN}

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts)
        self._sensors = [
            (
                Probe(parts.state, f"12V.{name}"),
                parts.errors(parts.limits(name), f"{name} errors"),
            )
            for name in ("voltage", "current")
        ]

    def received(self, data: bytes) -> None:
        """Answer each space."""
        for _ in range(data.count(b" ")):
            self._spawn(self._answer())

    async def _answer(self) -> None:
        now_ns = time.monotonic_ns()
        window = np.array([now_ns - 400_000_000]), np.array([now_ns - 2_000_000])
        volts, amps = [
            float(errors.apply(await probe.means(*window), self._rng, 1e-6)[0])
            for probe, errors in self._sensors
        ]
        await asyncio.sleep(20 * 10 / 9600)
        reply = bytearray(extech_reply(volts * amps, amps, volts, 1.0))
        if self.faults.has(Fault.NAN):
            reply[2:4] = b"\xff\xff"
        self.send(bytes(reply))
