"""The limits of a rig, watched while a run is on.

A limit counts as passed once it has been passed for a while, so that one odd reading trips
nothing, and as kept again once the value is back inside. Each change is reported once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from labctl.capture.meters.live_values import View
from labctl.config.rig import Rig
from labctl.config.rig_file import Limits

HOLDS_S = 1.5
"""How long a limit must be passed without a break."""
BLIND_S = 30.0
"""How long what a limit is about may be unknown before that is reported: no limit holds then."""
LITTLE_DISK_BYTES = 500_000_000
"""Free space of the journal's disk that is warned of when the rig sets no limit."""


@dataclass(frozen=True, slots=True)
class Trip:
    """A limit that was passed: what for a person to read, and what to do."""

    limit: str
    reason: str
    action: str
    """ "warn", "pause" or "abort"."""
    holds_s: float = HOLDS_S
    """How long it must be so without a break."""


@dataclass(frozen=True, slots=True)
class GuardSample:
    """What the guard sees: the newest values, and the state of the run."""

    view: View
    celsius: Mapping[str, float]
    """Of each drive whose temperature is known, by its name; a single drive has an empty one."""
    free_disk_bytes: int | None
    running_s: float


def passed(rig: Rig, sample: GuardSample) -> Iterator[Trip]:
    """Every limit that is passed in this sample. A value that is not known passes no limit;
    where it has one, a warning says so."""
    limits = rig.file.limits
    yield from _guard_heat(limits, sample.celsius)
    yield from _unwatched(rig, sample)
    yield from _guard_rails(rig, sample.view)
    yield from _guard_watts(rig, sample.view)
    yield from _guard_disk(limits, sample.free_disk_bytes)
    if limits.hours is not None and sample.running_s > limits.hours * 3600:
        yield Trip("hours", f"the run is on for more than {limits.hours:g} h", "abort")


def _drive_text(drive: str) -> str:
    """A drive in words, by its name; a single drive has an empty one."""
    return f"drive {drive}" if drive else "the drive"


def _celsius_of(drive: str) -> str:
    """What the limit for the temperature of a drive is called."""
    return f"celsius of {drive}" if drive else "celsius"


def _guard_heat(limits: Limits, celsius: Mapping[str, float]) -> Iterator[Trip]:
    for name, value in celsius.items():
        if limits.celsius is not None and value >= limits.celsius:
            reason = f"{_drive_text(name)} is at {value:.0f} °C, the limit is {limits.celsius:g} °C"
            yield Trip(_celsius_of(name), reason, limits.when_hot)


def _unwatched(rig: Rig, sample: GuardSample) -> Iterator[Trip]:
    """Limits that cannot be checked, since their value is not known."""
    limits = rig.file.limits
    if limits.celsius is not None:
        for name in rig.drives:
            if name not in sample.celsius:
                unknown = f"nobody knows how hot {_drive_text(name)} is"
                reason = f"{unknown}: {limits.celsius:g} °C is not watched"
                yield Trip(f"{_celsius_of(name)} unknown", reason, "warn", BLIND_S)
    if limits.watts is not None:
        dark = [name for name, rail in sample.view.rails.items() if rail.watts is None]
        if dark:
            reason = f"{', '.join(dark)} is not measured: {limits.watts:g} W is not watched"
            yield Trip("watts unknown", reason, "warn", BLIND_S)


def _guard_rails(rig: Rig, view: View) -> Iterator[Trip]:
    for name, rail in rig.file.rails.items():
        live = view.rails.get(name)
        if live is None or live.volts is None:
            continue
        off_pct = (live.volts / rail.nominal_volts - 1) * 100
        if abs(off_pct) > rail.tolerance_pct:
            reason = (
                f"{name} is at {live.volts:.3f} V, {off_pct:+.1f} % of {rail.nominal_volts:g} V "
                f"(tolerance ±{rail.tolerance_pct:g} %)"
            )
            yield Trip(f"volts of {name}", reason, rig.file.limits.when_out_of_tolerance)


def _guard_watts(rig: Rig, view: View) -> Iterator[Trip]:
    limits = rig.file.limits
    parts = [rail.watts for rail in view.rails.values()]
    known = [watts for watts in parts if watts is not None]
    if limits.watts is not None and sum(known) > limits.watts:
        draws = "the drives draw" if rig.file.drives else "the drive draws"
        reason = f"{draws} {sum(known):.1f} W, the limit is {limits.watts:g} W"
        yield Trip("watts", reason, "abort")


def _guard_disk(limits: Limits, free_bytes: int | None) -> Iterator[Trip]:
    least = limits.free_disk
    if free_bytes is not None and free_bytes < (LITTLE_DISK_BYTES if least is None else least):
        reason = f"the journal's disk has {free_bytes / 1e6:.0f} MB left"
        if least is None:
            yield Trip("free_disk", reason, "warn")
        else:
            yield Trip("free_disk", f"{reason}, the limit is {least / 1e6:.0f} MB", "abort")


class Guard:
    """Turns samples into changes: what has tripped, and what is over."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._since_s: dict[str, float] = {}
        self._reported: dict[str, Trip] = {}

    def changes(self, sample: GuardSample, now_s: float) -> tuple[list[Trip], list[Trip]]:
        """(tripped, over) since the last sample, at ``now_s`` on any steady clock."""
        present: Mapping[str, Trip] = {trip.limit: trip for trip in passed(self._rig, sample)}
        self._since_s = {name: self._since_s.get(name, now_s) for name in present}
        tripped = [
            trip
            for name, trip in present.items()
            if name not in self._reported and now_s - self._since_s[name] >= trip.holds_s
        ]
        over = [trip for name, trip in self._reported.items() if name not in present]
        for trip in tripped:
            self._reported[trip.limit] = trip
        for trip in over:
            del self._reported[trip.limit]
        return tripped, over
