"""Tables of many runs in few large Parquet files: parts, and the manifest that names them.

::

    tables/manifest/000017.json            the parts, and the runs in each; the highest counts
    tables/<table>/<month>/<name>.parquet  the rows of the runs of a part, by table

No file is ever changed. A new state of the tables is new parts and, written last and only if nobody
was faster, the manifest with the next number: a reader has the state of one manifest, whatever is
written meanwhile, and whoever is killed has changed nothing. Files that no manifest names are
removed by a later writer, when nobody can be reading them any more.

Each row has ``folder``, the name of the run's directory, and each run in a manifest its state: rows
of a run whose state is another one now are not read.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labctl.errors import StoreError
from labctl.installed import labctl_version
from labctl.record.json_values import UNREADABLE, known
from labctl.report.data.query_tables import LAYOUT, TABLES, quoted
from labctl.store.place import Place

if TYPE_CHECKING:
    import duckdb

FORMAT = 1
FOLDER = "folder"
"""The column with the name of the run's directory."""
MANIFESTS = "tables/manifest"
MOST_RUNS = 4000
"""Of a part: so much is written anew when one of its runs changes, and is in memory at a time."""
UNUSED_S = 3600
"""A question that takes longer may lose the files it reads."""
NO_MONTH = "undated"


@dataclass(frozen=True, slots=True)
class PartFile:
    """A table of a part."""

    key: str
    size: int
    """Bytes."""
    columns: dict[str, str]
    """The types (SQL) by name."""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of some runs."""

    month: str
    """In which they began (UTC), ``2026-11``; empty in a cache, where that is of no use."""
    files: dict[str, PartFile]
    """By table."""
    runs: dict[str, str]
    """The state of each run, by the name of its directory."""

    def counted(self, wanted: Mapping[str, str]) -> frozenset[str]:
        """The runs in it that are wanted in this state."""
        return frozenset(name for name, state in self.runs.items() if wanted.get(name) == state)


@dataclass(frozen=True, slots=True)
class PartsManifest:
    """The tables of many runs at a place."""

    parts: tuple[Part, ...] = ()
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of a store: rows of ``labctl runs``, by the name of the run."""
    number: int = 0
    labctl: str = ""
    layout: int = LAYOUT
    format: int = FORMAT


def read_manifest(place: Place) -> PartsManifest:
    """The manifest that counts; one without parts where there is none.

    Raises StoreError where it cannot be read, or is a newer labctl's.
    """
    key = _newest_key(place)
    if not key:
        return PartsManifest()
    try:
        found = json.loads(place.get(key))
        if found["format"] > FORMAT or found["layout"] > LAYOUT:
            raise StoreError(
                f"{place.address.of(key)}: the tables are of labctl {found['labctl']}, which is "
                "newer than this one: update labctl"
            )
        manifest = known(PartsManifest, {**found, "number": _parts_manifest_number(key)})
        _check(manifest.parts)
    except UNREADABLE as error:
        raise StoreError(f"{place.address.of(key)} is no manifest of labctl: {error}") from error
    return manifest if manifest.layout == LAYOUT else PartsManifest(number=manifest.number)


def _newest_key(place: Place) -> str:
    """The key of the manifest that counts; empty where there is none. Raises StoreError."""
    keys = (one.key for one in place.list(MANIFESTS) if _parts_manifest_number(one.key))
    return max(keys, key=_parts_manifest_number, default="")


def _check(parts: Iterable[Part]) -> None:
    """Raises ValueError where a part names anything but its tables."""
    for part in parts:
        for table in TABLES:
            words = part.files[table].key.split("/")
            if words[:2] != ["tables", table] or any(one[:1] in ("", ".") for one in words):
                raise ValueError(f"{part.files[table].key} is no table")


def _parts_manifest_number(key: str) -> int:
    name = key.rpartition("/")[2]
    digits = name.removesuffix(".json")
    return int(digits) if name.endswith(".json") and digits.isdecimal() else 0


