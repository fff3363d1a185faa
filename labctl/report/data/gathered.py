"""All rows of all runs of a folder or a store, at a cost in proportion to what changed.

Rows come from parts (:mod:`labctl.report.data.parts`): those that ``labctl compact`` made where the
runs are, and those in a cache. Of runs that neither has in their present state the rows are
fetched, and kept in the cache. There, parts of a like size are joined, so that their number stays
small and a row is written again only a few times.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labctl.errors import LabctlError, StoreError
from labctl.report.data.parts import (
    FOLDER,
    Part,
    PartsManifest,
    Source,
    commit,
    files_sql,
    read_manifest,
    remove_unused,
    rows_of,
    write_part,
)
from labctl.report.data.query_tables import TABLES, quoted, sql_type
from labctl.report.data.runs import Runs, States
from labctl.store.address import StoreAddress
from labctl.store.folder_place import FolderPlace

if TYPE_CHECKING:
    import duckdb

AT_ONCE = 256
"""Runs whose rows are gathered into one part: more takes more memory, and fewer would be kept when
the command is killed."""
MEMORY = "1GB"
"""Of DuckDB; what needs more goes to a temporary folder."""
_PATTERN = frozenset("*?[")
"""A path with one of these is a pattern to DuckDB."""

Progress = Callable[[int, int], None]
"""How many runs are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Where all rows are."""

    sources: tuple[Source, ...]
    compacted: PartsManifest
    """What ``labctl compact`` made."""
    usable: tuple[Part, ...]
    """Those of its parts whose files are as they should be."""
    left_out: tuple[str, ...]


def connect(work: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB in bounded memory."""
    import duckdb

    return duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(work / "spill")})


@contextlib.contextmanager
def duckdb_errors_in_words(work: Path) -> Iterator[None]:
    """What DuckDB or the disk says as a LabctlError: there is no room, or it cannot be written.

    A file that vanished while it was read stays a duckdb.IOException.
    """
    import duckdb

    try:
        yield
    except OSError as error:
        where = error.filename or work
        raise LabctlError(f"{where}: {error.strerror or error}") from error
    except duckdb.IOException:
        raise
    except duckdb.Error as error:
        raise LabctlError(f"the rows of the runs: {error}") from error


def folder_place(folder: Path) -> FolderPlace:
    """A folder of this machine as a place. Raises StoreError."""
    return FolderPlace(StoreAddress(folder=folder.absolute()), folder.absolute())


def gather(
    runs: Runs,
    connection: duckdb.DuckDBPyConnection,
    cache: Path | None,
    work: Path,
    progress: Progress,
) -> Gathered:
    """Have all rows of these runs. ``cache``: a folder for parts; without one they are in ``work``.

    Raises StoreError, OSError, duckdb.Error where nothing can be written in ``work``.
    """
    compacted, missing = PartsManifest(), dict(runs.states)
    sources: list[Source] = []
    usable: list[Part] = []
    notes: list[str] = []
    if runs.place is not None:
        try:
            compacted = read_manifest(runs.place)
        except StoreError as error:
            notes.append(f"{error}; its tables are not used")
    for part in compacted.parts:
        counted = part.counted(missing)
        source = runs.source(connection, part, counted, work) if counted else None
        if source is not None:
            sources.append(source)
            usable.append(part)
            missing = {name: state for name, state in missing.items() if name not in counted}
    cached = _Cached.open(cache, work)
    there = cached.names(missing)
    new = [name for name in missing if name not in there]
    with contextlib.closing(runs.fetch(new, work)) as fetching:
        done = 0
        while fetched := dict(itertools.islice(fetching, AT_ONCE if new else 0)):
            cached = cached.with_rows(connection, fetched, runs.states)
            done += len(fetched)
            progress(done, len(new))
            _remove_spare(fetched, work)
    if new:
        progress(len(new), len(new))
        cached.tidy()
    sources += cached.sources(missing)
    left_out = tuple(dict.fromkeys((*notes, *runs.left_out)))  # who asks again hears it again
    return Gathered(tuple(sources), compacted, tuple(usable), left_out)


def _remove_spare(fetched: Mapping[str, Path], work: Path) -> None:
    """Remove what was fetched only for its rows."""
    for folder in fetched.values():
        if work in folder.parents:
            shutil.rmtree(folder, ignore_errors=True)


def create_views(connection: duckdb.DuckDBPyConnection, sources: Sequence[Source]) -> None:
    """Have the tables under their names."""
    for table in TABLES:
        connection.execute(f"CREATE OR REPLACE VIEW {table} AS {rows_of(table, sources)}")


def source_in_folder(
    folder: Path, part: Part, counted: frozenset[str], work: Path
) -> Source | None:
    """The rows of a part in a folder; None where a file is missing or of another size."""
    for file in part.files.values():
        try:
            if (folder / file.key).stat().st_size != file.size:
                return None
        except OSError:
            return None
    plain = _without_pattern(folder, work)
    files = {table: files_sql([plain / file.key]) for table, file in part.files.items()}
    return Source(files, counted, frozenset(part.runs) - counted)


