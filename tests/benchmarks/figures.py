"""What is measured, and how it is judged and shown.

Machines differ by a factor of four, and one machine from hour to hour. So what depends on the
machine is measured beside a control, a plain program that does the same part of the work, and
judged by the ratio of the two. Both sides are warm, run in turns, several times: the ratio is the
median of the pairs, its spread their quartiles. Absolute figures stand beside it. What is promised
of any machine (readings lost, the gap between two phases, memory) is judged as it is.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

FIGURES_VARIABLE = "LABCTL_BENCH_FIGURES"
"""Names a file to which every figure that is shown is appended as a line of JSON."""
PAIRS = 5


@dataclass(frozen=True, slots=True)
class Pairs:
    """Both sides of each pair, in one unit: what labctl took (or did), and what its control."""

    own: tuple[float, ...]
    control: tuple[float, ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[float, float]]) -> Pairs:
        """From (own, control) of each pair."""
        own, control = zip(*pairs, strict=True)
        return cls(own, control)

    @property
    def ratios(self) -> list[float]:
        """Own over control, pair by pair."""
        return [own / control for own, control in zip(self.own, self.control, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the pairs."""
        return statistics.median(self.ratios)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Between them lies the middle half of the pairs."""
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high

    def __str__(self) -> str:
        digits = 3 if self.ratio < 0.1 else 2
        low, high = self.quartiles
        return f"{self.ratio:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def in_turns(
    own: Callable[[], float], control: Callable[[], float], pairs: int = PAIRS, warm: bool = True
) -> Pairs:
    """Measure both sides ``pairs`` times in turns: the order is turned round from pair to pair.

    ``warm``: each runs once before, for nothing, so that files and code are in memory.
    """
    if warm:
        own(), control()
    found: list[tuple[float, float]] = []
    for number in range(pairs):
        if number % 2:
            beside = control()
            found.append((own(), beside))
        else:
            found.append((own(), control()))
    return Pairs.of(found)


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table of figures. ``reached`` is None where there is only something to see."""

    what: str
    target: str
    measured: str
    reached: bool | None = None
    absolute: str = ""
    """The two sides of a ratio as they are, or what else is worth knowing."""
    why: str = ""
    """What the control is, and why the target is what it is."""

    def __str__(self) -> str:
        mark = {True: "ok", False: "MISSED", None: ""}[self.reached]
        row = f"{self.what:<47} {self.target:>11} {self.measured:>23}  {mark:<6}".rstrip()
        return f"{row}\n    {self.absolute}" if self.absolute else row


HEADING = f"{'what':<47} {'target':>11} {'measured':>23}"


def judged(
    what: str,
    pairs: Pairs,
    at_most: float,
    unit: Callable[[float], str],
    control: str,
    why: str,
    *,
    promised: float | None = None,
) -> Figure:
    """A figure that is judged by its ratio to ``control``.

    ``unit`` writes a value of either side. ``promised``: the absolute value of DESIGN.md, printed
    beside it.
    """
    own, beside = statistics.median(pairs.own), statistics.median(pairs.control)
    promise = "" if promised is None else f" (promised on a quiet machine: ≤ {unit(promised)})"
    return Figure(
        what=what,
        target=f"≤ {at_most:.3g} ×",
        measured=str(pairs),
        reached=pairs.ratio <= at_most,
        absolute=f"{unit(own)}; {control}: {unit(beside)}{promise}",
        why=why,
    )


def seconds(value: float) -> str:
    """A time as a person reads it."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"


def core_share(value: float) -> str:
    """CPU time over time."""
    return f"{value * 100:.3g} % of a core"


def show(*figures: Figure) -> None:
    """Print figures, and put them where :data:`FIGURES_VARIABLE` says."""
    kept = os.environ.get(FIGURES_VARIABLE)
    for figure in figures:
        print(figure, flush=True)
        if kept:
            with Path(kept).open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(figure)) + "\n")
