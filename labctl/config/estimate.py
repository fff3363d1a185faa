"""What a plan costs before it is run: time, and bytes written."""

from __future__ import annotations

from dataclasses import dataclass

from labctl.config.rig import Rig
from labctl.record.phase import Phase

OVERHEAD_S = 0.02
"""Time between phases, for the estimate."""

USUAL_HOURS = 24.0
USUAL_DRIVE_WRITES = 10
"""A plan that takes longer, or writes the drive over more often, is asked about first."""


@dataclass(frozen=True, slots=True)
class DurationEstimate:
    """What a plan costs, at the drive's assumed write speed. None: the drive's size is unknown."""

    seconds: float | None
    bytes_written: int | None


def estimate(
    phases: tuple[Phase, ...], write_bytes_per_s: int, drives: int = 1
) -> DurationEstimate:
    """Time and bytes of a list of phases. Timed writes count with the full write speed, and rounds
    all, but no more bytes of them than they end after.

    ``drives`` work at the same time, each at that speed: bytes are those of all of them.
    """
    fills = [phase.fill_bytes for phase in phases if phase.fills]
    if None in fills:
        return DurationEstimate(None, None)
    filled = sum(filter(None, fills))
    return DurationEstimate(
        seconds=timed_s(phases) + filled / write_bytes_per_s,
        bytes_written=drives * (filled + round(_timed_bytes(phases, write_bytes_per_s))),
    )


def estimate_on(rig: Rig, phases: tuple[Phase, ...]) -> DurationEstimate:
    """What a list of phases costs on the drives of ``rig``."""
    return estimate(phases, rig.write_bytes_per_s, len(rig.drives))


def _timed_bytes(phases: tuple[Phase, ...], write_bytes_per_s: int) -> float:
    """What timed writes write at most."""
    total = 0.0
    of_rounds: dict[int, float] = {}
    for phase in phases:
        if not (phase.writes and phase.pattern.io):
            continue
        share = 1 - phase.read_pct / 100 if phase.pattern.mixed else 1
        size = phase.duration_s * share * write_bytes_per_s
        until = phase.rounds_until_bytes
        if until is not None and of_rounds.get(phase.sweep_number, 0.0) >= until:
            continue
        of_rounds[phase.sweep_number] = of_rounds.get(phase.sweep_number, 0.0) + size
        total += size
    return total


def timed_s(phases: tuple[Phase, ...]) -> float:
    """Seconds of a list of phases without fills, purges and cool-downs: those take what they take.

    Rounds count all, though they may end sooner.
    """
    return sum(phase.planned_s + OVERHEAD_S for phase in phases)


def more_than_usual(
    phases: tuple[Phase, ...], cost: DurationEstimate, drive_bytes: int | None, repeat: int = 1
) -> tuple[str, ...]:
    """Why a plan, done ``repeat`` times, should be asked about before it is begun; empty when it
    need not."""
    reasons = []
    hours = repeat * (cost.seconds if cost.seconds is not None else timed_s(phases)) / 3600
    if hours > USUAL_HOURS:
        reasons.append(f"takes up to {hours:.0f} hours (the limit is {USUAL_HOURS:.0f})")
    written = repeat * (cost.bytes_written or 0)
    if drive_bytes and written > USUAL_DRIVE_WRITES * drive_bytes:
        times = written / drive_bytes
        reasons.append(
            f"may write the drive {times:.0f} times over (the limit is {USUAL_DRIVE_WRITES})"
        )
    return tuple(reasons)


def more_than_usual_on(rig: Rig, phases: tuple[Phase, ...], repeat: int = 1) -> tuple[str, ...]:
    """The same for the drives of ``rig``."""
    whole_bytes = rig.size_bytes * len(rig.drives) if rig.size_bytes else None
    return more_than_usual(phases, estimate_on(rig, phases), whole_bytes, repeat)
