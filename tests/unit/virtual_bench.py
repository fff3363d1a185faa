"""The simulated drive on a virtual clock, with the load, the meters and the host around it.

The model is the bench's own (:mod:`instruments.simulated.drive.model`); what fio, the meters, the
drive's sensor and its counters would have shown of it is written as a run, ten to fifty times
faster than it would take. What the drive really did is kept beside it.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruments.reading import Block
from instruments.simulated.drive.model import TICK_NS, DriveModel
from instruments.simulated.drive.parameters import Parameters, load
from instruments.simulated.drive.state_ring import TICK
from labctl.capture.drive.smart_watch import EVERY_S
from labctl.record import journal
from labctl.record.header import ChannelInfo, DriveInfo, Header, RailInfo
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.reader import RunRecord
from labctl.record.timebase import Anchor
from tests.unit.synthetic_run import (
    CHANNELS,
    EPOCH_NS,
    NOMINAL,
    Meter,
    record_meter,
    to_ns,
    write_fio,
)

Floats = NDArray[np.float64]
GAP_S = 0.015
LEAD_S = 3.0
TAIL_S = 3.0
SPAN_BYTES = 16 << 30


@dataclass(frozen=True)
class Work:
    """One phase of the load."""

    pattern: Pattern
    duration_s: float
    block_bytes: int = 4096
    queue_depth: int = 32
    read_pct: int = 100
    stall: tuple[float, float] | None = None
    """The host stands still: from when in the phase, for how long (s)."""
    role: Role = Role.MEASURE


IDLE = Work(Pattern.IDLE, 4.0, 0, 0, 0, role=Role.IDLE_BEFORE)


@dataclass(frozen=True)
class Stretch:
    """A stretch of the truth, s since the run began."""

    begin_s: float
    end_s: float
    cause: str
    phase_index: int
    shows: bool = True
    """Whether IOPS fell with it: not when the phase began in it, or when something else limits."""

    @property
    def duration_s(self) -> float:
        return self.end_s - self.begin_s


@dataclass(frozen=True)
class VirtualBench:
    """All that makes a run. ``warning_celsius``: what the drive says its WCTEMP is."""

    works: Sequence[Work]
    overrides: Mapping[str, object] = field(default_factory=dict)
    seed: int = 1
    meters: Mapping[str, Meter] = field(default_factory=dict)
    counters: bool = False
    """Whether the drive counts its throttling; read as :mod:`labctl.capture.drive.smart_watch`
    does."""
    status_jitter_s: float = 0.01
    celsius_every_s: float = 1.0
    celsius_step: float = 1.0
    """What the sensor rounds to."""
    sensor: bool = True
    """Whether the drive's temperature is recorded at all."""
    names_warning: bool = True
    """Whether the drive says what its WCTEMP is."""
    above_warmest: float | None = None
    """WCTEMP is this far above the warmest that the drive got (and not what the model says)."""


@dataclass
class Driven:
    """What the drive did: marks each ms, phases, and statuses (time, reads, writes) of each."""

    ticks: NDArray[np.void]
    flags: NDArray[np.bool_]
    """Columns: throttled, cache full, in a dip, spare blocks used up."""
    begins_s: list[float]
    ends_s: list[float]
    statuses: list[list[tuple[float, int, int]]]
    counters: list[tuple[float, dict[str, int]]]
    """Samples of the counters: s since the run began, and their values."""


@dataclass(frozen=True)
class VirtualRun:
    """A finished run and its truth."""

    path: Path
    truth: tuple[Stretch, ...]
    driven: Driven
    works: tuple[Work, ...]

    @property
    def record(self) -> RunRecord:
        return RunRecord(self.path)

    def mean_watts(self, pieces: Sequence[tuple[float, float]]) -> float:
        """The true mean over stretches (s since the run began)."""
        ticks = self.driven.ticks
        t = ticks["t_ns"] * 1e-9
        joules = ticks["joules_12V"] + ticks["joules_3V3"]
        spent = sum(float(np.diff(np.interp(piece, t, joules))[0]) for piece in pieces)
        return spent / sum(end - begin for begin, end in pieces)


