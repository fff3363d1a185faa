"""The simulated drive's true power, temperature and I/O, to compare results with.

No measurement reads it: the drive writes it, and tests and the demonstration compare it later.
Energies are sums, so a mean over any window is exact but for the interpolation inside a mark of
10 ms.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from instruments.simulated.drive.model import Burst, Tick
from instruments.simulated.drive.parameters import Parameters
from instruments.simulated.drive.state_ring import RAILS, TICK

DECIMATION: Final = 10
"""Model ticks (1 ms) to one recorded mark."""

_BURST = np.dtype([("begin_ns", "<i8"), ("end_ns", "<i8"), ("operations", "<i8")])


@dataclass(frozen=True, slots=True)
class TrueThrottling:
    """The drive was at ``level`` (1 light, 2 heavy) from ``begin_ns`` to ``end_ns``."""

    begin_ns: int
    end_ns: int
    level: int


class GroundTruthWriter:
    """Owned by the drive process: collects ticks, and writes them when flushed."""

    def __init__(self, directory: Path, parameters: Parameters, seed: int) -> None:
        directory.mkdir(parents=True)
        self._ticks = (directory / "ticks.bin").open("wb")
        self._bursts = (directory / "bursts.bin").open("wb")
        self._waiting: list[Tick] = []
        self._count = 0
        description = {
            "description": "truth of a simulated drive: never an input of labctl",
            "clock": {"monotonic_ns": time.monotonic_ns(), "wall_ns": time.time_ns()},
            "seed": seed,
            "parameters": parameters.model_dump(),
        }
        (directory / "truth.json").write_text(json.dumps(description, indent=1), encoding="utf-8")

    def append(self, tick: Tick) -> None:
        """Take a tick; every tenth is kept."""
        if self._count % DECIMATION == 0:
            self._waiting.append(tick)
        self._count += 1

    def flush(self, bursts: Sequence[Burst]) -> None:
        """Hand what was collected, and ``bursts`` that have ended, to the kernel."""
        ended = [(burst.begin_ns, burst.end_ns, burst.operations) for burst in bursts]
        count = len(self._waiting)  # another thread may append meanwhile
        waiting = self._waiting[:count]
        del self._waiting[:count]
        for file, rows, dtype in ((self._ticks, waiting, TICK), (self._bursts, ended, _BURST)):
            if rows:
                file.write(np.array(rows, dtype=dtype).tobytes())
                file.flush()

    def close(self) -> None:
        """Close the files."""
        self._ticks.close()
        self._bursts.close()


class GroundTruth:
    """The ground truth flushed so far. All times are nanoseconds of CLOCK_MONOTONIC."""

    def __init__(self, directory: Path) -> None:
        self.description: dict[str, object] = json.loads(
            (directory / "truth.json").read_text(encoding="utf-8")
        )
        self.parameters = Parameters.model_validate(self.description["parameters"])
        self.ticks: NDArray[np.void] = _ground_truth_records(directory / "ticks.bin", TICK)
        """Marks each 10 ms, as ``state_ring.TICK``."""
        self.bursts: tuple[Burst, ...] = tuple(
            Burst(*(int(value) for value in row))
            for row in _ground_truth_records(directory / "bursts.bin", _BURST)
        )
        """Ended bursts of I/O, oldest first."""

    @property
    def begin_ns(self) -> int:
        """Time of the first mark."""
        return int(self.ticks["t_ns"][0])

    @property
    def end_ns(self) -> int:
        """Time of the last mark."""
        return int(self.ticks["t_ns"][-1])

    def monotonic_ns(self, wall_ns: int) -> int:
        """The monotonic time of a wall clock time, if the wall clock was not stepped since."""
        clock = self.description["clock"]
        assert isinstance(clock, dict)
        return wall_ns - int(clock["wall_ns"]) + int(clock["monotonic_ns"])

    def joules(self, begin_ns: int, end_ns: int) -> dict[str, float]:
        """Energy of each rail in a window."""
        return {rail: self._increase(f"joules_{rail}", begin_ns, end_ns) for rail in RAILS}

    def mean_watts(self, begin_ns: int, end_ns: int) -> dict[str, float]:
        """Mean power of each rail over a window."""
        return self._means("joules", begin_ns, end_ns)

    def mean_volts(self, begin_ns: int, end_ns: int) -> dict[str, float]:
        """Mean voltage of each rail over a window."""
        return self._means("volt_seconds", begin_ns, end_ns)

    def mean_amps(self, begin_ns: int, end_ns: int) -> dict[str, float]:
        """Mean current of each rail over a window."""
        return self._means("coulombs", begin_ns, end_ns)

    def operations(self, begin_ns: int, end_ns: int) -> dict[str, float]:
        """Completed reads and writes in a window, and their bytes."""
        fields = ("reads", "writes", "read_bytes", "written_bytes")
        return {field: self._increase(field, begin_ns, end_ns) for field in fields}

    def celsius(self, t_ns: ArrayLike, sensor: str = "composite") -> NDArray[np.float64]:
        """Temperatures of a sensor (``composite`` or ``case``) at times."""
        return self._at(f"celsius_{sensor}", t_ns)

    def throttle_intervals(self) -> tuple[TrueThrottling, ...]:
        """When the drive throttled, to 10 ms; levels 1 and 2 are apart, one after the other."""
        times, levels = self.ticks["t_ns"], self.ticks["throttle_level"]
        if not len(levels):
            return ()
        edges = np.concatenate(([0], np.flatnonzero(np.diff(levels)) + 1, [len(levels) - 1]))
        return tuple(
            TrueThrottling(int(times[begin]), int(times[end]), int(levels[begin]))
            for begin, end in pairwise(edges)
            if levels[begin] > 0 and end > begin
        )

    def _means(self, sum_name: str, begin_ns: int, end_ns: int) -> dict[str, float]:
        seconds = (end_ns - begin_ns) * 1e-9
        return {
            rail: self._increase(f"{sum_name}_{rail}", begin_ns, end_ns) / seconds for rail in RAILS
        }

    def _increase(self, field: str, begin_ns: int, end_ns: int) -> float:
        before, after = self._at(field, [begin_ns, end_ns])
        return float(after - before)

    def _at(self, field: str, t_ns: ArrayLike) -> NDArray[np.float64]:
        wanted = np.asarray(t_ns, dtype=np.int64)
        if wanted.min() < self.begin_ns or wanted.max() > self.end_ns:
            raise ValueError(
                f"the truth is known from {self.begin_ns} to {self.end_ns} ns, "
                f"asked for {wanted.min()} to {wanted.max()}"
            )
        # Relative times: a float64 keeps no nanoseconds of a long uptime.
        times = (self.ticks["t_ns"] - self.begin_ns).astype(np.float64)
        values = self.ticks[field].astype(np.float64)
        return np.interp((wanted - self.begin_ns).astype(np.float64), times, values)


def _ground_truth_records(path: Path, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Whole records of a file that may still grow."""
    content = path.read_bytes()
    return np.frombuffer(content, dtype=dtype, count=len(content) // dtype.itemsize)
