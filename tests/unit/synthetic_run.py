"""Runs made up from a known truth, written to disk as a real run is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruments.reading import Block, ClockPair
from labctl.record import journal
from labctl.record.header import ChannelInfo, DriveInfo, Header, HostPowerInfo, RailInfo
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.reader import RunRecord
from labctl.record.timebase import Anchor

Floats = NDArray[np.float64]
EPOCH_NS = 1_700_000_000_000_000_000
STEP_S = 1e-3
"""Resolution of the truth."""


@dataclass(frozen=True)
class Meter:
    """A meter and what is wrong with it. Errors are true errors, accuracies what it states."""

    rate_hz: float = 10.0
    duty: float = 0.8
    gain: float = 0.0
    offset: float = 0.0
    noise: float = 0.0
    of_reading: float = 0.0005
    floor: float = 0.0
    device_clock: bool = False
    clock_offset_s: float = 0.0
    drift_ppm: float = 0.0
    tick_s: float = 0.0
    lost: tuple[tuple[float, float], ...] = ()
    """Stretches (s since the run began) without readings."""
    never_asked: bool = False


@dataclass(frozen=True)
class Load:
    """One phase of the truth: amps of the rail 12V and 3V3, IOPS."""

    amps_12: float
    amps_3: float
    duration_s: float = 10.0
    iops: float = 0.0
    pattern: Pattern = Pattern.RANDREAD
    role: Role = Role.MEASURE
    shape: Callable[[Floats], Floats] | None = None
    """Factor on IOPS and on the amps above idle, of the time since the phase began (s)."""
    amps_follow: bool = True


@dataclass(frozen=True)
class Synthetic:
    """A finished run and its truth."""

    path: Path
    mean_watts: dict[int, float]
    rail_watts: dict[str, dict[int, float]]
    loads: tuple[Load, ...]
    begins_s: tuple[float, ...]

    @property
    def record(self) -> RunRecord:
        return RunRecord(self.path)


IDLE_AMPS = (0.25, 0.3)
IDLE = Load(*IDLE_AMPS, role=Role.IDLE_BEFORE, pattern=Pattern.IDLE)
WORK = (
    IDLE,
    Load(0.5, 0.6, iops=60_000),
    Load(0.6, 0.65, iops=110_000),
    Load(0.7, 0.7, iops=200_000),
    Load(0.8, 0.72, iops=300_000),
    replace(IDLE, role=Role.IDLE_AFTER),
)


@dataclass(frozen=True)
class Bench:
    """Everything that makes a run."""

    loads: Sequence[Load] = WORK
    seed: int = 0
    meters: dict[str, Meter] = field(default_factory=dict)
    """By channel: "v12.voltage", "i12.current", "v3.voltage", "i3.current"; default a good one."""
    gap_s: float = 0.015
    noise_pct: float = 2.0
    noise_s: float = 0.2
    iops_noise_pct: float = 1.5
    boundary_u_ns: int = 100_000
    celsius: Callable[[Floats], Floats] | None = None
    """°C of the time since the run began; sampled each second as drive.composite."""
    host_watts: Callable[[Floats], Floats] | None = None
    """Watts of the host, of the time since the run began; read each second as bmc.power."""
    warning_celsius: float | None = 80.0
    cut_off: bool = False
    events: Sequence[tuple[str, float, dict[str, Any]]] = ()
    shunt_ohm: float | None = None


def good_meter(name: str, rng: np.random.Generator, rate_hz: float = 10.0) -> Meter:
    """A meter with errors uniform within its stated limits, on a clock of its own."""
    volts = "voltage" in name
    of_reading, floor = (0.00035, 0.0005) if volts else (0.0005, 0.0006)
    return Meter(
        rate_hz=rate_hz * rng.uniform(0.97, 1.03),
        gain=rng.uniform(-of_reading, of_reading),
        offset=rng.uniform(-floor, floor),
        noise=1e-4,
        of_reading=of_reading,
        floor=floor,
        device_clock=True,
        clock_offset_s=rng.uniform(-5, 5),
        drift_ppm=rng.uniform(-50, 50),
        tick_s=float(rng.choice([0.0, 1e-3])),
    )


CHANNELS = {
    "v12.voltage": ("12V", True),
    "i12.current": ("12V", False),
    "v3.voltage": ("3V3", True),
    "i3.current": ("3V3", False),
}
NOMINAL = {"12V": 12.0, "3V3": 3.3}
SOURCE_OHM = 0.05


def build(root: Path, bench: Bench) -> Synthetic:
    """Write the run that the bench's truth gives."""
    rng = np.random.default_rng(bench.seed)
    begins, ends, clock = [], [], 2.0
    for load in bench.loads:
        begins.append(clock)
        ends.append(clock + load.duration_s)
        clock += load.duration_s + bench.gap_s
    total_s = clock + 3.0
    t = np.arange(0.0, total_s, STEP_S)
    amps = {"12V": np.full(len(t), IDLE_AMPS[0]), "3V3": np.full(len(t), IDLE_AMPS[1])}
    for load, begin, end in zip(bench.loads, begins, ends, strict=True):
        inside = slice(round(begin / STEP_S), round(end / STEP_S))
        shape = load.shape(t[inside] - begin) if load.shape and load.amps_follow else 1.0
        amps["12V"][inside] += (load.amps_12 - IDLE_AMPS[0]) * shape
        amps["3V3"][inside] += (load.amps_3 - IDLE_AMPS[1]) * shape
    volts = {}
    for rail in amps:
        amps[rail] = amps[rail] * (1 + bench.noise_pct / 100 * _dependent(rng, len(t), bench))
        volts[rail] = NOMINAL[rail] - SOURCE_OHM * amps[rail]
    truth: dict[str, dict[int, float]] = {rail: {} for rail in amps}
    for index, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        inside = slice(round(begin / STEP_S), round(end / STEP_S))
        for rail in amps:
            truth[rail][index] = float((amps[rail][inside] * volts[rail][inside]).mean())

    meters = {name: bench.meters.get(name, Meter()) for name in CHANNELS}
    path = journal.create(root, _header(bench, meters))
    times = iter(range(10**9))
    writer = journal.Journal(path, now_ns=lambda: EPOCH_NS + next(times))
    writer.event("run_started", EPOCH_NS)
    for name, (rail, is_volts) in CHANNELS.items():
        truth_values = volts[rail] if is_volts else amps[rail]
        if not is_volts and bench.shunt_ohm is not None:
            truth_values = truth_values * bench.shunt_ohm
        record_meter(writer, name, meters[name], truth_values, total_s, rng)
    _fio_and_events(writer, path, bench, begins, ends, rng)
    if bench.celsius is not None:
        seconds = np.arange(0.0, total_s, 1.0)
        celsius = np.round(bench.celsius(seconds) + rng.normal(0, 0.2, len(seconds)))
        writer.readings("drive", Block("composite", to_ns(seconds), celsius))
    if bench.host_watts is not None:
        seconds = np.arange(0.0, total_s, 1.0)
        writer.readings("bmc", Block("power", to_ns(seconds), bench.host_watts(seconds)))
    for kind, when, data in bench.events:
        writer.event(kind, EPOCH_NS + round(when * 1e9), **data)
    if not bench.cut_off:
        writer.event("run_ended", EPOCH_NS + round(total_s * 1e9), outcome="completed", reason="")
    writer.close()
    return Synthetic(
        path=path,
        mean_watts={i: sum(truth[rail][i] for rail in truth) for i in range(len(begins))},
        rail_watts=truth,
        loads=tuple(bench.loads),
        begins_s=tuple(begins),
    )


