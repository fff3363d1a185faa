"""``labctl compact``: the rows of all runs in large Parquet files, by table and month.

What is there already is kept: a part is written anew when runs of its month came, changed or went.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labctl.errors import ConfigurationError, Mistake, StoreError
from labctl.installed import Extra, need
from labctl.record.layout import HEADER_FILE
from labctl.report.data.gathered import (
    Gathered,
    Progress,
    connect,
    create_views,
    duckdb_errors_in_words,
    gather,
)
from labctl.report.data.parts import (
    FOLDER,
    MOST_RUNS,
    NO_MONTH,
    Part,
    PartsManifest,
    Source,
    commit,
    read_manifest,
    remove_unused,
    rows_of,
    write_part,
)
from labctl.report.data.query_tables import TABLES
from labctl.report.data.runs import Runs
from labctl.report.data.runs_at import RunsPlace, runs_at
from labctl.report.data.store_runs import StoreRuns

if TYPE_CHECKING:
    import duckdb

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Compacted:
    """The tables of a place after ``labctl compact``."""

    manifest: PartsManifest
    written: int
    """Parts that were written: none where nothing changed."""
    left_out: tuple[str, ...]
    """A line for each run that could not be read."""


def compact_place(
    where: RunsPlace,
    cache: Path | None = None,
    progress: Progress = lambda done, total: None,
) -> Compacted:
    """Compact the runs in a folder or a store, into ``tables`` there.

    In a folder every file of every run is looked at. Raises ConfigurationError for a folder that is
    none, or a run; MissingPart where DuckDB is not installed; StoreError, LabctlError where it
    cannot be read or written.
    """
    if isinstance(where, Path) and (not where.is_dir() or (where / HEADER_FILE).is_file()):
        is_run = "is a run: name the folder that it is in"
        allowed = is_run if where.is_dir() else "there is no such directory of runs"
        raise ConfigurationError([Mistake("labctl compact", "PLACE", str(where), allowed)])
    need(Extra.QUERY)
    with (
        tempfile.TemporaryDirectory(prefix="labctl-compact-") as spare,
        duckdb_errors_in_words(Path(spare)),
    ):
        work = Path(spare)
        runs, kept = runs_at(where, cache, thorough=True)
        rows = runs.rows(kept) if isinstance(runs, StoreRuns) else {}
        with connect(work) as connection:
            return compact(runs, connection, kept, work, progress, rows)


def compact(
    runs: Runs,
    connection: duckdb.DuckDBPyConnection,
    cache: Path | None,
    work: Path,
    progress: Progress,
    rows: Mapping[str, dict[str, Any]] | None = None,
) -> Compacted:
    """Have the rows of all these runs in parts at their place, in one step.

    ``rows``: of a store, the rows of ``labctl runs``. Raises StoreError where nothing can be
    written there, where the tables are a newer labctl's, or others compact it all the time;
    OSError, duckdb.Error.
    """
    place, rows = runs.place, rows or {}
    assert place is not None
    read_manifest(place)
    for _ in range(_TRIES):
        found = gather(runs, connection, cache, work, progress)
        kept, months = _plan(runs, connection, found)
        written = [
            _write_compact_part(runs, connection, found, month, names, work)
            for month, members in sorted(months.items())
            for names in _compact_chunks(sorted(members))
        ]
        before = found.compacted
        parts = (*kept, *written)
        listed = {name: rows[name] for part in parts for name in part.runs if name in rows}
        if parts == before.parts and listed == before.rows:
            after: PartsManifest | None = before
        else:
            after = commit(place, before, parts, listed)
        if after is not None:
            remove_unused(place, after)
            return Compacted(after, len(written), found.left_out)
    raise StoreError(f"{place.address}: others compact it at the same time: try again later")


def _plan(
    runs: Runs, connection: duckdb.DuckDBPyConnection, found: Gathered
) -> tuple[list[Part], dict[str, set[str]]]:
    """The parts that stay, and the names of the runs to be written anew, by month."""
    here = frozenset(name for source in found.sources for name in source.runs)
    whole = [
        part
        for part in found.compacted.parts
        if part in found.usable and part.counted(runs.states).issuperset(part.runs)
    ]
    changed = here - {name for part in whole for name in part.runs}
    months: dict[str, set[str]] = {}
    for name, month in _months_to_compact(connection, found.sources, changed):
        months.setdefault(month, set()).add(name)
    kept = []
    for part in whole:
        if part.month in months and len(part.runs) < MOST_RUNS:
            months[part.month] |= part.runs.keys()
        else:
            kept.append(part)
    return kept, months


def _months_to_compact(
    connection: duckdb.DuckDBPyConnection, sources: Iterable[Source], names: frozenset[str]
) -> Iterable[tuple[str, str]]:
    """The month in which each of these runs began, UTC."""
    if not names:
        return ()
    create_views(connection, list(sources))
    found = connection.execute(
        f"SELECT {FOLDER}, strftime(make_timestamp(begin_ns // 1000), '%Y-%m') FROM runs "
        f"WHERE {FOLDER} IN (SELECT unnest($names))",
        {"names": sorted(names)},
    ).fetchall()
    return [(name, month or NO_MONTH) for name, month in found]


def _compact_chunks(names: list[str]) -> Iterable[frozenset[str]]:
    return [frozenset(names[at : at + MOST_RUNS]) for at in range(0, len(names), MOST_RUNS)]


def _write_compact_part(
    runs: Runs,
    connection: duckdb.DuckDBPyConnection,
    found: Gathered,
    month: str,
    names: frozenset[str],
    work: Path,
) -> Part:
    assert runs.place is not None
    sources = [source.of(names) for source in found.sources if source.runs & names]
    select = {table: rows_of(table, sources) for table in TABLES}
    states = {name: runs.states[name] for name in sorted(names)}
    return write_part(connection, runs.place, month, states, select, work)
