"""What two runs do not share of their instruments: the limits that stay in a difference.

Repeats on the same meters show how a drive comes out again, and the errors of the meters are
in every one of them. Where the sides had other meters, shunts or zeros, what these allow is
no scatter and no number of repeats shows it.
"""

from __future__ import annotations

from labctl.analysis.compare.conditions import meters_of
from labctl.analysis.estimate import COVERAGE_FACTOR, Component
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.stats.uncertainty import combined, student_factor
from labctl.record.header import Header

_OF_METERS = ("voltage", "current", "shunt", "burden")
"""How the lines of a budget begin that the instruments are the reason for."""


def same_instruments(one: Header, other: Header) -> bool:
    """Whether both runs had the same meters, by what these said of themselves, on the same rails.

    A meter that did not say who it is counts as another one.
    """
    mine, theirs = meters_of(one), meters_of(other)
    return mine == theirs and all(mine.values()) and one.rails == other.rails


def same_zeros(one: Header, other: Header) -> bool:
    """Whether both runs subtract the same zeros."""
    mine = one.calibration.zeros if one.calibration else ()
    return mine == (other.calibration.zeros if other.calibration else ())


def limits_of(result: PhaseResult, *, zeros_only: bool = False) -> float:
    """What the instruments allow in the watts of a phase, as a part of them (about 95 %)."""
    if result.watts is None or result.watts.value <= 0:
        return 0.0
    lines = [
        line
        for rail in result.rails.values()
        for line in rail.budget
        if (_of_zero(line) if zeros_only else line.name.startswith(_OF_METERS))
    ]
    u, dof = combined(lines)
    return student_factor(dof) * u / result.watts.value


def own_doubt(result: PhaseResult) -> float:
    """The standard uncertainty (k = 1) of the watts of a phase that is this run's alone, as a part
    of them: its scatter, readings that were lost, the clocks; nothing of the instruments."""
    if result.watts is None or result.watts.value <= 0:
        return 0.0
    lines = [
        line
        for rail in result.rails.values()
        for line in rail.budget
        if not line.name.startswith(_OF_METERS)
    ]
    again = (result.watts.repeatability or 0.0) / COVERAGE_FACTOR
    return max(combined(lines)[0], again) / result.watts.value


def _of_zero(line: Component) -> bool:
    return line.part == "zero"
