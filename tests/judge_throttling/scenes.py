"""Scenes of every class, drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tests.judge_throttling.drives import (
    Cap,
    Chopper,
    Cooling,
    Drive,
    Firmware,
    Flash,
    NeverThrottles,
    Noise,
    Outside,
    Ramp,
    Smooth,
    Staircase,
    TwoPoint,
    Work,
)
from tests.judge_throttling.recording import Equipment


@dataclass(frozen=True)
class Scene:
    drive: Drive
    sees: Equipment


def draw(kind: str, seed: int) -> Scene:
    """The scene of a class (a key of ``KINDS``) with a seed."""
    rng = np.random.default_rng([seed, *kind.encode()])
    return KINDS[kind](rng)


def _equipment(rng: np.random.Generator, warning: float | None) -> Equipment:
    return Equipment(
        meter_hz=float(rng.choice([2.0, 5.0, 10.0, 20.0])),
        celsius_every_s=float(rng.choice([1.0, 2.0, 5.0, 10.0])),
        celsius_step=float(rng.choice([1.0, 1.0, 0.1])),
        warning_celsius=warning,
        counts=bool(rng.random() < 0.3),
        host_load=bool(rng.random() < 0.7),
        status_jitter_s=float(rng.choice([0.002, 0.02, 0.05])),
    )


def _works(
    rng: np.random.Generator,
    count: int,
    low_s: float,
    high_s: float,
    writes: bool = False,
    again: bool = True,
) -> list[Work]:
    """Workloads of one side at different queue depths, the deeper the more IOPS and watts; in some
    plans the first one comes again at the end."""
    depths = rng.choice([1, 2, 4, 8, 16, 32, 64], count, replace=False)
    most, watts = float(np.exp(rng.uniform(9, 13.5))), float(rng.uniform(4.0, 12.0))
    works = [
        Work(
            float(rng.uniform(low_s, high_s)),
            most * depth / (depth + 2.0),
            watts * depth / (depth + 2.0),
            writes,
            int(depth),
        )
        for depth in depths
    ]
    return [*works, works[0]] if again and rng.random() < 0.4 else works


def _noise(rng: np.random.Generator) -> Noise:
    sigma = float(np.exp(rng.uniform(np.log(0.003), np.log(0.04))))
    return Noise(sigma, float(rng.choice([0.0, 0.0, 0.3, 1.0])) if sigma < 0.025 else 0.0)


def _cooling(
    rng: np.random.Generator, drive: Drive, limit: float, over: tuple[float, float], cold: float
) -> Drive:
    """Cooling with which the least hungry work ends up ``over`` the limit, and idling ``cold``
    below it at least."""
    least = drive.idle_watts + drive.busy_watts + min(work.watts for work in drive.works)
    over_k = float(rng.uniform(*over))
    span = (over_k + cold + float(rng.uniform(0, 10))) / (least - drive.idle_watts)
    die = span * float(rng.uniform(0.3, 0.8))
    cooling = Cooling(
        ambient=limit + over_k - least * span,
        die_kelvin_per_watt=die,
        case_kelvin_per_watt=span - die,
        die_s=float(rng.uniform(4, 20)),
        case_s=float(rng.uniform(30, 120)),
    )
    return replace(drive, cooling=cooling)


_NO_COOLING = Cooling(30.0, 1.0, 1.0, 10.0, 60.0)


def _drive(rng: np.random.Generator, works: list[Work]) -> Drive:
    return Drive(
        works,
        _NO_COOLING,
        noise=_noise(rng),
        idle_watts=float(rng.uniform(0.5, 4.0)),
        busy_watts=float(rng.uniform(0.0, 1.2)),
    )


def _limit(rng: np.random.Generator) -> tuple[float, float]:
    """Where a drive throttles, and what it says is its warning temperature."""
    limit = float(rng.uniform(60, 88))
    return limit, limit + float(rng.uniform(-4.0, 4.0))


def _two_point(rng: np.random.Generator, limit: float, shallow: bool = False) -> TwoPoint:
    level = float(rng.uniform(0.80, 0.88) if shallow else rng.uniform(0.25, 0.78))
    band = float(rng.uniform(1.5, 6.0))
    if shallow or rng.random() < 0.6:
        return TwoPoint(limit, limit - band, level)
    up = float(rng.uniform(1.5, 5.0))
    back = float(rng.uniform(1.0, up))
    return TwoPoint(
        limit, limit - band, level, limit + up, limit + up - back, level * rng.uniform(0.2, 0.7)
    )


def _hot(
    rng: np.random.Generator,
    make: Callable[[float], Firmware],
    works: list[Work],
    over: tuple[float, float] = (4.0, 20.0),
) -> Scene:
    limit, warning = _limit(rng)
    drive = _cooling(rng, _drive(rng, works), limit, over, 12.0)
    return Scene(replace(drive, firmware=make(limit)), _equipment(rng, warning))


def _saw(rng: np.random.Generator) -> Scene:
    return _hot(rng, lambda at: _two_point(rng, at), _works(rng, 2, 60, 150))


def _saw_writing(rng: np.random.Generator) -> Scene:
    return _hot(rng, lambda at: _two_point(rng, at), _works(rng, 2, 60, 150, True))


def _shallow(rng: np.random.Generator) -> Scene:
    return _hot(rng, lambda at: _two_point(rng, at, True), _works(rng, 2, 60, 150))


def _shifted(rng: np.random.Generator) -> Scene:
    """Long cycles, and the second phase trips 1 °C higher or lower."""
    scene = _saw(rng)
    firmware = scene.drive.firmware
    assert isinstance(firmware, TwoPoint)
    shift = float(rng.choice([-1.0, 1.0]))
    return replace(
        scene, drive=replace(scene.drive, firmware=replace(firmware, shift_per_phase=shift))
    )


def _lasting(rng: np.random.Generator, writes: bool | None = None) -> Scene:
    """Down once, and not up again before the end of the phase; ``writes`` None: some do."""
    level = float(rng.uniform(0.3, 0.75))
    works = _works(rng, 1, 80, 160, bool(rng.random() < 0.4) if writes is None else writes)
    return _hot(rng, lambda at: TwoPoint(at, at - 40.0, level), works)


def _ramp(rng: np.random.Generator) -> Scene:
    slope, floor = float(rng.uniform(0.05, 0.2)), float(rng.uniform(0.3, 0.7))
    lag = float(rng.uniform(8.0, 25.0))
    works = _works(rng, 2, 90, 160, bool(rng.random() < 0.3))
    return _hot(rng, lambda at: Smooth(at, slope, floor, lag), works, (10.0, 25.0))


def _straight(rng: np.random.Generator) -> Scene:
    lasts, floor = float(rng.uniform(20.0, 60.0)), float(rng.uniform(0.3, 0.75))
    band = float(rng.choice([1.5, 6.0, 40.0]))
    works = _works(rng, 2, 90, 160, bool(rng.random() < 0.3))
    return _hot(rng, lambda at: Ramp(at, at - band, floor, lasts), works, (10.0, 25.0))


def _stairs(rng: np.random.Generator) -> Scene:
    step, every = float(rng.uniform(0.02, 0.06)), float(rng.uniform(1.5, 5.0))
    works = _works(rng, 2, 90, 160, bool(rng.random() < 0.3))
    return _hot(rng, lambda at: Staircase(at, step, every, 0.4), works, (10.0, 25.0))


def _flicker(rng: np.random.Generator) -> Scene:
    down, up = float(rng.uniform(0.4, 0.9)), float(rng.uniform(0.3, 0.9))
    level = float(rng.uniform(0.2, 0.6))
    works = _works(rng, 1, 80, 160)
    return _hot(rng, lambda at: Chopper(at, at - 6.0, level, down, up), works, (8.0, 25.0))


def _sweep(rng: np.random.Generator) -> Scene:
    """Short phases, one after the other, of a drive that gets hot on the way."""
    writes = bool(rng.random() < 0.4)
    works = _works(rng, 7, 8, 25, writes)
    return _hot(rng, lambda at: _two_point(rng, at), works, (2.0, 6.0))


def _no_sensor(rng: np.random.Generator) -> Scene:
    scene = _saw(rng)
    return replace(scene, sees=replace(scene.sees, sensor=False, counts=True))


def _far_sensor(rng: np.random.Generator) -> Scene:
    """The sensor is far from the hot spot: it shows 12 to 20 °C less."""
    scene = _saw(rng)
    off = float(rng.uniform(12, 20))
    return replace(scene, sees=replace(scene.sees, celsius_off=off))


def _nothing_known(rng: np.random.Generator) -> Scene:
    scene = _saw(rng)
    return replace(scene, sees=replace(scene.sees, sensor=False, counts=False))


def _flash(rng: np.random.Generator, works: list[Work]) -> tuple[Flash, float]:
    cache = float(rng.uniform(0.15, 0.8)) * works[0].seconds
    return Flash(
        cache_s=cache,
        direct_share=float(rng.uniform(0.15, 0.75)),
        direct_energy=float(rng.uniform(1.15, 2.0)),
    ), cache


def _collecting(rng: np.random.Generator, works: list[Work]) -> Flash:
    dip = float(rng.uniform(3.0, 10.0))
    return Flash(
        collect_after_s=float(rng.uniform(10, 30)),
        collect_s=dip,
        collect_each_s=dip + float(rng.uniform(8, 25)),
        collect_share=float(rng.uniform(0.2, 0.7)),
        collect_energy=float(rng.uniform(1.3, 3.0)),
    )


def _cool(rng: np.random.Generator, drive: Drive) -> Scene:
    limit = float(rng.uniform(60, 88))
    return Scene(_cooling(rng, drive, limit, (-25.0, -8.0), 12.0), _equipment(rng, limit))


def _willing(rng: np.random.Generator, drive: Drive) -> Scene:
    """It gets to its warning temperature, and does not mind."""
    limit = float(rng.uniform(60, 88))
    scene = Scene(_cooling(rng, drive, limit, (-4.0, 3.0), 15.0), _equipment(rng, limit))
    return replace(scene, sees=replace(scene.sees, counts=False))


def _cache_cool(rng: np.random.Generator) -> Scene:
    works = _works(rng, 1, 60, 150, True)
    return _cool(rng, replace(_drive(rng, works), flash=_flash(rng, works)[0]))


def _cache_warm(rng: np.random.Generator) -> Scene:
    works = _works(rng, 1, 60, 150, True)
    return _willing(rng, replace(_drive(rng, works), flash=_flash(rng, works)[0]))


def _collection_cool(rng: np.random.Generator) -> Scene:
    works = _works(rng, 1, 90, 180, True)
    return _cool(rng, replace(_drive(rng, works), flash=_collecting(rng, works)))


def _collection_warm(rng: np.random.Generator) -> Scene:
    works = _works(rng, 1, 90, 180, True)
    return _willing(rng, replace(_drive(rng, works), flash=_collecting(rng, works)))


def _both(rng: np.random.Generator) -> Scene:
    """A cache that ends, or collection, in a drive that gets too hot."""
    works = _works(rng, 1, 90, 180, True)
    flash = _flash(rng, works)[0] if rng.random() < 0.5 else _collecting(rng, works)
    scene = _hot(rng, lambda at: _two_point(rng, at), works)
    return replace(scene, drive=replace(scene.drive, flash=flash))


def _somewhere(rng: np.random.Generator, drive: Drive) -> Scene:
    return _willing(rng, drive) if rng.random() < 0.5 else _cool(rng, drive)


def _busy_host(rng: np.random.Generator) -> Scene:
    works = _works(rng, 2, 40, 80)
    busy = []
    at = 8.0 + float(rng.uniform(8, 20))
    while at < 8.0 + sum(work.seconds for work in works) - 10.0:
        lasts = float(rng.uniform(3.5, 12))
        busy.append((at, at + lasts, float(rng.uniform(0.4, 0.8))))
        at += lasts + float(rng.uniform(12, 30))
    drive = replace(_drive(rng, works), outside=Outside(busy_host=busy))
    scene = _somewhere(rng, drive)
    return replace(scene, sees=replace(scene.sees, host_load=True))


def _stall(rng: np.random.Generator) -> Scene:
    works = _works(rng, 1, 40, 80)
    at = 8.0 + float(rng.uniform(10, works[0].seconds - 15))
    frozen = [(at, at + float(rng.uniform(3.2, 8)))]
    return _somewhere(rng, replace(_drive(rng, works), outside=Outside(frozen_host=frozen)))


def _silent_drive(rng: np.random.Generator) -> Scene:
    works = _works(rng, 1, 40, 80)
    at = 8.0 + float(rng.uniform(10, works[0].seconds - 15))
    waits = [(at, at + float(rng.uniform(3.2, 8)))]
    return _somewhere(rng, replace(_drive(rng, works), outside=Outside(waiting_drive=waits)))


def _power_state(rng: np.random.Generator) -> Scene:
    return _capped(rng, True)


def _power_cap(rng: np.random.Generator) -> Scene:
    return _capped(rng, False)


def _capped(rng: np.random.Generator, reported: bool) -> Scene:
    """Cool, and at most so many watts from a moment in the first phase to one in the last."""
    works = _works(rng, 2, 60, 100, again=False)
    drive = _drive(rng, works)
    least = min(work.watts for work in works)
    watts = drive.idle_watts + drive.busy_watts + least * float(rng.uniform(0.35, 0.75))
    end = 8.0 + works[0].seconds + float(rng.uniform(0.3, 0.7)) * works[1].seconds
    cap = Cap(watts, 8.0 + float(rng.uniform(0.3, 0.6)) * works[0].seconds, end)
    scene = _cool(rng, replace(drive, cap=cap))
    return replace(scene, sees=replace(scene.sees, reports_power_state=reported))


def _cap_at_an_end(rng: np.random.Generator) -> Scene:
    """Cool, and at most so many watts in the last seconds of the first phase; free in the rest."""
    works = _works(rng, 5, 20, 80)
    drive = _drive(rng, works)
    watts = drive.idle_watts + drive.busy_watts + works[0].watts * float(rng.uniform(0.35, 0.75))
    end = 8.0 + works[0].seconds
    return _cool(rng, replace(drive, cap=Cap(watts, end - float(rng.uniform(4, 10)), end)))


def _clean(rng: np.random.Generator) -> Scene:
    works = _works(rng, 3, 20, 80, bool(rng.random() < 0.5))
    return _cool(rng, replace(_drive(rng, works), firmware=NeverThrottles()))


def _clean_warm(rng: np.random.Generator) -> Scene:
    return _willing(rng, _drive(rng, _works(rng, 3, 20, 80, bool(rng.random() < 0.5))))


def _clean_drifting(rng: np.random.Generator) -> Scene:
    drive = _drive(rng, _works(rng, 3, 20, 80, bool(rng.random() < 0.5)))
    drift = Outside(drift=float(rng.uniform(-0.08, 0.08)))
    return _somewhere(rng, replace(drive, outside=drift))


def _clean_restless(rng: np.random.Generator) -> Scene:
    """IOPS that wander by themselves, some of them for seconds."""
    drive = _drive(rng, _works(rng, 3, 20, 80, bool(rng.random() < 0.5)))
    noise = Noise(float(rng.uniform(0.03, 0.10)), float(rng.choice([0.0, 0.3, 1.0, 5.0])))
    return _somewhere(rng, replace(drive, noise=noise))


def _unwarned(draw: Callable[[np.random.Generator], Scene]) -> Callable[..., Scene]:
    """The same of a drive that names no warning temperature, and does not count."""

    def scene(rng: np.random.Generator) -> Scene:
        one = draw(rng)
        return replace(one, sees=replace(one.sees, warning_celsius=None, counts=False))

    return scene


KINDS: dict[str, Callable[[np.random.Generator], Scene]] = {
    "saw": _saw,
    "saw, writing": _saw_writing,
    "saw, shallow": _shallow,
    "saw, trip shifts": _shifted,
    "one lasting step": _lasting,
    "smooth ramp": _ramp,
    "straight ramp": _straight,
    "many small steps": _stairs,
    "flicker": _flicker,
    "sweep of short phases": _sweep,
    "counters, no sensor": _no_sensor,
    "sensor, no warning": _unwarned(_saw),
    "sensor far off": _far_sensor,
    "neither": _nothing_known,
    "cache, cool": _cache_cool,
    "cache, warm": _cache_warm,
    "collection, cool": _collection_cool,
    "collection, warm": _collection_warm,
    "heat and flash": _both,
    "busy host": _busy_host,
    "frozen host": _stall,
    "drive answers nothing": _silent_drive,
    "power state told": _power_state,
    "power cap, not told": _power_cap,
    "power cap at an end": _cap_at_an_end,
    "clean, cool": _clean,
    "clean, warm": _clean_warm,
    "clean, drifting": _clean_drifting,
    "clean, restless": _clean_restless,
    "cache, no warning": _unwarned(_cache_warm),
    "collection, no warning": _unwarned(_collection_warm),
    "busy host, no warning": _unwarned(_busy_host),
    "power cap, no warning": _unwarned(_power_cap),
    "saw, writing, no warning": _unwarned(_saw_writing),
    "lasting step, writing, no warning": _unwarned(partial(_lasting, writes=True)),
    "clean, no warning": _unwarned(_clean_drifting),
}
