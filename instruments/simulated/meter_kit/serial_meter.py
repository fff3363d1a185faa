"""A simulated meter at a serial port, on a pty."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import tty
from collections.abc import Coroutine
from typing import Any, ClassVar

import numpy as np

from instruments.reading import Accuracy
from instruments.simulated.meter_kit import data_sheets
from instruments.simulated.meter_kit.faults import Fault, Faults
from instruments.simulated.meter_kit.parts import MeterParts


class SerialMeter:
    """A pseudo terminal with a link to it that stays the same: ``DIR/tty-<name>``."""

    possible_faults = frozenset({Fault.SILENT, Fault.DISCONNECT, Fault.NONSENSE})

    def __init__(self, parts: MeterParts) -> None:
        self.name = parts.name
        self.faults = Faults()
        self.clock = parts.new_clock()
        self._link = parts.directory / f"tty-{self.name}"
        self._rng = parts.new_rng("noise")
        self._ends: tuple[int, int] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> dict[str, str]:
        """Plug in; the path of the port."""
        self._plug_in()
        self._spawn(self.serve())
        return {"port": str(self._link)}

    async def stop(self) -> None:
        """Unplug."""
        for task in self._tasks:
            task.cancel()
        self._unplug()

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Begin a fault; DISCONNECT removes the port for that time."""
        self.faults.begin(fault, seconds)
        if fault is Fault.DISCONNECT:
            self._unplug()
            self._spawn(self._return_after(seconds))

    async def serve(self) -> None:
        """What the meter does without a query; nothing here."""

    def received(self, data: bytes) -> None:
        """Take bytes from the computer; ignored here."""

    def send(self, data: bytes) -> None:
        """Write, unless it is silent, unplugged, or nobody has read for long."""
        if self._ends is None or self.faults.has(Fault.SILENT):
            return
        if self.faults.has(Fault.NONSENSE):
            data = self._rng.bytes(len(data))
        with contextlib.suppress(BlockingIOError):
            os.write(self._ends[0], data)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=self.name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _plug_in(self) -> None:
        master, slave = os.openpty()
        tty.setraw(slave)
        os.set_blocking(master, False)
        self._ends = (master, slave)
        self._link.unlink(missing_ok=True)
        self._link.symlink_to(os.ttyname(slave))
        asyncio.get_running_loop().add_reader(master, self._readable)

    def _unplug(self) -> None:
        ends, self._ends = self._ends, None
        if ends is None:
            return
        self._link.unlink(missing_ok=True)
        asyncio.get_running_loop().remove_reader(ends[0])
        for end in ends:
            os.close(end)

    async def _return_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._plug_in()

    def _readable(self) -> None:
        if self._ends is not None:
            with contextlib.suppress(OSError):
                self.received(os.read(self._ends[0], 4096))


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
