"""Retention: which old runs are exported as Parquet or deleted, by rule.

A run is touched only when no process records or ships it, which is asked by its locks, and every
sink that its rig or the site file names has stored all of it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from labctl.config.find_rig import rig_of
from labctl.errors import JournalError, LabctlError
from labctl.record.journal import holding, is_held
from labctl.record.layout import EVENTS_FILE, HEADER_FILE
from labctl.record.reader import RunRecord, find_runs
from labctl.record.timebase import DAY_S, NS_PER_S
from labctl.service.runs.last_written import last_written_ns
from labctl.service.runs.parquet import export, exported
from labctl.service.runs.stored_copy import check_stored, why_not_stored
from labctl.sinks.follow.cursor_file import SINKS_DIR, CursorFile, SinkBusy
from labctl.sinks.influxdb.settings import INFLUXDB, influx_settings
from labctl.sinks.mqtt.settings import MQTT, mqtt_settings
from labctl.sinks.schema import SCHEMA_VERSION
from labctl.store.place import Place

PARQUET_DIR = "parquet"
_DELETED_PREFIX = ".deleted-"
IT_IS_ON = "it is on"


class Step(StrEnum):
    """What is done with a run."""

    KEEP = "keep"
    EXPORT = "export"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Rule:
    """When runs are exported and deleted; None: never."""

    export_after_s: float | None = None
    """A run of this age is written as Parquet, beside its record or into ``archive``."""
    delete_after_s: float | None = None
    """A run of this age is deleted."""
    budget_bytes: int | None = None
    """The oldest runs are deleted until the others take no more than this."""
    archive: Path | None = None
    """The folder for Parquet; a run is deleted only after its Parquet is there."""
    store: Place | None = None
    """The store that is the archive: a run is deleted only when it was verified there just now."""

    @property
    def does_nothing(self) -> bool:
        """Whether it has no run exported or deleted."""
        return (self.export_after_s, self.delete_after_s, self.budget_bytes) == (None, None, None)

    @property
    def writes_parquet(self) -> bool:
        """Whether it may have Parquet written."""
        return self.export_after_s is not None or self.archive is not None

    def parquet_of(self, run: Path) -> Path:
        """Where the Parquet of a run goes."""
        return run / PARQUET_DIR if self.archive is None else self.archive / run.name


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done with a run, and why (or why not)."""

    run: Path
    step: Step
    reason: str
    bytes: int


def decide(runs: Path, rule: Rule, now_s: float, jobs_need: frozenset[str]) -> list[Decision]:
    """What the rule does with each run, oldest first; changes nothing.

    ``jobs_need`` are names of runs that a waiting job may still resume.
    """
    found = [
        (path, _age_s(path, now_s), bytes_below(path))
        for path in find_runs(runs)
        if not path.name.startswith(_DELETED_PREFIX)
    ]
    left = sum(size for _, _, size in found)
    decisions = []
    for path, age_s, size in found:
        over_budget = rule.budget_bytes is not None and left > rule.budget_bytes
        too_old = rule.delete_after_s is not None and age_s > rule.delete_after_s
        export = rule.export_after_s is not None and age_s > rule.export_after_s
        if not (over_budget or too_old or export):
            decisions.append(Decision(path, Step.KEEP, "", size))
            continue
        why_not = "a job goes on with it" if path.name in jobs_need else why_it_must_stay(path)
        if not why_not and rule.store is not None and (over_budget or too_old):
            why_not = _not_stored(path, rule.store)
        if why_not:
            decisions.append(Decision(path, Step.KEEP, why_not, size))
        elif over_budget or too_old:
            left -= size
            reason = f"{age_s / DAY_S:.0f} days old" if too_old else "the budget is used up"
            decisions.append(Decision(path, Step.DELETE, reason, size))
        elif not exported(path, rule.parquet_of(path)):
            decisions.append(Decision(path, Step.EXPORT, f"{age_s / DAY_S:.0f} days old", size))
        else:
            decisions.append(Decision(path, Step.KEEP, "exported already", size))
    return decisions


