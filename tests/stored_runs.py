"""Runs in a store with their tables and an empty bundle, as many as a test wants: what labctl push
does takes seconds each, for the pages."""

from __future__ import annotations

import hashlib
from pathlib import Path

from labctl.record.record_digest import journal_sha256, record_sha256
from labctl.report.data.query_tables import TABLES, table_files
from labctl.report.data.run_list import run_row
from labctl.store.entries import BUNDLE, RunEntry, StoredFile
from labctl.store.marker import make_store
from labctl.store.place import Place


def put_tables(
    place: Place, run: Path, name: str, revision: int = 1, labctl_version: str = "0.0"
) -> None:
    """Have the tables of a run in a store, under any name."""
    make_store(place)
    folder = f"runs/{name}/{revision:016d}"
    files = {}
    for file in table_files(run, run.parent / "spare"):
        data = file.read_bytes()
        place.put_if_absent(f"{folder}/{file.name}", data)
        files[file.name] = StoredFile(len(data), hashlib.sha256(data).hexdigest())
    assert set(files) == set(TABLES.values())
    place.put_if_absent(f"{folder}/{BUNDLE}", b"")
    files[BUNDLE] = StoredFile(0, hashlib.sha256(b"").hexdigest())
    put_entry(place, run, name, folder, files, revision, labctl_version)


def put_entry(
    place: Place,
    run: Path,
    name: str,
    folder: str,
    files: dict[str, StoredFile],
    revision: int = 1,
    labctl_version: str = "0.0",
) -> None:
    """The entry of a run, which is written last."""
    size = (run / "journal.jsonl").stat().st_size
    row = {**run_row(run), "run": name}
    row.pop("path")
    entry = RunEntry(
        *(name, revision, record_sha256(run), size, journal_sha256(run, size), folder, files, row),
        labctl_version=labctl_version,
        pushed="2026-01-01T00:00:00+00:00",
    )
    assert place.put_if_absent(entry.key, entry.to_json())
