"""How warm a drive was, and whether that explains that it did less."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.readings.channel_series import Floats, Ints

NEAR_WARNING = 5.0
"""°C below the warning temperature from which on a drive may hold itself back: a choice. WCTEMP is
no promise of when it starts, and composite temperatures come as whole kelvins."""

STEP = 1.0
"""°C that a sensor may be off by rounding: composite temperatures come as whole kelvins."""

BEFORE_NS, BESIDE_NS = 3_000_000_000, 5_000_000_000
"""How far before and after the begin of a fall readings tell how warm the drive was then."""

LEAST_RISE = 8.0
"""Without a warning temperature: °C above the run's lowest from which on heat may be why."""


@dataclass(frozen=True, slots=True)
class SensorReadings:
    """One temperature series; ``own`` when it is the drive's own sensor."""

    name: str
    own: bool
    t_ns: Ints
    celsius: Floats

    @property
    def interval_ns(self) -> int:
        """Usual time from one reading to the next; 0 for a single one."""
        return int(np.median(np.diff(self.t_ns))) if len(self.t_ns) > 1 else 0

    def between(self, begin_ns: int, end_ns: int) -> Floats:
        """Readings between two moments; the nearest one when there are none."""
        low, high = np.searchsorted(self.t_ns, [begin_ns, end_ns])
        if high > low:
            return self.celsius[low:high]
        if not len(self.celsius):
            return self.celsius
        beside = [place for place in (int(low) - 1, int(low)) if 0 <= place < len(self.celsius)]
        nearest = min(beside, key=lambda place: abs(int(self.t_ns[place]) - begin_ns))
        return self.celsius[nearest : nearest + 1]