def _dependent(rng: np.random.Generator, n: int, bench: Bench) -> Floats:
    """Noise of unit variance that forgets over ``noise_s`` (first-order autoregressive)."""
    from scipy.signal import lfilter

    keep = float(np.exp(-STEP_S / bench.noise_s))
    white = rng.normal(0, np.sqrt(1 - keep**2), n)
    white[0] = rng.normal()
    result: Floats = lfilter([1.0], [1.0, -keep], white)
    return result


def to_ns(seconds: Floats) -> NDArray[np.int64]:
    return EPOCH_NS + np.rint(seconds * 1e9).astype(np.int64)


def _device_ns(meter: Meter, host_s: Floats) -> NDArray[np.int64]:
    """Where the device's clock stands at moments of the host."""
    device = (host_s - meter.clock_offset_s + 100.0) / (1 + meter.drift_ppm * 1e-6)
    return np.rint(device * 1e9).astype(np.int64)


def _shown(meter: Meter, host_s: Floats) -> NDArray[np.int64]:
    """What a look at the device's clock shows at moments of the host: cut to its tick."""
    ns = _device_ns(meter, host_s)
    tick = round(meter.tick_s * 1e9)
    return ns // tick * tick if tick else ns


def record_meter(
    writer: journal.Journal,
    name: str,
    meter: Meter,
    truth: Floats,
    total_s: float,
    rng: np.random.Generator,
) -> None:
    instrument, channel = name.split(".")
    interval = 1.0 / meter.rate_hz
    aperture = meter.duty * interval
    t = np.arange(rng.uniform(1, 2) * interval, total_s - 2 * interval, interval)
    sums = np.concatenate([[0.0], np.cumsum(truth)]) * STEP_S
    edges = np.arange(len(sums)) * STEP_S
    values = np.diff(
        np.interp(np.stack([t - aperture / 2, t + aperture / 2]), edges, sums), axis=0
    )[0]
    values = values / aperture * (1 + meter.gain) + meter.offset
    values = values + rng.normal(0, meter.noise, len(t)) if meter.noise else values
    for begin, end in meter.lost:
        keep = (t < begin) | (t > end)
        t, values = t[keep], values[keep]
    stamps = _device_ns(meter, t) if meter.device_clock else to_ns(t)
    writer.readings(instrument, Block(channel, stamps, values))
    if meter.device_clock and not meter.never_asked:
        asked = np.arange(0.3, total_s, 0.5) + rng.uniform(0, 0.1)
        trip = rng.uniform(0.0003, 0.003, len(asked)) + rng.exponential(0.001, len(asked))
        moment = asked + trip * rng.uniform(0, 1, len(asked))
        shown = _shown(meter, moment)
        host = to_ns(asked + trip)
        pairs = [
            ClockPair(channel, int(d), int(h), round(r * 1e9) + 1)
            for d, h, r in zip(shown, host, trip, strict=True)
        ]
        writer.clock_pairs(instrument, pairs)


