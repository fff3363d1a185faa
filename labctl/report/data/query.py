"""SQL over every run with DuckDB: ``phases`` has a row a phase, ``runs`` a row a run, ``drives``
a row a drive and phase."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labctl.errors import ConfigurationError, Mistake
from labctl.installed import Extra, need
from labctl.report.csv_text import csv_text
from labctl.report.data.gathered import (
    Progress,
    connect,
    create_views,
    duckdb_errors_in_words,
    gather,
)
from labctl.report.data.parts import Source
from labctl.report.data.query_tables import TABLES
from labctl.report.data.runs_at import RunsPlace, runs_at

_TRIES = 2
"""A file may be removed while it is read, when another joins parts: then it is begun anew."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query gave: ``columns`` and ``rows``, and a line for each run that was left out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    left_out: tuple[str, ...]


def query(
    sql: str,
    roots: Sequence[RunsPlace],
    cache: Path | None = None,
    progress: Progress = lambda done, total: None,
) -> QueryResult:
    """Ask all runs under ``roots`` (or run directories themselves), or in stores.

    ``cache``: a folder for what is known of runs; without one every run is looked at anew. Raises
    ConfigurationError for SQL that is none (with the tables that there are) and for a directory
    that is none, MissingPart when DuckDB is not installed, StoreError where a store cannot be read,
    LabctlError where there is no room.
    """
    need(Extra.QUERY)
    import duckdb

    if not sql.strip(" ;\n\t") or not _is_text(sql):
        raise ConfigurationError([Mistake("query", "SQL", sql, "a question: SELECT * FROM runs")])
    for root in roots:
        _check_query_runs(root)
    for left in reversed(range(_TRIES)):
        try:
            return _ask(sql, roots, cache, progress)
        except duckdb.IOException as error:
            if not left:
                raise ConfigurationError([_mistake(sql, error)]) from error
    raise AssertionError


def _ask(
    sql: str, roots: Sequence[RunsPlace], cache: Path | None, progress: Progress
) -> QueryResult:
    """Raises duckdb.IOException, ConfigurationError, LabctlError."""
    import duckdb

    sources: list[Source] = []
    left_out: list[str] = []
    with tempfile.TemporaryDirectory(prefix="labctl-query-") as spare:
        work = Path(spare)
        with connect(work) as connection:
            for number, root in enumerate(roots):
                own = work / str(number)
                with duckdb_errors_in_words(work):
                    own.mkdir()
                    runs, kept = runs_at(root, cache)
                    found = gather(runs, connection, kept, own, progress)
                sources += found.sources
                left_out += found.left_out
            create_views(connection, sources)
            try:
                result: Any = connection.execute(sql)
                description = result is not None and result.description
                columns = tuple(str(column[0]) for column in description or ())
                rows = tuple(result.fetchall()) if description else ()
            except duckdb.IOException:
                raise
            except duckdb.Error as error:
                raise ConfigurationError([_mistake(sql, error)]) from error
    return QueryResult(columns, rows, tuple(left_out))


def _is_text(sql: str) -> bool:
    """Whether it is UTF-8; a word of the command line need not be, and DuckDB fails at it."""
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_query_runs(root: RunsPlace) -> None:
    if isinstance(root, Path) and not root.is_dir():
        allowed = "there is no such directory of runs"
        raise ConfigurationError([Mistake("labctl query", "--runs", str(root), allowed)])


def _mistake(sql: str, error: Exception) -> Mistake:
    lines = [line for line in str(error).splitlines() if line.strip()]
    tables = ", ".join(sorted(TABLES))
    lines.append(f'the tables are {tables}; "DESCRIBE phases" names the columns of one')
    return Mistake("query", "SQL", sql, "\n".join(lines))


def answer_csv(answer: QueryResult) -> str:
    """The answer as CSV; nothing where there is no value."""
    return csv_text(answer.columns, answer.rows)


def answer_json(answer: QueryResult) -> str:
    """The answer as a JSON list of objects."""
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    return json.dumps(rows, ensure_ascii=False, indent=1, default=str)
