"""How a figure is shown: what, target, measured, and whether it is reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of ``make bench``. ``reached`` is None where there is only something to see."""

    what: str
    target: str
    measured: str
    reached: bool | None = None

    def __str__(self) -> str:
        mark = {True: "ok", False: "MISSED", None: ""}[self.reached]
        return f"{self.what:<46} {self.target:>16} {self.measured:>18}  {mark}"


def show(*figures: Figure) -> None:
    """Print figures, one a line."""
    for figure in figures:
        print(figure, flush=True)
