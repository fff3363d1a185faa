"""Benches that labs have beside the ordinary one, and what fio's own clock does."""

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
    plain,
    polled,
    simple,
    twelve,
    works,
)
from tests.judge.clocks import HostClock, quartz
from tests.judge.disk import Scene, Work
from tests.judge.loads import Floats, Steps, flicker, level, restless
from tests.judge.meters import Rail, dithered, jittery


def idle(rng: Rng, phases: int) -> Scene:
    """Phases without work, of a drive that wakes now and then by little."""
    rail = twelve(rng)
    rests = [
        Work(level(20.0, float(rng.uniform(0.3, 1.5))) * restless(rng, 20.0, 0.03, 0.2))
        for _ in range(phases)
    ]
    return Scene(rests, [rail], pair(rng, rail))


def housekeeping(rng: Rng, phases: int) -> Scene:
    """Phases without work in which the drive is awake for 10 to 80 ms after 0.1 to 1 s."""
    rail = twelve(rng)
    rests = [Work(shapes.random_wakes(rng, 30.0, 1.0)) for _ in range(phases)]
    return Scene(rests, [rail], pair(rng, rail))


def nplc_ten(rng: Rng, phases: int) -> Scene:
    return simple(rng, phases, shapes.noisy(0.3), interval_s=0.22, aperture_s=0.2)


def one_a_second(rng: Rng, phases: int) -> Scene:
    shape = shapes.noisy(float(rng.choice([0.3, 5.0])))
    return simple(rng, phases, shape, span=(30.0, 60.0), interval_s=1.0, aperture_s=0.1)


def two_rates(rng: Rng, phases: int) -> Scene:
    """Volts twice a second, amps fifty times."""
    return simple(
        rng, phases, shapes.collecting, volts_interval_s=0.5, volts_aperture_s=0.1,
        amps_interval_s=0.02, amps_aperture_s=0.016,
    )  # fmt: skip


def over_usb(rng: Rng, phases: int) -> Scene:
    """Asked by a host that is late now and then."""
    return simple(rng, phases, shapes.noisy(0.3), pace=jittery, clock=polled(rng))


def ordinary_m2(rng: Rng, phases: int) -> Scene:
    """3.3 V alone behind 0.06 Ω, with load noise."""
    rail = Rail("3V3", float(rng.uniform(3.28, 3.36)), 0.06)
    return simple(rng, phases, shapes.noisy(0.3), rail=rail, watts=(2.0, 7.0))


def _swing_stated(forgets_s: float) -> Draw:
    """The rig says how far the current swings: 4 standard deviations of its noise to either
    side."""

    def draw(rng: Rng, phases: int) -> Scene:
        share, watts = 0.05, (3.0, 10.0)
        rail = twelve(rng, declared={"load_swing_amps": 8 * share * watts[1] / 11.5})

        def shape(rng: Rng, seconds: float, watts: float) -> Steps:
            return level(seconds, watts) * restless(rng, seconds, share, forgets_s)

        return simple(rng, phases, shape, rail=rail, watts=watts)

    return draw


def handheld(rng: Rng, phases: int) -> Scene:
    """Two handhelds that integrate without pause and send 2.5 and 2 readings a second."""
    limits: dict[str, Any] = {"volts_limits": (0.003, 0.002), "amps_limits": (0.008, 0.003)}
    clock = HostClock(u_s=0.2)
    return simple(
        rng, phases, shapes.noisy(0.3), clock=clock, volts_interval_s=0.4, volts_aperture_s=0.4,
        amps_interval_s=0.5, amps_aperture_s=0.5, **limits,
    )  # fmt: skip


def digitiser(rng: Rng, phases: int) -> Scene:
    """Volts and amps together at 1 kS/s, without pause."""
    rail, clock = twelve(rng), quartz(rng)
    drawn = works(rng, shapes.flickering, phases, (10.0, 20.0))
    seconds = sum(work.seconds + 0.05 for work in drawn) + 5
    moments = np.arange(0.3, seconds - 0.3, 0.001)
    same: dict[str, Any] = {
        "interval_s": 0.001,
        "aperture_s": 0.001,
        "clock": clock,
        "moments": moments,
    }
    meters = [
        meter(rng, "ps.voltage_0", rail.name, "volts", limits=(0.002, 0.005), **same),
        meter(rng, "ps.current_0", rail.name, "amps", limits=(0.004, 0.005), **same),
    ]
    return Scene(drawn, [rail], meters)


