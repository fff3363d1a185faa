"""Recovery of jobs marked as running whose daemon was killed, or whose machine went down.

Processes that are left of the run are ended, the completed phases are counted in its record, and
the job is queued again or is over by the same rules as after any attempt.
"""

from __future__ import annotations

from pathlib import Path

from labctl.capture.run.resume_agreement import in_words, rig_differences
from labctl.capture.run.resumption import why_not
from labctl.config.rig import Rig
from labctl.errors import JournalError, LabctlError
from labctl.record.events import EventKind, Outcome
from labctl.record.reader import RunRecord
from labctl.record.timebase import boot_id
from labctl.service.data_dir import Home, run_directory
from labctl.service.locks.processes import ProcessIdentity
from labctl.service.locks.rig_lock import use_of
from labctl.service.queue.job import Attempt, AttemptOutcome, Job, JobState
from labctl.service.queue.store import Queue
from labctl.service.runs.killed_runs import end_leftovers, finish_report
from labctl.sinks.sink import ReportLine

ORPHAN_ENDS_WITHIN_S = 30.0


def recover(queue: Queue, home: Home, rig: Rig, runs: Path) -> list[Job]:
    """End what is left of this rig's runs and settle their jobs; the jobs as they are now.

    Called with the rig's lock held. Raises QueueError.
    """
    return [
        _recover_one_job(queue, home, rig, runs, job)
        for job in queue.jobs()
        if job.rig == rig.name and job.state is JobState.RUNNING
    ]


def _recover_one_job(queue: Queue, home: Home, rig: Rig, runs: Path, job: Job) -> Job:
    last = job.last or Attempt(begun_s=job.added_s)
    ProcessIdentity(last.pid, last.pid_ticks, last.boot_id).end(ORPHAN_ENDS_WITHIN_S)
    run = run_of(job, home, rig, runs)
    blameless = not _went_down(last)
    what = "the daemon went away" if blameless else "the machine went down"
    if run is None:
        reason = f"{what} before its run began"
        return queue.end(job.id, AttemptOutcome.INTERRUPTED, reason, blameless=blameless)
    left = end_leftovers(run, rig)
    if job.last is not None and job.last.run is None:
        queue.note(job.id, run=run.name)
    outcome, reason = outcome_of(run)
    if outcome is AttemptOutcome.COMPLETED:
        left += finish_report(run)
    if outcome is AttemptOutcome.INTERRUPTED:
        reason = "; ".join([what, *left])
    return queue.end(job.id, outcome, reason, phases_done(run), blameless)


def run_of(job: Job, home: Home, rig: Rig, runs: Path) -> Path | None:
    """The run directory of a job's present attempt, if it has one by now."""
    last = job.last
    if last is not None and last.run is not None:
        return run_directory(runs, last.run)
    use = use_of(home, rig)
    if use is None or use.job != job.id or last is None:
        return None
    same = use.process == ProcessIdentity(last.pid, last.pid_ticks, last.boot_id)
    path = Path(use.run)
    return path if same and path.parent in (runs, home.runs) and path.is_dir() else None


def run_to_resume(job: Job, rig: Rig, runs: Path, report_line: ReportLine) -> Path | None:
    """The interrupted run that the next attempt of a job resumes; None: the attempt begins anew.

    A run is resumed if its record and plan allow it and ``rig`` has not changed since; a changed
    rig is reported to ``report_line``. An attempt that failed before it wrote anything (a meter
    was away) is passed over for the interrupted run before it.
    """
    for attempt in reversed(job.attempts):
        if attempt.outcome not in (AttemptOutcome.INTERRUPTED, AttemptOutcome.FAILED, None):
            return None
        if attempt.run is not None:
            try:
                record = RunRecord(run_directory(runs, attempt.run))
                failed = record.end is not None and attempt.outcome is AttemptOutcome.FAILED
                if failed or why_not(record):
                    return None
                differences = rig_differences(record, rig)
            except LabctlError:  # an unreadable record cannot be resumed
                return None
            if differences:
                report_line(
                    f"{rig.name}: job {job.id} begins anew, for the rig was changed since "
                    f"{record.path.name}: {in_words(differences)}"
                )
                return None
            return record.path
    return None


def phases_done(run: Path) -> int:
    """How many phases of a run are completed."""
    try:
        events = RunRecord(run).events
    except JournalError:
        return 0
    done = {
        event.data.get("index")
        for event in events
        if event.kind == EventKind.PHASE_ENDED
        and event.data.get("outcome") == Outcome.COMPLETED
        and isinstance(event.data.get("index"), int)
    }
    return len(done)


def outcome_of(run: Path) -> tuple[AttemptOutcome, str]:
    """How a run ended, from its record alone, not from its process."""
    try:
        record = RunRecord(run)
    except JournalError:
        return AttemptOutcome.INTERRUPTED, ""
    if record.end is None:
        return AttemptOutcome.INTERRUPTED, ""
    outcome, reason = record.end.data.get("outcome"), str(record.end.data.get("reason", ""))
    if outcome == Outcome.COMPLETED:
        return AttemptOutcome.COMPLETED, reason
    if outcome == Outcome.FAILED:
        return AttemptOutcome.FAILED, reason
    guarded = any(
        event.kind == EventKind.GUARD_TRIPPED and reason.startswith(str(event.data.get("reason")))
        for event in record.events
    )
    return (AttemptOutcome.ABORTED if guarded else AttemptOutcome.INTERRUPTED), reason


def _went_down(last: Attempt) -> bool:
    """Whether the machine was rebooted since the attempt began."""
    return bool(last.boot_id) and last.boot_id != boot_id()
