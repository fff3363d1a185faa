"""Whether a store has a run as it is here: what must be so before it is deleted here."""

from __future__ import annotations

import hashlib
from pathlib import Path

from labctl.errors import StoreError
from labctl.record.record_digest import record_sha256
from labctl.store.entries import RunEntry, newest_entry
from labctl.store.place import Place
from labctl.store.threads import mapped

AT_ONCE = 2
"""Objects of up to 32 MiB that are read at a time."""


def why_not_stored(run: Path, place: Place) -> str:
    """Why a store cannot stand for a run, by what it says of it; empty where it can.

    Raises StoreError, OSError.
    """
    return _why_not(run, newest_entry(place, run.name), place)


def _why_not(run: Path, entry: RunEntry | None, place: Place) -> str:
    if entry is None:
        return f"{place.address} does not have it: labctl push {run} {place.address}"
    if entry.record_sha256 != record_sha256(run):
        return f"{place.address} has another record of it: labctl push {run} {place.address}"
    return ""


def check_stored(run: Path, place: Place) -> None:
    """Read every object of a run in a store, and compare its SHA-256.

    Raises StoreError where one is missing or differs, or the record here is another; OSError.
    """
    entry = newest_entry(place, run.name)
    why_not = _why_not(run, entry, place)
    if entry is None or why_not:
        raise StoreError(f"{run.name}: {why_not}")
    for _ in mapped(
        lambda one: _check_stored_copy_object(place, *one), _stored_copy_objects(entry), AT_ONCE
    ):
        pass


def _stored_copy_objects(entry: RunEntry) -> list[tuple[str, str]]:
    """Key and SHA-256 of every object of a run."""
    return [
        pair
        for name, file in entry.files.items()
        for pair in zip(entry.keys_of(name), file.parts or (file.sha256,), strict=True)
    ]


def _check_stored_copy_object(place: Place, key: str, sha256: str) -> None:
    if hashlib.sha256(place.get(key)).hexdigest() != sha256:
        raise StoreError(f"{place.address.of(key)}: is damaged: its SHA-256 is another")