def drive(parameters: Parameters, bench: VirtualBench) -> Driven:
    """Let the model do the load's I/O on a virtual clock."""
    ssd = DriveModel(parameters, bench.seed, 0)
    rng = random.Random(bench.seed)
    ticks: list[tuple[float, ...]] = []
    flags: list[tuple[bool, bool, bool, bool]] = []
    driven = Driven(np.empty(0), np.empty(0), [], [], [], [])

    def tick() -> None:
        ticks.append(ssd.tick())
        flags.append((ssd.throttle_level > 0, ssd.cache_is_full, ssd.is_in_dip, ssd.is_steady))
        if ssd.t_ns * 1e-9 - driven.counters[-1][0] >= EVERY_S:
            count()

    def count() -> None:
        seen = {
            f"thm_temp{level}_{what}": value
            for level in (1, 2)
            for what, value in (
                ("trans_count", ssd.transitions[level]),
                ("total_time", round(ssd.level_ns[level] * 1e-9)),
            )
        }
        driven.counters.append((ssd.t_ns * 1e-9, seen))

    def rest(seconds: float) -> None:
        for _ in range(round(seconds * 1000)):
            tick()

    count()
    rest(LEAD_S)
    for work in bench.works:
        count()
        begin_ns = ssd.t_ns
        if work.pattern is Pattern.IDLE:
            rest(work.duration_s)
            driven.statuses.append([])
        else:
            driven.statuses.append(_work(ssd, work, rng, tick, bench.status_jitter_s))
        driven.begins_s.append(begin_ns * 1e-9)
        driven.ends_s.append(ssd.t_ns * 1e-9)
        rest(GAP_S)
    rest(TAIL_S)
    count()
    driven.ticks, driven.flags = np.array(ticks, dtype=TICK), np.array(flags)
    return driven


def _work(
    ssd: DriveModel, work: Work, rng: random.Random, tick: Any, jitter_s: float
) -> list[tuple[float, int, int]]:
    """Keep the queue full for the time of the phase; fio's statuses."""
    begin_ns = ssd.t_ns
    end_ns = begin_ns + round(work.duration_s * 1e9)
    stall_ns = (end_ns, end_ns)
    if work.stall is not None:
        at, lasts = work.stall
        stall_ns = (begin_ns + round(at * 1e9), begin_ns + round((at + lasts) * 1e9))
    reports = _report_times(begin_ns, end_ns, stall_ns, rng, jitter_s)
    report_ns = next(reports)
    statuses: list[tuple[float, int, int]] = []
    sequential = work.pattern in (Pattern.READ, Pattern.WRITE)
    block, position = work.block_bytes, 0
    blocks = SPAN_BYTES // block
    due: list[tuple[int, int]] = []
    reads = writes = 0

    def submit(now: int) -> None:
        nonlocal position
        if sequential:
            offset = position
            position = (position + block) % (blocks * block)
        else:
            offset = int(rng.random() * blocks) * block
        reading = work.read_pct == 100 or (work.read_pct > 0 and rng.random() * 100 < work.read_pct)
        call = ssd.submit_read if reading else ssd.submit_write
        heapq.heappush(due, call(now, offset, block))

    for _ in range(work.queue_depth):
        submit(begin_ns)
    held = 0
    while due or held:
        if held and (not due or due[0][0] >= stall_ns[1]):
            while ssd.t_ns + TICK_NS <= stall_ns[1]:
                tick()
            for _ in range(held):
                submit(stall_ns[1])
            held = 0
        now, kind = heapq.heappop(due)
        while ssd.t_ns + TICK_NS <= now:
            tick()
        while report_ns <= now:
            statuses.append((report_ns * 1e-9, reads, writes))
            report_ns = next(reports)
        ssd.complete(kind, block, now)
        if kind < 2:
            reads += 1
        else:
            writes += 1
        if stall_ns[0] <= now < stall_ns[1]:
            held += 1
        elif now < end_ns:
            submit(now)
    while ssd.t_ns < end_ns:
        tick()
    statuses.append((ssd.t_ns * 1e-9, reads, writes))
    return statuses


def _report_times(
    begin_ns: int, end_ns: int, stall_ns: tuple[int, int], rng: random.Random, jitter_s: float
) -> Iterator[int]:
    """When fio reports: each 0.5 s, a little late, and not while the host stands still."""
    moment = begin_ns + 500_000_000
    while moment < end_ns - 300_000_000:
        late = moment + round(rng.expovariate(1 / jitter_s) * 1e9) if jitter_s else moment
        if not stall_ns[0] <= late < stall_ns[1]:
            yield late
        moment += 500_000_000
    while True:
        yield 1 << 62