def _without_pattern(folder: Path, work: Path) -> Path:
    """A path to a folder that DuckDB takes as it is."""
    if not _PATTERN & set(str(folder)):
        return folder
    links = work / "links"
    links.mkdir(exist_ok=True)
    link = links / str(len(list(links.iterdir())))
    link.symlink_to(folder.absolute())
    return link


@dataclass(frozen=True)
class _Cached:
    """Parts in a cache, or in a temporary folder."""

    folder: Path
    place: FolderPlace
    work: Path
    manifest: PartsManifest
    is_shared: bool
    """Whether they count for others, too: not where another writer was faster, or none can be."""

    @staticmethod
    def open(cache: Path | None, work: Path) -> _Cached:
        folder = work / "parts"
        if cache is None:
            folder.mkdir(exist_ok=True)
            return _Cached(folder, folder_place(folder), work, PartsManifest(), False)
        place = folder_place(cache)
        try:
            manifest = read_manifest(place)
        except StoreError:  # damaged, or a newer labctl's: made anew, and not kept
            return _Cached.open(None, work)
        return _Cached(cache, place, work, manifest, True)

    def sources(self, wanted: States) -> list[Source]:
        """Those of these runs whose rows are here."""
        return [source for _, source in self._sources(wanted)]

    def names(self, wanted: States) -> frozenset[str]:
        """The names of these runs whose rows are here."""
        found = (source.runs for source in self.sources(wanted))
        return frozenset(name for runs in found for name in runs)

    def _sources(self, wanted: States) -> Iterator[tuple[Part, Source]]:
        for part in self.manifest.parts:
            counted = part.counted(wanted)
            source = source_in_folder(self.folder, part, counted, self.work) if counted else None
            if source is not None:
                yield part, source

    def with_rows(
        self, connection: duckdb.DuckDBPyConnection, fetched: Mapping[str, Path], states: States
    ) -> _Cached:
        """The same with the rows of these runs; parts that are not larger are joined with them."""
        runs = {name: states[name] for name in fetched}
        joined = []
        kept = []
        present = {name: state for name, state in states.items() if name not in runs}
        for part, source in sorted(self._sources(present), key=lambda one: len(one[1].runs)):
            if len(source.runs) <= len(runs):
                joined.append(source)
                runs |= {name: states[name] for name in source.runs}
            else:
                kept.append(part)
        fresh = _fetched_source(connection, fetched, self.work)
        rows = {table: rows_of(table, [*joined, fresh]) for table in TABLES}
        try:
            part = write_part(connection, self.place, "", runs, rows, self.work)
            after = commit(self.place, self.manifest, [*kept, part]) if self.is_shared else None
        except StoreError:  # the cache is full, or may not be written
            if not self.is_shared:
                raise
            return _Cached.open(None, self.work).with_rows(connection, fetched, states)
        if after is None:
            uncommitted = PartsManifest((*kept, part), number=self.manifest.number)
            return _Cached(self.folder, self.place, self.work, uncommitted, False)
        return _Cached(self.folder, self.place, self.work, after, True)

    def tidy(self) -> None:
        """Remove what no longer counts."""
        if self.is_shared:
            with contextlib.suppress(StoreError):
                remove_unused(self.place, self.manifest)


def _fetched_source(
    connection: duckdb.DuckDBPyConnection, fetched: Mapping[str, Path], work: Path
) -> Source:
    """The rows of runs of which each has a folder with its Parquet, with the types of today."""
    links = work / "fetched"
    links.mkdir(exist_ok=True)
    for link in links.iterdir():
        link.unlink()
    for number, folder in enumerate(fetched.values()):
        (links / str(number)).symlink_to(folder.absolute())
    names = ", ".join(map(quoted, fetched))
    name = rf"[{names}][regexp_extract(filename, '/([0-9]+)/[a-z]+\.parquet$', 1)::INT + 1]"
    files = {}
    for table, file in TABLES.items():
        paths = ", ".join(quoted(str(links / str(number) / file)) for number in range(len(fetched)))
        read = (
            f"read_parquet([{paths}], union_by_name = true, filename = true, "
            "hive_partitioning = false)"
        )
        described = connection.execute(f"DESCRIBE SELECT * EXCLUDE (filename) FROM {read}")
        columns = ", ".join(
            f"TRY_CAST({_gathered_column(one)} AS {sql_type(one)}) AS {_gathered_column(one)}"
            for one, *_ in described.fetchall()
            if one != FOLDER
        )
        files[table] = f"(SELECT {columns}, {name} AS {FOLDER} FROM {read} WHERE run IS NOT NULL)"
    return Source(files, frozenset(fetched))


def _gathered_column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
