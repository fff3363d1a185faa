"""Meters that lose, hold or cut what they should show, and loads at the edge of what they see."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.judge import shapes
from tests.judge.benches import Regime, Rng, simple, twelve
from tests.judge.clocks import HostClock
from tests.judge.disk import Scene
from tests.judge.loads import Floats, Steps, joined, level, restless, spells
from tests.judge.meters import Rail


def _bursts(rng: Rng, seconds: float, watts: float) -> Steps:
    """5 to 15 % of the time at about twice the watts."""
    share = float(rng.uniform(0.05, 0.15))
    lasts = float(rng.uniform(0.15, 1.0))
    rest = lasts * (1 - share) / share
    drawn = spells(rng, seconds, [(6.0, 0.7 * rest, 1.3 * rest), (13.0, 0.7 * lasts, 1.3 * lasts)])
    return drawn * restless(rng, seconds, 0.02, 0.3)


def overload(rng: Rng, phases: int) -> Scene:
    """The bursts are above the ammeter's range, and it says so."""
    return simple(rng, phases, _bursts, amps_full_scale=float(rng.uniform(0.65, 0.95)))


def hold(rng: Rng, phases: int) -> Scene:
    """Whenever the bursts come the ammeter is on hold."""
    return simple(rng, phases, _bursts, amps_full_scale=0.8, amps_beyond="hold")


def away(rng: Rng, phases: int) -> Scene:
    """The ammeter is away for 1 to 2 s, whatever the load does: once or twice a minute."""

    def leaves(rng: Rng, t: Floats, values: Floats) -> NDArray[np.bool_]:
        begins = np.cumsum(rng.uniform(30, 60, 20))
        return np.asarray(
            np.any([(t > at) & (t < at + rng.uniform(1, 2)) for at in begins], axis=0)
        )

    return simple(rng, phases, shapes.noisy(0.3), amps_leaves=leaves)


def clip(rng: Rng, phases: int) -> Scene:
    """The bursts are above the ammeter's range, and it shows its full scale."""
    return simple(rng, phases, _bursts, amps_full_scale=0.8, amps_beyond="clip")


def _above(limit: float, share: float) -> Any:
    def leaves(rng: Rng, t: Floats, values: Floats) -> NDArray[np.bool_]:
        return (values > limit) & (rng.random(len(t)) < share)

    return leaves


def lost_when_high(rng: Rng, phases: int) -> Scene:
    """Readings of the bursts get lost, and nothing says why."""
    return simple(rng, phases, _bursts, amps_leaves=_above(0.8, 1.0))


def _at_jumps(rng: Rng, t: Floats, values: Floats) -> NDArray[np.bool_]:
    """An auto-ranging meter shows nothing for three readings when it changes its range."""
    jumps = np.abs(np.diff(values, prepend=values[0])) > 0.2
    near = np.convolve(jumps, np.ones(3))[: len(t)] > 0
    return np.asarray(near)


def auto_range(rng: Rng, phases: int) -> Scene:
    return simple(rng, phases, _bursts, amps_leaves=_at_jumps)


def stuck(rng: Rng, phases: int) -> Scene:
    """For half of the run the ammeter repeats itself, while the load is another."""
    begin = float(rng.uniform(0.1, 0.45))
    scene = {"gap_s": 0.3}
    return simple(
        rng, phases, shapes.collecting, scene=scene, watts=(3.0, 12.0),
        amps_stuck=(begin, begin + 0.5),
    )  # fmt: skip


def inrush(rng: Rng, phases: int) -> Scene:
    """It takes thrice as much for 0.1 to 0.3 s where the times are not known to 0.2 s."""
    return simple(
        rng, phases, _waking, span=(3.0, 6.0),
        clock=HostClock(u_s=0.2), scene={"gap_s": 0.6},
    )  # fmt: skip


def _waking(rng: Rng, seconds: float, watts: float) -> Steps:
    lasts = float(rng.uniform(0.1, 0.3))
    parts = [level(lasts, watts * float(rng.uniform(2, 3))), level(seconds - lasts, watts)]
    return joined(parts) * restless(rng, seconds, 0.01)


def sag(rng: Rng, phases: int) -> Scene:
    """Inrush behind 0.2 Ω: the volts sag while it lasts."""
    return simple(
        rng, phases, _waking, rail=Rail("12V", 12.1, 0.2), span=(5.0, 10.0), watts=(4.0, 8.0)
    )


def digits(rng: Rng, phases: int) -> Scene:
    """3.4 mA of a meter that shows whole milliamperes."""

    def shape(rng: Rng, seconds: float, watts: float) -> Steps:
        return level(seconds, float(rng.uniform(0.02, 0.09))) * restless(rng, seconds, 0.003)

    return simple(
        rng, phases, shape, amps_digit=0.001, amps_limits=(0.0005, 0.0001), amps_noise=0.0
    )


def pick_up(rng: Rng, phases: int) -> Scene:
    """5 mA with 1 mA of hum on the leads, each 10 ms at the same place of it."""

    def shape(rng: Rng, seconds: float, watts: float) -> Steps:
        return level(seconds, 0.06 * float(rng.uniform(0.8, 1.2))) * restless(rng, seconds, 0.003)

    return simple(
        rng, phases, shape, amps_hum=0.001 * float(rng.uniform(0.7, 1.3)), amps_hum_hz=50.0,
        aperture_s=0.004, amps_limits=(0.0005, 0.00002), watts=(0.05, 0.1),
    )  # fmt: skip


def idle_state(rng: Rng, phases: int) -> Scene:
    """A deep power state: 2 to 8 mW, and housekeeping now and then."""

    def shape(rng: Rng, seconds: float, watts: float) -> Steps:
        low = float(rng.uniform(0.002, 0.008))
        return spells(rng, seconds, [(low, 2.0, 9.0), (0.08, 0.05, 0.4)])

    rail = Rail("3V3", 3.3, 0.02)
    return simple(rng, phases, shape, rail=rail, amps_limits=(0.0005, 0.00001), amps_noise=2e-6)


def blips(rng: Rng, phases: int) -> Scene:
    """Overloads of 2 % of the time."""

    def shape(rng: Rng, seconds: float, watts: float) -> Steps:
        drawn = spells(rng, seconds, [(6.0, 4.0, 9.0), (24.0, 0.05, 0.2)])
        return drawn * restless(rng, seconds, 0.02, 0.3)

    return simple(rng, phases, shape, rail=twelve(rng), amps_full_scale=1.0)


SICK = [
    Regime("away for 1 to 2 s", away),
    Regime("inrush in a doubtful edge", inrush, phases=15),
    Regime("sag during inrush", sag, phases=15),
    Regime("3 to 7 mA in steps of 1 mA", digits),
    Regime("5 mA with 1 mA of hum", pick_up),
    Regime("deep idle state", idle_state),
    Regime("overload, 5 to 15 %", overload, refused=True),
    Regime("overload, 2 %", blips, refused=True),
    Regime("on hold when high", hold, refused=True),
    Regime("lost when high", lost_when_high, refused=True),
    Regime("auto-range, lost at jumps", auto_range, refused=True),
    Regime("clipped at full scale", clip, refused=True),
    Regime("stuck for half of the run", stuck, refused=True),
]
