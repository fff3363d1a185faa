"""Sample the busy time of each core of the drive's host where a phase begins and ends.

A sample is the file ``/proc/stat`` (proc_stat(5)): counters since the boot, by core. What a core
did in a phase is a difference of two samples, and made by the analysis
(:mod:`labctl.analysis.readings.cpu_use`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable

from labctl.capture.host.alongside import alongside
from labctl.capture.host.machine import Machine
from labctl.errors import LabctlError
from labctl.record.events import EventKind, OnEvent

STAT = "/proc/stat"
LAST_SAMPLE_WITHIN_S = 5.0
"""The end of a run waits this long for the last sample."""

_CORE = re.compile(r"^cpu(\d+)((?: \d+){4,})", re.MULTILINE)
_COLUMNS = 8
"""user, nice, system, idle, iowait, irq, softirq, steal; what follows is contained in these."""


def parse_cpu_times(text: str) -> dict[str, list[int]]:
    """Ticks of each core by its number: the first eight columns of its line; empty without any."""
    return {
        number: [int(ticks) for ticks in columns.split()[:_COLUMNS]]
        for number, columns in _CORE.findall(text)
    }


class CpuWatch:
    """Records the counters of all cores as ``cpu_times`` events: ``cores``, ``u_ns``.

    The time of an event is the middle of the sample, ``u_ns`` half of what it took.
    """

    def __init__(self, machine: Machine, now_ns: Callable[[], int], on_event: OnEvent) -> None:
        self._machine = machine
        self._now_ns = now_ns
        self._on_event = on_event
        self._wanted = asyncio.Event()

    def phase_boundary(self) -> None:
        """A phase began or ended: take a sample at once. Returns before that is done."""
        self._wanted.set()

    async def sample(self) -> None:
        """Take one sample; none where the host does not answer."""
        begin_ns = self._now_ns()
        with contextlib.suppress(LabctlError):  # recorded as host_lost
            texts = await asyncio.to_thread(self._machine.read_texts, [STAT])
            end_ns = self._now_ns()
            cores = parse_cpu_times(texts.get(STAT, ""))
            if cores:
                data = {"cores": cores, "u_ns": (end_ns - begin_ns + 1) // 2}
                self._on_event(EventKind.CPU_TIMES, (begin_ns + end_ns) // 2, data)

    async def run(self) -> None:
        """Sample at each boundary, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.sample()


@contextlib.asynccontextmanager
async def watching_cpu(
    machine: Machine, now_ns: Callable[[], int], on_event: OnEvent
) -> AsyncIterator[CpuWatch]:
    """Watch the cores of ``machine`` inside the ``async with``; the end takes one more sample."""
    watch = CpuWatch(machine, now_ns, on_event)
    try:
        async with alongside(watch.run(), "cpu-watch"):
            yield watch
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SAMPLE_WITHIN_S):
                await watch.sample()
