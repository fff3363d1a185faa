"""A value with its U, a line of its budget, and the statistics of a series: plain values.

``None`` means "not measured" or "cannot be measured", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

COVERAGE_FACTOR = 2.0
"""k of every expanded uncertainty ``u`` of the analysis (about 95 %; GUM, JCGM 100:2008, 6.2)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its expanded uncertainty and its repeatability, in the unit of its name.

    ``u`` (about 95 %) is of what was measured: of a phase, its mean over just this window of time,
    with all limits of the instruments.
    """

    value: float
    u: float
    repeatability: float | None = None
    """Half-width (about 95 %) within which the same phase would come out again on the same meters,
    from how the drive varies within it or from repeats; no limits of instruments are in it. None
    where it is not known."""

    def scaled(self, factor: float) -> Estimate:
        """The estimate in another unit, or per something: all parts times ``factor`` > 0."""
        again = self.repeatability
        return Estimate(
            self.value * factor, self.u * factor, None if again is None else again * factor
        )

    def covers(self, truth: float) -> bool:
        """Whether ``truth`` is inside value ± u."""
        return abs(self.value - truth) <= self.u


@dataclass(frozen=True, slots=True)
class Component:
    """One line of an uncertainty budget: standard uncertainty (k = 1) in watts.

    ``kind`` is "A" (from the scatter of the readings) or "B" (from anything else).
    """

    name: str
    kind: str
    watts: float
    how: str
    dof: float = float("inf")
    """Degrees of freedom; infinite for a limit of a data sheet."""
    source: str = ""
    """Lines of several rails with the same source are one error: they add up linearly."""
    part: str = ""
    """"gain" for an error in proportion to the reading, "zero" for one that adds the same to
    every reading, else empty."""
    distribution: str = "normal"
    """What the standard uncertainty follows from: "normal" (a scatter, a certificate's U/k),
    "rectangular" (limits a: a/√3) or "U-shaped" (an amplitude a: a/√2)."""


@dataclass(frozen=True, slots=True)
class Series:
    """Plain statistics of a quantity over a phase. ``n`` readings; ``n_effective`` of the mean.

    ``min`` and ``max`` are of the readings, each a mean over the meter's aperture.
    """

    mean: float
    min: float
    max: float
    std: float
    n: int
    n_effective: float

    def scaled(self, factor: float) -> Series:
        """The series of the quantity times a ``factor`` > 0."""
        return replace(
            self,
            mean=self.mean * factor,
            min=self.min * factor,
            max=self.max * factor,
            std=self.std * factor,
        )
