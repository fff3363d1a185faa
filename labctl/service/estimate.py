"""What a plan costs before it is run: time, and bytes written."""

from __future__ import annotations

from dataclasses import dataclass

from labctl.phase import Pattern, Phase

OVERHEAD_S = 0.02
"""Time between phases, for the estimate."""

USUAL_HOURS = 24.0
USUAL_DRIVE_WRITES = 10
"""A plan that takes longer, or writes the drive over more often, is asked about first."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan costs, at the drive's assumed write speed. None: the drive's size is unknown."""

    seconds: float | None
    bytes_written: int | None


def estimate(phases: tuple[Phase, ...], write_bytes_per_s: int, drives: int = 1) -> Estimate:
    """Time and bytes of a list of phases. Timed writes count with the full write speed.

    ``drives`` work at the same time, each at that speed: bytes are those of all of them.
    """
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
        bytes_written=drives * (filled + round(writing_s * write_bytes_per_s)),
    )


def timed_s(phases: tuple[Phase, ...]) -> float:
    """Seconds of a list of phases without fills, purges and cool-downs: those take what they take.

    Rounds count all, though they may end sooner.
    """
    waits = (Pattern.COOL, Pattern.PURGE)
    return sum(phase.duration_s + OVERHEAD_S for phase in phases if phase.pattern not in waits)


def more_than_usual(
    phases: tuple[Phase, ...], cost: Estimate, drive_bytes: int | None
) -> tuple[str, ...]:
    """Why a plan should be asked about before it is begun; empty when it need not."""
    reasons = []
    hours = (cost.seconds if cost.seconds is not None else timed_s(phases)) / 3600
    if hours > USUAL_HOURS:
        reasons.append(f"takes up to {hours:.0f} hours (the limit is {USUAL_HOURS:.0f})")
    if drive_bytes and (cost.bytes_written or 0) > USUAL_DRIVE_WRITES * drive_bytes:
        times = (cost.bytes_written or 0) / drive_bytes
        reasons.append(
            f"may write the drive {times:.0f} times over (the limit is {USUAL_DRIVE_WRITES})"
        )
    return tuple(reasons)
