"""What is where in a store, and the small object that says so of each run.

::

    labctl-store.json                      that this is a store of labctl, and its format
    index/<run>.<revision>.json            an entry (RunEntry): its row, and its files
    runs/<run>/<content>/<name>            bundle, tables, summary, report of a run
    tables/<table>/<month>/….parquet       tables of many runs, made by labctl compact

Every object is written once and never changed. A run's entry is written last: where there is one,
all that it names is there and was verified; what no entry names is no run. A run that was pushed,
then resumed, and pushed again has an entry of the next revision and another folder; the highest
revision counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from labctl.errors import StoreError
from labctl.printable import printable
from labctl.record.json_values import UNREADABLE, known, parse_json
from labctl.store.marker import FORMAT, check_store
from labctl.store.place import Place, StoredObject, get_many

MOST_ENTRY_BYTES = 1 << 20
MOST_REVISIONS = 9999
INDEX, RUNS = "index", "runs"
BUNDLE = "bundle.labctl.zip"
"""Of the files of a run: what ``labctl bundle`` makes."""
PART_BYTES = 32 << 20
"""A file that is larger is stored as several objects, ``<name>.000``, ``<name>.001`` …: what was
sent before a connection broke need not be sent again, and memory stays small."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
"""Of a run that can be stored: its folder's name becomes part of keys."""
_ENTRY = re.compile(rf"{INDEX}/(?P<run>{NAME.pattern})\.(?P<revision>[0-9]{{4}})\.json")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a run in the store."""

    size: int
    """Bytes."""
    sha256: str
    """Of the whole file, in hexadecimal digits."""
    parts: tuple[str, ...] = ()
    """SHA-256 of each object that it is stored as; empty: it is one object, under its own name."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """What a store says of a run: enough to list it and to find its files."""

    run: str
    """The name of its directory, as it was pushed."""
    revision: int
    record_sha256: str
    """One digest over all files of the record: the same for two copies of a run."""
    journal_bytes: int
    journal_sha256: str
    """Of ``journal.jsonl``: a run that went on has a journal that begins with this one."""
    folder: str
    """The key below which its files are."""
    files: dict[str, StoredFile]
    """By name: ``bundle.labctl.zip``, ``phases.parquet``, ``runs.parquet`` …"""
    row: dict[str, Any]
    """The columns of ``labctl runs``, without ``path``."""
    labctl_version: str
    """Of the labctl that derived tables, summary and report."""
    pushed: str
    """When, UTC, ISO 8601."""
    part_bytes: int = PART_BYTES
    format: int = FORMAT

    @property
    def key(self) -> str:
        """Of this entry."""
        return entry_key(self.run, self.revision)

    def keys_of(self, name: str) -> tuple[str, ...]:
        """The objects of a file, in order. Raises KeyError."""
        return keys_of(f"{self.folder}/{name}", self.files[name])

    def to_json(self) -> bytes:
        """As it stands in the store."""
        return (json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n").encode()


@dataclass(frozen=True, slots=True)
class Entries:
    """The runs of a store, by name in order of time; and a line for each object that is none."""

    runs: Mapping[str, RunEntry]
    left_out: tuple[str, ...]


def entry_key(run: str, revision: int) -> str:
    """The key of an entry."""
    return f"{INDEX}/{run}.{revision:04d}.json"


def keys_of(key: str, file: StoredFile) -> tuple[str, ...]:
    """The objects that a file is stored as, in order."""
    if not file.parts:
        return (key,)
    return tuple(f"{key}.{number:03d}" for number in range(len(file.parts)))


def entry_from(data: bytes, key: str) -> RunEntry:
    """An entry as it was read. Raises StoreError when it is none, or a newer labctl's."""
    try:
        found = parse_json(data.decode())
        if found["format"] > FORMAT:
            raise StoreError(
                f"{key} is of a newer labctl (format {found['format']}, this one reads up to "
                f"{FORMAT}): update labctl"
            )
        entry = known(RunEntry, found)
    except (UnicodeDecodeError, *UNREADABLE) as error:
        raise StoreError(f"{key} is no entry of labctl: {printable(str(error))}") from error
    names = [entry.run, *entry.files]
    folder = entry.folder.split("/")
    if entry.key != key or folder[:2] != [RUNS, entry.run] or len(folder) != 3:
        raise StoreError(f"{key} is no entry of labctl: it names another run, {entry.key}")
    if not all(NAME.fullmatch(name) for name in [*names, folder[2]]) or entry.part_bytes < 1:
        raise StoreError(f"{key} is no entry of labctl: it names what no file is called")
    if BUNDLE not in entry.files:  # the record itself: a run may be deleted because it is there
        raise StoreError(f"{key} is no entry of labctl: it has no {BUNDLE}")
    return entry


def newest_entries(place: Place) -> tuple[dict[str, StoredObject], tuple[str, ...]]:
    """The object of the entry that counts of each run, by name in order of time, and a line for
    each object that is none. Costs a listing.

    Raises StoreError where the store cannot be read, is of a newer labctl, or is none.
    """
    check_store(place)
    newest: dict[str, StoredObject] = {}
    left_out = []
    for one in place.list(INDEX):  # revisions have four digits, and are listed in their order
        match = _ENTRY.fullmatch(one.key)
        if match is None or one.size > MOST_ENTRY_BYTES:
            left_out.append(f"{place.address.of(printable(one.key))} is no entry of labctl")
        else:
            newest[match["run"]] = one
    return dict(sorted(newest.items())), tuple(left_out)


def read_entries(place: Place) -> Entries:
    """All runs of a store. Costs one listing and one small object a run, many at a time.

    Raises StoreError where the store cannot be read, is of a newer labctl, or is none.
    """
    newest, not_read = newest_entries(place)
    left_out = list(not_read)
    found: dict[str, RunEntry] = {}
    for key, data in get_many(place, [one.key for one in newest.values()]):
        try:
            entry = entry_from(data, key)
        except StoreError as error:
            left_out.append(f"{place.address}: {error}")
        else:
            found[entry.run] = entry
    return Entries(found, tuple(left_out))


def newest_entry(place: Place, run: str) -> RunEntry | None:
    """The entry of one run that counts; None where the store has none. Raises StoreError."""
    key = ""
    for revision in range(1, MOST_REVISIONS + 1):
        found = place.head(entry_key(run, revision))
        if found is None:
            break
        key = found.key
        if found.size > MOST_ENTRY_BYTES:
            raise StoreError(f"{place.address.of(key)} is no entry of labctl: it is too large")
    return entry_from(place.get(key), key) if key else None
