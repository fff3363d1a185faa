"""A run's channels as Parquet: lossless, a third of the size, for DuckDB, pandas or Spark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labctl.errors import JournalError
from labctl.installed import Extra, need
from labctl.record.atomic_write import sync_folder
from labctl.record.layout import EVENTS_FILE, HEADER_FILE, HOST_CLOCK, READING
from labctl.record.reader import RunRecord

ROWS_AT_ONCE = 1 << 20


def exported(run: Path, target: Path) -> bool:
    """Whether ``target`` holds the Parquet of a run as it is now: a run may be resumed later."""
    copied, original = target / EVENTS_FILE, run / EVENTS_FILE
    try:
        return not copied.samefile(original) and copied.stat().st_size == original.stat().st_size
    except OSError:
        return False


def export(run: Path, target: Path) -> None:
    """Write every channel of a run as Parquet into the folder ``target``.

    The folder appears when all files are on the disk (fsync); an earlier export is replaced.
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
                metadata=_parquet_metadata(record, name),
            )
            written = fresh / f"{file}.parquet"
            with pq.ParquetWriter(written, schema, compression="zstd") as writer:
                for part in _parquet_parts(data):
                    columns = [pa.array(part[column]) for column in schema.names]
                    writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            if pq.ParquetFile(written).metadata.num_rows != len(data):
                raise JournalError(f"{written}: not every reading of {name} arrived")
    for name in (HEADER_FILE, EVENTS_FILE):
        if (run / name).is_file():
            shutil.copy2(run / name, fresh / name)
    for written in fresh.iterdir():
        _sync_parquet(written)
    sync_folder(fresh)
    if target.exists():
        shutil.rmtree(target)
    fresh.rename(target)
    sync_folder(target.parent)


def _sync_parquet(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _parquet_parts(data: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
    for begin in range(0, len(data), ROWS_AT_ONCE):
        yield data[begin : begin + ROWS_AT_ONCE]


def _parquet_metadata(record: RunRecord, name: str) -> dict[str, str]:
    """The key-value metadata of a channel's file: run, channel, quantity, unit, clock."""
    found = {"labctl.run": record.header.run_id, "labctl.channel": name}
    if name == HOST_CLOCK:
        return found
    channel = record.channel(name)
    return found | {
        "labctl.quantity": channel.quantity,
        "labctl.unit": channel.unit,
        "labctl.clock": channel.clock,
    }
