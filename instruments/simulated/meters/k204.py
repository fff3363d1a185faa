"""The simulated K204 thermometer."""

from __future__ import annotations

import asyncio
import time

from instruments.reading import Accuracy
from instruments.simulated.meter_kit import data_sheets
from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.handheld_meter import HandheldMeter

_OPEN_COUNT = 0x7FFF
_REPLY_BYTES = 45


def k204_reply(celsius: list[float | None], hold: bool = False, low_battery: bool = False) -> bytes:
    """The reply of a K204 with these temperatures; None is an open input."""
    reply = bytearray(_REPLY_BYTES)
    reply[0], reply[44] = 0x02, 0x03
    reply[1] = 0x80 | (0x20 if hold else 0) | (0x40 if low_battery else 0)
    for i, value in enumerate(celsius):
        count = _OPEN_COUNT
        if value is None:
            reply[39] |= 1 << i
        elif abs(value) < 200:
            count = round(value * 10)
        else:
            count = round(value)
            reply[43] |= 1 << i
        reply[7 + 2 * i : 9 + 2 * i] = count.to_bytes(2, "big", signed=True)
    return bytes(reply)


class K204Meter(HandheldMeter):
    """Answers ``A`` with its last measurement; its first input has the thermocouple."""

    noise_of_range = 0.03
    possible_faults = HandheldMeter.possible_faults | {Fault.OPEN_SENSOR}

    def data_sheet(self, range_: float) -> Accuracy:
        """Of the logger and its probe."""
        return data_sheets.K204

    def received(self, data: bytes) -> None:
        """Answer each ``A``."""
        for _ in range(data.count(b"A")):
            self._spawn(self._answer())

    async def _answer(self) -> None:
        now_ns = time.monotonic_ns()
        celsius: float | None = await self.shown(now_ns - 2_000_000, now_ns - 1_000_000)
        broken = (Fault.OPEN_SENSOR, Fault.OVERLOAD, Fault.NAN)
        if any(self.faults.has(fault) for fault in broken):
            celsius = None
        await asyncio.sleep(_REPLY_BYTES * 10 / 9600)
        self.send(
            k204_reply(
                [celsius, None, None, None],
                hold=self.faults.has(Fault.HOLD),
                low_battery=self.faults.has(Fault.LOW_BATTERY),
            )
        )
