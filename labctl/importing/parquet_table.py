"""Reads a meter's Parquet file as a table of texts, so that it means what the same CSV means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from labctl.importing.dialect import SAMPLE_ROWS, Sniffed
from labctl.importing.mapping import not_there
from labctl.importing.table import Table
from labctl.importing.times import Ints
from labctl.printable import printable

ROWS_AT_ONCE = 1 << 16

_OWN_UNIT, _OWN_CHANNEL = b"labctl.unit", b"labctl.channel"
"""Metadata of labctl's own files, one channel each: its value is in the column ``v``."""


def sniff_parquet(file: Path) -> Sniffed:
    """Its columns and first rows. Raises ConfigurationError."""
    with _opened(file) as parquet:
        headings = _headings(parquet)
        batches = parquet.iter_batches(batch_size=SAMPLE_ROWS)
        rows = [
            tuple(row)
            for batch in islice(batches, 1)
            for row in zip(
                *(_parquet_column_texts(one).to_pylist() for one in batch.columns), strict=True
            )
        ]
    if not rows:
        raise not_there(file, "line 1", None, "there are headings and no reading")
    return Sniffed(",", ".", "utf-8", 0, 1, headings, len(headings), tuple(rows))


class ParquetTable(Table):
    """A Parquet file as its mapping says it is; a line is a row, from 1."""

    def _batches(self, needed: Sequence[int]) -> Iterator[tuple[Any, Ints]]:
        import pyarrow as pa

        line = 1
        with _opened(self.file) as parquet:
            total = max(parquet.metadata.num_rows, 1)
            names = [parquet.schema_arrow.names[at] for at in needed]
            try:
                for batch in parquet.iter_batches(ROWS_AT_ONCE, columns=names, use_threads=False):
                    lines = np.arange(line, line + batch.num_rows, dtype=np.int64)
                    line += batch.num_rows
                    self.share = min(line / total, 1.0)
                    columns = [_parquet_column_texts(batch.column(name)) for name in names]
                    yield pa.RecordBatch.from_arrays(columns, names=list(map(str, needed))), lines
            except (OSError, pa.ArrowException) as error:
                words = printable(str(error).splitlines()[0])
                raise not_there(self.file, "Parquet", None, f"cannot be read: {words}") from error


def _opened(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file, pre_buffer=False)
    except (OSError, pa.ArrowException) as error:
        words = printable(str(error).splitlines()[0])
        raise not_there(file, "Parquet", None, f"cannot be read: {words}") from error


def _headings(parquet: Any) -> tuple[str, ...]:
    names: list[str] = parquet.schema_arrow.names
    said = parquet.schema_arrow.metadata or {}
    if _OWN_UNIT in said and names == ["t", "v"]:
        channel = said[_OWN_CHANNEL].decode().partition(".")[2].replace("-", " ")
        return ("t (ns)", f"{channel} ({said[_OWN_UNIT].decode()})")
    return tuple(names)


def _parquet_column_texts(column: Any) -> Any:
    """A column as texts; times in UTC, nothing as an empty text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = pc.cast(column, kind.value_type)
    if pa.types.is_timestamp(kind):
        suffix = "" if kind.tz is None else "Z"
        column = pc.binary_join_element_wise(
            pc.cast(pc.cast(column, pa.timestamp("ns")), pa.string()), "", suffix
        )
    try:
        return pc.fill_null(pc.cast(column, pa.string()), "")
    except pa.ArrowException:
        return pa.array([""] * len(column), pa.string())