def warm_shunt(rng: Rng, phases: int) -> Scene:
    """Amps across a shunt off by its tolerance and by its temperature, each within its limits."""
    ppm, celsius = float(rng.uniform(-50, 50)), float(rng.uniform(20, 45))
    off = float(rng.uniform(-1, 1)) * 0.001
    true = 0.05 * (1 + off + ppm * 1e-6 * (celsius - 25))
    declared: dict[str, object] = {
        "shunt_ohm": 0.05, "shunt_tolerance_pct": 0.1, "shunt_ppm_per_kelvin_limit": 50.0,
        "shunt_celsius": [20.0, 45.0],
    }  # fmt: skip
    rail = replace(twelve(rng), shunt_ohm=true, declared=declared)
    meters = [
        meter(rng, "v12.voltage", rail.name, "volts"),
        meter(rng, "i12.voltage", rail.name, "drop", limits=(0.0005, 1e-5)),
    ]
    return Scene(works(rng, shapes.noisy(0.3), phases), [rail], meters)


def before_the_ammeter(rng: Rng, phases: int) -> Scene:
    """Volts on the supply's side of an ammeter of 0.1 Ω ± 10 %."""
    declared: dict[str, object] = {"burden_ohm": 0.1, "burden_tolerance_pct": 10.0}
    rail = replace(
        twelve(rng), shunt_ohm=0.1 * (1 + 0.1 * float(rng.uniform(-1, 1))), declared=declared
    )
    meters = [
        meter(rng, "v12.voltage", rail.name, "supply"),
        meter(rng, "i12.current", rail.name, "amps"),
    ]
    return Scene(works(rng, shapes.collecting, phases), [rail], meters)


def smart_plug(rng: Rng, phases: int) -> Scene:
    """A topic that says each second what it shows just then."""
    shape = shapes.noisy(float(rng.choice([0.3, 5.0])))
    return simple(rng, phases, shape, interval_s=1.0, aperture_s=0.0, clock=HostClock(u_s=0.1))


def fio_fast(rng: Rng, phases: int) -> Scene:
    pace = float(rng.choice([0.93, 1.07]))
    return simple(rng, phases, plain, scene={"fio_pace": pace})


def all_together(rng: Rng, phases: int) -> Scene:
    """Noise, drift, steps, lost readings and two rails at once."""
    rails = [twelve(rng, share=0.7), Rail("3V3", 3.31, 0.04, 0.3)]

    def shape(rng: Rng, seconds: float, watts: float) -> Steps:
        drawn = shapes.collecting(rng, seconds, watts) * restless(rng, seconds, 0.05, 2.0)
        return drawn * (shapes.drift(rng, seconds, 1.0))

    def leaves(rng: Rng, t: Floats, values: Floats) -> NDArray[np.bool_]:
        return rng.random(len(t)) < 0.02

    meters = [one for rail in rails for one in pair(rng, rail, leaves=leaves, pace=dithered)]
    return Scene(works(rng, shape, phases), rails, meters)


def _again(shape: Shape) -> Draw:
    """Equal phases: the same process, drawn anew."""
    return lambda rng, phases: simple(rng, phases, shape, span=(30.0, 30.0), watts=(6.0, 6.0))


def _same(forgets_s: float) -> Shape:
    return lambda rng, seconds, watts: (
        level(seconds, watts) * restless(rng, seconds, 0.08, forgets_s)
    )


def _same_flicker(rng: Rng, seconds: float, watts: float) -> Steps:
    return level(seconds, watts) * flicker(rng, seconds, 0.08)


REPEATS = ("repeatability",)

OWN = [
    Regime("again: white noise", _again(_same(0.0)), quantities=REPEATS),
    Regime("again: noise of 0.3 s", _again(_same(0.3)), quantities=REPEATS),
    Regime("again: noise of 1 s", _again(_same(1.0)), quantities=REPEATS),
    Regime("again: noise of 20 s", _again(_same(20.0)), refused=True, quantities=REPEATS),
    Regime("again: 1/f noise", _again(_same_flicker), refused=True, quantities=REPEATS),
    Regime("idle", idle),
    Regime("housekeeping wakes", housekeeping),
    Regime("10 mains periods each", nplc_ten),
    Regime("one reading a second", one_a_second),
    Regime("volts 2 S/s, amps 50 S/s", two_rates),
    Regime("late over USB", over_usb),
    Regime("M.2, 0.06 Ω, load noise", ordinary_m2),
    Regime("white noise, swing stated", _swing_stated(0.0)),
    Regime("noise of 0.3 s, swing stated", _swing_stated(0.3)),
    Regime("handhelds, 2 and 2.5 S/s", handheld),
    Regime("1 kS/s without pause", digitiser, phases=6),
    Regime("warm shunt", warm_shunt),
    Regime("volts before the ammeter", before_the_ammeter),
    Regime("topic each second, no aperture", smart_plug),
    Regime("fio's clock off by 7 %", fio_fast, quantities=("watts", "IOPS/W")),
    Regime("all at once", all_together),
]
