"""The drive's own power reading against the meters: a cross-check of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import Kept, OwnMeasurement, OwnPower, PhaseResult
from labctl.analysis.power.phase_power import phase_power
from labctl.analysis.readings.channel_series import RailSeries
from labctl.record.events import Event, EventKind
from labctl.record.json_values import is_number
from labctl.record.layout import READING
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S

MEAN_OVER_NS = NS_PER_S
"""What the drive's reading is a mean over (NVMe SMART log, Interval Power Measurement)."""

MOST_OF = 0.5
"""Part of a phase, and of a measurement, from which one stands for the other."""

APART = 0.10
"""Difference from which a reader is warned: drives state no accuracy for it, and what they count
as theirs (a converter on the board) differs by a few per cent."""


def own_power(record: RunRecord, rails: Sequence[RailSeries]) -> OwnPower | None:
    """Both means over all samples of the drive's reading; None without one.

    Only samples at which every rail was measured count.
    """
    if not rails or len(rails) != len(record.header.rails):
        return None
    pairs = []
    for sample in own_power_readings(record.events):
        total = phase_power(rails, int(sample["t"]) - MEAN_OVER_NS, int(sample["t"]), 0).total
        if total is not None:
            pairs.append((float(sample["v"]), total.mean))
    if not pairs:
        return None
    drive_watts, meter_watts = np.mean(pairs, axis=0)
    return OwnPower(float(drive_watts), float(meter_watts), len(pairs))


def own_power_problem(found: OwnPower | None) -> tuple[str, ...]:
    """A line when drive and meters contradict each other."""
    if found is None or abs(found.difference) <= APART:
        return ()
    return (
        f"the drive itself reports {found.drive_watts:.2f} W where the meters read "
        f"{found.meter_watts:.2f} W ({found.difference:+.0%}, {found.looks} samples): is a rail "
        "not measured, or a shunt not what the rig says?",
    )


def own_measurement_problems(events: Iterable[Event]) -> tuple[str, ...]:
    """A line for each reason for which what a drive measured of itself is missing, or a part."""
    measured = [event for event in events if event.kind == EventKind.DRIVE_MEASUREMENT]
    reasons = [str(event.data["reason"]) for event in measured if event.data.get("reason")]
    gaps = sum(bool(event.data.get("has_gaps")) for event in measured)
    if gaps:
        reasons.append(
            f"the drive says of {gaps} of its own power measurements that their data are not "
            "contiguous: which seconds it averaged is not known, and the meters are not set "
            "against them"
        )
    return tuple(dict.fromkeys(reasons))


def own_measurements(
    record: RunRecord, rails: Sequence[RailSeries], phases: Sequence[PhaseResult]
) -> dict[int, OwnMeasurement]:
    """What the drive measured of itself in each phase (by its index), against the meters.

    The measurement that covers most of a phase counts, if it is most of the phase and of the
    measurement. Both are compared over as many seconds as the drive has averaged; where it says
    that these are not contiguous, they are not known, and nothing is compared. Its first
    interval may begin up to a second after the measurement: what that moves is added to the U.
    """
    if not rails or len(rails) != len(record.header.rails):
        return {}
    found = {}
    for event in record.events:
        if event.kind != EventKind.DRIVE_MEASUREMENT or event.data.get("has_gaps"):
            continue
        since_ns, count = event.data.get("since_ns"), event.data.get("intervals")
        drive_watts = event.data.get("average_watts")
        if not (is_number(since_ns) and is_number(count) and is_number(drive_watts)):
            continue
        begin_ns, span_ns = int(since_ns), event.t_ns - int(since_ns)
        length_ns = min(int(count) * MEAN_OVER_NS, span_ns)
        for phase in phases:
            in_both = min(phase.end_ns, event.t_ns) - max(phase.begin_ns, begin_ns)
            if in_both <= MOST_OF * max(span_ns, phase.end_ns - phase.begin_ns):
                continue
            meters = _meters_against_own_power(rails, begin_ns, length_ns, phase.watts)
            if meters is None:
                continue
            percent_error = event.data.get("percent_error")
            stated = int(percent_error) if is_number(percent_error) else None
            most = event.data.get("maximum_watts")
            found[phase.phase.index] = OwnMeasurement(
                float(drive_watts),
                float(most) if is_number(most) else None,
                meters,
                length_ns / NS_PER_S,
                stated,
                _own_power_limit_kept(float(drive_watts), meters, stated),
                event.data.get("is_estimated") is True,
                _drive_own_bins(event.data.get("bins")),
                int(beyond) if is_number(beyond := event.data.get("beyond_last_bin")) else 0,
            )
    return found


def _drive_own_bins(given: object) -> tuple[tuple[float, int], ...]:
    """The histogram of an event: a record may be damaged."""
    return tuple(
        (float(bin_[0]), int(bin_[1]))
        for bin_ in (given if isinstance(given, list) else ())
        if isinstance(bin_, list) and len(bin_) == 2 and all(map(is_number, bin_))
    )


def _meters_against_own_power(
    rails: Sequence[RailSeries], begin_ns: int, length_ns: int, of_phase: Estimate | None
) -> Estimate | None:
    """The meters' watts over the seconds of a measurement, with the relative U of the phase."""
    if of_phase is None or not of_phase.value or length_ns <= 0:
        return None

    def mean_from(from_ns: int) -> float | None:
        total = phase_power(rails, from_ns, from_ns + length_ns, 0).total
        return None if total is None else total.mean

    mean = mean_from(begin_ns)
    shifted = mean_from(begin_ns + MEAN_OVER_NS)
    if shifted is None:  # the run has ended by then
        shifted = mean_from(begin_ns - MEAN_OVER_NS)
    if mean is None or shifted is None:
        return None
    return Estimate(mean, mean * of_phase.u / of_phase.value + abs(shifted - mean))


def _own_power_limit_kept(drive_watts: float, meters: Estimate, percent_error: int | None) -> Kept:
    """With the U of the meters as guard band (JCGM 106:2012, 8.3)."""
    if percent_error is None:
        return Kept.NOTHING_STATED
    away = abs(drive_watts - meters.value)
    most = percent_error / 100 * meters.value
    if away + meters.u <= most:
        return Kept.YES
    return Kept.NO if away - meters.u > most else Kept.UNDECIDED


def own_power_readings(events: Iterable[Event]) -> NDArray[np.void]:
    """The drive's own power readings, dtype READING (ns on the run's timebase, watts)."""
    samples = [
        (event.t_ns, float(event.data["watts"]))
        for event in events
        if event.kind == EventKind.DRIVE_POWER and isinstance(event.data.get("watts"), int | float)
    ]
    return np.array(samples, READING)
