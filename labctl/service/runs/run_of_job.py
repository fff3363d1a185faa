"""The run of a scheduler's job: there is one, however often the scheduler begins the job.

``labctl run --job NAME`` writes the name into the header of the run, and finds it there again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from labctl.capture.run.resume_agreement import in_words, plan_differences
from labctl.errors import ConfigurationError, JournalError
from labctl.record.reader import RunRecord, runs_in

JOB_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}"
"""A scheduler's words for a job: "slurm-lab-1234", "1234.pbs", "batch:nightly-7"."""


@dataclass(frozen=True, slots=True)
class RunOfJob:
    """What a job has done of a plan on a rig."""

    record: RunRecord | None
    """Its newest run of just this plan; None where there is none."""
    another: str = ""
    """Where there is none, but runs of a plan with the same name: the newest of them, and in what
    its plan differs, in words."""


def run_of_job(
    job: str, rig_name: str, plan_name: str, plan_text: str, places: Iterable[Path]
) -> RunOfJob:
    """The run in ``places`` that this job began of this plan on this rig.

    A plan of the same name with another scale, or whose points end otherwise, is another
    measurement, as is one whose file was changed. Only the headers of runs are read that have the
    rig and the plan in their name.
    """
    named = f"_{rig_name}_{plan_name}"
    runs = [run for run in runs_in(places) if named in run.name]
    another = ""
    for run in reversed(runs):
        try:
            record = RunRecord(run)
        except JournalError:  # it cannot be read, so it cannot go on
            continue
        header = record.header
        if (header.job, header.rig_name, header.plan_name) != (job, rig_name, plan_name):
            continue
        differs = _run_of_job_differs(record, plan_text)
        if not differs:
            return RunOfJob(record)
        another = another or f"the run {run.name} of this job is another measurement: {differs}"
    return RunOfJob(None, another)


def _run_of_job_differs(record: RunRecord, plan_text: str) -> str:
    """In what the plan of a record is another; empty: in nothing."""
    try:
        found = plan_differences(record, plan_text)
    except ConfigurationError as error:  # of another version of labctl
        return str(error)
    return in_words(found)
