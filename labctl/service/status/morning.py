"""The morning summary: what ran, what it found, what to look at."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labctl.record.bounded_read import read_small
from labctl.record.events import Outcome
from labctl.record.json_values import UNREADABLE, known, parse_json
from labctl.record.phase import Phase
from labctl.service.data_dir import run_directory
from labctl.service.queue.job import AttemptOutcome, Job, JobState

SUMMARY_FILE = "summary.json"
MOST_SUMMARY_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class JobReport:
    """One job since the evening. Watts are of the phase that drew most, k = 2."""

    job: int
    rig: str
    plan: str
    state: str
    run: str | None
    reason: str
    began_s: float
    ended_s: float | None
    attempts: int
    phases: int = 0
    phases_completed: int = 0
    watts: float | None = None
    watts_u: float | None = None
    watts_phase: str = ""
    iops_per_watt: float | None = None
    iops_per_watt_phase: str = ""
    throttled: tuple[str, ...] = ()
    """Phases in which the drive throttled, with watts and IOPS as measured and without it."""
    look_at: tuple[str, ...] = ()
    """What a person should look at, in words."""


@dataclass(frozen=True, slots=True)
class Morning:
    """Everything since a moment, and what still waits."""

    since_s: float
    jobs: tuple[JobReport, ...]
    waiting: int

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)


def morning(jobs: Sequence[Job], runs: Path, since_s: float) -> Morning:
    """What the jobs did that ended, or went on, since then."""
    reports = [
        _morning_job_report(job, runs)
        for job in sorted(jobs, key=lambda job: job.attempts[-1].begun_s if job.attempts else 0.0)
        if job.last is not None and (job.last.ended_s is None or job.last.ended_s >= since_s)
    ]
    waiting = sum(job.state is JobState.QUEUED for job in jobs)
    return Morning(since_s, tuple(reports), waiting)


def lines(found: Morning) -> list[str]:
    """The summary in plain lines for a terminal, a mail or a message."""
    since = time.strftime("%a %d %b %H:%M", time.localtime(found.since_s))
    counts = dict.fromkeys(("done", "failed", "cancelled", "running", "queued"), 0)
    for job in found.jobs:
        counts[job.state] += 1
    jobs = ", ".join(
        f"{count} {'interrupted' if state == 'queued' else state}"
        for state, count in counts.items()
        if count
    )
    out = [f"since {since}: {jobs or 'no job ran'}; {found.waiting} waiting"]
    for job in found.jobs:
        out += ["", *_job_lines(job)]
    return out


def title(found: Morning) -> str:
    """The summary in one line."""
    done = sum(job.state == JobState.DONE for job in found.jobs)
    failed = sum(job.state == JobState.FAILED for job in found.jobs)
    to_look_at = sum(bool(job.look_at) for job in found.jobs)
    return f"labctl: {done} done, {failed} failed, {to_look_at} to look at, {found.waiting} waiting"


def _job_lines(job: JobReport) -> list[str]:
    took = "" if job.ended_s is None else f", {(job.ended_s - job.began_s) / 60:.0f} min"
    out = [f"job {job.job} {job.plan} on {job.rig}: {job.state}{took}"]
    if job.phases:
        out.append(f"  {job.phases_completed} of {job.phases} phases")
    if job.watts is not None:
        doubt = f" ± {job.watts_u:.3f}" if job.watts_u is not None else ""
        out.append(f"  most watts: {job.watts:.3f}{doubt} W in {job.watts_phase}")
    if job.iops_per_watt is not None:
        out.append(f"  most IOPS/W: {job.iops_per_watt:,.0f} in {job.iops_per_watt_phase}")
    out += [f"  throttled: {phase}" for phase in job.throttled]
    out += [f"  ! {what}" for what in job.look_at]
    if job.run:
        out.append(f"  {job.run}")
    return out


def _morning_job_report(job: Job, runs: Path) -> JobReport:
    last = job.last
    assert last is not None
    report: dict[str, Any] = {
        "job": job.id,
        "rig": job.rig,
        "plan": job.plan,
        "state": job.state.value,
        "run": last.run,
        "reason": job.reason,
        "began_s": last.begun_s,
        "ended_s": last.ended_s,
        "attempts": len(job.attempts),
    }
    look_at = []
    if job.state is JobState.FAILED:
        by_guard = last.outcome is AttemptOutcome.ABORTED
        look_at.append(f"{'stopped by a limit' if by_guard else 'failed'}: {job.reason}")
    if len(job.attempts) > 1:
        first = next((one for one in job.attempts if one.reason), None)
        why = f" (the first: {first.reason.splitlines()[0]})" if first is not None else ""
        look_at.append(f"it took {len(job.attempts)} attempts{why}: labctl queue show {job.id}")
    if last.run is not None:
        path = run_directory(runs, last.run)
        try:
            report |= _morning_findings(_morning_run_summary(path), look_at)
        except (OSError, *UNREADABLE):
            look_at.append(f"it has no usable summary: labctl report {path}")
    return JobReport(**report, look_at=tuple(look_at))


def _morning_run_summary(run: Path) -> dict[str, Any]:
    """A run's summary.json. Raises OSError, ValueError, RecursionError."""
    found: dict[str, Any] = parse_json(read_small(run / SUMMARY_FILE, MOST_SUMMARY_BYTES))
    return found


def _morning_findings(summary: dict[str, Any], look_at: list[str]) -> dict[str, Any]:
    """The headline of a summary; its problems go into ``look_at``.

    Raises KeyError, TypeError, ValueError, AttributeError when it is damaged.
    """
    phases = summary["phases"]
    labels = {id(item): known(Phase, item["phase"]).label for item in phases}
    measured = [item for item in phases if item["phase"]["role"] == "measure"]
    found: dict[str, Any] = {
        "phases": len(phases),
        "phases_completed": sum(item["outcome"] == Outcome.COMPLETED for item in phases),
        "throttled": tuple(
            f"{labels[id(item)]} ({_throttled_numbers(item)})"
            for item in measured
            if item["throttled_s"] > 0
        ),
    }
    watts = [item for item in measured if item["watts"] is not None]
    if watts:
        most = max(watts, key=lambda item: item["watts"]["value"])
        found |= {
            "watts": most["watts"]["value"],
            "watts_u": most["watts"]["u"],
            "watts_phase": labels[id(most)],
        }
    efficient = [item for item in measured if item["iops_per_watt"] is not None]
    if efficient:
        best = max(efficient, key=lambda item: item["iops_per_watt"]["value"])
        found |= {
            "iops_per_watt": best["iops_per_watt"]["value"],
            "iops_per_watt_phase": labels[id(best)],
        }
    look_at += [str(problem)[:200] for problem in summary["problems"]][:5]
    return found


def _throttled_numbers(item: dict[str, Any]) -> str:
    """Watts and IOPS of a throttled phase as measured, and of the part that was not throttled."""
    parts = []
    for unit, digits, value, free in (
        ("W", ".2f", (item["watts"] or {}).get("value"), item.get("watts_unthrottled")),
        ("IOPS", ",.0f", item.get("iops"), item.get("iops_unthrottled")),
    ):
        if value is not None:
            left = "–" if free is None else format(free["value"], digits)
            parts.append(f"{value:{digits}} {unit}, unthrottled {left}")
    return "; ".join(parts) or "no numbers"