def commit(
    place: Place,
    before: PartsManifest,
    parts: Iterable[Part],
    rows: dict[str, dict[str, Any]] | None = None,
) -> PartsManifest | None:
    """Have these parts count from now on; None where another writer was faster than this one.

    Raises StoreError.
    """
    after = PartsManifest(tuple(parts), rows or {}, before.number + 1, labctl_version())
    text = json.dumps(asdict(after), ensure_ascii=False, separators=(",", ":"))
    key = f"{MANIFESTS}/{after.number:06d}.json"
    is_new = place.put_if_absent(key, text.encode())
    # a number is free again when what had it no longer counted, and was removed
    return after if is_new and _newest_key(place) == key else None


def remove_unused(place: Place, manifest: PartsManifest) -> None:
    """Remove the files of tables that this manifest, the newest, does not name, where nobody can be
    reading them any more. Raises StoreError."""
    now_s = time.time()
    used = {file.key for part in manifest.parts for file in part.files.values()}
    for one in place.list("tables"):
        is_newest = _parts_manifest_number(one.key) >= manifest.number
        if one.key not in used and not is_newest and now_s - one.written_s > UNUSED_S:
            place.remove(one.key)


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from, and which runs of those that are there count."""

    files: Mapping[str, str]
    """What DuckDB reads, by table."""
    runs: frozenset[str]
    others: frozenset[str] = frozenset()
    """The runs that are there and do not count."""

    def of(self, names: frozenset[str]) -> Source:
        """The same, but only these runs count."""
        counted = self.runs & names
        return Source(self.files, counted, (self.runs | self.others) - counted)

    @property
    def where(self) -> str:
        """The condition."""
        if not self.others:
            return ""
        few, word = (
            (self.runs, "IN") if len(self.runs) < len(self.others) else (self.others, "NOT IN")
        )
        return f" WHERE {FOLDER} {word} ({', '.join(map(quoted, sorted(few)))})"


def rows_of(table: str, sources: Sequence[Source]) -> str:
    """The SQL of all rows of a table; columns that a source has not are NULL there."""
    selects = [f"SELECT * FROM {source.files[table]}{source.where}" for source in sources]
    return " UNION ALL BY NAME ".join(selects) or (
        f'SELECT NULL::VARCHAR AS run, NULL::BIGINT AS "index", NULL::VARCHAR AS drive, '
        f"NULL::VARCHAR AS {FOLDER} LIMIT 0"
    )


def files_sql(paths: Iterable[Path | str]) -> str:
    """What DuckDB reads for these files, columns by name."""
    names = ", ".join(quoted(str(path)) for path in paths)
    return f"read_parquet([{names}], union_by_name = true, hive_partitioning = false)"


def write_part(
    connection: duckdb.DuckDBPyConnection,
    place: Place,
    month: str,
    runs: dict[str, str],
    select: Mapping[str, str],
    work: Path,
) -> Part:
    """Write a part; it counts when a manifest names it. ``select``: the SQL of its rows, by table.

    ``work``: a folder for what is written. Raises OSError, StoreError, duckdb.Error.
    """
    name = secrets.token_hex(8)
    files = {}
    for table in TABLES:
        file = work / f"{name}-{table}.parquet"
        connection.execute(
            f"COPY ({select[table]}) TO {quoted(str(file))} (FORMAT parquet, COMPRESSION zstd, "
            f"KV_METADATA {{labctl: {quoted(labctl_version())}, layout: '{LAYOUT}'}})"
        )
        described = connection.execute(f"DESCRIBE SELECT * FROM {files_sql([file])}").fetchall()
        key = f"tables/{table}/{month or 'all'}/{name}.parquet"
        data = file.read_bytes()
        file.unlink()
        if not place.put_if_absent(key, data):
            raise StoreError(f"{place.address.of(key)} is there already")
        files[table] = PartFile(key, len(data), {row[0]: row[1] for row in described})
    return Part(month, files, runs)