def _header(bench: Bench, meters: dict[str, Meter]) -> Header:
    channels = []
    for name, (_, is_volts) in CHANNELS.items():
        meter = meters[name]
        channels.append(
            ChannelInfo(
                name=name,
                quantity="voltage" if is_volts or bench.shunt_ohm else "current",
                unit="V" if is_volts or bench.shunt_ohm else "A",
                clock="device" if meter.device_clock else "host",
                interval_s=1 / meter.rate_hz,
                aperture_s=meter.duty / meter.rate_hz,
                accuracy_of_reading=meter.of_reading,
                accuracy_floor=meter.floor,
                accuracy_source="made up",
                clock_tick_s=meter.tick_s,
            )
        )
    temperatures = {}
    if bench.celsius is not None:
        channels.append(
            ChannelInfo("drive.composite", "temperature", "°C", interval_s=1.0, aperture_s=0.0)
        )
        temperatures["composite"] = "drive.composite"
    host_power: tuple[HostPowerInfo, ...] = ()
    if bench.host_watts is not None:
        channels.append(
            ChannelInfo(
                "bmc.power", "power", "W", interval_s=1.0, accuracy_of_reading=0.01,
                accuracy_source="made up", time_u_s=0.5,
            )
        )  # fmt: skip
        host_power = (HostPowerInfo("bmc", "bmc.power", includes_drive=True),)
    return Header(
        run_id="2026-01-01T00-00-00Z_bench_made-up",
        rig_name="bench",
        plan_name="made-up",
        rig_text="",
        plan_text="",
        phases=tuple(_phase(index, load) for index, load in enumerate(bench.loads)),
        channels=tuple(channels),
        rails=(
            RailInfo("12V", 12.0, "v12.voltage", "i12.current", shunt_ohm=bench.shunt_ohm,
                     shunt_tolerance_pct=0.1 if bench.shunt_ohm else 0.0),
            RailInfo("3V3", 3.3, "v3.voltage", "i3.current", shunt_ohm=bench.shunt_ohm,
                     shunt_tolerance_pct=0.1 if bench.shunt_ohm else 0.0),
        ),
        temperatures=temperatures,
        host_power=host_power,
        drive=DriveInfo("made up", "S1", warning_celsius=bench.warning_celsius),
        anchor=Anchor(EPOCH_NS, 0, ""),
        versions={"labctl": "0.1.0"},
    )  # fmt: skip


