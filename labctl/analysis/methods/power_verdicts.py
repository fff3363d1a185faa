"""Verdicts on a run: each phase against limits of power, with the guard band that U gives.

Decision rule: ISO 14253-1 and JCGM 106:2012 (8.3.2, guarded acceptance, and guarded rejection on
the other side) with a guard band as wide as U (about 95 %). Below the limit by U or more passes,
above it by more than U fails, and what lies between is undecided: neither is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from labctl.analysis.estimate import Estimate
from labctl.analysis.numbers import with_uncertainty
from labctl.analysis.phase_result import PhaseResult, length_text, no_watts_note
from labctl.analysis.power.blind_spots import FILLED
from labctl.analysis.power.power_envelope import too_slow_for_envelope
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.throttling.run_signals import IDLE_ROLES
from labctl.errors import ConfigurationError, Mistake, RunFailed
from labctl.record.drive_state import DriveState
from labctl.record.events import EventKind, Outcome
from labctl.record.header import ChannelInfo, RailInfo
from labctl.record.phase import Role
from labctl.record.power_limits import PowerLimit, PowerLimits
from labctl.record.reader import RunRecord
from labctl.rounded import rounded
from labctl.toml_reading import meant

NEARLY = 1.05
"""How much longer than asked for the interval between readings may be: meters have clocks."""


class PowerVerdict(StrEnum):
    """The verdict on one phase by one limit."""

    PASS = "pass"
    UNDECIDED = "undecided"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class PowerCheck:
    """One limit at one phase. ``watts``: what it is about, with U, W. ``begin_ns`` and ``end_ns``:
    the window, or the phase, on the run's timebase. ``why``: what it could not be decided for;
    ``missing_s``: seconds at which a window could begin and readings are missing in it; where it is
    about the whole phase, seconds without readings."""

    limit: str
    rule: str
    over: str
    drive: str
    rail: str
    phase_index: int
    phase: str
    limit_watts: float | None
    watts: Estimate | None
    begin_ns: int | None
    end_ns: int | None
    missing_s: float
    verdict: PowerVerdict
    why: str

    @property
    def reached(self) -> float:
        """Its watts as a share of the limit; 0 where one of them is not known."""
        if self.watts is None or not self.limit_watts:
            return 0.0
        return self.watts.value / self.limit_watts

    @property
    def measured(self) -> str:
        """What was measured, and the limit: ``12.31 ± 0.02 W, at most 14 W``."""
        watts = "not measured" if self.watts is None else f"{with_uncertainty(self.watts)} W"
        limit = "limit not known"
        if self.limit_watts is not None:
            limit = f"at most {rounded(self.limit_watts, 4)} W"
        return f"{watts}, {limit}"

    @property
    def where(self) -> str:
        """The phase, and whose: ``randwrite 4k QD128, left, rail 12V``."""
        rail = f"rail {self.rail}" if self.rail else ""
        return ", ".join(filter(None, (self.phase, self.drive, rail)))


@dataclass(frozen=True, slots=True)
class Judgement:
    """A run against limits. ``strict``: what is undecided fails, too."""

    run_id: str
    limits: str
    source: str
    checks: tuple[PowerCheck, ...]
    strict: bool
    unchecked: tuple[str, ...] = ()
    """Limits that are about no phase of the run."""

    def of(self, verdict: PowerVerdict) -> tuple[PowerCheck, ...]:
        """The checks with a verdict."""
        return tuple(check for check in self.checks if check.verdict is verdict)

    @property
    def verdict(self) -> PowerVerdict:
        """That of the run: it fails with one check, and passes with all."""
        if self.of(PowerVerdict.FAIL):
            return PowerVerdict.FAIL
        if self.of(PowerVerdict.UNDECIDED) or self.unchecked:
            return PowerVerdict.UNDECIDED
        return PowerVerdict.PASS

    @property
    def passed(self) -> bool:
        """Whether nothing fails."""
        fails = {PowerVerdict.FAIL} | ({PowerVerdict.UNDECIDED} if self.strict else set())
        return self.verdict not in fails


@dataclass(frozen=True, slots=True)
class _Drive:
    """What a run knows of one of its drives. ``rails``: those that are its own, or shared;
    ``found``: the power state of each phase, by its number, as the drive said while it was on."""

    name: str
    summary: RunSummary
    rails: tuple[RailInfo, ...]
    state: DriveState | None
    found: Mapping[int, int]

    def power_state(self, result: PhaseResult) -> int | None:
        """The power state of a phase; None where it is not known."""
        state = result.phase.power_state
        return self.found.get(result.phase.index) if state is None else state


def _drives_with_verdicts(record: RunRecord, summary: RunSummary) -> Iterator[_Drive]:
    header = record.header
    several = [
        (name, one, header.drive_states.get(name)) for name, one in summary.drives.items()
    ] or [("", summary, header.drive_state)]
    for name, one, state in several:
        found = {
            event.data["index"]: event.data["power_state"]
            for event in record.events
            if event.kind == EventKind.SETTINGS_FOUND
            and event.data.get("drive") in (None, "", name)
            and isinstance(event.data.get("index"), int)
            and isinstance(event.data.get("power_state"), int)
        }
        rails = tuple(rail for rail in header.rails if rail.feeds(name))
        yield _Drive(name, one, rails, state, found)


def judge(
    record: RunRecord, summary: RunSummary, limits: PowerLimits, strict: bool = False
) -> Judgement:
    """Every limit at every phase that it is about, of each drive.

    Raises ConfigurationError when a limit names a rail or phases that the run has not, and when no
    limit is about any phase: then nothing was judged; RunFailed when no phase was measured.
    """
    header, drives = record.header, list(_drives_with_verdicts(record, summary))
    labels = list(dict.fromkeys(one.phase.label for one in summary.phases))
    if not labels:
        raise RunFailed(f"nothing to judge: {header.run_id} ended before a phase was measured")
    unknown = list(_unknown_names(limits, [rail.name for rail in header.rails], labels))
    if unknown:
        raise ConfigurationError(unknown)
    checks: list[PowerCheck] = []
    unchecked: list[str] = []
    for number, limit in enumerate(limits.limits):
        found = [
            _check(header.channels, limit, drive, result)
            for drive in drives
            if limit.rail in ("", *(rail.name for rail in drive.rails))
            for result in _phases_of(limit, drive)
        ]
        if not found:
            unchecked.append(f"limits[{number}] ({limit.name})")
        checks += found
    if not checks:
        allowed = (
            "no phase is of the kind (at), the points and the power state of any of them; the run "
            f"has: {'; '.join(labels)}"
        )
        raise ConfigurationError([Mistake("limits", "limits", limits.name, allowed)])
    return Judgement(
        header.run_id, limits.name, limits.source, tuple(checks), strict, tuple(unchecked)
    )


def _unknown_names(
    limits: PowerLimits, rails: Sequence[str], labels: Sequence[str]
) -> Iterator[Mistake]:
    """Rails and patterns that nothing in the run fits: a limit that is held against nothing by a
    slip of the pen would be missed by nobody."""
    for number, limit in enumerate(limits.limits):
        if limit.rail and limit.rail not in rails:
            hint = meant(limit.rail, rails) or f"; it has: {', '.join(rails)}"
            key = f"limits[{number}].rail"
            yield Mistake("limits", key, limit.rail, f"the run has no such rail{hint}")
        if not any(fnmatchcase(label, limit.points) for label in labels):
            plain = limit.points.replace("*", "").replace("?", "").strip()
            hint = meant(plain, labels) or f"; it has: {'; '.join(labels)}"
            key = f"limits[{number}].points"
            yield Mistake("limits", key, limit.points, f"no phase of the run fits{hint}")


def _phases_of(limit: PowerLimit, drive: _Drive) -> Iterator[PhaseResult]:
    for result in drive.summary.phases:
        phase, idle = result.phase, result.phase.role in IDLE_ROLES
        judged = idle or phase.role is Role.MEASURE
        if judged and limit.is_about(phase.label, idle, drive.power_state(result)):
            yield result


def _check(
    channels: Sequence[ChannelInfo], limit: PowerLimit, drive: _Drive, result: PhaseResult
) -> PowerCheck:
    allowed, unknown = _limit_watts(limit, drive, result)
    watts, span, missing_s, why = _measured_for_verdict(limit, drive, result)
    reasons = [text for text in (unknown, why) if text]
    decided = PowerVerdict.UNDECIDED
    if watts is not None and allowed is not None:
        if watts.value - watts.u > allowed:
            decided = PowerVerdict.FAIL  # whatever else is missing: this was drawn
        elif watts.value + watts.u <= allowed:
            decided = PowerVerdict.PASS
        else:
            reasons.append(f"the limit is within ±{rounded(watts.u, 2)} W of it")
    if decided is PowerVerdict.PASS:
        reasons += _not_enough_to_pass(channels, limit, drive, result, missing_s)
        decided = PowerVerdict.UNDECIDED if reasons else decided
    return PowerCheck(
        limit=limit.name,
        rule=limit.rule,
        over=limit.over,
        drive=drive.name,
        rail=limit.rail,
        phase_index=result.phase.index,
        phase=result.phase.label,
        limit_watts=allowed,
        watts=watts,
        begin_ns=None if span is None else span[0],
        end_ns=None if span is None else span[1],
        missing_s=missing_s,
        verdict=decided,
        why="" if decided is PowerVerdict.FAIL else "; ".join(reasons),
    )


def _limit_watts(limit: PowerLimit, drive: _Drive, result: PhaseResult) -> tuple[float | None, str]:
    """The limit of a phase in watts, or why it has none."""
    value = limit.max_watts
    if value is None:
        states = () if drive.state is None else drive.state.power_states
        table = {one.number: one for one in states}
        if not table:
            return None, "the drive told no table of power states"
        number = drive.power_state(result)
        if number is None and len(table) == 1:
            number = next(iter(table))
        if number is None:
            return None, "in which power state the drive was is not known"
        row = table.get(number)
        value = None if row is None else row.max_watts
        if row is not None and limit.drive_says == "idle":
            value = row.idle_watts
        if not value:
            return None, f"the drive states no {limit.drive_says} power of power state {number}"
    return value * (1 + limit.tolerance_pct / 100), ""


Measured = tuple[Estimate | None, tuple[int, int] | None, float, str]


def _measured_for_verdict(limit: PowerLimit, drive: _Drive, result: PhaseResult) -> Measured:
    """Watts, where they are, seconds that gaps rule out, and why there are none."""
    rail = result.rails.get(limit.rail) if limit.rail else None
    lost = _lost_rails(limit, drive, result)
    if limit.rail and rail is None:
        return None, None, 0.0, lost or f"the rail {limit.rail} has no watts in this phase"
    lost = lost or "the phase has no total: a rail is without watts"
    window_s = limit.window_s
    if window_s is None:
        watts = result.watts if rail is None else rail.watts
        why = "" if watts is not None else lost
        rails = result.rails.values() if rail is None else (rail,)
        missing_s = max((one.missing_s for one in rails), default=0.0)
        return watts, (result.begin_ns, result.end_ns), missing_s, why
    envelope = result.power_envelope if rail is None else rail.power_envelope
    found = next((one for one in envelope if math.isclose(one.window_s, window_s)), None)
    if found is None:
        return None, None, 0.0, lost
    if found.watts is None or found.begin_ns is None:
        return None, None, found.blocked_s, found.why
    span = found.begin_ns, found.begin_ns + round(window_s * 1e9)
    return found.watts, span, found.blocked_s, ""


def _lost_rails(limit: PowerLimit, drive: _Drive, result: PhaseResult) -> str:
    """What the phase's notes say of each rail without watts that a limit is about."""
    names = [rail.name for rail in drive.rails if limit.rail in ("", rail.name)]
    begins = tuple(no_watts_note(name, "") for name in names)
    return "; ".join(note for note in result.notes if note.startswith(begins))


