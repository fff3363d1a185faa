"""Benches and loads of which the regimes are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.judge.clocks import DeviceClock, HostClock, quartz
from tests.judge.disk import Scene, Work
from tests.judge.loads import Steps, level, restless
from tests.judge.meters import Meter, Rail

Rng = np.random.Generator
Shape = Callable[[Rng, float, float], Steps]
"""Watts of a phase, of its seconds and its usual watts."""

Draw = Callable[[Rng, int], Scene]
"""A run of so many phases with work."""

VOLTS_LIMITS, AMPS_LIMITS = (0.00035, 0.0005), (0.0005, 0.0006)
"""Of reading, and floor in V or A: five and a half digits in a year, to the third digit."""


@dataclass(frozen=True)
class Regime:
    """Circumstances, and how to draw a run in them."""

    name: str
    draw: Draw
    phases: int = 10
    """With work, in a run."""
    refused: bool = False
    """Nobody can know the watts: right is no number, or "at least"."""
    quantities: tuple[str, ...] = ("watts",)
    blind: bool = False
    """Locked to its meter, which no analysis of the readings can see: right is a U that holds,
    or a number without one, and wrong what misses without a note."""


def meter(rng: Rng, channel: str, rail: str, sees: str, **other: Any) -> Meter:
    """A meter with its errors even within its limits, and noise that is far below them."""
    of_reading, floor = other.pop("limits", VOLTS_LIMITS if sees != "amps" else AMPS_LIMITS)
    return Meter(**{
        "channel": channel, "rail": rail, "sees": sees,
        "gain_limit": of_reading, "floor_limit": floor,
        "gain": float(rng.uniform(-1, 1) * of_reading),
        "offset": float(rng.uniform(-1, 1) * floor),
        "noise": floor / 5,
        "clock": quartz(rng),
        **other,
    })  # fmt: skip


def pair(rng: Rng, rail: Rail, **other: Any) -> list[Meter]:
    """A voltmeter and an ammeter on a rail, each on a clock of its own; ``volts_`` and ``amps_``
    before a key is of one of them."""

    def keys(one: str) -> dict[str, Any]:
        own = {key.removeprefix(f"{one}_"): value for key, value in other.items()
               if key.startswith(f"{one}_")}  # fmt: skip
        both = {k: v for k, v in other.items() if not k.startswith(("volts_", "amps_"))}
        return {**both, **own}

    tail = rail.name.lower().replace(".", "")
    return [
        meter(rng, f"v{tail}.voltage", rail.name, "volts", **keys("volts")),
        meter(rng, f"i{tail}.current", rail.name, "amps", **keys("amps")),
    ]


def twelve(rng: Rng, **other: Any) -> Rail:
    return Rail("12V", float(rng.uniform(11.8, 12.3)), float(rng.uniform(0.01, 0.05)), **other)


def plain(rng: Rng, seconds: float, watts: float) -> Steps:
    """A drive that hardly varies."""
    return level(seconds, watts) * restless(rng, seconds, 0.02)


def works(
    rng: Rng, shape: Shape, phases: int, seconds: tuple[float, float] = (20.0, 40.0),
    watts: tuple[float, float] = (3.0, 10.0), idle: bool = True,
) -> list[Work]:  # fmt: skip
    """An idle phase, and phases of work of the given shape."""
    done: list[Work] = []
    if idle:
        rest = level(10.0, float(rng.uniform(0.6, 1.5))) * restless(rng, 10.0, 0.02)
        done.append(Work(rest, 0.0, "idle_before"))
    for _ in range(phases):
        lasts = round(float(rng.uniform(*seconds)), 3)
        drawn = shape(rng, lasts, float(rng.uniform(*watts)))
        done.append(Work(drawn, float(rng.uniform(20_000, 400_000))))
    return done


def simple(
    rng: Rng, phases: int, shape: Shape = plain, *, rail: Rail | None = None,
    span: tuple[float, float] = (20.0, 40.0), watts: tuple[float, float] = (3.0, 10.0),
    idle: bool = True, scene: dict[str, Any] | None = None, **meters: Any,
) -> Scene:  # fmt: skip
    """One 12 V rail, two meters of 10 S/s with 20 ms of integration by default."""
    rail = rail or twelve(rng)
    return Scene(
        works(rng, shape, phases, span, watts, idle), [rail], pair(rng, rail, **meters),
        **(scene or {}),
    )  # fmt: skip


def polled(rng: Rng) -> HostClock:
    return HostClock(u_s=float(rng.uniform(0.0005, 0.003)))


def turned(meters: Sequence[Meter], sign: float) -> list[Meter]:
    """All at one end of their limits of gain: one reference is behind them."""
    return [replace(one, gain=sign * one.gain_limit) for one in meters]


def bent_clock(rng: Rng, bent: Callable[[Any], Any], **other: Any) -> DeviceClock:
    return quartz(rng, bent=bent, **other)
