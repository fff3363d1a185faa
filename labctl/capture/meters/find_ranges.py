"""A ranging pass: the heaviest points of a plan, run briefly, to find the ranges to lock.

The pass is a run like any other, with its safety rules and its journal. Where a meter is cut off
the pass is done again with its next larger range, until none is. Nothing is written into the rig:
a person pastes the lines, so that the rig has the ranges that were used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from instruments import drivers
from instruments.driver_kit.base_settings import MultimeterSettings
from instruments.errors import SettingRefused
from instruments.reading import Status
from labctl.config.plan import Plan
from labctl.config.rig import Rig
from labctl.config.sweeps import Sweep
from labctl.record.events import EventKind
from labctl.record.phase import Phase
from labctl.record.reader import RunRecord

PASS_S = 6.0
"""Long enough for a drive's bursts and for 60 readings of a meter at 10 a second."""
HIGHEST_OF_SMALL_SOCKET_AMPS = 3.0
"""A Truevolt's 10 A range switches to the 10 A terminals, 3 A and less to the others (Keysight
Truevolt Series Operating and Service Guide, CONFigure:CURRent): with the lead in the other socket
it would read nothing. Taken to hold for meters of other makers too."""
HEAVIEST_READS = Sweep(
    name="ranging", pattern=["read"], block_size=[128 * 1024], queue_depth=[32], duration_s=PASS_S
)
"""Without a plan: what draws most of what needs no permission."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What the pass found of one meter. ``range`` and ``peak`` are in ``unit``."""

    instrument: str
    channel: str
    unit: str
    range: float
    peak: float | None
    suggested: float | None
    """None where no range of the meter would do: ``why`` has the reason."""
    why: str = ""

    @property
    def changes(self) -> bool:
        """Whether another range than the rig's is suggested."""
        return self.suggested is not None and self.suggested != self.range

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)


def ranging_plan(phases: Sequence[Phase]) -> Plan:
    """The heaviest points of ``phases`` for a few seconds each: most writes, most bytes at once."""
    work = [phase for phase in phases if phase.pattern.io and not phase.fills]

    def writes(phase: Phase) -> tuple[int, int]:
        return (100 - phase.read_pct if phase.writes else 0), phase.queue_depth * phase.jobs

    def under_way(phase: Phase) -> tuple[int, int]:
        return phase.queue_depth * phase.jobs * phase.block_size_bytes, phase.queue_depth

    heaviest = [max(work, key=writes), max(work, key=under_way)] if work else []
    sweeps = [
        _range_finding_sweep(phase) for phase in dict.fromkeys(phase.point for phase in heaviest)
    ]
    return Plan(
        name="ranging", idle_before_s=1.0, idle_after_s=0.0, sweeps=sweeps or [HEAVIEST_READS]
    )


def _range_finding_sweep(phase: Phase) -> Sweep:
    axes = {
        "name": "ranging",
        "pattern": phase.pattern.value,
        "block_size": phase.block_size_bytes,
        "queue_depth": phase.queue_depth,
        "jobs": phase.jobs,
        "span": phase.span_bytes,
        "duration_s": PASS_S,
    }
    return Sweep.model_validate(
        axes | ({"read_pct": phase.read_pct} if phase.pattern.mixed else {})
    )


def settings_of(rig: Rig, name: str) -> Any:
    """The settings of an instrument as its driver understands them."""
    entry = rig.file.instruments[name]
    return drivers.settings_model(entry.driver).model_validate(entry.settings)


def with_ranges(rig: Rig, ranges: dict[str, float]) -> Rig:
    """``rig`` with other ranges of some instruments."""
    entries = {
        name: entry.model_copy(update={"range": ranges[name]}) if name in ranges else entry
        for name, entry in rig.file.instruments.items()
    }
    file = rig.file.model_copy(update={"instruments": entries})
    changed = replace(rig, file=file)
    made = changed.create_instruments(lambda: 0)
    return replace(changed, channels={name: item.channels for name, item in made.items()})


def larger_ranges(rig: Rig, record: RunRecord) -> dict[str, float]:
    """The next larger range of each meter that was cut off and can be set to one."""
    found = {}
    for name in _cut_off(record):
        instrument = name.partition(".")[0]
        settings = settings_of(rig, instrument)
        if isinstance(settings, MultimeterSettings):
            larger = _range_above(settings.ranges, settings.range, settings.function)
            if larger is not None:
                found[instrument] = larger
    return found


def _range_above(ranges: Sequence[float], present: float, function: str) -> float | None:
    usable = _usable_ranges(ranges, present, function)
    return next((value for value in usable if value > present), None)


def _usable_ranges(ranges: Sequence[float], present: float, function: str) -> list[float]:
    """The ranges that are reached without moving a lead."""
    small = present <= HIGHEST_OF_SMALL_SOCKET_AMPS
    return [
        value
        for value in sorted(ranges)
        if function != "current" or (value <= HIGHEST_OF_SMALL_SOCKET_AMPS) is small
    ]


def _cut_off(record: RunRecord) -> set[str]:
    return {
        str(event.data.get("channel"))
        for event in record.events
        if event.kind == EventKind.STATUS_BEGAN
        and event.data.get("status") == Status.OVERLOAD.value
    }


def suggestions(rig: Rig, used: Rig, record: RunRecord) -> Iterator[Suggestion]:
    """For each meter of ``rig`` with ranges: its peak, and the range to lock.

    ``used`` is the rig with the ranges that ``record`` was made with.
    """
    cut_off = _cut_off(record)
    for name in rig.file.instruments:
        settings = settings_of(rig, name)
        ranges = getattr(settings, "ranges", ())
        if not ranges:
            continue
        present = settings_of(used, name).range
        usable = _usable_ranges(ranges, present, settings.function)
        channel = used.channels[name][0]
        values = record.readings(f"{name}.{channel.name}")["v"]
        peak = float(np.abs(values).max()) if len(values) else None
        found: float | None = None
        why = ""
        if f"{name}.{channel.name}" in cut_off:
            found = _range_above(usable, present, settings.function)
            why = "cut off: the peak is not known; "
            why += "run it again with this range" if found else "move the lead, or a smaller shunt"
        elif peak is None:
            why = "no reading"
        else:
            try:
                found = range_to_lock(usable, peak)
            except SettingRefused as error:
                why = str(error)
        yield Suggestion(name, channel.name, channel.unit, settings.range, peak, found, why)


MARGIN: Final = 0.25
"""More than a ranging pass sees: it is short, its readings are means over their aperture, and a
drive that warms up draws more."""


def range_to_lock(ranges: Sequence[float], peak: float, margin: float = MARGIN) -> float:
    """The smallest of ``ranges`` that holds ``peak`` and ``margin`` (a fraction) more.

    Where none is so large but the largest holds ``peak`` itself, that is the largest. All in the
    unit of the channel; the sign of ``peak`` does not matter. The 20 % over a range that many
    meters still measure is not counted on.

    Raises SettingRefused where no range holds the peak, ValueError for no ranges, a negative
    margin or a peak that is no number.
    """
    if not ranges or margin < 0 or not math.isfinite(peak):
        raise ValueError(f"cannot choose from {list(ranges)} for a peak of {peak} + {margin:.0%}")
    ascending = sorted(ranges)
    wanted = abs(peak) * (1 + margin)
    for value in ascending:
        if value >= wanted:
            return value
    if ascending[-1] >= abs(peak):
        return ascending[-1]
    raise SettingRefused(
        f"a peak of {abs(peak):g} is above the largest range, {ascending[-1]:g}: use a smaller "
        "shunt or another meter"
    )