@dataclass(frozen=True, slots=True)
class Temperatures:
    """The temperatures of a run and the drive's warning temperature (None: not reported)."""

    sensors: tuple[SensorReadings, ...]
    warning_celsius: float | None
    fell_celsius: float | None = None
    """Where the drive was seen to begin to throttle; None while that is looked for."""

    @classmethod
    def of(
        cls,
        sensors: Mapping[str, tuple[Ints, Floats]],
        own: Collection[str],
        warning_celsius: float | None,
    ) -> Temperatures:
        """From sensor name → (times, °C); the drive's own ones (``own``) come first."""
        found = [
            SensorReadings(name, name in own, t_ns[good], celsius[good])
            for name, (t_ns, celsius) in sensors.items()
            for good in (np.isfinite(celsius),)
            if good.any()
        ]
        found.sort(key=lambda sensor: not sensor.own)
        return cls(tuple(found), warning_celsius)

    @property
    def own(self) -> SensorReadings | None:
        """The drive's own sensor."""
        return self.sensors[0] if self.sensors and self.sensors[0].own else None

    @property
    def knows_limit(self) -> bool:
        """Whether both the drive's own temperature and its warning temperature are known."""
        return self.warning_celsius is not None and self.own is not None

    def celsius_at(self, moment_ns: int) -> float | None:
        """°C of the first (the drive's own) sensor at a moment."""
        if not self.sensors:
            return None
        return float(np.interp(moment_ns, self.sensors[0].t_ns, self.sensors[0].celsius))

    def extremes(self, begin_ns: int, end_ns: int) -> tuple[float, float] | None:
        """The drive's own lowest and highest °C between two moments; None without a sensor of its
        own."""
        if self.own is None:
            return None
        part = self.own.between(begin_ns, end_ns)
        return float(part.min()), float(part.max())

    def highest_near(self, moment_ns: int) -> float | None:
        """The drive's own highest °C of the readings around a moment."""
        if self.own is None:
            return None
        apart_ns = self.own.interval_ns
        return float(self.own.between(moment_ns - apart_ns, moment_ns + apart_ns + 1).max())

    def highest_outside(self, until_ns: int, stretches: Sequence[tuple[int, int]]) -> float | None:
        """The drive's own highest °C before a moment and not in (or just beside) any stretch."""
        if self.own is None:
            return None
        beside_ns = max(BESIDE_NS, self.own.interval_ns)
        t_ns = self.own.t_ns
        outside = t_ns < until_ns - beside_ns
        for begin_ns, end_ns in stretches:
            outside &= (t_ns < begin_ns - beside_ns) | (t_ns > end_ns + beside_ns)
        return float(self.own.celsius[outside].max()) if outside.any() else None

    def stays_above(self, celsius: float, begin_ns: int, end_ns: int, least_s: float) -> bool:
        """Whether the drive's own readings were at or above ``celsius`` for ``least_s`` or longer
        at a time."""
        if self.own is None:
            return False
        low, high = np.searchsorted(self.own.t_ns, [begin_ns, end_ns])
        t_ns, above = self.own.t_ns[low:high], self.own.celsius[low:high] >= celsius
        edges = np.flatnonzero(np.diff(np.concatenate([[0], above.astype(np.int64), [0]])))
        return any(t_ns[b - 1] - t_ns[a] >= least_s * 1e9 for a, b in edges.reshape(-1, 2))

    def words(self, begin_ns: int, end_ns: int) -> str:
        """What the first sensor showed, in words."""
        if not self.sensors:
            return "no temperature was recorded"
        part = self.sensors[0].between(begin_ns, end_ns)
        return f"{self.sensors[0].name} {part.min():.0f}–{part.max():.0f} °C"

    def at_limit(self, begin_ns: int, end_ns: int, at_start: bool) -> str | None:
        """In words, what shows that a stretch begins at the thermal limit; None if nothing.

        ``at_start``: the phase begins in it.
        """
        for sensor in self.sensors:
            before_ns, after_ns = (max(ns, sensor.interval_ns) for ns in (BEFORE_NS, BESIDE_NS))
            top = float(sensor.between(begin_ns - before_ns, begin_ns + after_ns).max())
            warning = self.warning_celsius if sensor.own else None
            if warning is not None and top >= warning - NEAR_WARNING - STEP / 2:
                return f"{sensor.name} {top:.0f} °C, warning at {warning:.0f} °C"
            if warning is None and _stopped_rising(sensor, begin_ns, end_ns, top, at_start):
                return f"{sensor.name} stopped rising at {top:.0f} °C, the highest so far"
            fell = self.fell_celsius if sensor.own else None
            if fell is not None and top >= fell - STEP:
                return f"{sensor.name} {top:.0f} °C, as warm as where it began to throttle before"
            if warning is not None:
                return None
        return None

    def never_cooler(
        self, throttled_ns: int, until_ns: int, begin_ns: int, end_ns: int
    ) -> str | None:
        """In words, that a drive that throttled was never let go since; None if it may have been.

        A drive is let go when it has cooled to a certain temperature. If all the time it was no
        cooler than it had been while it still throttled (``throttled_ns`` to ``until_ns``), it
        cannot have reached that. One that was about to, as far as whole degrees tell, and then
        warms up, may have been let go between the two.
        """
        own = self.own
        if own is None or own.t_ns[0] > throttled_ns or own.t_ns[-1] < end_ns - BESIDE_NS:
            return None
        then, part = own.between(throttled_ns, until_ns), own.between(begin_ns, end_ns)
        at_fall = float(np.interp(throttled_ns, own.t_ns, own.celsius))
        lowest, now = min(float(then.min()), float(np.floor(at_fall))), float(part.min())
        cooling = then[-1] < then[0] and then[-1] < lowest + STEP
        let_go = cooling and now < lowest + STEP and float(part.max()) >= part[0] + STEP
        if now < lowest or let_go:
            return None
        return f"{own.name} never below {now:.0f} °C, and it had throttled at {lowest:.0f} °C"


def _stopped_rising(
    sensor: SensorReadings, begin_ns: int, end_ns: int, top: float, at_start: bool
) -> bool:
    """Whether a sensor without a known limit was at its highest so far, and rose no further."""
    so_far = sensor.celsius[: np.searchsorted(sensor.t_ns, begin_ns + BESIDE_NS) + 1]
    highest, lowest = float(so_far.max()), float(so_far.min())
    if top < highest - 2 * STEP or top - lowest < LEAST_RISE:
        return False
    later = sensor.between(begin_ns + BESIDE_NS, max(end_ns, begin_ns + 2 * BESIDE_NS))
    stopped = float(np.median(later)) <= top + STEP / 2
    earlier = float(np.interp(begin_ns - 4 * BESIDE_NS, sensor.t_ns, sensor.celsius))
    return stopped and (at_start or top > earlier)
