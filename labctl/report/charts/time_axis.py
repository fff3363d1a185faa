"""The time axis of a run: all that is drawn over time stands under one another on it."""

from __future__ import annotations

from dataclasses import dataclass

import altair as alt

from labctl.analysis import numbers
from labctl.analysis.run.timeline import Timeline

WIDTH = 920
"""Of the axis in pixels."""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Time since the begin of the run, in the unit that suits its length."""

    begin_ns: int
    end_ns: int
    unit_ns: float
    title: str

    @classmethod
    def of(cls, line: Timeline) -> TimeAxis:
        """The axis of everything that ``line`` shows."""
        seconds = (line.end_ns - line.begin_ns) / 1e9
        unit_s, unit = (1.0, "s") if seconds <= 300 else (60.0, "min")
        if seconds > 3 * 3600:
            unit_s, unit = 3600.0, "h"
        start = numbers.utc(line.begin_ns)
        return cls(line.begin_ns, line.end_ns, unit_s * 1e9, f"time since {start} UTC ({unit})")

    def at(self, t_ns: float) -> float:
        """A time of the run on this axis."""
        return round((t_ns - self.begin_ns) / self.unit_ns, 6)

    @property
    def scale(self) -> alt.Scale:
        """From the begin to the end of the run."""
        return alt.Scale(domain=[0, self.at(self.end_ns)], nice=False, zero=False)

    def bare_x(self, field: str) -> alt.X:
        """The axis without anything drawn."""
        return alt.X(field, scale=self.scale, axis=None)

    def x(self, *, named: bool) -> alt.X:
        """The axis, with its title and numbers or without."""
        axis = alt.Axis(labels=named, ticks=named, grid=False, tickCount=10)
        return alt.X("t:Q", scale=self.scale, title=self.title if named else None, axis=axis)

    def pixels(self, begin_ns: int, end_ns: int) -> float:
        """How wide a stretch of the run is."""
        return WIDTH * (end_ns - begin_ns) / (self.end_ns - self.begin_ns)