def carry_out(decision: Decision, rule: Rule) -> None:
    """Export or delete a run as decided. Raises LabctlError where that is not possible."""
    if decision.step is Step.KEEP:
        return
    try:
        with holding(decision.run) as is_ours:
            why_not = _why_needed(decision.run) if is_ours else IT_IS_ON
            if why_not:
                raise LabctlError(f"{decision.run.name}: {why_not}")
            target = rule.parquet_of(decision.run)
            wanted = decision.step is Step.EXPORT or rule.archive is not None
            if wanted and not exported(decision.run, target):
                export(decision.run, target)
            if decision.step is Step.DELETE:
                if rule.store is not None:
                    check_stored(decision.run, rule.store)
                delete(decision.run)
    except OSError as error:
        raise LabctlError(f"{decision.run}: {error.strerror or error}") from error


def why_it_must_stay(run: Path) -> str:
    """Why a run must not be touched, in words; empty when it may."""
    try:
        return IT_IS_ON if is_held(run) else _why_needed(run)
    except OSError as error:
        return f"whether it is on is not known: {error}"


def _not_stored(run: Path, store: Place) -> str:
    try:
        return why_not_stored(run, store)
    except (LabctlError, OSError) as error:
        return f"whether it is in the store is not known: {error}"


def _why_needed(run: Path) -> str:
    """Why a run that nobody records must not be touched."""
    try:
        record = RunRecord(run)
    except JournalError as error:
        return f"it cannot be read: {error}"
    try:
        return _not_shipped(run, record)
    except (LabctlError, OSError) as error:
        return f"whether it is shipped is not known: {error}"


def delete(run: Path) -> None:
    """Delete a run: renamed first, so that after a crash it is no run any more. Raises OSError."""
    marked = run.with_name(f"{_DELETED_PREFIX}{run.name}")
    run.rename(marked)
    (marked / HEADER_FILE).unlink()
    shutil.rmtree(marked)


def sweep_deleted(runs: Path) -> None:
    """Finish deletions that were cut off. Raises OSError."""
    for marked in runs.glob(f"{_DELETED_PREFIX}*"):
        shutil.rmtree(marked)


def bytes_below(folder: Path) -> int:
    """How many bytes the files below a folder take."""
    total = 0
    for where, _, names in os.walk(folder):  # os.walk skips a folder that vanishes meanwhile
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(where, name).lstat().st_size
    return total


def _age_s(run: Path, now_s: float) -> float:
    return max(now_s - last_written_ns(run) / NS_PER_S, 0.0)


def _not_shipped(run: Path, record: RunRecord) -> str:
    """Which configured sink does not have all of the run. Raises LabctlError, OSError.

    Where the rig is not (any more) one of this machine, the sinks are those of the run's header:
    they are only compared with the cursor files, no server is contacted.
    """
    rig = rig_of(record)
    text, name = (record.header.rig_text, str(run)) if rig is None else (rig.text, rig.path)
    influx, mqtt = influx_settings(text, name), mqtt_settings(text, name)
    size = (run / EVENTS_FILE).stat().st_size
    wanted: list[tuple[str, str, int, int | None]] = []
    if influx is not None:
        wanted.append((INFLUXDB, influx.destination, influx.bin_ns, SCHEMA_VERSION))
    if mqtt is not None:
        wanted.append((MQTT, mqtt.destination, mqtt.bin_ns, None))
    for sink, destination, bin_ns, schema in wanted:
        if not (run / SINKS_DIR / f"{sink}.json").is_file():
            return f"{sink} has nothing of it yet: labctl ship {run}"
        try:
            file = CursorFile(run, sink, lambda _: None)
        except SinkBusy:
            return f"it is being sent to {sink}"
        try:
            cursor, _ = file.load(destination, bin_ns, schema)
        finally:
            file.close()
        if cursor.summarised != size:  # the summary is sent last
            return f"{sink} does not have all of it: labctl ship {run}"
    return ""
