"""A stretch of a run that a person chose: its watts and joules, as those of a phase."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from labctl.analysis.estimate import Estimate, Series
from labctl.analysis.phase_result import RailResult, TemperatureResult
from labctl.analysis.power.budget import phase_energy, total_watts
from labctl.analysis.readings.channel_series import host_channel_series
from labctl.analysis.readings.live_iops import LIVE_IOPS, iops_between
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.analysis.run.drives import run_of_all
from labctl.analysis.run.problems import phase_problems
from labctl.analysis.run.summary import power_of, usable_channels, usable_rails, with_budgets
from labctl.analysis.run.temperatures import temperatures_of
from labctl.analysis.run.unsound_rails import unsound_rails
from labctl.analysis.run_summary import Mark, RunSummary
from labctl.record.events import Outcome
from labctl.record.json_values import plain_json
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S

BESIDE_NS = NS_PER_S
"""On both sides of a stretch: how the watts step at its edges bounds what a doubt about the clocks
of the meters changes."""


@dataclass(frozen=True, slots=True)
class StretchResult:
    """Watts, energy and temperatures between two moments of a run.

    ``iops`` is the mean of what fio's statuses say, without an uncertainty; None without fio.
    """

    run_id: str
    begin_ns: int
    end_ns: int
    rails: dict[str, RailResult]
    watts: Estimate | None
    watts_series: Series | None
    joules: Estimate | None
    iops: float | None
    temperatures: dict[str, TemperatureResult]
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]

    @property
    def duration_s(self) -> float:
        """Seconds from begin to end."""
        return (self.end_ns - self.begin_ns) / NS_PER_S

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; numbers are Python's own."""
        plain = plain_json(self)
        assert isinstance(plain, dict)
        return plain


def stretch_of(record: RunRecord, summary: RunSummary, begin_ns: int, end_ns: int) -> StretchResult:
    """What the rig drew from ``begin_ns`` to ``end_ns``, of a run with this summary."""
    record = run_of_all(record)
    channels, _ = usable_channels(record)
    rails = usable_rails(record, channels)
    edges = (begin_ns - BESIDE_NS, begin_ns, end_ns, end_ns + BESIDE_NS)
    spans = [
        PhaseSpan(
            Phase(number, Role.MEASURE, "stretch", Pattern.PROGRAM, 0.0),
            Outcome.COMPLETED, begin, end, ended=True,
        )
        for number, (begin, end) in enumerate(itertools.pairwise(edges))
    ]  # fmt: skip
    powers = [power_of(record, rails, span) for span in spans]
    unsound = unsound_rails(record, spans, powers)
    sources = {source.rail: source for source in summary.source_resistances}
    powers, results, _ = with_budgets(spans, powers, unsound, sources)
    span, power, result = spans[1], powers[1], results[1]
    watts = total_watts(power, list(result.values()))
    seconds = span.duration_ns / NS_PER_S
    live = [host_channel_series(record, name) for name in LIVE_IOPS]
    iops = iops_between(live, begin_ns, end_ns)[1]
    return StretchResult(
        run_id=record.header.run_id,
        begin_ns=begin_ns,
        end_ns=end_ns,
        rails=result,
        watts=watts,
        watts_series=power.total,
        joules=phase_energy(watts, seconds, 0) if watts else None,
        iops=float(iops.mean()) if len(iops) else None,
        temperatures=temperatures_of(record, channels, span),
        marks=tuple(mark for mark in summary.marks if begin_ns <= mark.t_ns <= end_ns),
        notes=phase_problems(record, span, power, result, None),
    )
