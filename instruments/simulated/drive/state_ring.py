"""The electrical and thermal state of the simulated drive, for its meters: a ring in a file.

The drive process appends one record a model tick (1 ms) to a ring in a memory-mapped file;
meters in other processes read means over any window from it. All sums are cumulative since
the start, so the mean over a window is a difference, exact for any aperture.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RAILS = ("12V", "3V3")

TICK = np.dtype(
    [
        ("t_ns", "<i8"),  # CLOCK_MONOTONIC at the end of the tick
        ("volt_seconds_12V", "<f8"),
        ("volt_seconds_3V3", "<f8"),
        ("coulombs_12V", "<f8"),
        ("coulombs_3V3", "<f8"),
        ("joules_12V", "<f8"),
        ("joules_3V3", "<f8"),
        ("celsius_composite", "<f8"),
        ("celsius_case", "<f8"),
        ("throttle_level", "<i8"),  # 0 none, 1 light, 2 heavy
        ("reads", "<i8"),  # completed operations since the start
        ("writes", "<i8"),
        ("read_bytes", "<i8"),
        ("written_bytes", "<i8"),
    ]
)
"""One tick. Sums are since the start of the bench; temperatures are at the tick."""

_HEADER = struct.Struct("<qq")  # records written so far, capacity
_HEADER_BYTES = 64


class StateWriter:
    """Owned by the drive process: appends ticks."""

    def __init__(self, path: Path, capacity: int = 1 << 17) -> None:
        size = _HEADER_BYTES + capacity * TICK.itemsize
        with path.open("wb") as file:
            file.truncate(size)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._capacity = capacity
        self._count = 0
        self._record = struct.Struct("<q8dq4q")
        _HEADER.pack_into(self._map, 0, 0, capacity)
        # one atomic store: pack_into writes zeros first, and a reader would see no ticks
        self._shown_count = memoryview(self._map)[:8].cast("q")

    def append(self, *values: float) -> None:
        """Append one tick; ``values`` in the order of :data:`TICK`."""
        offset = _HEADER_BYTES + (self._count % self._capacity) * TICK.itemsize
        self._record.pack_into(self._map, offset, *values)
        self._count += 1
        self._shown_count[0] = self._count

    def close(self) -> None:
        """Unmap the file (it stays for readers that still have it)."""
        self._shown_count.release()
        self._map.close()


class StateReader:
    """Owned by a meter: means over windows of CLOCK_MONOTONIC time."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._capacity = _HEADER.unpack_from(self._map, 0)[1]
        self._ring: NDArray[np.void] = np.frombuffer(
            self._map, dtype=TICK, offset=_HEADER_BYTES, count=self._capacity
        )

    @property
    def count(self) -> int:
        """Ticks written so far."""
        return int(_HEADER.unpack_from(self._map, 0)[0])

    def latest(self) -> np.void:
        """A copy of the newest tick. Waits for the first one."""
        while (count := self.count) == 0:
            time.sleep(0.001)
        newest: np.void = self._ring[(count - 1) % self._capacity].copy()
        return newest

    def at(self, field: str, t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Values of ``field`` at times ``t_ns``, linear between ticks.

        Waits (at most 1 s) until the drive has written past the last of them; beyond the
        newest tick a value is held. Times older than the ring give its oldest value.
        """
        deadline = time.monotonic() + 1.0
        last = int(t_ns[-1])
        while int(self.latest()["t_ns"]) < last and time.monotonic() < deadline:
            time.sleep(0.0005)
        count = self.count
        newest = count - 1
        span_ns = max(int(self._ring[newest % self._capacity]["t_ns"]) - int(t_ns[0]), 0)
        wanted = min(span_ns // 900_000 + 64, self._capacity - 256, count)
        index = np.arange(count - wanted, count) % self._capacity
        ticks = self._ring[index]
        values: NDArray[np.float64] = np.interp(
            t_ns, ticks["t_ns"], ticks[field].astype(np.float64)
        )
        return values

    def means(
        self, sum_field: str, begin_ns: NDArray[np.int64], end_ns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Mean rate of a cumulative field over each window [begin, end): volts, amps or watts."""
        edges = np.concatenate([begin_ns, end_ns])
        order = np.argsort(edges, kind="stable")
        sums = np.empty(len(edges))
        sums[order] = self.at(sum_field, edges[order])
        n = len(begin_ns)
        return (sums[n:] - sums[:n]) / ((end_ns - begin_ns) * 1e-9)


def replace_text(path: Path, text: str) -> None:
    """Put a new file with ``text`` in the place of the old one, at once."""
    replace_bytes(path, text.encode("ascii"))


def replace_bytes(path: Path, content: bytes) -> None:
    """Put a new file with ``content`` in the place of the old one, at once."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.replace(path)
