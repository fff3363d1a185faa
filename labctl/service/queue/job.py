"""A job: one plan queued for a rig, and its attempts.

A job is immutable; functions here give the job after each change, and ``store.py`` writes them to
disk. Times are seconds since the Unix epoch (wall clock), since people queue by time of day.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from labctl.errors import LabctlError
from labctl.printable import printable
from labctl.record.layout import NAME_PATTERN

MOST_JOB_BYTES = 1 << 20
MOST_PLAN_CHARACTERS = 1 << 18
MOST_ATTEMPTS_KEPT = 50
RETRY_AFTER_S = 30.0
GO_ON_AFTER_S = 2.0
LONGEST_PAUSE_S = 300.0
"""After a failure 30, 60, 120 … s; after a second interruption in a row 2, 4, 8 … s."""
MOST_STALLED = 50
"""A job that is cut off this often in a row without completing one more phase is given up."""

RigName = Annotated[str, Field(pattern=NAME_PATTERN)]
PlanName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:=-]{0,63}$")]
RunName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
Reason = Annotated[str, Field(max_length=4096)]
Moment = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]


class WrongState(LabctlError):
    """The change is not possible in the job's present state."""

    exit_code = 2


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


class AttemptOutcome(StrEnum):
    """How an attempt ended. ``interrupted``: cut off from outside (kill, reboot, shutdown)."""

    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Attempt(_Strict):
    """One start of a job. ``pid_ticks`` and ``boot_id`` show whether ``pid`` is still the same
    process; ``run`` is the name of its run directory once there is one."""

    begun_s: Moment
    boot_id: Annotated[str, Field(max_length=64)] = ""
    pid: Annotated[int, Field(ge=0, le=1 << 31)] = 0
    pid_ticks: Annotated[int, Field(ge=0, le=1 << 62)] = 0
    run: RunName | None = None
    ended_s: Moment | None = None
    outcome: AttemptOutcome | None = None
    reason: Reason = ""
    phases_done: Count = 0


class Job(_Strict):
    """The text of a plan, the name of a rig, and the rig's drive when the job was queued."""

    format: Literal[1] = 1
    id: Annotated[int, Field(ge=1, le=999_999)]
    rig: RigName
    plan: PlanName
    plan_text: Annotated[str, Field(max_length=MOST_PLAN_CHARACTERS)]
    drive_target: Annotated[str, Field(max_length=1024)]
    drive_serial: Annotated[str, Field(max_length=256)] = ""
    tags: Annotated[tuple[Tag, ...], Field(max_length=32)] = ()
    repeat: Annotated[tuple[Count, Count], Field()] = (1, 1)
    """Which of how many repetitions."""
    after_s: Moment | None = None
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    """How often it is tried again after it failed."""
    estimate_s: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    estimate_is_least: bool = False
    """The estimate lacks a fill whose size is not known."""
    added_s: Moment
    command: Annotated[str, Field(max_length=64)] = ""
    """The id of the command over MQTT that queued it."""
    state: JobState = JobState.QUEUED
    reason: Reason = ""
    cancel_asked: bool = False
    failures: Count = 0
    stalled: Count = 0
    """Interruptions in a row without a further completed phase."""
    attempts: Annotated[tuple[Attempt, ...], Field(max_length=MOST_ATTEMPTS_KEPT)] = ()

    @property
    def last(self) -> Attempt | None:
        """The latest attempt."""
        return self.attempts[-1] if self.attempts else None


def begun(job: Job, attempt: Attempt) -> Job:
    """The job, running. Raises WrongState."""
    if job.state is not JobState.QUEUED:
        raise WrongState(f"job {job.id} is {job.state}: only a queued job can begin")
    attempts = (*job.attempts, attempt)[-MOST_ATTEMPTS_KEPT:]
    return job.model_copy(update={"state": JobState.RUNNING, "reason": "", "attempts": attempts})


def noted(job: Job, **values: object) -> Job:
    """The job with more known about its present attempt. Raises WrongState."""
    last = job.last
    if job.state is not JobState.RUNNING or last is None:
        raise WrongState(f"job {job.id} is {job.state}, not running")
    return job.model_copy(update={"attempts": (*job.attempts[:-1], last.model_copy(update=values))})


def ended(
    job: Job,
    outcome: AttemptOutcome,
    reason: str,
    now_s: float,
    phases_done: int = 0,
    blameless: bool = False,
) -> Job:
    """The job after its present attempt: done, failed, or queued again.

    A failure is tried again ``retries`` times; a run stopped by the guard or refused by a safety
    rule is not, since it would be again. An interrupted job is resumed until it stalls.
    ``blameless``: the daemon was stopped or killed, so the interruption does not count.
    Raises WrongState.
    """
    last = job.last
    before = max((item.phases_done for item in job.attempts[:-1]), default=0)
    reason = "\n".join(map(printable, reason.splitlines()))[:4096]
    job = noted(job, ended_s=now_s, outcome=outcome, reason=reason, phases_done=phases_done)
    update: dict[str, object] = {"reason": reason}
    if job.cancel_asked and outcome is not AttemptOutcome.COMPLETED:
        update |= {"state": JobState.CANCELLED, "reason": "cancelled while it ran"}
    elif outcome is AttemptOutcome.COMPLETED:
        update |= {"state": JobState.DONE}
    elif outcome is AttemptOutcome.INTERRUPTED:
        progress = last is not None and phases_done > before
        stalled = 0 if progress else job.stalled + (not blameless)
        given_up = stalled >= MOST_STALLED
        if stalled > 1 and not blameless:
            update["after_s"] = now_s + _job_pause_s(GO_ON_AFTER_S, stalled - 2)
        update |= {"stalled": stalled, "state": JobState.FAILED if given_up else JobState.QUEUED}
        if given_up:
            update["reason"] = f"cut off {stalled} times in a row without progress: {reason}"[:4096]
    elif outcome is AttemptOutcome.FAILED and job.failures < job.retries:
        update |= {
            "failures": job.failures + 1,
            "state": JobState.QUEUED,
            "after_s": now_s + _job_pause_s(RETRY_AFTER_S, job.failures),
        }
    else:
        update |= {"failures": job.failures + 1, "state": JobState.FAILED}
    return job.model_copy(update=update)


def _job_pause_s(first_s: float, times: int) -> float:
    return float(min(first_s * 2 ** min(times, 10), LONGEST_PAUSE_S))


def cancelled(job: Job) -> Job:
    """The job, cancelled at once when it waits, else as soon as its run has ended.

    Raises WrongState when it is over.
    """
    if job.state.over:
        raise WrongState(f"job {job.id} is {job.state} already")
    if job.state is JobState.RUNNING:
        return job.model_copy(update={"cancel_asked": True})
    return job.model_copy(
        update={"state": JobState.CANCELLED, "reason": "cancelled before it began"}
    )
