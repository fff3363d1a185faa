"""Latency beyond the mean: percentiles up to 99.999 %, shares of slow I/Os, verdicts.

fio counts I/Os in bins of milliseconds (``latency_ms``: the key is the upper edge of the bin) and
gives percentiles of each direction. A bin that holds anything, but less than 0.01 %, is printed as
0.01: such a share is only known to be at most that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.fio_output import drive_document
from labctl.fio.documents import DIRECTIONS, MIXED, jobs_of, number, number_at, table_of
from labctl.fio.results import Direction
from labctl.record.reader import RunRecord
from labctl.rounded import rounded

LEAST_SHOWN_PCT = 0.01
"""fio prints this for anything below it that is not zero."""

SLOW_LIMITS_MS = (10, 100)
"""The reviews' limits."""

IOS_BEYOND = 10
"""A percentile counts as measured when at least this many I/Os were slower."""


@dataclass(frozen=True, slots=True)
class SlowShare:
    """Per cent of the I/Os that took longer than ``over_ms``.

    The truth is between ``least_pct`` and ``most_pct``: they differ where fio only printed
    "less than 0.01 %".
    """

    over_ms: int
    least_pct: float
    most_pct: float


@dataclass(frozen=True, slots=True)
class Percentile:
    """``us`` is what ``percent`` % of the I/Os stayed under. Not ``measured``: too few I/Os took
    longer to know it."""

    percent: float
    us: float
    measured: bool


@dataclass(frozen=True, slots=True)
class LatencyVerdict:
    """A quality-of-service line: do ``percent`` % of the I/Os stay under ``limit_us``?

    ``met`` is None when that percentile was not measured.
    """

    phase_index: int
    label: str
    direction: str
    percent: float
    limit_us: float
    us: float | None
    met: bool | None

    def __str__(self) -> str:
        what = f"{self.percent:g} % of {self.label} {self.direction}s under {self.limit_us:g} µs"
        if self.met is None or self.us is None:
            return f"{what}: not measured"
        return f"{what}: {'yes' if self.met else 'no'} ({rounded(self.us, 4)} µs)"


def slow_shares(
    document: dict[str, Any], over_ms: Sequence[int] = SLOW_LIMITS_MS
) -> tuple[SlowShare, ...]:
    """Shares of slow I/Os in one fio document, its jobs weighted by what they did.

    Empty where fio counted no bins. Raises ValueError for a limit that is no edge of fio's bins.
    """
    least = dict.fromkeys(over_ms, 0.0)
    most = dict.fromkeys(over_ms, 0.0)
    weight = 0.0
    for job in jobs_of(document):
        bins = table_of(job, "latency_ms")
        ios = _qos_job_ios(job)
        if not bins or not ios:
            continue
        weight += ios
        for limit in over_ms:
            if str(limit) not in bins:
                edges = ", ".join(bins)
                raise ValueError(f"fio counts I/Os over {edges} ms, not over {limit} ms")
            for edge, share in bins.items():
                pct = number(share) or 0.0
                if _qos_bin_above(edge, limit) and pct:
                    most[limit] += ios * pct
                    least[limit] += ios * pct if pct > LEAST_SHOWN_PCT else 0.0
    if not weight:
        return ()
    return tuple(SlowShare(limit, least[limit] / weight, most[limit] / weight) for limit in over_ms)


def _qos_bin_above(edge: str, limit_ms: int) -> bool:
    return edge.startswith(">=") or float(edge) > limit_ms


def _qos_job_ios(job: dict[str, Any]) -> float:
    """Operations of a job, both directions (fio 2.x does not count: IOPS × runtime)."""
    total = 0.0
    for name in (*DIRECTIONS, MIXED):
        side = table_of(job, name)
        ios = number(side.get("total_ios"))
        total += number_at(side, "iops") * number_at(side, "runtime") / 1000 if ios is None else ios
    return total


def qos_slow_shares(record: RunRecord, result: PhaseResult) -> tuple[SlowShare, ...]:
    """Shares of slow I/Os of a phase, from the last document that its fio printed."""
    last = drive_document(record, result)
    return () if last is None else slow_shares(last)


def percentiles(direction: Direction) -> tuple[Percentile, ...]:
    """Every percentile that fio gave, with whether there were I/Os enough to measure it."""
    found = []
    for name, us in direction.latency_percentiles_us.items():
        percent = float(name)
        beyond = direction.total_ios * (100.0 - percent) / 100.0
        found.append(Percentile(percent, us, beyond >= IOS_BEYOND))
    return tuple(sorted(found, key=lambda item: item.percent))


def latency_verdict(
    result: PhaseResult, name: str, percent: float, limit_us: float
) -> LatencyVerdict | None:
    """The QoS line of one direction ("read" or "write"); None when it did nothing."""
    direction = {"read": result.read, "write": result.write}[name]
    if direction is None or not direction.total_ios:
        return None
    known = {item.percent: item for item in percentiles(direction)}
    found = known.get(percent)
    measured = found is not None and found.measured
    return LatencyVerdict(
        phase_index=result.phase.index,
        label=result.phase.label,
        direction=name,
        percent=percent,
        limit_us=limit_us,
        us=found.us if found is not None and measured else None,
        met=found.us < limit_us if found is not None and measured else None,
    )
