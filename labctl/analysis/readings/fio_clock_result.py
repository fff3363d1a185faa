"""fio's clock against labctl's: what its rates are worth, and how far it is off.

fio divides its I/Os by its own runtime. Where its clock runs 7 % fast, its IOPS are 7 % low. A
phase's begin and end are on labctl's timebase (:mod:`labctl.capture.phases.fio_window`), so I/Os
over this time do not depend on fio's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labctl.analysis.estimate import Estimate
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.analysis.run_summary import ClockResult
from labctl.fio.results import FioResult
from labctl.fio.status import status_of
from labctl.record.timebase import NS_PER_MS

FIO_CLOCK = "fio"
"""What the summary's entry on fio's clock has for a channel."""

NOTEWORTHY = 1e-3
"""The drift from which on words tell of it: ten times that of a cheap quartz (±100 ppm)."""


def over_own_time(
    result: FioResult, span: PhaseSpan, document: dict[str, Any]
) -> tuple[PhaseSpan, FioResult]:
    """The result with its rates over the phase's own time, and the span with the rate of fio's
    clock where its begin and end alone show one. ``document``: of all drives together.

    Without a recorded begin and end fio's own runtime is all there is.
    """
    runtime_ns = status_of(document).runtime_ms * NS_PER_MS
    if not (span.ended and runtime_ns and span.duration_ns):
        return span, result
    rate = runtime_ns / span.duration_ns
    u = _clock_rate_u(span, rate)
    if span.fio_rate is None and abs(rate - 1.0) > u:
        span = replace(span, fio_rate=Estimate(rate, u))
    return span, result.at_clock_rate(rate)


def _clock_rate_u(span: PhaseSpan, rate: float) -> float:
    """What the uncertainty of a phase's begin and end makes of a rate."""
    return 2 * span.boundary_u_ns / span.duration_ns * rate


def is_off(span: PhaseSpan, result: FioResult | None) -> bool:
    """Whether fio's clock was off in a phase, surely and by more than a quartz is."""
    if result is None or not span.duration_ns:
        return False
    u = _clock_rate_u(span, result.clock_rate)
    return abs(result.clock_rate - 1.0) > max(NOTEWORTHY, u)


def words(rate: float, digits: int = 2) -> str:
    """How fast fio's clock runs, for a reader."""
    percent = abs(rate - 1.0) * 100
    return f"fio's clock runs {percent:.{digits}g} % {'fast' if rate > 1.0 else 'slow'}"


def fio_clock_problem(spans: Sequence[PhaseSpan], results: Sequence[FioResult | None]) -> list[str]:
    """The line of a run whose phases had another time than fio counted; none where all agree."""
    off = [
        (span, result.clock_rate)
        for span, result in zip(spans, results, strict=True)
        if result is not None and is_off(span, result)
    ]
    if not off:
        return []
    span, rate = max(off, key=lambda one: abs(one[1] - 1.0))
    lasted_s = span.duration_ns * 1e-9
    among = f" (the worst of {len(off)} phases)" if len(off) > 1 else ""
    return [
        f"{words(rate)}: it counted {lasted_s * rate:.2f} s in {lasted_s:.2f} s, in phase "
        f"{span.phase.index + 1} ({span.phase.label}){among}; IOPS and bytes/s are over the time "
        "that labctl measured, latencies are as fio's clock measured them"
    ]


def fio_clock_result(spans: Sequence[PhaseSpan]) -> ClockResult | None:
    """The summary's entry on fio's clock: the mean over all phases, by their length, and of their
    U, which do not average out. None where it is not known of any."""
    known = [
        (span.fio_rate, span.duration_ns) for span in spans if span.fio_rate and span.duration_ns
    ]
    if not known:
        return None
    total_ns = sum(ns for _, ns in known)
    rate = sum(one.value * ns for one, ns in known) / total_ns
    u = sum(one.u * ns for one, ns in known) / total_ns
    return ClockResult(
        channel=FIO_CLOCK,
        drift_ppm=(1.0 / rate - 1.0) * 1e6,
        u_ms=max(span.boundary_u_ns for span in spans if span.fio_rate) * 1e-6,
        epochs=len(known),
        pairs=sum(span.fio_statuses for span in spans),
        drift_u_ppm=u / rate**2 * 1e6,
    )
