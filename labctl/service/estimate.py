"""What a plan costs before it is run: time, and bytes written."""

from __future__ import annotations

from dataclasses import dataclass

from labctl.phase import Pattern, Phase

OVERHEAD_S = 0.02
"""Time between phases, for the estimate."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan costs, at the drive's assumed write speed. None: the drive's size is unknown."""

    seconds: float | None
    bytes_written: int | None


def estimate(phases: tuple[Phase, ...], write_bytes_per_s: int) -> Estimate:
    """Time and bytes of a list of phases. Timed writes count with the full write speed."""
    fills = [phase.fill_bytes for phase in phases if phase.fills]
    if None in fills:
        return Estimate(None, None)
    filled = sum(filter(None, fills))
    writing_s = sum(
        phase.duration_s * (1 - phase.read_pct / 100 if phase.pattern.mixed else 1)
        for phase in phases
        if phase.writes and phase.pattern.io
    )
    return Estimate(
        seconds=timed_s(phases) + filled / write_bytes_per_s,
        bytes_written=filled + round(writing_s * write_bytes_per_s),
    )


def timed_s(phases: tuple[Phase, ...]) -> float:
    """Seconds of a list of phases without fills, purges and cool-downs: those take what they take.

    Rounds count all, though they may end sooner.
    """
    waits = (Pattern.COOL, Pattern.PURGE)
    return sum(phase.duration_s + OVERHEAD_S for phase in phases if phase.pattern not in waits)