def build(root: Path, bench: VirtualBench) -> VirtualRun:
    """Carry the load out and write the run."""
    parameters = load(overrides=bench.overrides)
    driven = drive(parameters, bench)
    rng = np.random.default_rng(bench.seed)
    total_s = len(driven.ticks) * 1e-3
    warning: float | None = parameters.thermal.warning_celsius
    if bench.above_warmest is not None:
        warning = float(driven.ticks["celsius_composite"].max()) + bench.above_warmest
    if not bench.names_warning:
        warning = None
    meters = {name: bench.meters.get(name, Meter()) for name in CHANNELS}
    stalls = tuple(
        (begin + work.stall[0], begin + sum(work.stall))
        for begin, work in zip(driven.begins_s, bench.works, strict=True)
        if work.stall is not None
    )
    path = journal.create(root, _header(bench, meters, warning))
    times = itertools.count(EPOCH_NS)
    writer = journal.Journal(path, now_ns=lambda: next(times))
    writer.event("run_started", EPOCH_NS)
    for name, (rail, is_volts) in CHANNELS.items():
        sums = driven.ticks[f"{'volt_seconds' if is_volts else 'coulombs'}_{rail}"]
        meter = meters[name]
        if not meter.device_clock:
            meter = replace(meter, lost=meter.lost + stalls)
        record_meter(writer, name, meter, np.diff(sums, prepend=0.0) / 1e-3, total_s, rng)
    if bench.sensor:
        seconds = np.arange(0.2, total_s, bench.celsius_every_s)
        for begin, end in stalls:
            seconds = seconds[(seconds < begin) | (seconds > end)]
        celsius = np.interp(seconds, driven.ticks["t_ns"] * 1e-9, driven.ticks["celsius_composite"])
        shown = np.floor(celsius / bench.celsius_step + 0.5) * bench.celsius_step
        writer.readings("drive", Block("composite", to_ns(seconds), shown))
    for index, (work, phase) in enumerate(zip(bench.works, _phases(bench), strict=True)):
        _phase(writer, path, driven, index, work, phase)
    _counters(writer, driven, bench.counters)
    writer.event("run_ended", EPOCH_NS + round(total_s * 1e9), outcome="completed", reason="")
    writer.close()
    return VirtualRun(path, _truth(driven, bench), driven, tuple(bench.works))


def _phase(
    writer: journal.Journal, path: Path, driven: Driven, index: int, work: Work, phase: Phase
) -> None:
    begin, end = driven.begins_s[index], driven.ends_s[index]
    writer.event("phase_started", EPOCH_NS + round((begin - 0.005) * 1e9), index=index)
    statuses = np.array([(begin, 0, 0), *driven.statuses[index]], dtype=np.float64)
    if len(statuses) > 1:
        t = statuses[:, 0]
        rates = np.diff(statuses[:, 1:], axis=0) / np.diff(t)[:, None]
        middles = to_ns((t[1:] + t[:-1]) / 2)
        iops = {}
        for column, side in enumerate(("read", "write")):
            if statuses[-1, 1 + column]:
                writer.readings("fio", Block(f"{side}.iops", middles, rates[:, column]))
                iops[side] = float(statuses[-1, 1 + column]) / (end - begin)
        write_fio(RunRecord(path).fio_dir(phase), iops, end - begin, work.block_bytes)
    writer.event(
        "phase_ended",
        EPOCH_NS + round((end + 0.01) * 1e9),
        index=index,
        outcome="completed",
        begin_ns=EPOCH_NS + round(begin * 1e9),
        end_ns=EPOCH_NS + round(end * 1e9),
        boundary_u_ns=500_000,
        reason="",
    )


def _counters(writer: journal.Journal, driven: Driven, counts: bool) -> None:
    """Everything before and after the run, and in between what moved since the sample before."""
    samples = [
        (EPOCH_NS + round(when * 1e9), seen if counts else dict.fromkeys(seen, 0))
        for when, seen in driven.counters
    ]
    writer.event("drive_state", samples[0][0], when="before", smart=samples[0][1])
    for (since_ns, before), (t_ns, now) in itertools.pairwise(samples):
        moved = {name: [before[name], now[name]] for name in now if now[name] != before[name]}
        if moved:
            change = {"since_ns": since_ns, "moved": moved, "counters": now}
            writer.event("drive_counters", t_ns, **change)
    writer.event("drive_state", samples[-1][0], when="after", smart=samples[-1][1])


