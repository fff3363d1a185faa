"""Simulated serial meters on pseudo terminals: a UT61E that pushes, a K204 that is asked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import tty
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from instruments.drivers import es51922, k204
from instruments.simulated.meter_kit.clock import MeterClock
from instruments.simulated.meter_kit.faults import Fault, Faults
from instruments.simulated.meter_kit.probe import Errors, Probe

_RANGES = {
    "voltage": ((0.22, 4, 1e-5), (2.2, 0, 1e-4), (22.0, 1, 1e-3), (220.0, 2, 1e-2)),
    "current": ((22e-3, 0, 1e-6), (220e-3, 1, 1e-5)),
}
"""Full scale, range byte, value of a digit; current: its mA position."""
_FUNCTION_BYTE = {"voltage": 0x3B, "current": 0x3F}
_AMPS_BYTE, _OHMS_BYTE = 0x30, 0x33
_MOST_DIGITS = 22_000
_OPEN_COUNT = 0x7FFF


def ut61e_frame(
    function: str,
    value: float,
    overload: bool = False,
    hold: bool = False,
    low_battery: bool = False,
    other_function: bool = False,
) -> bytes:
    """The frame a UT61E with auto range sends for DC ``value`` (V or A)."""
    ranges = _RANGES[function]
    function_byte = _FUNCTION_BYTE[function]
    if function == "current" and abs(value) > ranges[-1][0]:
        function_byte, ranges = _AMPS_BYTE, ((10.0, 0, 1e-3),)
    fitting = [entry for entry in ranges if abs(value) <= entry[0]]
    _, range_index, step = fitting[0] if fitting else ranges[-1]
    count = min(round(abs(value) / step), _MOST_DIGITS)
    status = (4 if value < 0 else 0) | (2 if low_battery else 0) | (1 if overload else 0)
    option3 = 8 | 2  # DC, auto
    option4 = 2 if hold else 0
    if other_function:
        function_byte, option3 = _OHMS_BYTE, 2
    head = bytes([0x30 + range_index]) + f"{count:05d}".encode() + bytes([function_byte])
    return head + bytes(0x30 + flags for flags in (status, 0, 0, option3, option4)) + b"\r\n"


def k204_reply(celsius: list[float | None], hold: bool = False, low_battery: bool = False) -> bytes:
    """The reply of a K204 with these temperatures; None is an open input."""
    reply = bytearray(k204.REPLY_BYTES)
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


class SerialMeter:
    """A pseudo terminal with a link to it that stays the same: ``DIR/tty-<name>``."""

    possible_faults = frozenset({Fault.SILENT, Fault.DISCONNECT, Fault.NONSENSE})

    def __init__(
        self, name: str, directory: Path, clock: MeterClock, rng: np.random.Generator
    ) -> None:
        self.name = name
        self.faults = Faults()
        self.clock = clock
        self._link = directory / f"tty-{name}"
        self._rng = rng
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

    async def have(self, fault: Fault, seconds: float) -> None:
        """Have a fault for some seconds."""
        self.faults.begin(fault, seconds)
        if fault is Fault.DISCONNECT:
            self._unplug()
            self._spawn(self._come_back(seconds))

    async def serve(self) -> None:
        """Whatever the meter does by itself."""

    def received(self, data: bytes) -> None:
        """Bytes came from the computer."""

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

    async def _come_back(self, seconds: float) -> None:
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

    def __init__(
        self,
        name: str,
        directory: Path,
        probe: Probe,
        errors: Errors,
        clock: MeterClock,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(name, directory, clock, rng)
        self._probe = probe
        self._errors = errors

    async def shown(self, begin_ns: int, end_ns: int) -> float:
        """What it measures over a window of host time, before the display."""
        true = await self._probe.means(np.array([begin_ns]), np.array([end_ns]))
        return float(self._errors.apply(true, self._rng, 1e-9)[0])


class PushingMeter(HandheldMeter):
    """Sends what it shows at the end of each conversion, on its own clock."""

    possible_faults = HandheldMeter.possible_faults | {Fault.WRONG_FUNCTION, Fault.TWICE}
    frame_s: ClassVar[float]
    """How long a frame is on the wire."""

    def __init__(
        self,
        name: str,
        directory: Path,
        probe: Probe,
        errors: Errors,
        clock: MeterClock,
        rng: np.random.Generator,
        function: str,
        interval_s: float,
    ) -> None:
        super().__init__(name, directory, probe, errors, clock, rng)
        self.function = function
        self._interval_s = interval_s

    def frame(self, value: float) -> bytes:
        """The frame of a display with ``value``, with the faults it has."""
        raise NotImplementedError

    async def serve(self) -> None:
        """Convert, send, and so on."""
        conversion = self._interval_s * 1e9
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


class Ut61eMeter(PushingMeter):
    """A UT61E with automatic range."""

    frame_s = es51922.FRAME_BYTES * es51922.FORMAT.byte_s

    def frame(self, value: float) -> bytes:
        """See :func:`ut61e_frame`; without a number its digits are none."""
        frame = ut61e_frame(
            self.function,
            value,
            overload=self.faults.has(Fault.OVERLOAD),
            hold=self.faults.has(Fault.HOLD),
            low_battery=self.faults.has(Fault.LOW_BATTERY),
            other_function=self.faults.has(Fault.WRONG_FUNCTION),
        )
        return frame[:1] + b":::::" + frame[6:] if self.faults.has(Fault.NAN) else frame


class K204Meter(HandheldMeter):
    """Answers ``A`` with its last measurement; its first input has the thermocouple."""

    possible_faults = HandheldMeter.possible_faults | {Fault.OPEN_SENSOR}

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
        await asyncio.sleep(k204.REPLY_BYTES * k204.FORMAT.byte_s)
        self.send(
            k204_reply(
                [celsius, None, None, None],
                hold=self.faults.has(Fault.HOLD),
                low_battery=self.faults.has(Fault.LOW_BATTERY),
            )
        )
