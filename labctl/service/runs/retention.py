"""What becomes of old runs: compressed or exported, deleted by rule, never too early.

A run is touched only when it is over, nobody writes or ships it, and every sink that its rig or
the site names has stored all of it. Parquet keeps every reading: lossless, a third of the size,
and read by DuckDB, pandas, Spark and ClickHouse as it is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labctl.config.find_rig import rig_of
from labctl.errors import JournalError, LabctlError
from labctl.installed import Extra, need
from labctl.record.layout import CHANNELS_DIR, EVENTS_FILE, HEADER_FILE, HOST_CLOCK, READING
from labctl.record.reader import RunRecord, find_runs
from labctl.service.data_dir import sync_folder
from labctl.service.runs.shipping import is_on
from labctl.sinks.follow.cursor import SINKS_DIR, CursorFile, SinkBusy
from labctl.sinks.influxdb.settings import INFLUXDB, influx_settings
from labctl.sinks.mqtt.settings import MQTT, mqtt_settings

PARQUET_DIR = "parquet"
_GONE = ".deleted-"
ROWS_AT_ONCE = 1 << 20
DAY_S = 86_400.0
SETTLED_S = 3_600.0
"""A run without an end that was not written to for so long is over: its process is gone."""


class Step(StrEnum):
    """What is done with a run."""

    KEEP = "keep"
    EXPORT = "export"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Rule:
    """``export_after_s``: Parquet beside the record; ``delete_after_s``: the whole run goes;
    ``budget``: the oldest go until the rest takes so many bytes. None: not at all. With
    ``archive`` the Parquet goes there, and nothing is deleted before it lies there."""

    export_after_s: float | None = None
    delete_after_s: float | None = None
    budget: int | None = None
    archive: Path | None = None

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
    """What the rule does with each run, oldest first; touches nothing.

    ``jobs_need`` are names of runs that a waiting job may still go on with.
    """
    found = [
        (path, _age_s(path, now_s), bytes_below(path))
        for path in find_runs(runs)
        if not path.name.startswith(_GONE)
    ]
    left = sum(size for _, _, size in found)
    decisions = []
    for path, age_s, size in found:
        over_budget = rule.budget is not None and left > rule.budget
        too_old = rule.delete_after_s is not None and age_s > rule.delete_after_s
        export = rule.export_after_s is not None and age_s > rule.export_after_s
        if not (over_budget or too_old or export):
            decisions.append(Decision(path, Step.KEEP, "", size))
            continue
        why_not = "a job goes on with it" if path.name in jobs_need else why_it_must_stay(path)
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
    """Do it. Raises LabctlError when that is not possible (any more)."""
    if decision.step is Step.KEEP:
        return
    why_not = why_it_must_stay(decision.run)
    if why_not:
        raise LabctlError(f"{decision.run.name}: {why_not}")
    try:
        target = rule.parquet_of(decision.run)
        wanted = decision.step is Step.EXPORT or rule.archive is not None
        if wanted and not exported(decision.run, target):
            export(decision.run, target)
        if decision.step is Step.DELETE:
            delete(decision.run)
    except OSError as error:
        raise LabctlError(f"{decision.run}: {error.strerror or error}") from error


def why_it_must_stay(run: Path) -> str:
    """Why a run must not be touched, in words; empty when it may."""
    try:
        record = RunRecord(run)
    except JournalError as error:
        return f"it cannot be read: {error}"
    if record.end is None:
        if is_on(record):
            return "it is on"
        if time.time() - _written_s(run) < SETTLED_S:
            return "it was cut off just now"
    try:
        missing = _not_shipped(run, record)
    except (LabctlError, OSError) as error:
        return f"whether it is shipped is not known: {error}"
    return missing


def exported(run: Path, target: Path) -> bool:
    """Whether ``target`` holds the Parquet of a run as it is now: it may have gone on since."""
    copied, original = target / EVENTS_FILE, run / EVENTS_FILE
    try:
        return not copied.samefile(original) and copied.stat().st_size == original.stat().st_size
    except OSError:
        return False


def export(run: Path, target: Path) -> None:
    """Write every channel of a run as Parquet into ``target``, which appears when all is there and
    a loss of power takes nothing of it any more. What lay there of the run before is replaced.

    Raises OSError, MissingPart, JournalError.
    """
    need(Extra.PARQUET)
    import pyarrow as pa
    import pyarrow.parquet as pq

    record = RunRecord(run)
    fresh = target.with_name(f".{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for name in (*record.channel_names, HOST_CLOCK):
        for file, data in (
            (name, record.readings(name)),
            (f"{name}.clock", record.clock_pairs(name)),
        ):
            if not len(data):
                continue
            kinds = {"t": pa.int64(), "v": pa.float64()} if data.dtype == READING else {}
            schema = pa.schema(
                [(column, kinds.get(column, pa.int64())) for column in data.dtype.names or ()],
                metadata=_described(record, name),
            )
            written = fresh / f"{file}.parquet"
            with pq.ParquetWriter(written, schema, compression="zstd") as writer:
                for part in _parts(data):
                    columns = [pa.array(part[column]) for column in schema.names]
                    writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            if pq.ParquetFile(written).metadata.num_rows != len(data):
                raise JournalError(f"{written}: not every reading of {name} arrived")
    for name in (HEADER_FILE, EVENTS_FILE):
        if (run / name).is_file():
            shutil.copy2(run / name, fresh / name)
    for written in fresh.iterdir():
        _sync(written)
    sync_folder(fresh)
    if target.exists():
        shutil.rmtree(target)
    fresh.rename(target)
    sync_folder(target.parent)


def delete(run: Path) -> None:
    """Delete a run. It stops being one at once, whatever happens on the way. Raises OSError."""
    gone = run.with_name(f"{_GONE}{run.name}")
    run.rename(gone)
    (gone / HEADER_FILE).unlink()
    shutil.rmtree(gone)


def sweep_deleted(runs: Path) -> None:
    """Delete what a deletion that was cut off left behind. Raises OSError."""
    for gone in runs.glob(f"{_GONE}*"):
        shutil.rmtree(gone)


def bytes_below(folder: Path) -> int:
    """How many bytes the files below a folder take."""
    total = 0
    for where, _, names in os.walk(folder):  # goes on where a folder vanishes meanwhile
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(where, name).lstat().st_size
    return total


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _parts(data: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
    for begin in range(0, len(data), ROWS_AT_ONCE):
        yield data[begin : begin + ROWS_AT_ONCE]


def _described(record: RunRecord, name: str) -> dict[str, str]:
    described = {"labctl.run": record.header.run_id, "labctl.channel": name}
    if name == HOST_CLOCK:
        return described
    channel = record.channel(name)
    return described | {
        "labctl.quantity": channel.quantity,
        "labctl.unit": channel.unit,
        "labctl.clock": channel.clock,
    }


def _written_s(run: Path) -> float:
    files = [run / EVENTS_FILE, *(run / CHANNELS_DIR).glob("*")]
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


def _age_s(run: Path, now_s: float) -> float:
    return max(now_s - _written_s(run), 0.0)


def _not_shipped(run: Path, record: RunRecord) -> str:
    """Which configured sink does not have all of the run. Raises LabctlError, OSError.

    Where the rig is not (any more) one of this machine, its record says what was configured: here
    that is only held against the cursor, and nobody is asked.
    """
    rig = rig_of(record)
    text, name = (record.header.rig_text, str(run)) if rig is None else (rig.text, rig.path)
    influx, mqtt = influx_settings(text, name), mqtt_settings(text, name)
    size = (run / EVENTS_FILE).stat().st_size
    wanted = []
    if influx is not None:
        wanted.append((INFLUXDB, influx.destination, influx.bin_ns))
    if mqtt is not None:
        wanted.append((MQTT, mqtt.destination, mqtt.bin_ns))
    for sink, destination, bin_ns in wanted:
        if not (run / SINKS_DIR / f"{sink}.json").is_file():
            return f"{sink} has nothing of it yet: labctl ship {run}"
        try:
            file = CursorFile(run, sink, lambda _: None)
        except SinkBusy:
            return f"it is being sent to {sink}"
        try:
            cursor, _ = file.load(destination, bin_ns)
        finally:
            file.close()
        if cursor.summarised != size:  # the last thing that is sent of a run
            return f"{sink} does not have all of it: labctl ship {run}"
    return ""
