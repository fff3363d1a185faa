"""A simulated meter at a serial port, on a pty."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tty
from collections.abc import Coroutine
from typing import Any

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
