"""Every analysis of the review methods and standards, of one run, together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labctl.analysis.methods.conditioned import Conditioned, conditioned_against_fresh
from labctl.analysis.methods.consistency import TAIL_S, Consistency, consistency
from labctl.analysis.methods.efficiency import (
    Knee,
    MarginalEnergy,
    RailShare,
    efficiency_knees,
    marginal_energies,
    rail_shares,
)
from labctl.analysis.methods.frontier import (
    Frontier,
    FrontierAnswer,
    frontiers,
    least_watts,
    most_iops,
)
from labctl.analysis.methods.headline_averages import (
    HeadlineAverage,
    low_depth_averages,
    mixed_averages,
)
from labctl.analysis.methods.idle import IdleResult, idle_results
from labctl.analysis.methods.power_model import RailModel, fit_rails
from labctl.analysis.methods.power_states import StateRow, power_state_table
from labctl.analysis.methods.qos import (
    LatencyVerdict,
    SlowShare,
    latency_verdict,
    qos_slow_shares,
)
from labctl.analysis.methods.replays import ReplayResult, replay_results
from labctl.analysis.methods.soak import Soak, soaks
from labctl.analysis.readings.live_iops import live_iops
from labctl.analysis.run.drives import runs_of_drives
from labctl.analysis.run.problems import latencies_are_valid
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.steady_state.rounds import steady_reports
from labctl.analysis.steady_state.tracking import SteadyReport
from labctl.record.json_values import plain_json
from labctl.record.reader import RunRecord

QOS_PERCENT = 99.9
QOS_LIMIT_US = 500.0
QOS_BLOCK_BYTES = 4096
"""The reviews' line: 99.9 % of QD1 4 KiB I/Os under 500 µs."""


@dataclass(frozen=True, slots=True)
class PhaseConsistency:
    """How even a phase was."""

    phase_index: int
    label: str
    consistency: Consistency


@dataclass(frozen=True, slots=True)
class PhaseSlowShares:
    """The shares of slow I/Os of a phase."""

    phase_index: int
    label: str
    shares: tuple[SlowShare, ...]


@dataclass(frozen=True, slots=True)
class MethodResults:
    """The results of all methods for a run; empty where the run lacks what a method needs."""

    run_id: str
    averages: tuple[HeadlineAverage, ...]
    consistencies: tuple[PhaseConsistency, ...]
    steady: tuple[SteadyReport, ...]
    slow_shares: tuple[PhaseSlowShares, ...]
    verdicts: tuple[LatencyVerdict, ...]
    knees: tuple[Knee, ...]
    marginals: tuple[MarginalEnergy, ...]
    rail_shares: tuple[RailShare, ...]
    models: tuple[RailModel, ...]
    frontiers: tuple[Frontier, ...]
    under_watts: tuple[FrontierAnswer, ...]
    for_iops: tuple[FrontierAnswer, ...]
    power_states: tuple[StateRow, ...]
    conditioned: tuple[Conditioned, ...]
    soaks: tuple[Soak, ...]
    replays: tuple[ReplayResult, ...]
    idle: tuple[IdleResult, ...]
    drives: dict[str, MethodResults] = field(default_factory=dict)
    """Where several drives worked at once: the results of each, by its name in the rig."""

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of numbers and words."""
        plain = plain_json(self)
        assert isinstance(plain, dict)
        return plain


def methods_of(
    record: RunRecord,
    summary: RunSummary,
    *,
    tail_s: float = TAIL_S,
    limit_watts: float | None = None,
    wanted_iops: float | None = None,
    qos: tuple[float, float] = (QOS_PERCENT, QOS_LIMIT_US),
) -> MethodResults:
    """Every analysis of a run, and of each of several drives in it. ``limit_watts`` and
    ``wanted_iops`` are questions to the frontier: the most IOPS, and the least watts."""
    measured, points = summary.measured, summary.points
    models = fit_rails(summary.phases)
    lines = frontiers(points)
    return MethodResults(
        run_id=summary.run_id,
        averages=(*low_depth_averages(points), *mixed_averages(points)),
        consistencies=tuple(_method_consistencies(record, summary, tail_s)),
        steady=steady_reports(measured),
        slow_shares=tuple(_slow_shares(record, summary)),
        verdicts=tuple(_method_latency_verdicts(summary, *qos)),
        knees=efficiency_knees(points),
        marginals=marginal_energies(points),
        rail_shares=rail_shares(summary.phases),
        models=models,
        frontiers=lines,
        under_watts=tuple(most_iops(line, limit_watts, models, points) for line in lines)
        if limit_watts is not None
        else (),
        for_iops=tuple(least_watts(line, wanted_iops, models, points) for line in lines)
        if wanted_iops is not None
        else (),
        power_states=power_state_table(points),
        conditioned=conditioned_against_fresh(summary.phases),
        soaks=soaks(record, summary),
        replays=replay_results(record, summary),
        idle=idle_results(record.header, summary.phases),
        drives={
            name: methods_of(
                run,
                summary.drives[name],
                tail_s=tail_s,
                limit_watts=limit_watts,
                wanted_iops=wanted_iops,
                qos=qos,
            )
            for name, run in runs_of_drives(record).items()
        },
    )


def _method_consistencies(
    record: RunRecord, summary: RunSummary, tail_s: float
) -> Sequence[PhaseConsistency]:
    """For phases without rounds: the evenness of rounds is judged by steady state."""
    found = []
    names = _method_phase_labels(summary)
    for item in summary.measured:
        one = None if item.phase.round else consistency(*live_iops(record, item), tail_s)
        if one is not None:
            found.append(PhaseConsistency(item.phase.index, names[item.phase.index], one))
    return found


def _slow_shares(record: RunRecord, summary: RunSummary) -> Sequence[PhaseSlowShares]:
    """Of phases without rounds, and of the last round of the others."""
    last = {one.sweep_number: one.rounds for one in summary.steady_rounds}
    found = []
    names = _method_phase_labels(summary)
    for item in summary.measured:
        phase = item.phase
        if phase.round and phase.round != last.get(phase.sweep_number):
            continue
        if not latencies_are_valid(item):
            continue
        shares = qos_slow_shares(record, item)
        if shares:
            found.append(PhaseSlowShares(phase.index, names[phase.index], shares))
    return found


def _method_phase_labels(summary: RunSummary) -> dict[int, str]:
    """A name for each measured phase, with its sweep where another has the same label."""
    sweeps: dict[str, set[str]] = {}
    for item in summary.measured:
        sweeps.setdefault(item.phase.label, set()).add(item.phase.sweep)
    return {
        item.phase.index: f"{item.phase.sweep}: {item.phase.label}"
        if len(sweeps[item.phase.label]) > 1
        else item.phase.label
        for item in summary.measured
    }


def _method_latency_verdicts(
    summary: RunSummary, percent: float, limit_us: float
) -> Sequence[LatencyVerdict]:
    found = []
    for item in summary.points:
        phase = item.phase
        low = phase.queue_depth * phase.jobs == 1 and phase.block_size_bytes == QOS_BLOCK_BYTES
        for name in ("read", "write") if low else ():
            one = latency_verdict(item, name, percent, limit_us)
            if one is not None:
                found.append(one)
    return found
