"""Push: a run into a store, as its bundle, tables, summary and pages, all of it verified there.

What a store has is never changed (:mod:`labctl.store.entries`). A push that broke off is gone on
with by the next: objects that are there already are compared, not sent.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from labctl.analysis.run.summary import summarise
from labctl.errors import LabctlError, StoreError
from labctl.installed import Extra, labctl_version, need
from labctl.printable import printable
from labctl.record.bundle import write_bundle
from labctl.record.journal import holding, is_held
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import RunRecord
from labctl.record.record_digest import journal_sha256, record_sha256
from labctl.report.data.query_tables import table_files
from labctl.report.data.result_files import summary_json
from labctl.report.data.run_list import run_row
from labctl.report.pages.all_pages import write_pages
from labctl.report.pages.report_files import PAGE_FILE, REVIEW_FILE, SUMMARY_FILE, is_current
from labctl.store.address import StoreAddress
from labctl.store.entries import (
    BUNDLE,
    MOST_REVISIONS,
    NAME,
    PART_BYTES,
    RUNS,
    RunEntry,
    StoredFile,
    newest_entry,
)
from labctl.store.marker import make_store
from labctl.store.place import Place, holds
from labctl.store.threads import mapped

AT_ONCE = 2
"""Objects of up to 32 MiB that are in memory and sent at a time."""
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)

Progress = Callable[[int, int], None]
"""Bytes that are in the store by now, and of how many."""


class PushState(StrEnum):
    """What a push did."""

    PUSHED = "pushed"
    THERE = "there"
    """The store had all of it."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """A run that is in the store, and how much of it this push had to send."""

    run: Path
    state: PushState
    entry: RunEntry
    sent_bytes: int


def need_for_push(address: StoreAddress) -> None:
    """Raises MissingPart where a library that a push to such a store takes is not installed."""
    need(*((Extra.STORE,) if address.folder is None else ()), Extra.QUERY)


def push(run: Path, place: Place, progress: Progress = lambda done, total: None) -> Pushed:
    """Put a run into a store, verified; nothing that is there is changed, nothing here is deleted.

    Makes the run's report first where it is not there. Raises StoreError where the store cannot be
    reached, refuses, or has another run of that name; JournalError where the run cannot be read;
    LabctlError where it is on.
    """
    path = run.resolve()
    if not NAME.fullmatch(path.name):
        raise StoreError(
            f"{printable(path.name)}: a run in a store has a name of letters, digits and _ . + -: "
            "rename its directory"
        )
    RunRecord(path)  # raises where it is none, before anything of it is followed
    make_store(place)
    with tempfile.TemporaryDirectory(prefix="labctl-push-", ignore_cleanup_errors=True) as folder:
        staging = Path(folder)
        try:
            with _unrecorded_during_push(path):
                entry = _entry_to_push(path)
                there = newest_entry(place, path.name)
                if _is_complete(place, there, entry):
                    assert there is not None
                    return Pushed(run, PushState.THERE, there, 0)
                if there is not None:
                    _check_goes_on(place, path, entry, there)
                files = _stage_push_files(path, staging)
            entry = _push_entry_with_files(entry, staging, files)
            sent = _send_all(place, entry, staging, progress)
            return _enter_pushed_run(place, run, entry, there, sent)
        except OSError as error:
            where = error.filename or staging
            why = error.strerror or error
            raise LabctlError(
                f"{path.name}: {where}: {why} (a bundle is made in TMPDIR before it is sent)"
            ) from error


@contextlib.contextmanager
def _unrecorded_during_push(path: Path) -> Iterator[None]:
    """Keep everybody from recording the run meanwhile. Raises LabctlError where a process does."""
    refusal = LabctlError(
        f"{path.name}: it is on, or another push has it: push it when that has ended"
    )
    with contextlib.ExitStack() as held:
        try:
            is_ours = held.enter_context(holding(path))
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            is_ours = not is_held(path)  # nobody can record where nothing can be written
        if not is_ours:
            raise refusal
        yield


def _entry_to_push(path: Path) -> RunEntry:
    """What the store is to say of a run, as far as its record says it. Raises OSError."""
    size = (path / EVENTS_FILE).stat().st_size
    row = run_row(path)
    row.pop("path")
    return RunEntry(
        run=path.name,
        revision=1,
        record_sha256=record_sha256(path),
        journal_bytes=size,
        journal_sha256=journal_sha256(path, size),
        folder="",
        files={},
        row=row,
        labctl_version=labctl_version(),
        pushed=datetime.now(UTC).isoformat(timespec="seconds"),
        part_bytes=PART_BYTES,
    )


def _is_complete(place: Place, there: RunEntry | None, entry: RunEntry) -> bool:
    """Whether the store has this record, and every object that its entry names."""
    if there is None or there.record_sha256 != entry.record_sha256:
        return False
    sizes = {one.key: one.size for one in place.list(there.folder)}
    return all(
        sum(sizes.get(key, -1) for key in there.keys_of(name)) == file.size
        for name, file in there.files.items()
    )


def _stage_push_files(path: Path, staging: Path) -> list[str]:
    """Everything of a run that goes into the store as files in ``staging``; their names."""
    record = RunRecord(path)
    summary = summarise(record)
    if not is_current(record, summary):
        write_pages(record, summary)
    write_bundle(record, summary_json(summary), staging / BUNDLE)
    found = [
        *table_files(path, staging / "tables"),
        *(path / name for name in (SUMMARY_FILE, PAGE_FILE, REVIEW_FILE)),
    ]
    for file in found:
        if file.is_file():
            shutil.copyfile(file, staging / file.name)
    return [BUNDLE, *(file.name for file in found if file.is_file())]


def _push_entry_with_files(entry: RunEntry, staging: Path, names: list[str]) -> RunEntry:
    """The entry with its files, and the folder that their contents name."""
    files = {name: _file_to_push(staging / name, entry.part_bytes) for name in names}
    text = "".join(f"{file.sha256}  {name}\n" for name, file in sorted(files.items()))
    content = hashlib.sha256(text.encode()).hexdigest()[:16]
    return replace(entry, files=files, folder=f"{RUNS}/{entry.run}/{content}")


def _file_to_push(file: Path, part_bytes: int) -> StoredFile:
    whole, parts, size = hashlib.sha256(), [], 0
    with file.open("rb") as stream:
        while data := stream.read(part_bytes):
            whole.update(data)
            parts.append(hashlib.sha256(data).hexdigest())
            size += len(data)
    return StoredFile(size, whole.hexdigest(), tuple(parts) if len(parts) > 1 else ())


def _send_all(place: Place, entry: RunEntry, staging: Path, progress: Progress) -> int:
    """Send what is missing, and verify everything; how many bytes had to be sent."""
    total = sum(file.size for file in entry.files.values())
    work = [
        (staging / name, number * entry.part_bytes, key)
        for name in entry.files
        for number, key in enumerate(entry.keys_of(name))
    ]

    def send(one: tuple[Path, int, str]) -> tuple[int, int]:
        file, begin, key = one
        with file.open("rb") as stream:
            stream.seek(begin)
            data = stream.read(entry.part_bytes)
        return len(data), len(data) if put_verified(place, key, data) else 0

    done = sent = 0
    for size, new in mapped(send, work, AT_ONCE):
        done, sent = done + size, sent + new
        progress(done, total)
    return sent


def put_verified(place: Place, key: str, data: bytes) -> bool:
    """Have these bytes in the store under a key, whoever put them there; whether they were sent.

    Raises StoreError where something else is there, which stays, or where what was sent did not
    arrive as it was.
    """
    if holds(place, key, data):
        return False
    is_new = place.put_if_absent(key, data)
    if holds(place, key, data):
        return is_new
    if is_new:
        raise StoreError(f"{place.address.of(key)}: what is stored is not what was sent")
    raise StoreError(
        f"{place.address.of(key)}: another object is there; nothing is overwritten. If it is not "
        "yours, use another prefix; if it is damaged, move it away"
    )


def _enter_pushed_run(
    place: Place, run: Path, entry: RunEntry, there: RunEntry | None, sent: int
) -> Pushed:
    """Write the run's entry, as the revision after what is there.

    Another machine may write one first: then that one is looked at. Raises StoreError.
    """
    while True:
        if there is not None:
            if there.revision >= MOST_REVISIONS:
                raise StoreError(f"{place.address.of(there.key)}: there are too many revisions")
            _check_goes_on(place, run.resolve(), entry, there)
            entry = replace(entry, revision=there.revision + 1)
        data = entry.to_json()
        if place.put_if_absent(entry.key, data):
            if not holds(place, entry.key, data):
                raise StoreError(f"{place.address.of(entry.key)}: was not stored as it was sent")
            return Pushed(run, PushState.PUSHED, entry, sent)
        there = newest_entry(place, entry.run)
        if there is not None and _is_complete(place, there, entry):
            return Pushed(run, PushState.THERE, there, sent)


def _check_goes_on(place: Place, run: Path, entry: RunEntry, there: RunEntry) -> None:
    """Raises StoreError where a run is not the one that the store has, gone on."""
    where = place.address.of(there.key)
    if journal_sha256(run, there.journal_bytes) == there.journal_sha256:
        return
    if entry.journal_bytes < there.journal_bytes:
        raise StoreError(
            f"{run.name}: the store has more of this run than is here, or another run of this "
            f"name ({where}); nothing is overwritten"
        )
    raise StoreError(
        f"{run.name}: the store has another run of this name ({where}); nothing is overwritten: "
        "rename the directory, or use another prefix"
    )
