"""The simulated drive and meters in a time of their own: hours of a plan in minutes.

Drive and meters' errors are those of the simulated rig; its clock is not this machine's. fio is a
closed loop of requests, and every meter's clock is the host's. What a point's end depends on
(labctl's live watts and points) and what makes the results (labctl's journal and analysis) are the
program's own.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from instruments.driver_kit import specifications
from instruments.reading import Batch, Block
from instruments.simulated.bench import DEFAULT_METERS, Bench, BenchConfig
from instruments.simulated.drive.model import TICK_NS, DriveModel, Tick
from instruments.simulated.drive.parameters import load
from instruments.simulated.drive.state_ring import TICK
from instruments.simulated.meter_kit.config import MeterConfig
from instruments.simulated.meter_kit.parts import SHARE_OF_LIMITS, rng_of, true_shunt_ohm
from instruments.simulated.meter_kit.probe import Errors
from labctl.capture.meters.live_watts import LiveWatts
from labctl.capture.phases.early_end import ENDS_ANYHOW_S
from labctl.capture.phases.sampling import SAMPLE_EVERY_S
from labctl.capture.run.live_points import LivePoints
from labctl.config.rig import Rig, load_rig
from labctl.record.drive_state import DriveState
from labctl.record.phase import Pattern, Phase
from labctl.record.point_end import PointState

Floats = NDArray[np.float64]

BEGAN_NS = 1_760_000_000_000_000_000
CHUNK_TICKS = round(SAMPLE_EVERY_S * 1e9) // TICK_NS
"""As often as labctl looks at a point, and fio says what it did."""
NOISE = 3e-6
"""Standard deviation of a meter's readings, of its range; the simulated meters have it, too."""
HELD_S = 0.4
"""From when a point is good enough until the fio of the next one is ready, on the real program."""
SIX_DIGITS = tuple(
    meter
    if meter.name != "v33"
    else MeterConfig(
        name="v33", kind="sdm3065x", point="3V3.voltage",
        settings={"model": "SDM3065X", "function": "voltage", "range": 20.0, "nplc": 1.0,
                  "interval_s": 0.1},
    )
    for meter in DEFAULT_METERS
    if meter.name != "thermocouple"
)  # fmt: skip
"""Volts and amps of both rails with six digits, the 12 V current across a shunt of 0.1 %."""


def six_digit_rig(folder: Path, seed: int) -> Rig:
    """The rig of those meters, as a started bench writes it."""
    with Bench(folder / f"bench-{seed}", BenchConfig(seed=seed, meters=SIX_DIGITS)) as bench:
        return load_rig(bench.rig)


class Host:
    """What fio asks of a drive in a phase: as many requests in flight as the queue is deep."""

    def __init__(self, model: DriveModel, seed: int) -> None:
        self.model = model
        self._rng = np.random.default_rng([seed, 2])
        self._due: list[tuple[int, int, int, int]] = []
        self._order = 0
        self._next: Callable[[], tuple[bool, int, int]] | None = None

    def begin(self, phase: Phase) -> None:
        """Submit the first requests of a phase."""
        model = self.model
        if phase.pattern is Pattern.PURGE:
            size = model.parameters.identity.capacity_bytes
            when_ns, kind = model.submit_trim(model.t_ns, 0, size)
            heapq.heappush(self._due, (when_ns, 0, kind, size))
        if not phase.pattern.io:
            return
        self._next = self._requests(phase).__next__
        for _ in range(phase.queue_depth):
            self._submit(self.model.t_ns, self._next)

    def end(self) -> None:
        """Submit nothing more, and wait until nothing is in flight."""
        self._next = None
        while self._due:
            self.tick()

    def tick(self) -> Tick:
        """A millisecond of the drive, and of what it is asked for."""
        model, due = self.model, self._due
        end_ns = model.t_ns + TICK_NS
        while due and due[0][0] <= end_ns:
            when_ns, _, kind, length = heapq.heappop(due)
            model.complete(kind, length, when_ns)
            if self._next is not None:
                self._submit(when_ns, self._next)
        return model.tick()

    def _submit(self, now_ns: int, following: Callable[[], tuple[bool, int, int]]) -> None:
        reads, offset, length = following()
        if reads:
            when_ns, kind = self.model.submit_read(now_ns, offset, length)
        else:
            when_ns, kind = self.model.submit_write(now_ns, offset, length)
        self._order += 1
        heapq.heappush(self._due, (when_ns, self._order, kind, length))

    def _requests(self, phase: Phase) -> Iterator[tuple[bool, int, int]]:
        size = phase.block_size_bytes
        span = phase.span_bytes or self.model.parameters.identity.capacity_bytes
        blocks = span // size
        share = phase.read_pct / 100 if phase.pattern.mixed else float(not phase.writes)
        at = [0, 0]
        while True:
            reads = (self._rng.random(4096) < share).tolist()
            places = self._rng.integers(blocks, size=4096).tolist()
            for read, place in zip(reads, places, strict=True):
                if phase.pattern.random:
                    yield read, place * size, size
                else:
                    yield read, at[read] * size, size
                    at[read] = (at[read] + 1) % blocks

    def goes_on(self, phase: Phase, ticks: int) -> float:
        """What the drive would take, in joules, if the phase that is on went on for so many ticks:
        a copy of it does."""
        if ticks <= 0:
            return 0.0
        other = Host(copy.deepcopy(self.model), 0)
        other._rng, other._order = copy.deepcopy(self._rng), self._order
        other._due = list(self._due)
        other._next = other._requests(phase).__next__
        ends = [other.tick() for _ in range(ticks)]
        watts = (_joules(ends[-1]) - _joules(ends[0])) / max(ticks - 1, 1)
        return watts * ticks


