"""The circumstances in which the judge draws runs: loads, timing, clocks, rails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.judge import shapes
from tests.judge.benches import (
    Draw,
    Regime,
    Rng,
    Shape,
    meter,
    pair,
    simple,
    twelve,
    works,
)
from tests.judge.clocks import HostClock, Times, quartz
from tests.judge.disk import Scene, Work
from tests.judge.loads import (
    Floats,
    Steps,
    joined,
    level,
    restless,
    square,
)
from tests.judge.meters import Leaves, Rail, dithered, drawn


def lost(share: float) -> Leaves:
    def leaves(rng: Rng, t: Floats, values: Floats) -> NDArray[np.bool_]:
        return rng.random(len(t)) < share

    return leaves


def pushed(rng: Rng, phases: int) -> Scene:
    """Integrated without pause, sent when done, stamped half an interval before they come."""
    every = float(rng.uniform(0.5, 2.0))
    late = _Pushed(u_s=every, always_late_s=float(rng.uniform(0.0, 0.1)))
    shape = shapes.noisy(float(rng.choice([0.0, 0.3, 5.0])))
    return simple(rng, phases, shape, interval_s=every, aperture_s=every, clock=late)


class _Pushed(HostClock):
    """Of the bound that its channel states a transport takes little."""

    def stamps(self, t: Floats, rng: Rng) -> Times:
        quiet = HostClock(u_s=0.02, always_late_s=self.always_late_s + 0.02)
        return quiet.stamps(t, rng)


def slower_later(rng: Rng, seconds: float, interval_s: float) -> Floats:
    """In the middle of the run, and again and again, another interval."""
    t, moments, factor = 0.4, [], 1.0
    until = 0.0
    while t < seconds - 0.6:
        if t >= until:
            factor = float(rng.choice([0.5, 0.7, 1.0, 2.0]))
            until = t + float(rng.uniform(8, 20))
        moments.append(t)
        t += interval_s * factor
    return np.array(moments)


def changed_with_load(rng: Rng, phases: int) -> Scene:
    """6 W each 100 ms, then 12 W each 70 ms: the interval changes when the load does."""
    half, rail = 15.0, twelve(rng)
    drawn = [Work(level(10.0, 1.0) * restless(rng, 10.0, 0.02), 0.0, "idle_before")]
    moments, t, clock = [], 0.3, 2.0 + 10.05
    for _ in range(phases):
        low, high = rng.uniform(4, 7), rng.uniform(9, 13)
        drawn.append(
            Work(joined([level(half, low), level(half, high)]) * restless(rng, 2 * half, 0.01), 9e4)
        )
    edges = [clock + k * (2 * half + 0.05) for k in range(phases)]
    while t < edges[-1] + 2 * half + 1.5:
        fast = any(edge + half <= t < edge + 2 * half for edge in edges)
        moments.append(t)
        t += 0.07 if fast else 0.1
    return Scene(drawn, [rail], pair(rng, rail, moments=np.array(moments)))


def straight_clocks(rng: Rng, phases: int) -> Scene:
    return simple(rng, phases, shapes.one_step, volts_clock=quartz(rng), amps_clock=quartz(rng))


def curved_clocks(rng: Rng, phases: int) -> Scene:
    size, turn = float(rng.uniform(0.01, 0.05)), float(rng.uniform(100, 400))
    return simple(
        rng,
        phases,
        shapes.one_step,
        span=(5, 10),
        amps_clock=quartz(rng, bent=lambda t: size * np.sin(t / turn)),
    )


def warming_clocks(rng: Rng, phases: int) -> Scene:
    size, lasts = float(rng.uniform(0.005, 0.03)), float(rng.uniform(60, 200))
    return simple(
        rng,
        phases,
        shapes.one_step,
        span=(5, 10),
        amps_clock=quartz(rng, bent=lambda t: size * (1 - np.exp(-t / lasts))),
    )


def restarted_clocks(rng: Rng, phases: int) -> Scene:
    at = float(rng.uniform(40, 80))
    return simple(
        rng, phases, shapes.one_step, span=(10, 20), amps_clock=quartz(rng, restarts_at_s=at)
    )


def absurd_clocks(rng: Rng, phases: int) -> Scene:
    return simple(
        rng, phases, shapes.one_step, span=(5, 10), amps_clock=quartz(rng, absurd_pair=True)
    )


def sending_clocks(rng: Rng, phases: int) -> Scene:
    return simple(
        rng,
        phases,
        shapes.one_step,
        span=(5, 10),
        amps_clock=quartz(rng, only_sends=True, u_s=0.02, trip_s=(0.0003, 0.004, 0.003)),
    )


def two_rails(rng: Rng, phases: int) -> Scene:
    rails = [twelve(rng, share=0.8), Rail("3V3", 3.31, 0.03, 0.2)]
    meters = [one for rail in rails for one in pair(rng, rail)]
    return Scene(works(rng, shapes.noisy(0.3), phases), rails, meters)


def _scan(
    rng: Rng,
    phases: int,
    rails: list[Rail],
    gain_at_limit: bool,
    ranges: bool = False,
    drifting: bool = False,
) -> Scene:
    """One instrument goes through volts and shunts in turn; one reference is behind them all."""
    drawn = works(rng, shapes.noisy(0.3), phases)
    seconds = sum(work.seconds + 0.05 for work in drawn) + 5
    every, slot = 0.2, 0.02
    starts = np.arange(0.4, seconds - 1.0, every)
    if drifting:
        starts = 0.4 + np.cumsum(
            every * (1 + np.linspace(0, float(rng.uniform(-0.2, 0.2)), len(starts)))
        )
        starts = starts + np.abs(rng.normal(0, 0.005, len(starts)))
        starts = starts[starts < seconds - 1.0]
    share = 1.0 if gain_at_limit else float(rng.uniform(0, 1))
    gain = share * float(rng.choice([-1, 1])) * 0.0005
    clock, meters, shunted = quartz(rng), [], []
    for number, rail in enumerate(rails):
        shunt = 0.02
        true = shunt * (1 + float(rng.uniform(-1, 1)) * 0.0005)
        shunted.append(
            replace(
                rail, shunt_ohm=true, declared={"shunt_ohm": shunt, "shunt_tolerance_pct": 0.05}
            )
        )
        for k, sees in enumerate(("volts", "drop")):
            limits = (0.0005, 0.0005) if sees == "volts" else (0.0005, 5e-6)
            scale = 20.0 if sees == "volts" else 0.1
            if ranges and sees == "volts":
                scale = (100.0, 10.0)[number % 2]
            meters.append(meter(
                rng, f"daq.{sees}{number}", rail.name, sees, limits=limits,
                interval_s=every, aperture_s=slot * 0.8, full_scale=scale, gain=gain, clock=clock,
                moments=starts + (2 * number + k) * slot,
            ))  # fmt: skip
    return Scene(drawn, shunted, meters)


def shared_daq(rng: Rng, phases: int) -> Scene:
    return _scan(rng, phases, [twelve(rng, share=0.7), Rail("3V3", 3.3, 0.03, 0.3)], False)


def daq_at_limit(rng: Rng, phases: int) -> Scene:
    return _scan(
        rng,
        phases,
        [twelve(rng, share=0.5), Rail("5V", 5.0, 0.03, 0.25), Rail("3V3", 3.3, 0.02, 0.25)],
        True,
    )


def daq_ranges(rng: Rng, phases: int) -> Scene:
    return _scan(
        rng, phases, [twelve(rng, share=0.5), Rail("3V3", 3.3, 0.03, 0.5)], True, ranges=True
    )


def daq_drifting(rng: Rng, phases: int) -> Scene:
    return _scan(
        rng, phases, [twelve(rng, share=0.7), Rail("3V3", 3.3, 0.03, 0.3)], False, drifting=True
    )


def _hum(aperture_s: float) -> Draw:
    def draw(rng: Rng, phases: int) -> Scene:
        ripple = float(rng.uniform(0.01, 0.05))
        return simple(rng, phases, volts_hum=ripple, aperture_s=aperture_s)

    return draw


def _m2(rng: Rng, seconds: float, watts: float) -> Steps:
    return square(
        seconds, 1.65, 8.0 * float(rng.uniform(0.8, 1)), 0.0073 * float(rng.uniform(0.9, 1.1)), 0.5
    )


def m2_fast(rng: Rng, phases: int) -> Scene:
    return simple(rng, phases, _m2, rail=Rail("3V3", 3.32, 0.06), span=(10, 20))


def m2_fast_amps(rng: Rng, phases: int) -> Scene:
    """The same with amps at 1 kS/s and volts at 10 S/s."""
    return simple(
        rng,
        phases,
        _m2,
        rail=Rail("3V3", 3.32, 0.06),
        span=(10, 20),
        amps_interval_s=0.001,
        amps_aperture_s=0.0008,
    )


def fast_behind(rng: Rng, phases: int) -> Scene:
    def shape(rng: Rng, seconds: float, watts: float) -> Steps:
        return square(
            seconds, 2.4, 21.5 * float(rng.uniform(0.7, 1)), 0.00713, float(rng.uniform(0.3, 0.7))
        )

    return simple(rng, phases, shape, rail=Rail("12V", 12.1, 0.15), span=(10, 20))


def _with(shape: Shape, **other: Any) -> Draw:
    return lambda rng, phases: simple(rng, phases, shape, **other)


def _in_step(name: str, shape: Shape, blind: bool = False) -> list[Regime]:
    """A load that repeats, asked at random moments and read at regular ones."""
    polled = HostClock(0.001)
    return [
        Regime(f"{name}, random moments", _with(shape, pace=drawn, clock=polled)),
        Regime(f"{name}, random pauses", _with(shape, pace=dithered, clock=polled)),
        Regime(f"{name}, without pause", _with(shape, aperture_s=0.1)),
        Regime(f"{name}, free running", _with(shape), blind=blind),
    ]


ORDINARY = [
    Regime("white noise", _with(shapes.noisy(0.0)), quantities=("watts", "above idle")),
    Regime(
        "noise of 0.3 s", _with(shapes.noisy(0.3)), quantities=("watts", "above idle", "IOPS/W")
    ),
    Regime("noise of 5 s", _with(shapes.noisy(5.0)), quantities=("watts", "above idle")),
    Regime("1/f noise", _with(shapes.flickering)),
    Regime("linear drift", _with(shapes.drift)),
    Regime("one step", _with(shapes.one_step), quantities=("watts", "joules")),
    Regime("decay", _with(shapes.decay)),
    Regime("garbage collection", _with(shapes.collecting)),
    Regime("collection saw", _with(shapes.collection_saw)),
    Regime("square, any period", _with(shapes.any_square)),
    Regime("5 % lost at random", _with(shapes.noisy(0.3), leaves=lost(0.05))),
    Regime("20 % lost at random", _with(shapes.noisy(0.3), leaves=lost(0.2))),
    Regime("pushed, 0.5 to 2 s", pushed),
    Regime("6 s phases, no idle", _with(shapes.noisy(0.3), span=(6.0, 6.0), idle=False), phases=15),
    Regime("3 s phases", _with(shapes.noisy(0.3), span=(3.0, 3.0)), phases=15),
    Regime("120 s phases", _with(shapes.noisy(5.0), span=(120.0, 120.0)), phases=4),
    Regime("gapless meters", _with(shapes.noisy(0.3), aperture_s=0.1)),
    Regime("interval changes", _with(shapes.noisy(5.0), pace=slower_later)),
    Regime("interval changes with load", changed_with_load, phases=6),
    Regime("clocks: straight", straight_clocks),
    Regime("clocks: curved", curved_clocks, phases=20),
    Regime("clocks: warming", warming_clocks, phases=20),
    Regime("clocks: restart", restarted_clocks),
    Regime("clocks: one absurd look", absurd_clocks, phases=20),
    Regime("clocks: only sends", sending_clocks, phases=20),
    Regime("two rails", two_rails),
    Regime("two rails, one scanning DAQ", shared_daq),
    Regime("three rails, DAQ gain at its limit", daq_at_limit, phases=5),
    Regime("two ranges, gain at its limit", daq_ranges, phases=5),
    Regime("DAQ scan that drifts", daq_drifting),
    Regime("supply ripple, 4 ms", _hum(0.004)),
    Regime("supply ripple, 16.7 ms", _hum(1 / 60)),
    Regime("supply ripple, 20 ms", _hum(0.02)),
    *_in_step("20 ms to 1 s", shapes.periodic(None)),
    *_in_step("50 to 500 ms", shapes.periodic((0.05, 0.1, 0.3, 0.5)), blind=True),
    *_in_step("wakes each 1.000 s", shapes.wakes, blind=True),
    Regime("7 ms square behind 0.15 Ω", fast_behind),
    Regime("M.2, 7 ms behind 0.06 Ω", m2_fast),
    Regime("M.2, amps at 1 kS/s", m2_fast_amps, phases=5),
]
