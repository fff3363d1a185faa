"""Files as people have them, of a run of the simulated rig: a meter's CSV, and what fio printed.

The drive is the simulated one, its meters and fio are written as other programs write them, on
clocks that are off. What the drive drew is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruments.simulated.drive.parameters import load
from labctl.importing.guess import guess
from labctl.importing.mapping import Meter
from labctl.importing.rails import Given
from labctl.record.phase import Pattern
from tests.unit.virtual_bench import Driven, VirtualBench, Work, drive

BEGAN_MS = 1_700_000_000_000
"""When the simulated run began, by fio's clock."""

Floats = NDArray[np.float64]
READ_SWEEP = tuple(Work(Pattern.RANDREAD, 4.0, 4096, depth) for depth in (1, 2, 4, 8, 16, 32))


@dataclass(frozen=True)
class Clock:
    """A meter's clock: what it shows at a moment of fio's (both s since the Unix epoch)."""

    ahead_s: float = 0.0
    drift_ppm: float = 0.0

    def shown(self, t: Floats) -> Floats:
        return (t - BEGAN_MS / 1000) * (1 + self.drift_ppm * 1e-6) + self.ahead_s


@dataclass(frozen=True)
class Dialect:
    """How a program writes its table. ``time``: of seconds since ``BEGAN_MS``, its fields."""

    header: str = "Time (s),12V voltage (V),12V current (A),3V3 voltage (V),3V3 current (A)"
    delimiter: str = ","
    decimal: str = "."
    time: Callable[[float], list[str]] = lambda t: [f"{BEGAN_MS / 1000 + t:.6f}"]
    preamble: Sequence[str] = ()
    bom: bool = False
    encoding: str = "utf-8"
    quoted: bool = False
    milliamps: bool = False
    rails: Sequence[str] = ("12V", "3V3")
    watts: bool = False


def iso(zone_h: float = 0.0, suffix: str = "", form: str = "%Y-%m-%d %H:%M:%S.%f") -> Any:
    """Writes a time as a moment of a zone."""

    def write(t: float) -> list[str]:
        moment = datetime.fromtimestamp(BEGAN_MS / 1000, UTC) + timedelta(seconds=t, hours=zone_h)
        return (moment.strftime(form) + suffix).split("|")

    return write


def since_start(scale: float = 1.0) -> Any:
    return lambda t: [f"{(t + 5000.0) * scale:.6f}"]


SPREAD = {
    "1.000000": 0.52, "5.000000": 0.63, "10.000000": 0.70, "50.000000": 0.94, "90.000000": 1.37,
    "95.000000": 1.57, "99.000000": 2.10, "99.500000": 2.37, "99.900000": 3.13, "99.950000": 3.52,
    "99.990000": 4.60,
}  # fmt: skip
"""Percentiles of latencies, as parts of their mean: a log-normal distribution with a long tail."""


def latencies_ns(depth: int, runtime_ms: int, ios: int, *, table: bool = False) -> dict[str, Any]:
    """As fio prints them: the mean is what so many I/Os in flight make of the rate (Little)."""
    mean = depth * runtime_ms * 1e6 / ios if ios else 0.0
    found: dict[str, Any] = {
        "min": round(0.45 * mean), "max": round(6.2 * mean), "mean": round(mean, 3),
        "stddev": round(0.35 * mean, 3), "N": ios,
    }  # fmt: skip
    if table and ios:
        found["percentile"] = {name: round(part * mean) for name, part in SPREAD.items()}
    return found