def _joules(tick: Tick) -> float:
    named = dict(zip(TICK.names or (), tick, strict=True))
    return named["joules_12V"] + named["joules_3V3"]


@dataclass(frozen=True)
class Meter:
    """A channel: where it is connected, when it integrates, and its own errors."""

    name: str
    field: str
    factor: float
    errors: Errors
    digit: float
    interval_ns: int
    aperture_ns: int
    moves: float
    """Share of the interval from which the moment of a reading is drawn."""


def meters_of(rig: Rig, seed: int) -> list[Meter]:
    """The meters of the rails, with errors anywhere within their limits."""
    infos = {one.name: one for one in rig.channel_infos}
    found = []
    for config in SIX_DIGITS:
        settings = config.settings
        model, function, range_ = settings["model"], settings["function"], settings["range"]
        info = infos[f"{config.name}.{function}"]
        limits = specifications.accuracy(model, function, range_)
        assert limits is not None
        rng = rng_of(seed, config.name, f"{function} {range_:g}")
        gain, offset = rng.uniform(-SHARE_OF_LIMITS, SHARE_OF_LIMITS, 2)
        rail, _, quantity = config.point.partition(".")
        errors = Errors(gain * limits.of_reading, offset * limits.floor, NOISE * range_)
        found.append(
            Meter(
                info.name,
                ("volt_seconds_" if quantity == "voltage" else "coulombs_") + rail,
                true_shunt_ohm(config, seed) or 1.0,
                errors,
                range_ * 1e-7,
                round(info.interval_s * 1e9),
                round(info.aperture_s * 1e9),
                info.dither,
            )
        )
    return found


