"""What a run has shown so far, for the live view: the finished points, and the power over minutes.

Means of what was on the screen, for the eye while the run is on; results are made from the record.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from rich.table import Table
from rich.text import Text

from labctl.analysis.numbers import duration
from labctl.capture.meters.live_values import View
from labctl.cli.terminal.sparkline import sparkline
from labctl.record.phase import Phase, Role
from labctl.record.timebase import NS_PER_S

STEP_S = 5.0
STEPS = 60
"""The sparkline shows so many steps of so many seconds: five minutes."""
POINTS_SHOWN = 6
BAR = 16
_FULL, _HALF = "█", "▌"


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    n: int = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total += value
            self.n += 1

    @property
    def value(self) -> float | None:
        return self.total / self.n if self.n else None


@dataclass(frozen=True, slots=True)
class FinishedPoint:
    """A phase that is over, as it was seen."""

    label: str
    watts: float | None
    iops: float | None


@dataclass(slots=True)
class SoFar:
    """Takes what the screen shows, each time that it is drawn."""

    points: list[FinishedPoint] = field(default_factory=list)
    _phase: Phase | None = None
    _watts: _Mean = field(default_factory=_Mean)
    _iops: _Mean = field(default_factory=_Mean)
    _steps: deque[float] = field(default_factory=lambda: deque(maxlen=STEPS))
    _step: _Mean = field(default_factory=_Mean)
    _step_ends_ns: int = 0

    def add(self, view: View, now_ns: int) -> None:
        """Take the newest values."""
        if view.phase != self._phase:
            self._end_phase()
            self._phase = view.phase
        watts = view.watts
        self._watts.add(watts)
        self._iops.add(None if view.rates is None else view.rates.iops)
        if now_ns >= self._step_ends_ns:
            if self._step.value is not None:
                self._steps.append(self._step.value)
            self._step, self._step_ends_ns = _Mean(), now_ns + round(STEP_S * NS_PER_S)
        self._step.add(watts)

    def _end_phase(self) -> None:
        if self._phase is not None and self._phase.role is Role.MEASURE:
            self.points.append(
                FinishedPoint(self._phase.label, self._watts.value, self._iops.value)
            )
        self._watts, self._iops = _Mean(), _Mean()

    def power_line(self) -> Text | None:
        """Watts over the last minutes; None before two steps have passed."""
        if len(self._steps) < 2:
            return None
        low, high = min(self._steps), max(self._steps)
        return Text.assemble(
            ("watts  ", "dim"),
            sparkline(self._steps),
            (f"  {low:.2f} – {high:.2f} W, {duration(len(self._steps) * STEP_S)}", "dim"),
        )

    def table(self) -> Table | None:
        """The newest finished points with small bars of their watts; None before the first."""
        shown = self.points[-POINTS_SHOWN:]
        if not shown:
            return None
        most = max((point.watts or 0.0 for point in self.points), default=0.0)
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(max_width=30, no_wrap=True, overflow="ellipsis")
        table.add_column(width=9, justify="right")
        table.add_column(width=BAR)
        table.add_column(width=15, justify="right")
        for point in shown:
            each = None
            if point.watts and point.iops is not None:
                each = point.iops / point.watts
            table.add_row(
                point.label,
                "–" if point.watts is None else f"{point.watts:.2f} W",
                bar((point.watts or 0.0) / most if most > 0 else 0.0),
                "" if each is None else f"{each:,.0f} IOPS/W",
                style="dim" if point is not shown[-1] else "",
            )
        return table


def bar(share: float) -> str:
    """A bar of at most ``BAR`` characters for 0 to 1."""
    halves = round(min(max(share, 0.0), 1.0) * 2 * BAR)
    return _FULL * (halves // 2) + _HALF * (halves % 2)
