"""How much of the processors of the drive's host other work took, sampled twice a second.

A drive does less when its host is short of processors, as it does when it is hot: IOPS and watts
fall together. Two counters of Linux separate the two causes: the time in which something
waited for a processor ("some" of ``/proc/pressure/cpu``, Documentation/accounting/psi.rst of the
kernel), and the ticks that other virtual machines took ("steal" of ``/proc/stat``, proc_stat(5)).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from instruments.reading import Block
from labctl.capture.host.alongside import alongside
from labctl.errors import JournalError
from labctl.record.journal import Journal
from labctl.record.layout import HOST_STOLEN, HOST_WAITING

PRESSURE = "/proc/pressure/cpu"
SAMPLE_EVERY_S = 0.5
_LATELY = re.compile(r"some avg10=(\d+\.\d+)")
_TOTAL = re.compile(r"\btotal=(\d+)")
_ALL_CORES = re.compile(r"(?:cpu +)?((?:\d+ ){7}\d+)")
_STEAL = 7
"""Column of /proc/stat; the columns behind it are contained in others."""


@dataclass(frozen=True, slots=True)
class LoadSample:
    """Both counters at a moment of the timebase; None where the host has none."""

    t_ns: int
    waiting_us: int | None
    stolen_ticks: int | None
    all_ticks: int

    @classmethod
    def parse(cls, t_ns: int, pressure: str, stat: str) -> Self:
        """From the first lines of ``/proc/pressure/cpu`` and ``/proc/stat``."""
        waiting = _TOTAL.search(pressure.partition("\n")[0])
        found = _ALL_CORES.match(stat)
        ticks = [int(column) for column in found[1].split()] if found else []
        return cls(
            t_ns=t_ns,
            waiting_us=int(waiting[1]) if waiting else None,
            stolen_ticks=ticks[_STEAL] if ticks else None,
            all_ticks=sum(ticks),
        )

    @property
    def has_counter(self) -> bool:
        """Whether the host has one of the counters."""
        return self.waiting_us is not None or self.stolen_ticks is not None

    def since(self, before: LoadSample) -> dict[str, float]:
        """The shares of the time since another sample, by channel; none for a counter that is
        missing or went back (the host was started anew)."""
        found: dict[str, float] = {}
        us = (self.t_ns - before.t_ns) / 1e3
        if self.waiting_us is not None and before.waiting_us is not None and us > 0:
            found[HOST_WAITING] = (self.waiting_us - before.waiting_us) / us
        ticks = self.all_ticks - before.all_ticks
        if self.stolen_ticks is not None and before.stolen_ticks is not None and ticks > 0:
            found[HOST_STOLEN] = (self.stolen_ticks - before.stolen_ticks) / ticks
        # A sample takes a moment, in which the counter goes on.
        return {name: min(share, 1.0) for name, share in found.items() if share >= 0}


AskLoad = Callable[[], Awaitable[LoadSample | None]]
"""Asks a host for both counters now; None while it is away."""


def load_waiting_share(pressure: str) -> float | None:
    """The share of the last ten seconds in which something waited for a processor, from
    ``/proc/pressure/cpu``; None when it is not there."""
    found = _LATELY.match(pressure)
    return float(found[1]) / 100 if found else None


@contextlib.asynccontextmanager
async def watching_load(sample: AskLoad, journal: Journal) -> AsyncIterator[None]:
    """Record the shares (channels ``HOST_WAITING`` and ``HOST_STOLEN``, each at the middle of its
    time) inside the ``async with``; nothing of a host without these counters."""
    async with alongside(_watch(sample, journal), "load-watch"):
        yield


async def _watch(sample: AskLoad, journal: Journal) -> None:
    before: LoadSample | None = None
    while True:
        now = await sample()
        if now is not None and not now.has_counter:
            return
        if now is not None and before is not None and now.t_ns > before.t_ns:
            middle_ns = np.array([(before.t_ns + now.t_ns) // 2], np.int64)
            for name, share in now.since(before).items():
                instrument, channel = name.split(".")
                with contextlib.suppress(JournalError):  # reported once, by the journal
                    journal.readings(instrument, Block(channel, middle_ns, np.array([share])))
        before = now
        await asyncio.sleep(SAMPLE_EVERY_S)
