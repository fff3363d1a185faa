"""A drive in ten lines of physics: what it does and takes, how warm it gets, and when it holds
itself back. Nothing here is taken from the analysis nor from the simulated bench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STEP_S = 0.05

GRADUAL_HELD_BACK = 0.93
"""A drive that holds itself back by degrees counts as throttled below this share."""

TOUCHED = 0.999
"""Below this share it has begun to."""


@dataclass(frozen=True)
class Work:
    """One phase: IOPS and watts above idle when nothing holds it back."""

    seconds: float
    iops: float
    watts: float
    writes: bool = False
    queue_depth: int = 32


class Firmware(Protocol):
    """What decides from the temperature how much the drive does."""

    held_back: bool

    def share(self, celsius: float, t_s: float, phase: int) -> float:
        """Of its full speed; called each ``STEP_S``."""
        ...


@dataclass
class NeverThrottles:
    held_back: bool = False

    def share(self, celsius: float, t_s: float, phase: int) -> float:
        return 1.0


@dataclass
class TwoPoint:
    """Down at one temperature, up at a lower one; and a second level above the first."""

    enter: float
    leave: float
    level: float
    heavy_enter: float = 1e9
    heavy_leave: float = 1e9
    heavy_level: float = 0.3
    shift_per_phase: float = 0.0
    held_back: bool = False
    heavy: bool = False

    def share(self, celsius: float, t_s: float, phase: int) -> float:
        celsius -= self.shift_per_phase * phase
        self.held_back = celsius >= (self.leave if self.held_back else self.enter)
        self.heavy = celsius >= (self.heavy_leave if self.heavy else self.heavy_enter)
        if self.heavy:
            return self.heavy_level
        return self.level if self.held_back else 1.0


@dataclass
class Smooth:
    """The clock follows the temperature above a limit, as slowly as ``lag_s``."""

    limit: float
    per_kelvin: float
    floor: float
    lag_s: float
    now: float = 1.0
    held_back: bool = False

    def share(self, celsius: float, t_s: float, phase: int) -> float:
        aim = min(1.0, max(self.floor, 1.0 - self.per_kelvin * (celsius - self.limit)))
        self.now += (aim - self.now) * STEP_S / self.lag_s
        self.held_back = self.now < GRADUAL_HELD_BACK
        return self.now


@dataclass
class Ramp:
    """Past a limit its clock goes down in a straight line, and up again when it has cooled."""

    enter: float
    leave: float
    floor: float
    lasts_s: float
    now: float = 1.0
    down: bool = False
    held_back: bool = False

    def share(self, celsius: float, t_s: float, phase: int) -> float:
        self.down = celsius >= (self.leave if self.down else self.enter)
        step = (1 - self.floor) * STEP_S / self.lasts_s
        self.now = max(self.now - step, self.floor) if self.down else min(self.now + 3 * step, 1.0)
        self.held_back = self.now < GRADUAL_HELD_BACK
        return self.now


@dataclass
class Staircase:
    """A small step down each few seconds above a limit, and up again below it."""

    limit: float
    step: float
    every_s: float
    floor: float
    now: float = 1.0
    due_s: float = 0.0
    held_back: bool = False

    def share(self, celsius: float, t_s: float, phase: int) -> float:
        if t_s >= self.due_s:
            self.due_s = t_s + self.every_s
            if celsius > self.limit:
                self.now = max(self.now * (1 - self.step), self.floor)
            elif celsius < self.limit - 2.0:
                self.now = min(self.now / (1 - self.step), 1.0)
        self.held_back = self.now < GRADUAL_HELD_BACK
        return self.now


@dataclass
class Chopper:
    """Above a limit it works and rests in turn, faster than anybody looks."""

    enter: float
    leave: float
    level: float
    down_s: float
    up_s: float
    held_back: bool = False

    def share(self, celsius: float, t_s: float, phase: int) -> float:
        self.held_back = celsius >= (self.leave if self.held_back else self.enter)
        down = t_s % (self.down_s + self.up_s) < self.down_s
        return self.level if self.held_back and down else 1.0


@dataclass(frozen=True)
class Flash:
    """What writes meet: a cache that ends, and collection that comes again."""

    cache_s: float = 1e9
    """Seconds of full speed that fit into the cache."""
    direct_share: float = 0.4
    direct_energy: float = 1.5
    """Energy of an operation past the cache, 1 before."""
    collect_after_s: float = 1e9
    collect_s: float = 5.0
    collect_each_s: float = 20.0
    collect_share: float = 0.4
    collect_energy: float = 2.0


@dataclass(frozen=True)
class Cooling:
    """Two heat capacities one behind the other; °C at rest, K/W, s."""

    ambient: float
    die_kelvin_per_watt: float
    case_kelvin_per_watt: float
    die_s: float
    case_s: float


@dataclass(frozen=True)
class Outside:
    """What is not the drive: stretches (begin, end, share left), s since the run began."""

    busy_host: Sequence[tuple[float, float, float]] = ()
    frozen_host: Sequence[tuple[float, float]] = ()
    """Nothing on the host runs: no I/O, no statuses, no readings stamped there."""
    waiting_drive: Sequence[tuple[float, float]] = ()
    """The drive answers nothing and takes as many watts as before."""
    drift: float = 0.0
    """Share by which IOPS change from begin to end of each phase, for no reason."""


@dataclass(frozen=True)
class Cap:
    """A limit on the watts of the drive, s since the run began."""

    watts: float
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Noise:
    """Of IOPS: standard deviation of the mean of half a second, and how long it is remembered."""

    sigma: float = 0.01
    memory_s: float = 0.0


@dataclass
class Drive:
    works: Sequence[Work]
    cooling: Cooling
    firmware: Firmware = field(default_factory=NeverThrottles)
    flash: Flash = field(default_factory=Flash)
    outside: Outside = field(default_factory=Outside)
    cap: Cap | None = None
    noise: Noise = field(default_factory=Noise)
    idle_watts: float = 2.0
    busy_watts: float = 0.5
    rest_s: float = 0.02
    idle_s: float = 6.0


@dataclass(frozen=True)
class Truth:
    """A stretch, s since the run began."""

    begin_s: float
    end_s: float
    cause: str
    phase: int
    since_s: float
    until_s: float
    """From when until when the drive did any less: beyond begin and end where that is gradual."""

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


@dataclass(frozen=True)
class Course:
    """What happened, at each ``STEP_S``, and when phases began and ended (0 is the idle one)."""

    iops: Floats
    watts: Floats
    celsius: Floats
    held_back: NDArray[np.bool_]
    spans_s: tuple[tuple[float, float], ...]
    truth: tuple[Truth, ...]

    @property
    def seconds(self) -> float:
        return len(self.iops) * STEP_S


def live(drive: Drive, rng: np.random.Generator) -> Course:
    """Let the drive work through its phases."""
    spans = [(2.0, 2.0 + drive.idle_s)]
    for work in drive.works:
        begin = spans[-1][1] + drive.rest_s
        spans.append((begin, begin + work.seconds))
    steps = round((spans[-1][1] + 3.0) / STEP_S)
    wobble = _noise(drive.noise, steps, rng)
    iops, watts, celsius = np.zeros(steps), np.zeros(steps), np.zeros(steps)
    flags = {name: np.zeros(steps, np.bool_) for name in CAUSES}
    touched = np.zeros(steps, np.bool_)
    cooling, flash = drive.cooling, drive.flash
    case = cooling.ambient + drive.idle_watts * cooling.case_kelvin_per_watt
    die = case + drive.idle_watts * cooling.die_kelvin_per_watt
    written_s = collected_s = 0.0
    phase = 0
    for at in range(steps):
        t_s = (at + 0.5) * STEP_S
        while phase + 1 < len(spans) and t_s >= spans[phase + 1][0]:
            phase += 1
        work = drive.works[phase - 1] if phase else None
        share = drive.firmware.share(die, t_s, phase)
        flags["thermal"][at] = drive.firmware.held_back
        touched[at] = share < TOUCHED or drive.firmware.held_back
        took = drive.idle_watts
        if work is not None and t_s < spans[phase][1]:
            cost = 1.0
            into = (t_s - spans[phase][0]) / work.seconds
            share *= wobble[at] * (1 + drive.outside.drift * into)
            if work.writes:
                if written_s >= flash.cache_s:
                    share, cost = share * flash.direct_share, flash.direct_energy
                    flags["write_cache"][at] = True
                since = collected_s - flash.collect_after_s
                if since >= 0 and since % flash.collect_each_s < flash.collect_s:
                    share, cost = share * flash.collect_share, cost * flash.collect_energy
                    flags["garbage_collection"][at] = True
                collected_s += STEP_S
            for begin, end, left in drive.outside.busy_host:
                if begin <= t_s < end:
                    share *= left
                    flags["host_stall"][at] = True
            waits = _within(t_s, drive.outside.waiting_drive)
            flags["unknown"][at] = waits
            if _within(t_s, drive.outside.frozen_host):
                share = 0.0
                flags["host_stall"][at] = True
            wanted = work.watts * cost * share
            if drive.cap is not None and drive.cap.begin_s <= t_s < drive.cap.end_s:
                most = drive.cap.watts - drive.idle_watts - drive.busy_watts
                if wanted > most:
                    share *= most / wanted
                    wanted = most
                    flags["power_limit"][at] = True
            took += drive.busy_watts * (share > 0) + wanted
            if waits:
                share = 0.0
            iops[at] = work.iops * share
            written_s += STEP_S * share if work.writes else 0.0
        watts[at] = took
        celsius[at] = die
        flow = (die - case) / cooling.die_kelvin_per_watt
        die += (took - flow) * cooling.die_kelvin_per_watt / cooling.die_s * STEP_S
        out = (case - cooling.ambient) / cooling.case_kelvin_per_watt
        case += (flow - out) * cooling.case_kelvin_per_watt / cooling.case_s * STEP_S
    truth = [
        Truth(begin, end, cause, number, *_around(begin, end, touched, span, cause == "thermal"))
        for number, span in enumerate(spans)
        if number
        for cause, flag in flags.items()
        for begin, end in _stretches(flag, span)
    ]
    return Course(iops, watts, celsius, flags["thermal"], tuple(spans), tuple(truth))


CAUSES = ("thermal", "write_cache", "garbage_collection", "host_stall", "power_limit", "unknown")


def _within(t_s: float, stretches: Sequence[tuple[float, float]]) -> bool:
    return any(begin <= t_s < end for begin, end in stretches)


def _noise(noise: Noise, steps: int, rng: np.random.Generator) -> Floats:
    """Factors around 1 whose means over half a second scatter by ``sigma``."""
    if noise.memory_s <= 0:
        return 1 + noise.sigma * np.sqrt(0.5 / STEP_S) * rng.normal(0, 1, steps).clip(-4, 4)
    keep = np.exp(-STEP_S / noise.memory_s)
    white = rng.normal(0, np.sqrt(1 - keep**2), steps)
    for at in range(1, steps):
        white[at] += keep * white[at - 1]
    return np.maximum(1 + noise.sigma * white, 0.05)


def _stretches(flag: NDArray[np.bool_], span: tuple[float, float]) -> list[tuple[float, float]]:
    low, high = round(span[0] / STEP_S), round(span[1] / STEP_S)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flag[low:high].astype(int), [0]])))
    return [(float((low + a) * STEP_S), float((low + b) * STEP_S)) for a, b in edges.reshape(-1, 2)]


def _around(
    begin_s: float,
    end_s: float,
    touched: NDArray[np.bool_],
    span: tuple[float, float],
    gradual: bool,
) -> tuple[float, float]:
    """The stretch of anything less that holds this one."""
    if gradual:
        for since_s, until_s in _stretches(touched, span):
            if since_s <= begin_s and end_s <= until_s:
                return since_s, until_s
    return begin_s, end_s
