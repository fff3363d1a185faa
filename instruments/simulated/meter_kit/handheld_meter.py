"""Simulated handheld meters at a serial port."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

import numpy as np

from instruments.reading import Accuracy
from instruments.simulated.meter_kit import data_sheets
from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.serial_meter import SerialMeter


class HandheldMeter(SerialMeter):
    """A meter with a battery and a HOLD key, on one point of the drive."""

    possible_faults = SerialMeter.possible_faults | {
        Fault.OVERLOAD,
        Fault.NAN,
        Fault.HOLD,
        Fault.LOW_BATTERY,
    }

    model: ClassVar[str]
    """Of its data sheet, if there is one here."""
    noise_of_range: ClassVar[float] = 5e-6
    """Standard deviation, as a share of the range; in its unit where it has none."""

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts)
        self._probe = parts.probe()
        settings = parts.config.settings
        self._function = str(settings.get("function", "temperature"))
        range_ = float(settings.get("range", 1.0))
        limits = parts.limits(data_sheet=self.data_sheet(range_))
        self._errors = parts.errors(limits, "errors", self.noise_of_range * range_)

    def data_sheet(self, range_: float) -> Accuracy | None:
        """The limits of its errors on a range; None where no data sheet is here."""
        return data_sheets.multimeter(self.model, self._function, range_)

    async def shown(self, begin_ns: int, end_ns: int) -> float:
        """The measured value over a window of host time, before it is rounded to the display."""
        true = await self._probe.means(np.array([begin_ns]), np.array([end_ns]))
        return float(self._errors.apply(true, self._rng, 1e-9)[0])


class PushingMeter(HandheldMeter):
    """Sends what it shows at the end of each conversion, on its own clock."""

    possible_faults = HandheldMeter.possible_faults | {Fault.WRONG_FUNCTION, Fault.TWICE}
    frame_s: ClassVar[float]
    """How long a frame is on the wire."""
    conversion_s: ClassVar[float]
    """From reading to reading, if its settings say nothing else."""

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts)
        self._conversion_s = float(parts.config.settings.get("interval_s", self.conversion_s))

    def frame(self, value: float) -> bytes:
        """The frame of a display with ``value`` and the present faults."""
        raise NotImplementedError

    async def serve(self) -> None:
        """Convert and send, one frame after another."""
        conversion = self._conversion_s * 1e9
        end = self.clock.now() + conversion
        while True:
            begin_ns, end_ns = self.clock.to_host(end - conversion), self.clock.to_host(end)
            await asyncio.sleep(max(end_ns - time.monotonic_ns(), 0) * 1e-9)
            value = await self.shown(begin_ns, end_ns)
            sent_s = (end_ns - time.monotonic_ns()) * 1e-9 + self.frame_s
            await asyncio.sleep(max(sent_s, 0.0))
            frame = self.frame(value)
            self.send(frame)
            if self.faults.has(Fault.TWICE):
                await asyncio.sleep(self.frame_s)
                self.send(frame)
            end += conversion
