"""How the watts of a drive go through a phase."""

from __future__ import annotations

import numpy as np

from tests.judge.benches import Rng, Shape, plain
from tests.judge.loads import Steps, flicker, joined, level, restless, sampled, spells, square


def noisy(forgets_s: float) -> Shape:
    def shape(rng: Rng, seconds: float, watts: float) -> Steps:
        share = float(rng.uniform(0.03, 0.15))
        return level(seconds, watts) * restless(rng, seconds, share, forgets_s)

    return shape


def flickering(rng: Rng, seconds: float, watts: float) -> Steps:
    return level(seconds, watts) * flicker(rng, seconds, float(rng.uniform(0.03, 0.12)))


def drift(rng: Rng, seconds: float, watts: float) -> Steps:
    end = float(rng.uniform(-0.4, 0.4))
    return plain(rng, seconds, watts) * sampled(seconds, 1 + np.linspace(0, end, 2000))


def one_step(rng: Rng, seconds: float, watts: float) -> Steps:
    at, factor = float(rng.uniform(0.2, 0.8)) * seconds, float(rng.choice([0.5, 0.7, 1.5, 2.0]))
    parts = [level(at, watts), level(seconds - at, watts * factor)]
    return joined(parts) * restless(rng, seconds, 0.01)


def decay(rng: Rng, seconds: float, watts: float) -> Steps:
    t = np.linspace(0, seconds, 4000)
    factor = 1 + float(rng.uniform(0.2, 1.0)) * np.exp(
        -t / (seconds * float(rng.uniform(0.05, 0.3)))
    )
    return plain(rng, seconds, watts) * sampled(seconds, factor)


def collecting(rng: Rng, seconds: float, watts: float) -> Steps:
    """Garbage collection now and then: it takes more, or less."""
    other = watts * float(rng.choice([0.6, 0.75, 1.3, 1.6]))
    return spells(rng, seconds, [(watts, 2.0, 8.0), (other, 0.3, 3.0)]) * restless(
        rng, seconds, 0.02
    )


def collection_saw(rng: Rng, seconds: float, watts: float) -> Steps:
    """Collection that comes again and again, and lets go slowly."""
    period = float(rng.uniform(0.4, 3.0))
    t = np.arange(0, seconds, 0.005) + float(rng.uniform(0, period))
    factor = 1 + float(rng.uniform(0.1, 0.6)) * (1 - t % period / period)
    return level(seconds, watts) * sampled(seconds, factor) * restless(rng, seconds, 0.02)


def any_square(rng: Rng, seconds: float, watts: float) -> Steps:
    """A period that is not the interval's: 0.23 to 7 s."""
    period = float(np.exp(rng.uniform(np.log(0.23), np.log(7.0))))
    high = watts * float(rng.uniform(1.3, 4.0))
    drawn = square(
        seconds, watts, high, period, float(rng.uniform(0.1, 0.9)), -rng.uniform(0, period)
    )
    return drawn * restless(rng, seconds, 0.01)


def periodic(periods: tuple[float, ...] | None) -> Shape:
    """Square waves, of the given periods exactly, or of any from 20 ms to 1 s."""

    def shape(rng: Rng, seconds: float, watts: float) -> Steps:
        period = (
            float(rng.choice(periods)) if periods else float(np.exp(rng.uniform(np.log(0.02), 0)))
        )
        high = watts * float(rng.uniform(1.5, 4.0))
        duty = float(rng.uniform(0.2, 0.8))
        return square(seconds, watts, high, period, duty, -float(rng.uniform(0, period)))

    return shape


def wakes(rng: Rng, seconds: float, watts: float) -> Steps:
    """50 mW, and 1.5 W for 15 ms each second."""
    drawn = square(seconds, 0.05, 1.5, 1.0, 0.015, -float(rng.uniform(0, 1.0)))
    return drawn * restless(rng, seconds, 0.01)


def random_wakes(rng: Rng, seconds: float, watts: float) -> Steps:
    """Idle, and awake for 10 to 80 ms after 0.1 to 1 s."""
    low, high = float(rng.uniform(0.05, 0.4)), float(rng.uniform(1.0, 3.0))
    return spells(rng, seconds, [(low, 0.1, 1.0), (high, 0.01, 0.08)])
