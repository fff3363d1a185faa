"""Runs for reading that are in a store: pulled once, into the user's cache."""

from __future__ import annotations

import hashlib
import tempfile
from os import PathLike
from pathlib import Path

from labctl.errors import LabctlError, StoreError
from labctl.report.data import run_data
from labctl.report.data.run_data import RunData
from labctl.report.user_cache import private_folder
from labctl.service.data_dir import cache_of_runs
from labctl.service.runs.pull import pull
from labctl.store.address import StoreAddress, is_address, parse_address
from labctl.store.entries import newest_entry
from labctl.store.open_place import open_place


def open_run(path: str | PathLike[str]) -> RunData:
    """A run for reading: a directory (``~`` is the home), or the address of a run in a store, as in
    ``s3://bucket/prefix/RUN``.

    Raises JournalError when it is none, StoreError where the store has it not or cannot be read.
    """
    if isinstance(path, str) and is_address(path):
        return RunData(fetched_run(path))
    return run_data.open_run(path)


def fetched_run(address: str) -> Path:
    """The directory of a run of a store, verified, in the user's cache.

    Raises StoreError where the store has no such run or cannot be read, LabctlError where there is
    no room, ConfigurationError.
    """
    store, name = _split(address)
    place = open_place(store)
    entry = newest_entry(place, name)
    if entry is None:
        raise StoreError(f"{store}: there is no run {name!r} (labctl runs --runs {store})")
    digest = hashlib.sha256(f"{store} {entry.record_sha256}".encode()).hexdigest()[:20]
    cache = cache_of_runs()
    folder = None if cache is None else private_folder(cache / "pulled" / digest)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="labctl-pulled-"))
    return pull(entry, place, folder).run


def _split(address: str) -> tuple[StoreAddress, str]:
    """The store and the name of the run behind it."""
    store, _, name = address.rstrip("/").rpartition("/")
    if store.endswith((":", "/")) or not name:
        raise LabctlError(f"{address} names no run: s3://bucket/prefix/RUN")
    return parse_address(store), name