class VirtualRig:
    """A drive at work in its own time, and what its meters have shown by now."""

    def __init__(self, rig: Rig, seed: int, overrides: Mapping[str, object] | None = None) -> None:
        self.rig = rig
        self.model = DriveModel(load(overrides=overrides), seed, BEGAN_NS)
        self.host = Host(self.model, seed)
        self.channels = tuple(replace(one, clock="host") for one in rig.channel_infos)
        self.blocks: list[tuple[str, Block]] = []
        """All readings so far, by instrument."""
        self._meters = meters_of(rig, seed)
        self._rng = np.random.default_rng([seed, 3])
        self._ticks = np.array([self.model.tick()], TICK)
        self._read_ns = {meter.name: BEGAN_NS + TICK_NS for meter in self._meters}
        self.live = LiveWatts(rig.rail_infos(), self.channels, lambda: self.model.t_ns)
        limit = self.model.parameters.thermal.warning_celsius
        state = DriveState("virtual", warning_celsius=limit)
        self.points = LivePoints(rig, {"": state}, self.live)
        """labctl's live view of the points on this rig."""

    @property
    def now_ns(self) -> int:
        """Its time."""
        return self.model.t_ns

    @property
    def joules(self) -> float:
        """What the drive took so far."""
        return float(self._ticks["joules_12V"][-1] + self._ticks["joules_3V3"][-1])

    @property
    def operations(self) -> int:
        """Reads and writes so far."""
        return self.model.reads + self.model.writes

    def go_on(self, ticks: int = CHUNK_TICKS) -> None:
        """So many milliseconds more; the meters' readings come in at their end."""
        new = np.array([self.host.tick() for _ in range(ticks)], TICK)
        self._ticks = np.concatenate([self._ticks[-2000:], new])
        for meter in self._meters:
            instrument, _, channel = meter.name.partition(".")
            block = self._read(meter, channel)
            if len(block):
                self.blocks.append((instrument, block))
                self.live.batch(instrument, Batch(blocks=(block,)))
        celsius = np.array([round(self.model.composite_celsius, 3)])
        temperature = Block("composite", np.array([self.now_ns]), celsius)
        self.blocks.append(("drive_temp", temperature))

    def _read(self, meter: Meter, channel: str) -> Block:
        """The windows of a meter that have ended since its last."""
        first_ns = self._read_ns[meter.name]
        count = max((self.now_ns - first_ns) // meter.interval_ns, 0)
        begins = first_ns + meter.interval_ns * np.arange(count)
        self._read_ns[meter.name] = first_ns + meter.interval_ns * count
        room_ns = meter.interval_ns - meter.aperture_ns
        begins = begins + np.rint(meter.moves * room_ns * self._rng.random(count)).astype(np.int64)
        edges = np.concatenate([begins, begins + meter.aperture_ns])
        t_ns = self._ticks["t_ns"]
        sums = np.interp(
            (edges - t_ns[0]).astype(np.float64),
            (t_ns - t_ns[0]).astype(np.float64),
            self._ticks[meter.field],
        )
        true = (sums[count:] - sums[:count]) / (meter.aperture_ns * 1e-9) * meter.factor
        shown = meter.errors.apply(true, self._rng, meter.digit)
        return Block(channel, begins + meter.aperture_ns // 2, shown)


@dataclass(frozen=True)
class Worked:
    """A phase that was done, on the rig's time."""

    phase: Phase
    begin_ns: int
    end_ns: int
    watts: float
    """True ones, from begin to end."""
    longest_watts: float | None = None
    """What it would have drawn on average in all of its longest time; of points alone."""
    state: PointState | None = None
    """How its numbers stood at its end; of points that may end early."""

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9


Look = Callable[[float, PointState], None]
"""What is told of a point each half second: seconds since it began, and how it stands."""


def work(rig: VirtualRig, phase: Phase, ends: bool = True, look: Look | None = None) -> Worked:
    """Do a phase. ``ends``: a point that may end early does."""
    host = rig.host
    host.begin(phase)
    begin_ns, joules, written = rig.now_ns, rig.joules, rig.model.written_bytes
    points, state = None, None
    if phase.until is not None:
        points = rig.points
        points.began(phase, begin_ns)
    left = 1000 if phase.pattern is Pattern.PURGE else round(phase.planned_s * 1e9) // TICK_NS
    whole = phase.fill_bytes or rig.model.parameters.identity.capacity_bytes
    while left > 0 or (phase.fills and rig.model.written_bytes - written < whole):
        chunk, before = CHUNK_TICKS if phase.fills else min(CHUNK_TICKS, left), rig.operations
        rig.go_on(chunk)
        left -= chunk
        if points is None:
            continue
        points.status(
            phase.index, "", rig.now_ns, (rig.operations - before) / (chunk * TICK_NS / 1e9)
        )
        state = points.state(rig.now_ns, {"": rig.model.composite_celsius})
        assert state is not None
        if look is not None:
            look((rig.now_ns - begin_ns) / 1e9, state)
        if ends and state.enough and left * TICK_NS > ENDS_ANYHOW_S * 1e9:
            held = round(HELD_S * 1e9) // TICK_NS
            rig.go_on(held)
            left -= held
            break
    if points is not None:
        points.over()
    end_ns, drawn = rig.now_ns, rig.joules - joules
    longest = None
    if phase.until is not None:
        longest = (drawn + host.goes_on(phase, left)) / phase.duration_s
    host.end()
    return Worked(phase, begin_ns, end_ns, drawn / ((end_ns - begin_ns) / 1e9), longest, state)