def _phase(index: int, load: Load) -> Phase:
    idle = load.pattern is Pattern.IDLE
    return Phase(
        index=index,
        role=load.role,
        sweep="idle" if idle else "made up",
        pattern=load.pattern,
        duration_s=load.duration_s,
        block_size_bytes=0 if idle else 4096,
        queue_depth=0 if idle else 2**index,
        jobs=0 if idle else 1,
        read_pct=0 if load.pattern in (Pattern.WRITE, Pattern.RANDWRITE) else 100,
    )


def _fio_and_events(
    writer: journal.Journal,
    path: Path,
    bench: Bench,
    begins: list[float],
    ends: list[float],
    rng: np.random.Generator,
) -> None:
    record = RunRecord(path)
    for index, load in enumerate(bench.loads):
        begin, end = begins[index], ends[index]
        phase = record.header.phases[index]
        writer.event("phase_started", EPOCH_NS + round((begin - 0.005) * 1e9), index=index)
        if load.iops:
            side = "write" if phase.writes else "read"
            t = np.arange(0.25, load.duration_s - 0.25, 0.5)
            factor = load.shape(t) if load.shape else np.ones(len(t))
            noise = 1 + bench.iops_noise_pct / 100 * rng.normal(0, 1, len(t))
            iops = load.iops * factor * noise
            writer.readings("fio", Block(f"{side}.iops", to_ns(begin + t), iops))
            write_fio(record.fio_dir(phase), {side: float(iops.mean())}, load.duration_s)
        if bench.cut_off and index == len(bench.loads) - 1:
            return
        writer.event(
            "phase_ended",
            EPOCH_NS + round((end + 0.05) * 1e9),
            index=index,
            outcome="completed",
            begin_ns=EPOCH_NS + round(begin * 1e9),
            end_ns=EPOCH_NS + round(end * 1e9),
            boundary_u_ns=bench.boundary_u_ns,
            reason="",
        )


def write_fio(
    folder: Path, iops: Mapping[str, float], duration_s: float, block: int = 4096
) -> None:
    """What fio leaves of a phase; ``iops`` by side."""
    folder.mkdir(parents=True, exist_ok=True)
    job: dict[str, Any] = {
        "jobname": "phase",
        "error": 0,
        "job_runtime": round(duration_s * 1000),
    }
    for side, rate in iops.items():
        ios = round(rate * duration_s)
        job[side] = {
            "io_bytes": ios * block,
            "io_kbytes": ios * block // 1024,
            "total_ios": ios,
            "iops": rate,
            "runtime": round(duration_s * 1000),
            "lat_ns": {"max": 900_000, "mean": 80_000.0, "N": ios},
        }
    (folder / "stdout").write_text(json.dumps({"fio version": "fio-3.33", "jobs": [job]}, indent=2))
