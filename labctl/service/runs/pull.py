"""Pull: a run out of a store, as a run directory like any other, every file of it verified.

Its pages are not fetched: they are programs of whoever wrote the store, and ``labctl report`` makes
them again from the record, which is data.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from labctl.errors import LabctlError, StoreError
from labctl.record.atomic_write import replacing, sync_folder, write_atomically
from labctl.record.bundle import enough_room, unpack_bundle
from labctl.record.record_digest import file_sha256, record_sha256
from labctl.report.user_cache import private_folder
from labctl.service.data_dir import cache_of_runs
from labctl.store.address import StoreAddress, parse_address
from labctl.store.entries import BUNDLE, RunEntry, newest_entry
from labctl.store.open_place import open_place
from labctl.store.place import DamagedObject, Place

_PULLED = ".labctl-pull-"
"""Begins the name of a folder beside the runs: of what was fetched of a run that is not whole."""

Progress = Callable[[int, int], None]
"""Bytes that are here by now, and of how many."""


class PullState(StrEnum):
    """What a pull did."""

    PULLED = "pulled"
    HERE = "here"
    """The same run was here already."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """A run that is here."""

    run: Path
    state: PullState
    entry: RunEntry


def pull(
    entry: RunEntry,
    place: Place,
    runs: Path,
    progress: Progress = lambda done, total: None,
) -> Pulled:
    """Have a run of a store in the directory ``runs``, verified; nothing that is here is changed.

    Parts that an earlier pull fetched are not fetched again. Raises StoreError where the store does
    not give it as its entry says, or where another run of that name is here; LabctlError where it
    cannot be written.
    """
    target = runs / entry.run
    try:
        if target.exists():
            return _here(target, entry, place)
        work = runs / f"{_PULLED}{entry.run}-{entry.folder.rpartition('/')[2]}"
        work.mkdir(parents=True, exist_ok=True)
        bundle = fetch_file(place, entry, BUNDLE, work, progress)
        with tempfile.TemporaryDirectory(prefix="unpacked-", dir=work) as fresh:
            run = _unpacked_pulled_run(bundle, Path(fresh), entry, place)
            try:
                run.rename(target)
            except OSError:
                if not target.exists():
                    raise
                return _here(target, entry, place)  # another pull was faster
        sync_folder(runs)
        shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        where = error.filename or runs
        raise LabctlError(f"{entry.run}: {where}: {error.strerror or error}") from error
    return Pulled(target, PullState.PULLED, entry)


def fetched_run(address: str) -> Path:
    """The directory of a run of a store, verified, in the user's cache.

    Raises StoreError where the store has no such run or cannot be read, LabctlError where there is
    no room, ConfigurationError.
    """
    store, name = _place_and_name(address)
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


def _place_and_name(address: str) -> tuple[StoreAddress, str]:
    """The store and the name of the run behind it."""
    store, _, name = address.rstrip("/").rpartition("/")
    if store.endswith((":", "/")) or not name:
        raise LabctlError(f"{address} names no run: s3://bucket/prefix/RUN")
    return parse_address(store), name


def fetch_file(
    place: Place,
    entry: RunEntry,
    name: str,
    folder: Path,
    progress: Progress = lambda done, total: None,
) -> Path:
    """A file of a run from a store into a folder, under its own name, verified by its SHA-256.

    Raises NoSuchObject, DamagedObject where the store has not what the entry says; StoreError,
    OSError.
    """
    file, target = entry.files[name], folder / name
    if target.is_file() and file_sha256(target).hexdigest() == file.sha256:
        return target
    digests = file.parts or (file.sha256,)
    pieces = [folder / f"{key.rpartition('/')[2]}.piece" for key in entry.keys_of(name)]
    done = 0
    for key, digest, piece in zip(entry.keys_of(name), digests, pieces, strict=True):
        if not (piece.is_file() and file_sha256(piece).hexdigest() == digest):
            data = place.get(key)
            if hashlib.sha256(data).hexdigest() != digest:
                raise DamagedObject(f"{place.address.of(key)}: is damaged: its SHA-256 is another")
            write_atomically(piece, data)
        done += piece.stat().st_size
        progress(done, file.size)
    with replacing(target) as fresh, fresh.open("wb") as joined:
        for piece in pieces:
            with piece.open("rb") as source:
                shutil.copyfileobj(source, joined, 1 << 20)
    for piece in pieces:
        with contextlib.suppress(OSError):
            piece.unlink()
    if file_sha256(target).hexdigest() != file.sha256:
        raise DamagedObject(f"{place.address.of(entry.key)}: {name} is not what the entry says")
    return target


def _unpacked_pulled_run(bundle: Path, folder: Path, entry: RunEntry, place: Place) -> Path:
    """The run directory of a bundle, each file as its manifest says. Raises DamagedObject."""
    enough_room(bundle, folder)
    unpacked = unpack_bundle(bundle, folder)
    problems = list(unpacked.problems)
    if unpacked.run.name != entry.run or record_sha256(unpacked.run) != entry.record_sha256:
        problems.append("it holds another record than its entry says")
    if problems:
        raise DamagedObject(f"{place.address.of(entry.key)}: its bundle: {'; '.join(problems)}")
    return unpacked.run


def _here(target: Path, entry: RunEntry, place: Place) -> Pulled:
    if record_sha256(target) == entry.record_sha256:
        return Pulled(target, PullState.HERE, entry)
    raise StoreError(
        f"{target} is here and is another record than {place.address.of(entry.run)}: nothing is "
        "overwritten; rename it, or pull into another directory with --runs"
    )
