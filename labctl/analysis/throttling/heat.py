"""Whether a drive was at its thermal limit at a given moment, as far as its sensors tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.readings.channel_series import Floats, Ints

NEAR_WARNING = 5.0
"""°C below the warning temperature from which on a drive may hold itself back: a choice. WCTEMP is
no promise of when it starts, and composite temperatures come as whole kelvins."""

COOLED = 12.0
"""°C below the warning temperature at which throttling carried over must have ended."""

STEP = 1.0
"""°C that a sensor may be off by rounding."""

AT_EDGE_NS = 5_000_000_000
"""A series that begins and ends this close to the edges of a stretch covers it."""

NEAR_HIGHEST = 2.0
LEAST_RISE = 8.0
"""Without a warning temperature: °C from the run's highest reading, and above its lowest."""


@dataclass(frozen=True, slots=True)
class HeatSensor:
    """One temperature series; ``own`` when it is the drive's own sensor."""

    name: str
    own: bool
    t_ns: Ints
    celsius: Floats

    @property
    def interval_ns(self) -> int:
        """Usual time from one reading to the next; 0 for a single one."""
        return int(np.median(np.diff(self.t_ns))) if len(self.t_ns) > 1 else 0


@dataclass(frozen=True, slots=True)
class Heat:
    """The temperatures of a run and the drive's warning temperature (None: not reported)."""

    sensors: tuple[HeatSensor, ...]
    warning_celsius: float | None
    onset_celsius: float | None = None
    """Where the drive was seen to begin to throttle; None while that is looked for."""

    @classmethod
    def of(
        cls, sensors: Mapping[str, tuple[str, Ints, Floats]], warning_celsius: float | None
    ) -> Heat:
        """From sensor name → (channel, times, °C); the drive's own sensors come first."""
        found = [
            HeatSensor(name, _is_own(name, channel), t_ns[good], celsius[good])
            for name, (channel, t_ns, celsius) in sensors.items()
            for good in (np.isfinite(celsius),)
            if good.any()
        ]
        found.sort(key=lambda sensor: not sensor.own)
        return cls(tuple(found), warning_celsius)

    @property
    def knows_limit(self) -> bool:
        """Whether both the drive's own temperature and its warning temperature are known."""
        return self.warning_celsius is not None and any(sensor.own for sensor in self.sensors)

    def celsius_at(self, moment_ns: int) -> float | None:
        """°C of the first (the drive's own) sensor at a moment."""
        if not self.sensors:
            return None
        sensor = self.sensors[0]
        return float(np.interp(moment_ns, sensor.t_ns, sensor.celsius))

    def warmest(self, begin_ns: int, end_ns: int) -> float | None:
        """The drive's own highest °C between two moments; None without a sensor of its own."""
        part = self._own(begin_ns, end_ns)
        return None if part is None else float(part.max())

    def coolest(self, begin_ns: int, end_ns: int) -> float | None:
        """The drive's own lowest °C between two moments; None without a sensor of its own."""
        part = self._own(begin_ns, end_ns)
        return None if part is None else float(part.min())

    def highest_near(self, moment_ns: int) -> float | None:
        """The drive's own highest °C of the readings around a moment."""
        own = self._drives_own
        apart_ns = own.interval_ns if own is not None else 0
        return self.warmest(moment_ns - apart_ns, moment_ns + apart_ns + 1)

    def coolest_near(self, moment_ns: int) -> float | None:
        """The drive's own lowest °C of the readings around a moment."""
        own = self._drives_own
        apart_ns = own.interval_ns if own is not None else 0
        return self.coolest(moment_ns - apart_ns, moment_ns + apart_ns + 1)

    def first_below(self, celsius: float, begin_ns: int, end_ns: int) -> int | None:
        """When the drive's own reading is first below ``celsius``; None if it is not."""
        own = self._drives_own
        if own is None:
            return None
        low, high = np.searchsorted(own.t_ns, [begin_ns, end_ns])
        below = np.flatnonzero(own.celsius[low:high] < celsius)
        return int(own.t_ns[low + below[0]]) if len(below) else None

    def warmest_outside(self, until_ns: int, stretches: Sequence[tuple[int, int]]) -> float | None:
        """The drive's own highest °C before a moment and not in (or just beside) any stretch."""
        own = self._drives_own
        if own is None:
            return None
        beside_ns = max(AT_EDGE_NS, own.interval_ns)
        t_ns = own.t_ns
        outside = t_ns < until_ns - beside_ns
        for begin_ns, end_ns in stretches:
            outside &= (t_ns < begin_ns - beside_ns) | (t_ns > end_ns + beside_ns)
        return float(own.celsius[outside].max()) if outside.any() else None

    def last_above(self, celsius: float, begin_ns: int, end_ns: int, least_ns: int) -> int | None:
        """When the last stretch of own readings at or above ``celsius``, ``least_ns`` or longer,
        ended; None without one."""
        own = self._drives_own
        if own is None:
            return None
        low, high = np.searchsorted(own.t_ns, [begin_ns, end_ns])
        t_ns, above = own.t_ns[low:high], own.celsius[low:high] >= celsius
        edges = np.flatnonzero(np.diff(np.concatenate([[0], above.astype(np.int64), [0]])))
        ends = [
            int(t_ns[b - 1]) for a, b in edges.reshape(-1, 2) if t_ns[b - 1] - t_ns[a] >= least_ns
        ]
        return max(ends, default=None)

    @property
    def _drives_own(self) -> HeatSensor | None:
        return next((sensor for sensor in self.sensors if sensor.own), None)

    def _own(self, begin_ns: int, end_ns: int) -> Floats | None:
        own = self._drives_own
        return _between(own, begin_ns, end_ns) if own is not None else None

    def words(self, begin_ns: int, end_ns: int) -> str:
        """What the first sensor showed, in words."""
        if not self.sensors:
            return "no temperature was recorded"
        sensor = self.sensors[0]
        part = _between(sensor, begin_ns, end_ns)
        return f"{sensor.name} {part.min():.0f}–{part.max():.0f} °C"

    def at_limit(
        self, begin_ns: int, end_ns: int, at_start: bool, carried_over: bool
    ) -> str | None:
        """In words, what shows that the stretch begins at the thermal limit; None if nothing.

        ``at_start``: the phase begins in it. ``carried_over``: the phase before ended throttled.
        """
        for sensor in self.sensors:
            apart_ns = sensor.interval_ns
            near = _between(
                sensor,
                begin_ns - max(3_000_000_000, apart_ns),
                begin_ns + max(5_000_000_000, apart_ns),
            )
            top = float(near.max())
            warning = self.warning_celsius if sensor.own else None
            if warning is not None:
                margin = COOLED if carried_over and at_start else NEAR_WARNING
                if top >= warning - margin - STEP / 2:
                    return f"{sensor.name} {top:.0f} °C, warning at {warning:.0f} °C"
            elif self._at_plateau(sensor, begin_ns, end_ns, top, at_start):
                return f"{sensor.name} stopped rising at {top:.0f} °C, the highest of the run"
            onset = self.onset_celsius if sensor.own else None
            if onset is not None and top >= onset - STEP:
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
        if not self.sensors or not self.sensors[0].own:
            return None
        sensor = self.sensors[0]
        covered = (
            sensor.t_ns[0] <= throttled_ns + AT_EDGE_NS and sensor.t_ns[-1] >= end_ns - AT_EDGE_NS
        )
        if not covered:
            return None
        then = _between(sensor, throttled_ns, until_ns)
        part = _between(sensor, begin_ns, end_ns)
        onset = float(np.interp(throttled_ns, sensor.t_ns, sensor.celsius))
        lowest, now = min(float(then.min()), float(np.floor(onset))), float(part.min())
        cooling = then[-1] < then[0] and then[-1] < lowest + STEP
        let_go = cooling and now < lowest + STEP and float(part.max()) >= part[0] + STEP
        if now < lowest or let_go:
            return None
        return f"{sensor.name} never below {now:.0f} °C, and it had throttled at {lowest:.0f} °C"

    def stays_hot(self, begin_ns: int, end_ns: int) -> bool:
        """Whether the drive stays so warm all the time that throttling cannot have ended."""
        for sensor in self.sensors:
            lowest = float(_between(sensor, begin_ns, end_ns).min())
            if self.warning_celsius is not None and sensor.own:
                return lowest >= self.warning_celsius - NEAR_WARNING
            return lowest >= float(sensor.celsius.max()) - NEAR_HIGHEST
        return False

    @staticmethod
    def _at_plateau(
        sensor: HeatSensor, begin_ns: int, end_ns: int, top: float, at_start: bool
    ) -> bool:
        highest, lowest = float(sensor.celsius.max()), float(sensor.celsius.min())
        if top < highest - NEAR_HIGHEST or top - lowest < LEAST_RISE:
            return False
        later = _between(sensor, begin_ns + 5_000_000_000, max(end_ns, begin_ns + 8_000_000_000))
        stopped = float(np.median(later)) <= top + 0.5
        earlier = float(np.interp(begin_ns - 20_000_000_000, sensor.t_ns, sensor.celsius))
        return stopped and (at_start or top > earlier)


def _is_own(name: str, channel: str) -> bool:
    words = f"{name} {channel}".lower()
    return any(word in words for word in ("composite", "drive", "nvme", "smart"))


def _between(sensor: HeatSensor, begin_ns: int, end_ns: int) -> Floats:
    """Readings between two moments; the nearest one when there are none."""
    low, high = np.searchsorted(sensor.t_ns, [begin_ns, end_ns])
    if high > low:
        return sensor.celsius[low:high]
    nearest = min(int(low), len(sensor.celsius) - 1)
    return sensor.celsius[nearest : nearest + 1]
