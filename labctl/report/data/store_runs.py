"""The runs of a store for the tables of ``labctl query`` and for ``labctl runs``.

Entries and tables of a store are never changed: what was read once, by this user or by who ran
``labctl compact``, is not read again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labctl.errors import StoreError
from labctl.installed import Extra, need
from labctl.report.data.gathered import source_in_folder
from labctl.report.data.parts import Part, Source, read_manifest
from labctl.report.data.query_tables import LAYOUT, TABLES, layout_of, one_thread
from labctl.report.data.run_index import RunKind, keep, known_runs
from labctl.report.data.run_list import Row
from labctl.store.entries import RunEntry, entry_from, newest_entries
from labctl.store.place import Place, get_many
from labctl.store.s3_place import S3Place

if TYPE_CHECKING:
    import duckdb

_AT_ONCE = 64
"""Runs whose tables are fetched at a time; each is some tens of kB."""


class StoreRuns:
    """The runs of a store."""

    def __init__(self, place: Place) -> None:
        """Raises StoreError where there is no store of labctl, or it cannot be read."""
        self.place = place
        self._newest, left_out = newest_entries(place)
        self.left_out = list(left_out)
        self.states = {run: entry.etag for run, entry in self._newest.items()}

    def rows(self, cache: Path | None) -> dict[str, Row]:
        """The rows of ``labctl runs``, by name, without ``path``."""
        found: dict[str, Row] = {}
        try:
            manifest = read_manifest(self.place)
        except StoreError:  # a newer labctl's: entries say the same
            pass
        else:
            for part in manifest.parts:
                for run in part.counted(self.states):
                    if run in manifest.rows:
                        found[run] = manifest.rows[run]
        known = known_runs(cache, RunKind.ROW)
        for run, state in self.states.items():
            if run not in found and (before := known.get(run)) and before[0] == state:
                found[run] = json.loads(before[1])
        fresh = {
            entry.run: dict(entry.row)
            for entry in self._entries([run for run in self.states if run not in found])
        }
        kept = {run: (self.states[run], json.dumps(row)) for run, row in fresh.items()}
        keep(cache, RunKind.ROW, kept, known.keys() - self.states.keys())
        found |= fresh
        return {run: found[run] for run in self.states if run in found}

    def _entries(self, runs: Sequence[str]) -> Generator[RunEntry, None, None]:
        for key, data in get_many(self.place, [self._newest[run].key for run in runs]):
            try:
                yield entry_from(data, key)
            except StoreError as error:
                self.left_out.append(f"{self.place.address}: {error}")

    def fetch(self, names: Sequence[str], work: Path) -> Generator[tuple[str, Path], None, None]:
        """Folders with the Parquet of these runs, fetched and verified."""
        with one_thread() as reader:
            for begin in range(0, len(names), _AT_ONCE):
                entries = list(self._entries(names[begin : begin + _AT_ONCE]))
                keys = [key for entry in entries for key in _store_run_keys(entry)]
                objects = dict(get_many(self.place, keys))
                for number, entry in enumerate(entries, begin):
                    folder = work / "spare" / str(number)
                    why_not = _write_store_run(entry, objects, folder, reader)
                    if why_not:
                        name = self.place.address.of(entry.folder)
                        self.left_out.append(f"{name}: {why_not}")
                    else:
                        yield entry.run, folder

    def source(
        self, connection: duckdb.DuckDBPyConnection, part: Part, counted: frozenset[str], work: Path
    ) -> Source | None:
        """The rows of a part; of one in a bucket only the columns are read that are asked for."""
        folder = self.place.address.folder
        if folder is not None:
            return source_in_folder(folder, part, counted, work)
        files = {}
        for table, file in part.files.items():
            name = f"part_{Path(file.key).stem}_{table}"
            connection.register(name, _store_run_dataset(self.place, file.key, file.columns))
            files[table] = name
        return Source(files, counted, frozenset(part.runs) - counted)


def _store_run_keys(entry: RunEntry) -> list[str]:
    """The objects of a run's tables; none where it was pushed without one of them."""
    if not entry.files.keys() >= set(TABLES.values()):
        return []
    return [key for file in TABLES.values() for key in entry.keys_of(file)]


def _write_store_run(
    entry: RunEntry,
    objects: Mapping[str, bytes],
    folder: Path,
    reader: duckdb.DuckDBPyConnection,
) -> str:
    """Write the Parquet of a run into a folder; why not, if it is not what it should be."""
    if not _store_run_keys(entry):
        return "it was pushed without its tables"
    folder.mkdir(parents=True, exist_ok=True)
    for file in TABLES.values():
        keys = entry.keys_of(file)
        if not objects.keys() >= set(keys):
            return f"{file} is missing"
        data = b"".join(objects[key] for key in keys)
        if hashlib.sha256(data).hexdigest() != entry.files[file].sha256:
            return f"{file} is damaged: its SHA-256 is another"
        (folder / file).write_bytes(data)
        if layout_of(reader, folder / file) > LAYOUT:
            return (
                f"its tables are of labctl {entry.labctl_version}, newer than this one: update "
                "labctl"
            )
    return ""


def _store_run_dataset(place: Place, key: str, columns: Mapping[str, str]) -> Any:
    """A Parquet object of a bucket, which is not read yet, as a dataset of Arrow."""
    need(Extra.PARQUET)
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow.fs import S3FileSystem

    assert isinstance(place, S3Place)
    access = place.access
    endpoint = access.endpoint
    of_server = (
        {"endpoint_override": endpoint.partition("://")[2], "scheme": endpoint.partition("://")[0]}
        if endpoint
        else {}
    )
    system = S3FileSystem(
        access_key=access.access_key_id or None,
        secret_key=access.secret_access_key or None,
        session_token=access.session_token or None,
        region=access.region,
        **of_server,
    )
    types = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    prefix = f"{place.address.prefix}/" if place.address.prefix else ""
    path = f"{place.address.bucket}/{prefix}{key}"
    return ds.FileSystemDataset.from_paths(
        [path], schema=schema, format=ds.ParquetFileFormat(), filesystem=system
    )
