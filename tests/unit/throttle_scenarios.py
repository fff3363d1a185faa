"""Drives, loads and meters drawn at random, and how well what was found fits the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from labctl.analysis.run_summary import RunSummary
from labctl.record.phase import Pattern
from tests.unit.synthetic_run import CHANNELS, EPOCH_NS, good_meter
from tests.unit.virtual_bench import IDLE, Stretch, VirtualBench, VirtualRun, Work

LONGEST_MISS_S = 2.0
"""How far begin and end may be off."""
COUNTED_FROM_S = 3.0
RESOLVED_S = 1.2
"""Throttling that paused for less than this is one stretch: fio reports each 0.5 s."""

DIVISOR = 60.0
NEVER = {"garbage_collection.spare_bytes": 1 << 50, "write_cache.capacity_bytes": 1 << 50}
COLD = {"thermal.ambient_celsius": -40.0}


def scenario(kind: str, seed: int) -> VirtualBench:
    """A bench of a kind: thermal, cache, collection, mixed, stall, clean, any or cool."""
    if kind in ("any", "cool"):
        return _any(seed, kind == "any")
    rng = np.random.default_rng([seed, *kind.encode()])
    rates = {"v12.voltage": 10.0, "i12.current": 100.0, "v3.voltage": 2.0, "i3.current": 50.0}
    if rng.random() < 0.3:
        rates = dict.fromkeys(rates, float(rng.choice([1.0, 2.0, 5.0])))
    meters = {name: good_meter(name, rng, rate) for name, rate in rates.items()}
    idle_watts = float(rng.uniform(1.5, 5.0))
    works, overrides = _KINDS[kind](rng, idle_watts)
    overrides = {
        "speed_divisor": DIVISOR,
        "jitter.sigma": float(rng.uniform(0.05, 0.4)),
        "jitter.tail_share": float(rng.choice([0.0, 0.0005, 0.005])),
        "power.noise_watts": float(rng.uniform(0.01, 0.2)),
        "power.idle_watts": idle_watts,
        **overrides,
    }
    return VirtualBench(
        works=(IDLE, *works),
        overrides=overrides,
        seed=seed,
        meters=meters,
        counters=bool(rng.random() < 0.5) and kind != "clean",
        status_jitter_s=float(rng.choice([0.002, 0.02, 0.06])),
        above_warmest=float(rng.uniform(1.0, 6.0)) if kind == "clean" else None,
    )


def _hot(rng: np.random.Generator, works: Sequence[Work], idle_watts: float) -> dict[str, object]:
    """A cooling that lets the least hungry work reach its throttling, and idling not."""
    enter = float(rng.uniform(62, 85))
    light = float(rng.uniform(0.3, 0.8))
    band = float(rng.uniform(1.0, 7.0))
    step = float(rng.uniform(2.0, 7.0))
    inside = float(rng.uniform(0.8, 2.5))
    outside = float(rng.uniform(1.5, 4.0))
    most = idle_watts + min(_ABOVE_IDLE[work.pattern] for work in works)
    ambient = enter + float(rng.uniform(2.0, 10.0)) - most * (inside + outside)
    ambient = min(ambient, enter - 8.0 - idle_watts * (inside + outside))
    return {
        "thermal.ambient_celsius": max(ambient, -40.0),
        "thermal.composite_joules_per_kelvin": float(rng.uniform(2.0, 15.0)),
        "thermal.case_joules_per_kelvin": float(rng.uniform(4.0, 20.0)),
        "thermal.composite_to_case_kelvin_per_watt": inside,
        "thermal.case_to_ambient_kelvin_per_watt": outside,
        "thermal.warning_celsius": enter + float(rng.uniform(-4.0, 4.0)),
        "thermal.critical_celsius": enter + 15,
        "throttle.light.enter_celsius": enter,
        "throttle.light.leave_celsius": enter - band,
        "throttle.light.speed_share": light,
        "throttle.heavy.enter_celsius": enter + step,
        "throttle.heavy.leave_celsius": enter + step - min(float(rng.uniform(1.0, 5.0)), step),
        "throttle.heavy.speed_share": light * float(rng.uniform(0.2, 0.7)),
    }


_ABOVE_IDLE = {
    Pattern.RANDREAD: 3.0,
    Pattern.READ: 6.0,
    Pattern.RANDRW: 6.0,
    Pattern.WRITE: 17.0,
    Pattern.RANDWRITE: 17.0,
}
"""About what a work takes, in watts."""


def _work(rng: np.random.Generator, kinds: str, low_s: float, high_s: float) -> Work:
    seconds = float(rng.uniform(low_s, high_s))
    kind = rng.choice(list(kinds))
    if kind == "r":
        depth = int(rng.choice([4, 8, 32]))
        return Work(Pattern.RANDREAD, seconds, queue_depth=depth)
    if kind == "s":
        return Work(Pattern.READ, seconds, 131_072, 16)
    if kind == "m":
        return Work(Pattern.RANDRW, seconds, 4096, 32, int(rng.choice([70, 90])))
    if kind == "w":
        return Work(Pattern.WRITE, seconds, 131_072, int(rng.choice([8, 32])), 0)
    return Work(Pattern.RANDWRITE, seconds, 4096, 32, 0)


def _thermal(
    rng: np.random.Generator, idle_watts: float
) -> tuple[Sequence[Work], dict[str, object]]:
    """Half of them one kind of work, for which throttling is enough to cool the drive down."""
    kinds = str(rng.choice(["rrsmwx", "s", "m", "w", "x"], p=[0.5, 0.125, 0.125, 0.125, 0.125]))
    works = [_work(rng, kinds, 25, 90) for _ in range(rng.integers(1, 4))]
    return works, {**NEVER, **_hot(rng, works, idle_watts)}


def _cache(rng: np.random.Generator, idle_watts: float) -> tuple[Sequence[Work], dict[str, object]]:
    work = _work(rng, "wx", 40, 100)
    rate = (1.2e9 if work.pattern is Pattern.WRITE else 1.18e9) / DIVISOR
    full_s = work.duration_s * float(rng.uniform(0.15, 0.8))
    return [work], {
        **NEVER,
        **COLD,
        "write_cache.capacity_bytes": int(full_s * rate),
        "write_cache.direct_write_share": float(rng.uniform(0.15, 0.7)),
        "write_cache.direct_energy_factor": float(rng.uniform(1.1, 2.0)),
    }


def _collection(
    rng: np.random.Generator, idle_watts: float
) -> tuple[Sequence[Work], dict[str, object]]:
    dip = float(rng.uniform(3.0, 10.0))
    return [_work(rng, "x", 90, 150)], {
        **NEVER,
        **COLD,
        "garbage_collection.spare_bytes": int(1.18e9 / DIVISOR * rng.uniform(5, 20)),
        "garbage_collection.dip_s": dip,
        "garbage_collection.dip_period_s": dip + float(rng.uniform(8.0, 25.0)),
        "garbage_collection.dip_share": float(rng.uniform(0.15, 0.7)),
        "garbage_collection.cliff_share": float(rng.uniform(0.6, 1.0)),
        "garbage_collection.cliff_recovery_s": float(rng.uniform(5.0, 60.0)),
    }


def _mixed(rng: np.random.Generator, idle_watts: float) -> tuple[Sequence[Work], dict[str, object]]:
    """A cache or garbage collection in a drive that gets too hot, sooner or later."""
    works, overrides = (_cache if rng.random() < 0.5 else _collection)(rng, idle_watts)
    slower = Work(Pattern.READ, 1.0)
    hot = _hot(rng, [*works, slower] if rng.random() < 0.5 else works, idle_watts)
    return works, {**overrides, **hot}


def _stall(rng: np.random.Generator, idle_watts: float) -> tuple[Sequence[Work], dict[str, object]]:
    seconds = float(rng.uniform(30, 60))
    stall = (float(rng.uniform(8, seconds - 15)), float(rng.uniform(3.1, 6.0)))
    work = Work(Pattern.RANDREAD, seconds, queue_depth=16, stall=stall)
    return [work, _work(rng, "rs", 8, 15)], {**NEVER, **COLD}


def _clean(rng: np.random.Generator, idle_watts: float) -> tuple[Sequence[Work], dict[str, object]]:
    works = [_work(rng, "rrsmwx", 5, 5 if rng.random() < 0.4 else 60) for _ in range(4)]
    off = {"throttle.heavy.enter_celsius": 1001.0, "throttle.heavy.leave_celsius": 1000.0}
    light = {"throttle.light.enter_celsius": 1000.0, "throttle.light.leave_celsius": 999.0}
    return works, {**NEVER, **_hot(rng, works, idle_watts), **off, **light}


def _any(seed: int, hot: bool) -> VirtualBench:
    """Any drive under any plan with any equipment; ``hot``: it may throttle."""
    rng = np.random.default_rng([seed, *b"any", hot])
    works = _any_plan(rng)
    idle_watts = float(rng.uniform(1.0, 6.0))
    throttle = _any_heat(rng, works, idle_watts)
    if not hot:
        throttle = {name: value for name, value in throttle.items() if "throttle" not in name}
        throttle |= {
            "throttle.heavy.enter_celsius": 1001.0,
            "throttle.heavy.leave_celsius": 1000.0,
            "throttle.light.enter_celsius": 1000.0,
            "throttle.light.leave_celsius": 999.0,
        }
    rates = {name: float(np.exp(rng.uniform(np.log(2), np.log(100)))) for name in CHANNELS}
    counters = bool(rng.random() < 0.5)
    return VirtualBench(
        works=(IDLE, *works),
        overrides={
            "speed_divisor": float(rng.uniform(60.0, 150.0)),
            "jitter.sigma": float(rng.uniform(0.02, 0.4)),
            "jitter.tail_share": float(rng.choice([0.0, 0.0005, 0.005])),
            "power.noise_watts": float(rng.uniform(0.01, 0.2)),
            "power.idle_watts": idle_watts,
            "power.active_watts": float(rng.uniform(0.2, 2.5)),
            **(NEVER if rng.random() < 0.4 else _any_flash(rng)),
            **throttle,
        },
        seed=seed,
        meters={name: good_meter(name, rng, rate) for name, rate in rates.items()},
        counters=counters,
        status_jitter_s=float(rng.choice([0.002, 0.02, 0.06])),
        celsius_every_s=float(rng.choice([1.0, 2.0, 5.0, 10.0])),
        celsius_step=float(rng.choice([1.0, 1.0, 0.1])),
        sensor=counters or bool(rng.random() < 0.95),
        names_warning=bool(rng.random() < 0.9),
    )


def _any_plan(rng: np.random.Generator) -> Sequence[Work]:
    """A sweep of short phases, one long phase, mixed reads and writes, or some of each."""
    kind = rng.choice(["sweep", "long", "mixed", "some"])
    if kind == "sweep":
        kinds, seconds = str(rng.choice(["r", "s", "w", "x", "rsmwx"])), float(rng.uniform(6, 20))
        return [_work(rng, kinds, seconds, seconds) for _ in range(rng.integers(6, 13))]
    if kind == "long":
        return [_work(rng, "rsmwx", 200, 600)]
    if kind == "mixed":
        return [_work(rng, "m", 60, 200) for _ in range(rng.integers(1, 3))]
    return [_work(rng, "rsmwx", 20, 120) for _ in range(rng.integers(2, 5))]


def _any_heat(
    rng: np.random.Generator, works: Sequence[Work], idle_watts: float
) -> dict[str, object]:
    """A cooling that lets some of the works, or all, reach throttling, and idling not."""
    enter = float(rng.uniform(55, 90))
    light = float(rng.uniform(0.3, 0.85))
    band = float(rng.uniform(1.0, 10.0))
    step = float(rng.uniform(1.5, 10.0))
    back = float(rng.uniform(0.5, step + band))
    inside = float(rng.uniform(0.4, 3.0))
    outside = float(rng.uniform(1.0, 8.0))
    needs = [idle_watts + _ABOVE_IDLE[work.pattern] for work in works]
    aim = float(rng.uniform(min(needs), max(needs)))
    ambient = enter + float(rng.uniform(2.0, 20.0)) - aim * (inside + outside)
    ambient = min(ambient, enter - band - 5.0 - idle_watts * (inside + outside))
    return {
        "thermal.ambient_celsius": max(ambient, -60.0),
        "thermal.composite_joules_per_kelvin": float(np.exp(rng.uniform(0.0, 3.0))),
        "thermal.case_joules_per_kelvin": float(np.exp(rng.uniform(1.0, 4.0))),
        "thermal.composite_to_case_kelvin_per_watt": inside,
        "thermal.case_to_ambient_kelvin_per_watt": outside,
        "thermal.warning_celsius": enter + float(rng.uniform(-5.0, 5.0)),
        "thermal.critical_celsius": enter + 15,
        "throttle.light.enter_celsius": enter,
        "throttle.light.leave_celsius": enter - band,
        "throttle.light.speed_share": light,
        "throttle.heavy.enter_celsius": enter + step,
        "throttle.heavy.leave_celsius": enter + step - back,
        "throttle.heavy.speed_share": light * float(rng.uniform(0.15, 0.75)),
    }


def _any_flash(rng: np.random.Generator) -> dict[str, object]:
    """A cache and spare blocks that may end, at once or never, as the plan goes on."""
    rate = 1.2e9 / 100
    dip = float(rng.uniform(3.0, 12.0))
    return {
        "write_cache.capacity_bytes": int(rate * np.exp(rng.uniform(1.5, 7.0))),
        "write_cache.direct_write_share": float(rng.uniform(0.15, 0.8)),
        "write_cache.direct_energy_factor": float(rng.uniform(1.1, 2.0)),
        "write_cache.drain_bytes_per_s": float(rng.uniform(0.0, 3e8)),
        "garbage_collection.spare_bytes": int(rate * np.exp(rng.uniform(1.5, 7.0))),
        "garbage_collection.dip_s": dip,
        "garbage_collection.dip_period_s": dip + float(rng.uniform(8.0, 60.0)),
        "garbage_collection.dip_share": float(rng.uniform(0.15, 0.7)),
        "garbage_collection.cliff_share": float(rng.uniform(0.4, 1.0)),
        "garbage_collection.cliff_recovery_s": float(rng.uniform(5.0, 60.0)),
        "garbage_collection.write_amplification": float(rng.uniform(2.0, 8.0)),
    }


_KINDS = {
    "thermal": _thermal,
    "cache": _cache,
    "collection": _collection,
    "mixed": _mixed,
    "stall": _stall,
    "clean": _clean,
}


@dataclass
class Score:
    """How found stretches fit the true ones, over any number of runs."""

    wanted: Counter[str] = field(default_factory=Counter)
    """True stretches longer than 3 s, by cause."""
    placed: Counter[str] = field(default_factory=Counter)
    """Of them those found with begin and end within 2 s, whatever their cause."""
    causes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """True cause and stated cause, of those placed."""
    errors_s: list[float] = field(default_factory=list)
    """Of begins and ends that were placed."""
    invented: list[str] = field(default_factory=list)
    """Stretches found where the truth has none at all."""
    accused: list[str] = field(default_factory=list)
    """Stretches called throttling where the drive did not throttle."""
    missed: list[str] = field(default_factory=list)

    def add(self, name: str, run: VirtualRun, summary: RunSummary) -> None:
        """Judge one run."""
        truth = joined(run.truth)
        found = [
            Stretch(
                (item.begin_ns - EPOCH_NS) / 1e9,
                (item.end_ns - EPOCH_NS) / 1e9,
                item.cause,
                item.phase_index,
            )
            for item in summary.throttling
        ]
        for true in truth:
            if true.duration_s <= COUNTED_FROM_S or not true.shows:
                continue
            self.wanted[true.cause] += 1
            fits = [item for item in found if _fits(item, true)]
            if not fits:
                self.missed.append(f"{name}: {_words(true)}")
                continue
            right = _NAMES.get(true.cause, (true.cause,))
            best = next((item for item in fits if item.cause in right), fits[0])
            self.placed[true.cause] += 1
            stated = true.cause if best.cause in right else best.cause
            self.causes[true.cause, stated] += 1
            self.errors_s += [best.begin_s - true.begin_s, best.end_s - true.end_s]
            if stated != true.cause:
                self.missed.append(f"{name}: {_words(true)} called {best.cause}")
        for item in found:
            if not any(_meet(item, true) for true in run.truth):
                self.invented.append(f"{name}: {_words(item)}")
            hot = [true for true in run.truth if true.cause == "thermal"]
            if item.cause in ("thermal", "power_limit") and not any(
                _meet(item, true) for true in hot
            ):
                self.accused.append(f"{name}: {_words(item)}")

    def recall(self, cause: str) -> float:
        """Share of the stretches of a cause that were placed and called so."""
        return self.causes[cause, cause] / max(self.wanted[cause], 1)


_NAMES = {"steady_state": ("write_cache", "garbage_collection")}
"""What a cause may be called: that spare blocks are used up shows as one lasting step in writes."""


def joined(truth: Sequence[Stretch]) -> list[Stretch]:
    """Stretches of one cause in one phase, those that hardly paused as one."""
    result: list[Stretch] = []
    for cause in dict.fromkeys(one.cause for one in truth):
        for one in (item for item in truth if item.cause == cause):
            last = result[-1] if result else None
            if (
                last is not None
                and (last.cause, last.phase_index) == (cause, one.phase_index)
                and one.begin_s - last.end_s < min(RESOLVED_S, last.duration_s, one.duration_s)
            ):
                result[-1] = replace(last, end_s=one.end_s)
            else:
                result.append(one)
    return result


def _fits(item: Stretch, true: Stretch) -> bool:
    return (
        item.phase_index == true.phase_index
        and abs(item.begin_s - true.begin_s) <= LONGEST_MISS_S
        and abs(item.end_s - true.end_s) <= LONGEST_MISS_S
    )


def _meet(item: Stretch, true: Stretch) -> bool:
    return item.begin_s < true.end_s + 1.0 and true.begin_s - 1.0 < item.end_s


def _words(one: Stretch) -> str:
    return f"{one.cause} {one.begin_s:.1f}–{one.end_s:.1f} s in phase {one.phase_index}"