@dataclass
class Bench:
    """What the drive did, and its meter: errors are true ones, within what it states."""

    driven: Driven
    works: Sequence[Work]
    rate_hz: float = 20.0
    gain: float = 0.0
    noise: float = 1e-4
    seed: int = 0
    duty: float = 1.0
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def true_watts(self, index: int) -> float:
        """What the drive drew in a phase, of those that fio did."""
        ticks, at = self.driven.ticks, self.io[index]
        piece = self.driven.begins_s[at], self.driven.ends_s[at]
        joules = ticks["joules_12V"] + ticks["joules_3V3"]
        spent = np.diff(np.interp(piece, ticks["t_ns"] * 1e-9, joules))[0]
        return float(spent) / (piece[1] - piece[0])

    @property
    def io(self) -> list[int]:
        return [i for i, work in enumerate(self.works) if work.pattern is not Pattern.IDLE]

    def readings(self) -> tuple[Floats, dict[str, Floats]]:
        """Times (s since the run began, the ends of the readings' windows), and each channel."""
        ticks = self.driven.ticks
        edges = ticks["t_ns"] * 1e-9
        interval = 1 / self.rate_hz
        t = np.arange(interval * (1 + self._rng.uniform()), edges[-1], interval)
        found = {}
        for rail in ("12V", "3V3"):
            for what, name in (("volt_seconds", "volts"), ("coulombs", "amps")):
                sums = np.cumsum(np.diff(ticks[f"{what}_{rail}"], prepend=0.0))
                window = interval * self.duty
                mean = (np.interp(t, edges, sums) - np.interp(t - window, edges, sums)) / window
                noise = self._rng.normal(0, self.noise, len(t))
                found[f"{rail} {name}"] = mean * (1 + self.gain) + noise
        return t, found

    def write_csv(
        self,
        file: Path,
        clock: Clock | None = None,
        dialect: Dialect | None = None,
        rows: Callable[[list[str]], list[str]] = lambda rows: rows,
    ) -> Path:
        """The meter's file. ``rows``: what becomes of its lines."""
        clock, dialect = clock or Clock(), dialect or Dialect()
        t, found = self.readings()
        shown = clock.shown(t + BEGAN_MS / 1000)
        columns = []
        for rail in dialect.rails:
            if dialect.watts:
                watts = found[f"{rail} volts"] * found[f"{rail} amps"]
                columns.append(watts / (1 + self.gain))
                continue
            columns.append(found[f"{rail} volts"])
            columns.append(found[f"{rail} amps"] * (1e3 if dialect.milliamps else 1.0))
        lines = []
        for row, at in enumerate(shown):
            fields = dialect.time(float(at))
            fields += [f"{column[row]:.6f}" for column in columns]
            if dialect.decimal == ",":
                fields = [one.replace(".", ",") if one.count(".") == 1 else one for one in fields]
            if dialect.quoted:
                fields = [f'"{one}"' for one in fields]
            lines.append(dialect.delimiter.join(fields))
        text = "\n".join([*dialect.preamble, dialect.header, *rows(lines)]) + "\n"
        data = text.encode(dialect.encoding)
        file.write_bytes((b"\xef\xbb\xbf" if dialect.bom else b"") + data)
        return file

    def job(self, index: int, start: bool, group: int = 0) -> dict[str, Any]:
        """One job as fio 3.39 (with ``start``) or 3.33 prints it."""
        at = self.io[index]
        work = self.works[at]
        begin, end = self.driven.begins_s[at], self.driven.ends_s[at]
        runtime = round((end - begin) * 1000)
        _, reads, writes = self.driven.statuses[at][-1]
        sides = {
            side: {
                "io_bytes": ios * work.block_bytes,
                "io_kbytes": ios * work.block_bytes // 1024,
                "total_ios": ios,
                "iops": ios * 1000 / runtime,
                "runtime": runtime if ios else 0,
                "lat_ns": latencies_ns(work.queue_depth, runtime, ios),
                "clat_ns": latencies_ns(work.queue_depth, runtime, ios, table=True),
            }
            for side, ios in (("read", reads), ("write", writes))
        }
        options = {
            "name": f"qd{work.queue_depth}",
            "rw": work.pattern.value,
            "bs": f"{work.block_bytes // 1024}k",
            "iodepth": str(work.queue_depth),
        }
        return {
            "jobname": options["name"],
            "groupid": group,
            **({"job_start": BEGAN_MS + round(begin * 1000)} if start else {}),
            "error": 0,
            "job options": options,
            **sides,
            "job_runtime": runtime,
        }

    def document(self, jobs: Sequence[int], start: bool, late_ms: int = 60) -> dict[str, Any]:
        """A document of these phases, printed a little after the last of them."""
        end_ms = BEGAN_MS + round(self.driven.ends_s[self.io[jobs[-1]]] * 1000) + late_ms
        return {
            "fio version": "fio-3.39" if start else "fio-3.33",
            "timestamp": end_ms // 1000,
            "timestamp_ms": end_ms,
            "jobs": [self.job(index, start, number) for number, index in enumerate(jobs)],
        }

    def write_fio(self, folder: Path, *, start: bool = True) -> Path:
        """One file a phase."""
        folder.mkdir(parents=True, exist_ok=True)
        for index in range(len(self.io)):
            text = json.dumps(self.document([index], start), indent=1)
            (folder / f"{index}.json").write_text(text + "\n")
        return folder

    def write_stonewalled(self, file: Path, *, start: bool = True) -> Path:
        """One file, of jobs that waited for each other."""
        text = json.dumps(self.document(range(len(self.io)), start), indent=1)
        file.write_text(text + "\n")
        return file


def bench(works: Sequence[Work] = READ_SWEEP, seed: int = 1, **meter: Any) -> Bench:
    """Let the simulated drive do the work; 3 s before and after it are idle."""
    return Bench(drive(load(), VirtualBench(works, seed=seed)), works, seed=seed, **meter)


def write_sample(folder: Path) -> None:
    """The files of docs/import.md: a meter whose clock is 3.4 s ahead and in a zone of its own, and
    what six fios printed."""
    folder.mkdir(parents=True, exist_ok=True)
    made = bench(rate_hz=10.0, gain=0.002, noise=5e-4)
    heading = "Timestamp,12V voltage (V),12V current (A),3V3 voltage (V),3V3 current (A)"
    dialect = Dialect(header=heading, time=iso(2, "", "%Y-%m-%d %H:%M:%S.%f"))
    made.write_csv(folder / "psu.csv", Clock(ahead_s=3.4), dialect)
    made.write_fio(folder / "sweep")


def meter_of(file: Path) -> Meter:
    """What its columns are, as ``labctl import`` guesses."""
    return guess(file, Given(accuracy_pct=0.5)).meter