def _truth(driven: Driven, bench: VirtualBench) -> tuple[Stretch, ...]:
    """What slowed the drive down in each phase that worked, and when."""
    t = driven.ticks["t_ns"] * 1e-9
    found = []
    for index, work in enumerate(bench.works):
        if work.pattern is Pattern.IDLE:
            continue
        begin, end = driven.begins_s[index], driven.ends_s[index]
        low, high = np.searchsorted(t, [begin, end])
        throttled, full, dip, steady = driven.flags[low:high].T
        writes = np.full(high - low, work.read_pct < 100)
        done = driven.ticks["reads"][low:high] + driven.ticks["writes"][low:high]
        for cause, flag in (
            ("thermal", throttled),
            ("write_cache", full & writes),
            ("garbage_collection", dip & writes),
            ("steady_state", steady & writes & (work.pattern is not Pattern.WRITE)),
        ):
            edges = np.flatnonzero(np.diff(np.concatenate([[0], flag.astype(int), [0]])))
            for a, b in edges.reshape(-1, 2):
                shows = cause == "thermal" or _fell(t[low:high], done, int(a))
                stretch = Stretch(float(t[low + a]), float(t[low + b - 1]), cause, index, shows)
                found.append(stretch)
        if work.stall is not None:
            at = begin + work.stall[0]
            found.append(Stretch(at, at + work.stall[1], "host_stall", index))
    return tuple(sorted(found, key=lambda one: one.begin_s))


def _fell(t: Floats, done: Floats, at: int) -> bool:
    """Whether clearly less was done in the 1.5 s after a moment than in those before it."""
    if t[at] - t[0] < 1.0:
        return False
    edges = [max(t[at] - 1.6, t[0]), t[at] - 0.1, t[at] + 0.1, t[at] + 1.6]
    before, _, after = np.diff(np.interp(edges, t, done)) / np.diff(edges)
    return bool(after < 0.88 * before)


def _phases(bench: VirtualBench) -> tuple[Phase, ...]:
    return tuple(
        Phase(
            index=index,
            role=work.role,
            sweep="made up",
            pattern=work.pattern,
            duration_s=work.duration_s,
            block_size_bytes=work.block_bytes,
            queue_depth=work.queue_depth,
            jobs=min(work.queue_depth, 1),
            read_pct=work.read_pct,
        )
        for index, work in enumerate(bench.works)
    )


def _header(bench: VirtualBench, meters: Mapping[str, Meter], warning: float | None) -> Header:
    channels = [
        ChannelInfo(
            name=name,
            quantity="voltage" if is_volts else "current",
            unit="V" if is_volts else "A",
            clock="device" if meters[name].device_clock else "host",
            interval_s=1 / meters[name].rate_hz,
            aperture_s=meters[name].duty / meters[name].rate_hz,
            accuracy_of_reading=meters[name].of_reading,
            accuracy_floor=meters[name].floor,
            accuracy_source="made up",
            clock_tick_s=meters[name].tick_s,
        )
        for name, (_, is_volts) in CHANNELS.items()
    ]
    if bench.sensor:
        every_s = bench.celsius_every_s
        channels.append(
            ChannelInfo("drive.composite", "temperature", "°C", interval_s=every_s, aperture_s=0.0)
        )
    return Header(
        run_id="2026-01-01T00-00-00Z_bench_virtual",
        rig_name="bench",
        plan_name="virtual",
        rig_text="",
        plan_text="",
        phases=_phases(bench),
        channels=tuple(channels),
        rails=tuple(RailInfo(rail, volts, *_channels_of(rail)) for rail, volts in NOMINAL.items()),
        temperatures={"composite": "drive.composite"} if bench.sensor else {},
        drive=DriveInfo("virtual", "S1", warning_celsius=warning),
        anchor=Anchor(EPOCH_NS, 0, ""),
        versions={"labctl": "0.1.0"},
    )


def _channels_of(rail: str) -> tuple[str, str]:
    """The voltage and the current channel of a rail."""
    names = {is_volts: name for name, (of, is_volts) in CHANNELS.items() if of == rail}
    return names[True], names[False]