def _not_enough_to_pass(
    channels: Sequence[ChannelInfo],
    limit: PowerLimit,
    drive: _Drive,
    result: PhaseResult,
    missing_s: float,
) -> Iterator[str]:
    """Why a phase that stayed below the limit does not show that the drive does."""
    if missing_s > 0 and limit.window_s is None:
        yield (
            f"readings are missing in {rounded(missing_s)} s of the phase: what was drawn there is "
            "not known"
        )
    elif missing_s > 0:
        share = missing_s / max(result.duration_s - (limit.window_s or 0.0), missing_s)
        yield (
            f"readings are missing in windows that begin in {rounded(missing_s)} s of the phase "
            f"({share:.2%}): what was drawn there is not known"
        )
    if result.outcome != Outcome.COMPLETED:
        yield f"the phase is {result.outcome}"
    if limit.min_duration_s is not None and result.duration_s < limit.min_duration_s * 0.999:
        lasted = rounded(result.duration_s)
        yield f"the phase lasts {lasted} s, of {limit.min_duration_s:g} s wanted"
    if limit.interval_s is not None:
        yield from too_seldom(drive.rails, channels, limit)


def slow_meters(
    rails: Sequence[RailInfo], channels: Sequence[ChannelInfo], limit: PowerLimit
) -> Iterator[str]:
    """Why a rig's meters are too slow for a limit, whatever a run shows; a rail each."""
    by_name = {one.name: one for one in channels}
    for rail in rails:
        channel = by_name.get(rail.current)
        if channel is None or limit.rail not in ("", rail.name):
            continue
        slow = ""
        if limit.window_s is not None:
            slow = too_slow_for_envelope(limit.window_s, channel.interval_s, channel.aperture_s)
        if slow:
            yield f"{channel.name}: {slow}"
        else:
            yield from too_seldom([rail], [channel], limit)


def too_seldom(
    rails: Sequence[RailInfo], channels: Sequence[ChannelInfo], limit: PowerLimit
) -> Iterator[str]:
    """Why meters read more seldom than a limit demands, a rail each."""
    by_name = {one.name: one for one in channels}
    for rail in rails:
        channel = by_name.get(rail.current)
        if channel is None or limit.interval_s is None or limit.rail not in ("", rail.name):
            continue
        filled = channel.aperture_s >= FILLED * channel.interval_s > 0
        if not filled and channel.interval_s > NEARLY * limit.interval_s:
            yield (
                f"{channel.name} reads each {length_text(channel.interval_s)} and integrates "
                f"{length_text(channel.aperture_s)} of it; {length_text(limit.interval_s)} is "
                "wanted, or no gap between readings"
            )


def highest(checks: Sequence[PowerCheck]) -> tuple[PowerCheck, ...]:
    """Of each limit (and drive and rail) the check that came closest to it, or is furthest
    above."""
    best: dict[tuple[str, ...], PowerCheck] = {}
    for check in checks:
        key = check.limit, check.over, check.drive, check.rail
        if key not in best or check.reached > best[key].reached:
            best[key] = check
    return tuple(best.values())
