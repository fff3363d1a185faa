"""SQL over every run: ``phases`` (one row a phase) and ``runs`` (one row a run), with DuckDB.

Each run keeps its rows beside its record as Parquet, which any other engine reads as well. They
are derived: a file is made again when the record it came from, or the labctl that made it, is
another. Where a run directory cannot be written to, its rows are made anew each time.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labctl.errors import ConfigurationError, JournalError, Mistake
from labctl.installed import Extra, labctl_version, need
from labctl.record.atomic_write import replacing
from labctl.record.layout import raw_files
from labctl.record.reader import RunRecord, find_runs, refuse_links
from labctl.report.csv_text import csv_text
from labctl.report.data.result_tables import Field

if TYPE_CHECKING:
    import duckdb

PHASES_FILE = "phases.parquet"
RUNS_FILE = "run.parquet"
DRIVES_FILE = "drives.parquet"
TABLES = {"phases": PHASES_FILE, "runs": RUNS_FILE, "drives": DRIVES_FILE}
"""The tables that can be asked, and the file of each in a run directory."""
LAYOUT = 1
"""Counts up when columns change their meaning, so that older Parquet is made again."""

# For columns that a run has no value of: all runs must agree on a type.
_TEXT = frozenset(
    ("run", "drive", "role", "sweep", "label", "pattern", "outcome", "reason", "slowed_by", "notes",
     "rig", "plan", "drive_model", "drive_serial", "labctl_version", "throttling", "throttling_why")
)  # fmt: skip
_WHOLE = frozenset(
    ("index", "block_size_bytes", "queue_depth", "jobs", "read_pct", "begin_ns", "end_ns",
     "read_ios", "write_ios", "phases", "problems")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query gave: ``columns`` and ``rows``, and a line for each run that was left out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    left_out: tuple[str, ...]


def query(sql: str, roots: Sequence[Path]) -> QueryResult:
    """Ask all runs under ``roots`` (or run directories themselves).

    Raises ConfigurationError for SQL that is none (with the tables that there are) and for a
    directory that is none, MissingPart when DuckDB is not installed.
    """
    need(Extra.QUERY)
    import duckdb

    if not sql.strip(" ;\n\t"):
        raise ConfigurationError([Mistake("query", "SQL", sql, "a question: SELECT * FROM runs")])
    found = [path for root in roots for path in _runs_of(root)]
    left_out = []
    with tempfile.TemporaryDirectory(prefix="labctl-query-") as spare:
        files: list[tuple[Path, ...]] = []
        with duckdb.connect() as maker:  # one for all: to connect takes 30 ms
            for number, path in enumerate(found):
                try:
                    files.append(_parquet(maker, path, Path(spare) / str(number)))
                except JournalError as error:
                    left_out.append(str(error))
        with duckdb.connect() as connection:
            for number, name in enumerate(TABLES):
                _table(connection, name, [str(made[number]) for made in files])
            try:
                result: Any = connection.execute(sql)
                description = result is not None and result.description
                columns = tuple(str(column[0]) for column in description or ())
                rows = tuple(result.fetchall()) if description else ()
            except duckdb.Error as error:
                raise ConfigurationError([_mistake(sql, error)]) from error
    return QueryResult(columns, rows, tuple(left_out))


def _runs_of(root: Path) -> list[Path]:
    if not root.is_dir():
        allowed = "there is no such directory of runs"
        raise ConfigurationError([Mistake("labctl query", "--runs", str(root), allowed)])
    return find_runs(root) or ([root] if (root / "run.json").is_file() else [])


def _mistake(sql: str, error: Exception) -> Mistake:
    lines = [line for line in str(error).splitlines() if line.strip()]
    tables = ", ".join(sorted(TABLES))
    lines.append(f'the tables are {tables}; "DESCRIBE phases" names the columns of one')
    return Mistake("query", "SQL", sql, "\n".join(lines))


def _table(connection: duckdb.DuckDBPyConnection, name: str, files: Sequence[str]) -> None:
    if not files:
        connection.execute(f'CREATE TABLE {name} (run VARCHAR, "index" BIGINT)')
        return
    connection.execute(
        f"CREATE TABLE {name} AS SELECT * FROM read_parquet($files, union_by_name = true) "
        "WHERE run IS NOT NULL",
        {"files": list(files)},
    )


def _parquet(maker: duckdb.DuckDBPyConnection, path: Path, spare: Path) -> tuple[Path, ...]:
    """The Parquet files of a run, made again when they do not fit its record.

    Raises JournalError when it is no run that may be read.
    """
    refuse_links(path)
    wanted = fingerprint(path)
    kept = tuple(path / file for file in TABLES.values())
    if all(_fingerprint_of(maker, file) == wanted for file in kept):
        return kept
    from labctl.analysis.run.summary import summarise
    from labctl.report.data.result_tables import drive_rows, phase_rows

    record = RunRecord(path)
    summary = summarise(record)
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
    drives = drive_rows(summary) or [{"run": None, "index": None, "drive": None}]
    tables = (phase_rows(summary), [run], drives)
    try:
        for file, rows in zip(kept, tables, strict=True):
            _write(maker, file, rows, wanted)
        return kept
    except OSError:
        spare.mkdir()
        made = tuple(spare / file for file in TABLES.values())
        for file, rows in zip(made, tables, strict=True):
            _write(maker, file, rows, wanted)
        return made


def fingerprint(path: Path) -> str:
    """Changes when a file of the record does (by size and time), or labctl's version."""
    digest = hashlib.sha256(f"{LAYOUT} {labctl_version()}".encode())
    for file in raw_files(path):
        stat = file.stat()
        state = f"{file.relative_to(path)} {stat.st_size} {stat.st_mtime_ns}\n"
        digest.update(state.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _fingerprint_of(maker: duckdb.DuckDBPyConnection, file: Path) -> str:
    if not file.is_file():
        return ""
    import duckdb

    try:
        found = maker.execute(
            "SELECT decode(value) FROM parquet_kv_metadata($file) WHERE decode(key) = 'made_of'",
            {"file": str(file)},
        ).fetchone()
    except duckdb.Error:
        return ""
    return str(found[0]) if found else ""


def _write(
    maker: duckdb.DuckDBPyConnection, file: Path, rows: Sequence[dict[str, Field]], made_of: str
) -> None:
    """Rows as Parquet, in one step. Raises OSError."""
    if not rows:
        rows = [{"run": None, "index": None}]
    types = {name: _type(name, (row[name] for row in rows)) for name in rows[0]}
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(types), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as plain:
        plain.write(text.getvalue())
        plain.flush()
        with replacing(file) as fresh:
            maker.execute(
                "CREATE OR REPLACE TABLE made AS SELECT * FROM read_csv($file, header = true, "
                f"delim = ',', quote = '\"', nullstr = '', columns = {_struct(types)})",
                {"file": plain.name},
            )
            maker.execute(
                f"COPY made TO {_quoted(str(fresh))} "
                f"(FORMAT parquet, KV_METADATA {{made_of: {_quoted(made_of)}}})"
            )


def _type(column: str, values: Iterable[Field]) -> str:
    """The SQL type of a column: that of its values; of its name where there are none."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return "VARCHAR" if column in _TEXT else "BIGINT" if column in _WHOLE else "DOUBLE"
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds <= {int, bool}:
        return "BIGINT"
    return "DOUBLE" if kinds <= {int, bool, float} else "VARCHAR"


def _struct(types: dict[str, str]) -> str:
    return (
        "{" + ", ".join(f"{_quoted(name)}: {_quoted(kind)}" for name, kind in types.items()) + "}"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def answer_csv(answer: QueryResult) -> str:
    """The answer as CSV; nothing where there is no value."""
    return csv_text(answer.columns, answer.rows)


def answer_json(answer: QueryResult) -> str:
    """The answer as a JSON list of objects."""
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    return json.dumps(rows, ensure_ascii=False, indent=1, default=str)
