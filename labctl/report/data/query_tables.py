"""The rows of one run for the tables of ``labctl query``, kept beside its record as Parquet.

They are derived: a file is made again when the record it came from, or the labctl that made it, is
another. Where a run directory cannot be written to, its rows are made in another folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labctl.errors import JournalError
from labctl.installed import Extra, labctl_version, need
from labctl.record.atomic_write import replacing
from labctl.record.layout import raw_files
from labctl.record.reader import RunRecord, refuse_links
from labctl.report.data.result_files import Field

if TYPE_CHECKING:
    import duckdb

PHASES_FILE = "phases.parquet"
RUNS_FILE = "run.parquet"
DRIVES_FILE = "drives.parquet"
TABLES = {"phases": PHASES_FILE, "runs": RUNS_FILE, "drives": DRIVES_FILE}
"""The tables that can be asked, and the file of each in a run directory."""
LAYOUT = 2
"""Counts up when columns change their type or meaning, so that older Parquet is made again."""

_TEXT = frozenset(
    ("run", "drive", "role", "sweep", "label", "pattern", "outcome", "reason", "slowed_by", "notes",
     "rig", "plan", "drive_model", "drive_serial", "labctl_version", "throttling", "throttling_why")
)  # fmt: skip
_WHOLE = frozenset(
    ("index", "round", "block_size_bytes", "queue_depth", "jobs", "begin_ns", "end_ns",
     "read_ios", "write_ios", "phases", "problems")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """``text`` changes when a file of the record does (by size and time), or labctl's version;
    ``newest_change_ns`` is when the newest file was changed (``st_ctime``)."""

    text: str
    newest_change_ns: int


def fingerprint(path: Path) -> Fingerprint:
    """The fingerprint of a run directory. Raises OSError where a file vanishes meanwhile."""
    digest = hashlib.sha256(f"{LAYOUT} {labctl_version()}".encode())
    newest = 0
    for file in raw_files(path):
        stat = file.stat()
        state = f"{file.relative_to(path)} {stat.st_size} {stat.st_mtime_ns}\n"
        digest.update(state.encode("utf-8", "surrogateescape"))
        newest = max(newest, stat.st_ctime_ns)
    return Fingerprint(digest.hexdigest(), newest)


def one_thread() -> duckdb.DuckDBPyConnection:
    """A DuckDB for many small files: threads cost more there than they do."""
    import duckdb

    return duckdb.connect(config={"threads": 1})


def table_files(run: Path, spare: Path) -> tuple[Path, ...]:
    """The rows of a run as Parquet, a file a table of :data:`TABLES`: in the run, or, where nothing
    can be written there, in the folder ``spare``, which is made.

    Raises JournalError when it is no run that may be read, MissingPart.
    """
    need(Extra.QUERY)
    with one_thread() as maker:
        folder = tables_up_to_date(maker, run, spare, _fingerprint_of(run).text)
    return tuple(folder / file for file in TABLES.values())


def _fingerprint_of(run: Path) -> Fingerprint:
    try:
        return fingerprint(run)
    except OSError as error:
        raise JournalError(f"{run}: {error.strerror or error}") from error


def tables_up_to_date(
    maker: duckdb.DuckDBPyConnection, run: Path, spare: Path, wanted: str
) -> Path:
    """The folder with a run's Parquet of the record with this fingerprint: the run, or ``spare``.

    Raises JournalError when it is no run that may be read.
    """
    refuse_links(run)
    if all(_made_of(maker, run / file) == wanted for file in TABLES.values()):
        return run
    return _make_tables(maker, run, wanted, spare)


def _make_tables(maker: duckdb.DuckDBPyConnection, path: Path, wanted: str, spare: Path) -> Path:
    import duckdb

    tables = tables_of(path)
    try:
        try:
            return _write_all(maker, path, tables, wanted)
        except (OSError, duckdb.IOException):
            spare.mkdir(parents=True, exist_ok=True)
            return _write_all(maker, spare, tables, wanted)
    except duckdb.Error as error:
        raise JournalError(f"{path}: its rows cannot be written as Parquet: {error}") from error


def tables_of(path: Path) -> dict[str, list[dict[str, Field]]]:
    """The rows of a run, by table. Raises JournalError when it is no run that may be read."""
    from labctl.analysis.run.summary import summarise
    from labctl.report.data.result_files import drive_rows, phase_rows

    refuse_links(path)
    summary = summarise(RunRecord(path))
    run: dict[str, Field] = {
        "run": summary.run_id,
        "rig": summary.rig_name,
        "plan": summary.plan_name,
        "drive_model": summary.drive_model,
        "drive_serial": summary.drive_serial,
        "outcome": summary.outcome,
        "reason": summary.reason,
        "begin_ns": summary.begin_ns,
        "end_ns": summary.end_ns,
        "phases": len(summary.phases),
        "idle_watts": summary.idle_watts.value if summary.idle_watts else None,
        "idle_watts_u": summary.idle_watts.u if summary.idle_watts else None,
        "throttled_s": float(sum(item.throttled_s for item in summary.phases)),
        "problems": len(summary.problems),
        "labctl_version": summary.labctl_version,
    }
    return {"phases": phase_rows(summary), "runs": [run], "drives": drive_rows(summary)}


def _write_all(
    maker: duckdb.DuckDBPyConnection,
    folder: Path,
    tables: dict[str, list[dict[str, Field]]],
    made_of: str,
) -> Path:
    for name, file in TABLES.items():
        with replacing(folder / file) as fresh:
            _write_query_table(maker, fresh, tables[name], made_of)
    return folder


def _write_query_table(
    maker: duckdb.DuckDBPyConnection, file: Path, rows: Sequence[dict[str, Field]], made_of: str
) -> None:
    """Rows as a Parquet file. Raises OSError, duckdb.Error."""
    rows = rows or [dict.fromkeys(("run", "index", "drive"))]
    types = json.dumps([{name: sql_type(name) for name in rows[0]}])
    about = {"made_of": made_of, "labctl": labctl_version(), "layout": str(LAYOUT)}
    maker.execute(
        f"COPY (SELECT unnest(from_json($rows, {quoted(types)}), recursive := true)) "
        f"TO {quoted(str(file))} (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{"
        + ", ".join(f"{key}: {quoted(value)}" for key, value in about.items())
        + "})",
        {"rows": json.dumps(rows, allow_nan=False)},
    )


def _made_of(maker: duckdb.DuckDBPyConnection, file: Path) -> str:
    return _about_query_table(maker, file, "made_of") if file.is_file() else ""


def layout_of(reader: duckdb.DuckDBPyConnection, file: Path) -> int:
    """The layout of a run's Parquet; 1 where it does not say."""
    text = _about_query_table(reader, file, "layout")
    return int(text) if text.isdecimal() else 1


def _about_query_table(reader: duckdb.DuckDBPyConnection, file: Path, key: str) -> str:
    """What a Parquet file says of itself; empty where it does not, or is none."""
    import duckdb

    try:
        found = reader.execute(
            "SELECT decode(value) FROM parquet_kv_metadata($file) WHERE decode(key) = $key",
            {"file": str(file), "key": key},
        ).fetchone()
    except duckdb.Error:
        return ""
    return str(found[0]) if found else ""


def sql_type(column: str) -> str:
    """The type of a column, which its name decides: it is the same in every file."""
    return "VARCHAR" if column in _TEXT else "BIGINT" if column in _WHOLE else "DOUBLE"


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"
