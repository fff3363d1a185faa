"""How the clock of a meter's file is put on fio's: trusted, given, or estimated from the data."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.numbers import utc
from labctl.analysis.readings.step_alignment import (
    Misfit,
    NoAlignment,
    align,
    confirmed_phases,
)
from labctl.analysis.readings.step_search import LEAST_COVERED
from labctl.errors import ConfigurationError
from labctl.importing.mapping import Meter, not_there
from labctl.importing.times import is_absolute, open_zone
from labctl.importing.work import Work
from labctl.importing.work_order import seen_at
from labctl.record.timebase import NS_PER_S
from labctl.rounded import rounded

Floats = NDArray[np.float64]

GIVEN_U_S = 1.0
"""Half-width of doubt of an offset that a person gives, or of stamps that are trusted, where nobody
says another one: what a person reads off two screens, and more than two machines that ask a time
server are apart."""

SEARCH_S = 120.0
"""How far an offset is searched on both sides where nobody says how far: two machines whose clocks
were set by hand."""

ANY_OFFSET_S = 1e10
"""Of a time since a start: anything for which readings and phases meet."""

ZONE_STEP_S = 900.0
ZONES = 56
"""Zones lie up to 14 hours from UTC, in steps of a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class ClockRules:
    """What a person says of the clocks: the stamps are right, an offset, or how far to search."""

    trust: bool = False
    offset_s: float | None = None
    u_s: float | None = None
    search_s: float | None = None


@dataclass(frozen=True, slots=True)
class FileClock:
    """By how much the times of a meter's file are behind fio's, at both ends of the recording.

    ``how`` is ``stamps``, ``given``, ``data`` or ``shared`` (the offset of another file of the same
    clock). ``u_s`` is a bound. ``left`` is the share of the variance of the watts that the phases
    leave, and of the ``second`` best offset.
    """

    instrument: str
    how: str
    offset_s: float
    u_s: float
    drift_ppm: float = 0.0
    first_offset_s: float = 0.0
    last_offset_s: float = 0.0
    edges: int = 0
    left: float | None = None
    second_offset_s: float | None = None
    second_left: float | None = None
    confirmed: tuple[bool, ...] = ()
    """Of each phase of fio's, whether the watts have a clear step at an edge of it."""
    searched: tuple[tuple[float, float], ...] = ()
    """Offsets that were searched, and what of the variance each leaves."""

    def text(self) -> str:
        """In a line, for a person."""
        u = rounded(self.u_s, 2)
        if self.how == "stamps":
            return f"its stamps are trusted, ± {rounded(self.u_s)} s"
        if self.how == "given":
            return f"{self.offset_s:+.6g} s were given, ± {rounded(self.u_s)} s"
        if self.how == "shared":
            return f"{self.offset_s:+.6g} s ± {u} s, as of the other file of its clock"
        line = f"{self.offset_s:+.6g} s ± {u} s, from {self.edges} steps of the watts"
        if self.drift_ppm:
            line += f", drift {self.drift_ppm:+.0f} ppm"
        line += f"; {self.left or 0.0:.1%} of their variance is left"
        if self.second_offset_s is not None and self.second_left is not None:
            line += f" (next best: {self.second_offset_s:+.6g} s, {self.second_left:.0%})"
        return line


@dataclass(frozen=True, slots=True)
class Recording:
    """The readings of a file as far as its clock needs them: s since the file's first reading."""

    file: Path
    instrument: str
    meter: Meter
    first_ns: int
    last_ns: int
    interval_s: float
    t: Floats
    watts: Floats
    """Empty where it has volts alone."""

    @property
    def absolute(self) -> bool:
        """Whether its times are moments."""
        return is_absolute(self.meter.time_format)

    @property
    def open_zone(self) -> bool:
        """Whether nobody knows in which zone its times are."""
        return open_zone(self.meter.time_format, self.meter.zone)


def is_given(recording: Recording, rules: ClockRules) -> bool:
    """Whether a person says what a file's clock is."""
    return rules.trust or rules.offset_s is not None or recording.meter.offset_s is not None


def clock_of(
    recording: Recording, works: Sequence[Work], rules: ClockRules, origin_ns: int, *, tied: bool
) -> tuple[FileClock, tuple[Work, ...]]:
    """The clock of a file that has watts or amps, as of ``origin_ns`` of fio's; and the phases, at
    the times that its steps tell where fio did not print them. Raises ConfigurationError.

    ``tied``: another file's clock is given. Steps tell when phases were by their own file's clock
    alone: the phases then stay where fio says.
    """
    meter = recording.meter
    start_s = (recording.first_ns - origin_ns) / NS_PER_S if recording.absolute else 0.0
    t = recording.t + start_s
    spans = [
        ((w.begin_ns - origin_ns) / NS_PER_S, (w.end_ns - origin_ns) / NS_PER_S) for w in works
    ]
    offset = rules.offset_s if rules.offset_s is not None else meter.offset_s
    u_s = rules.u_s if rules.u_s is not None else meter.offset_u_s
    if is_given(recording, rules):
        if offset is None:
            offset = 0.0
        if not recording.absolute and rules.trust:
            raise not_there(
                recording.file, "--trust-stamps", None, "its times are since an unknown start"
            )
        low, high = t[0] + offset, t[-1] + offset
        if not any(begin < high and end > low for begin, end in spans):
            raise _do_not_meet(recording, works)
        given = FileClock(
            instrument=recording.instrument,
            how="stamps" if rules.trust else "given",
            offset_s=offset,
            u_s=GIVEN_U_S if u_s is None else u_s,
            first_offset_s=offset + start_s,
            last_offset_s=offset + start_s,
            confirmed=confirmed_phases(t + offset, recording.watts, spans),
        )
        return given, tuple(works)
    search_s = SEARCH_S if rules.search_s is None else rules.search_s
    work = [(_work_kind_for_clock(one), one.total_ios / one.duration_s) for one in works]
    try:
        ranges = _clock_search_ranges(recording, search_s)
        doubts = [one.boundary_u_ns / NS_PER_S for one in works]
        found = align(t, recording.watts, spans, ranges, work, doubts)
    except Misfit as misfit:
        raise _refused(recording, works, misfit, search_s) from misfit
    clock = FileClock(
        instrument=recording.instrument,
        how="data",
        offset_s=found.offset_s,
        u_s=found.u_s,
        drift_ppm=found.drift * 1e6,
        first_offset_s=start_s + found.at(float(t[0]) + found.offset_s),
        last_offset_s=start_s + found.at(float(t[-1]) + found.offset_s),
        edges=found.edges,
        left=found.left,
        second_offset_s=found.second_s,
        second_left=found.second_left,
        confirmed=found.confirmed,
        searched=tuple((round(at, 4), round(left, 5)) for at, left in found.searched),
    )
    if not found.shifts:
        return clock, tuple(works)
    if tied:  # what the steps say beyond fio's doubt of a phase, is doubt of this clock
        beyond = (abs(late) + u - own for (late, u), own in zip(found.shifts, doubts, strict=True))
        return replace(clock, u_s=clock.u_s + max(0.0, *beyond)), tuple(works)
    return clock, seen_at(works, found.shifts)


