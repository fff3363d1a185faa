"""Runs made up quickly, on disk as real ones are, that can grow while they are followed; and the
points that they must give, computed here in the plainest way."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labctl.record import journal
from labctl.record.header import ChannelInfo, DriveInfo, Header, RailInfo
from labctl.record.layout import CHANNELS_DIR, CLOCK_PAIR, EVENTS_FILE, READING
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.timebase import Anchor
from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.follower import Follower
from labctl.sinks.influxdb.line_protocol import line, lines
from labctl.sinks.sink import Slice
from tests.servers.influx_lines import Stored, stored_by

EPOCH_NS = 1_700_000_000_000_000_000
S = 1_000_000_000
MADE_UP_DRIVE = DriveInfo("made up", "S1", warning_celsius=80.0)


@dataclass
class Meter:
    """A channel: readings each ``1 / rate_hz`` from ``begin_s`` on, on the host's clock or its own.

    ``restarts_s``: its clock begins a new epoch there. ``session_s``: there another process goes
    on with the recording. ``lost`` are stretches without readings.
    """

    rate_hz: float = 10.0
    begin_s: float = 0.05
    end_s: float = 1e9
    level: float = 1.0
    device: bool = False
    offset_s: float = 3.0
    drift_ppm: float = 40.0
    restart_s: float | None = None
    session_s: float | None = None
    lost: tuple[tuple[float, float], ...] = ()


def default_meters() -> dict[str, Meter]:
    return {
        "v12.voltage": Meter(5.0, level=12.0),
        "i12.voltage": Meter(50.0, level=0.05, device=True),
        "v3.voltage": Meter(2.0, level=3.3, begin_s=0.3),
        "i3.current": Meter(20.0, level=0.7, device=True, offset_s=-2.0, drift_ppm=-30.0),
        "drive.composite": Meter(1.0, level=50.0, begin_s=0.4),
        "fio.read.iops": Meter(2.0, level=1e5, begin_s=1.0),
        "fio.read.bytes_per_s": Meter(2.0, level=4e8, begin_s=1.0),
        "fio.read.latency_mean_us": Meter(2.0, level=80.0, begin_s=1.0),
    }


@dataclass
class MadeRun:
    """A run of ``seconds``; :meth:`grow` writes it up to a moment."""

    root: Path
    seconds: float = 12.0
    meters: dict[str, Meter] = field(default_factory=default_meters)
    rig: str = "bench"
    drive: DriveInfo = MADE_UP_DRIVE
    run_id: str = "20260101T000000Z_bench_made-up"
    rails: tuple[RailInfo, ...] = (
        RailInfo("12V", 12.0, "v12.voltage", "i12.voltage", shunt_ohm=0.1),
        RailInfo("3V3", 3.3, "v3.voltage", "i3.current"),
    )
    sensor: str = "composite"
    rig_text: str = ""
    more_events: tuple[tuple[float, str, dict[str, Any]], ...] = ()
    ends: bool = True
    phases: tuple[Phase, ...] | None = None
    """None: an idle one and a measured one, each half of the run."""
    epoch_ns: int = EPOCH_NS
    seed: int = 1

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.path = journal.create(self.root, self._header())
        self.data = {name: self._readings(meter, rng) for name, meter in self.meters.items()}
        self.events = sorted(self._events(), key=lambda event: event[0])
        self._done: dict[str, int] = {}

    def _header(self) -> Header:
        infos = tuple(
            ChannelInfo(
                name,
                "temperature" if "drive" in name else "voltage",
                "V",
                clock="device" if meter.device else "host",
                interval_s=1 / meter.rate_hz,
            )
            for name, meter in self.meters.items()
            if not name.startswith("fio.")
        )
        middle = max(self.seconds / 2, 1.0)
        two = (
            Phase(0, Role.IDLE_BEFORE, "idle", Pattern.IDLE, middle),
            Phase(1, Role.MEASURE, "s", Pattern.RANDREAD, middle, 4096, 32, 1),
        )
        return Header(
            run_id=self.run_id,
            rig_name=self.rig,
            plan_name="made-up",
            rig_text=self.rig_text,
            plan_text="",
            phases=two if self.phases is None else self.phases,
            channels=infos,
            rails=self.rails,
            temperatures={self.sensor: "drive.composite"}
            if "drive.composite" in self.meters
            else {},
            drive=self.drive,
            anchor=Anchor(self.epoch_ns, 0, ""),
            versions={"labctl": "0"},
        )

    def _readings(self, meter: Meter, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        t = np.arange(meter.begin_s, min(self.seconds, meter.end_s), 1 / meter.rate_hz)
        for begin, end in meter.lost:
            t = t[(t < begin) | (t > end)]
        values = np.round(meter.level * (1 + 0.05 * rng.normal(size=len(t))), 7)
        host = self.epoch_ns + np.rint(t * S).astype(np.int64)
        readings = np.empty(len(t), READING)
        readings["t"], readings["v"] = host, values
        pairs = np.empty(0, CLOCK_PAIR)
        sampled_s = np.empty(0)
        if meter.device:
            readings["t"] = self._device(meter, t)
            sampled_s = np.arange(0.02, self.seconds, 0.5)
            trip = rng.uniform(0.0002, 0.001, len(sampled_s))
            pairs = np.empty(len(sampled_s), CLOCK_PAIR)
            pairs["device_ns"] = self._device(meter, sampled_s + trip * 0.4)
            pairs["host_ns"] = self.epoch_ns + np.rint((sampled_s + trip) * S).astype(np.int64)
            pairs["round_trip_ns"] = np.rint(trip * S).astype(np.int64)
        return {"t": t, "host": host, "readings": readings, "sampled_s": sampled_s, "pairs": pairs}

    @staticmethod
    def _device(meter: Meter, t: NDArray[np.float64]) -> NDArray[np.int64]:
        device = np.rint((t + 100 + meter.offset_s) / (1 + meter.drift_ppm * 1e-6) * S)
        result = device.astype(np.int64)
        if meter.restart_s is not None:
            after = t >= meter.restart_s
            result[after] = 10**15 + np.rint((t[after] - meter.restart_s + 1) * S).astype(np.int64)
        if meter.session_s is not None:
            after = t >= meter.session_s
            result[after] = np.rint((t[after] - meter.session_s + 2) * S).astype(np.int64)
        return result

    def _events(self) -> list[tuple[float, str, dict[str, Any]]]:
        middle, end = self.seconds / 2, self.seconds - 0.5
        at = self.epoch_ns

        def ended(index: int, begin: float, stop: float) -> tuple[float, str, dict[str, Any]]:
            return (
                stop + 0.05,
                "phase_ended",
                {
                    "index": index,
                    "outcome": "completed",
                    "reason": "",
                    "begin_ns": at + round(begin * S),
                    "end_ns": at + round(stop * S),
                    "boundary_u_ns": 1_000_000,
                },
            )

        of_two = [
            (0.5, "phase_started", {"index": 0}),
            ended(0, 0.5, middle),
            (middle + 0.01, "phase_started", {"index": 1}),
            ended(1, middle + 0.01, end),
        ]
        events = [(0.0, "run_started", {}), *self.more_events]
        if self.phases is None:
            events += of_two
        if self.ends:
            events.append((self.seconds, "run_ended", {"outcome": "completed", "reason": ""}))
        return events

    def grow(self, to_s: float, late: dict[str, float] | None = None) -> None:
        """Write everything up to a moment; ``late`` channels only up to so much before it."""
        with (self.path / EVENTS_FILE).open("a") as file:
            begin = self._done.get("events", 0)
            for when, kind, data in self.events[begin:]:
                if when > to_s:
                    break
                stamp = self.epoch_ns + round(when * S)
                file.write(json.dumps({"t": stamp, "kind": kind, **data}) + "\n")
                self._done["events"] = self._done.get("events", 0) + 1
        for name, data in self.data.items():
            until = to_s - (late or {}).get(name, 0.0)
            folder = self.path / CHANNELS_DIR
            self._append(folder / f"{name}.clock", data["sampled_s"], data["pairs"], until)
            self._append(folder / name, data["t"], data["readings"], until)

    def _append(self, file: Path, t: NDArray[Any], rows: NDArray[Any], until: float) -> None:
        begin = self._done.get(file.name, 0)
        end = max(int(np.searchsorted(t, until, side="right")), begin)
        if end > begin:
            with file.open("ab") as stream:
                stream.write(rows[begin:end].tobytes())
            self._done[file.name] = end

    def whole(self) -> MadeRun:
        """All of it."""
        self.grow(1e9)
        return self


def text_of(part: Slice) -> Iterable[str]:
    """The lines of a slice."""
    for point in part.points:
        text = line(point)
        if text is not None:
            yield text
    for series in part.series:
        yield from lines(series)


def drained(follower: Follower, now_ns: int | None = None) -> list[str]:
    """The lines of everything that a follower gives now."""
    found: list[str] = []
    while (part := follower.advance(now_ns)) is not None:
        found += text_of(part)
    return found


def points_of(path: Path, bin_ns: int = S) -> Stored:
    """What a database must hold when a run was sent from its start."""
    return stored_by(drained(Follower(path, Cursor(bin_ns=bin_ns))))