def shared_clock(recording: Recording, others: Sequence[tuple[Recording, FileClock]]) -> FileClock:
    """Of a file of volts alone: its own offset, or that of another file of the same clock. Raises
    ConfigurationError."""
    for other, clock in others:
        if other.absolute and recording.absolute and other.open_zone == recording.open_zone:
            shift_s = (recording.first_ns - other.first_ns) / NS_PER_S
            return FileClock(
                instrument=recording.instrument,
                how="shared",
                offset_s=clock.offset_s,
                u_s=clock.u_s,
                first_offset_s=clock.first_offset_s + shift_s,
                last_offset_s=clock.last_offset_s + shift_s,
            )
    raise not_there(
        recording.file, "clock", None,
        "it has volts alone, which show no steps, and no other file has its clock: give its offset "
        "(--offset, or offset_s in the mapping), or the zone of times that say none (--zone)",
    )  # fmt: skip


def _work_kind_for_clock(work: Work) -> Hashable:
    return work.pattern, work.block_size_bytes, work.read_pct, work.compress_pct


def _clock_search_ranges(recording: Recording, search_s: float) -> list[tuple[float, float]]:
    if not recording.absolute:
        return [(-ANY_OFFSET_S, ANY_OFFSET_S)]
    if not recording.open_zone:
        return [(-search_s, search_s)]
    if search_s >= ZONE_STEP_S / 2:
        reach = ZONES * ZONE_STEP_S + search_s
        return [(-reach, reach)]
    middles = (number * ZONE_STEP_S for number in range(-ZONES, ZONES + 1))
    return [(middle - search_s, middle + search_s) for middle in middles]


def _refused(
    recording: Recording, works: Sequence[Work], misfit: Misfit, search_s: float
) -> ConfigurationError:
    say = "say --offset SECONDS (what to add to the meter's times), or --trust-stamps"
    if misfit.why is NoAlignment.NOT_COVERED:
        return _do_not_meet(recording, works, search_s)
    if misfit.why is NoAlignment.AMBIGUOUS:
        first, second = misfit.offsets_s[:2]
        allowed = (
            f"its watts fit fio's phases as well at {second:+.4g} s as at {first:+.4g} s "
            f"({misfit.left[1]:.1%} and {misfit.left[0]:.1%} of their variance are left): {say}"
        )
        return not_there(recording.file, "clock", None, allowed)
    left = f" (the best leaves {misfit.left[0]:.0%} of their variance)" if misfit.left else ""
    allowed = f"no offset makes its watts follow fio's phases{left}: another recording? Else {say}"
    return not_there(recording.file, "clock", None, allowed)


def _do_not_meet(
    recording: Recording, works: Sequence[Work], search_s: float | None = None
) -> ConfigurationError:
    """``search_s``: how far an offset was searched; None: it is given."""
    lasts = (recording.last_ns - recording.first_ns) / NS_PER_S
    needs = (works[-1].end_ns - works[0].begin_ns) / NS_PER_S
    apart_ns = max(works[0].begin_ns - recording.last_ns, recording.first_ns - works[-1].end_ns)
    near = (
        search_s is not None
        and apart_ns / NS_PER_S < _clock_search_ranges(recording, search_s)[-1][1]
    )
    if not recording.absolute or (near and lasts < LEAST_COVERED * needs):
        allowed = f"it lasts {lasts:.0f} s, and fio's phases {needs:.0f} s: another recording?"
        return not_there(recording.file, "clock", None, allowed)
    first, last = f"{utc(recording.first_ns)} UTC", f"{utc(recording.last_ns)} UTC"
    if recording.open_zone:
        first, last = f"{utc(recording.first_ns)} of an unknown zone", utc(recording.last_ns)
    begin, end = utc(works[0].begin_ns), utc(works[-1].end_ns)
    within = f" within ± {search_s:.0f} s (--search SECONDS looks farther)" if search_s else ""
    allowed = (
        f"its readings ({first} to {last}) and fio's phases ({begin} UTC to {end} UTC) "
        f"do not meet{within}: another day, or the wrong file?"
    )
    return not_there(recording.file, "clock", None, allowed)
