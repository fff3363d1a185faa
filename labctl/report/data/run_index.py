"""What is known of each run of a folder, kept in a cache, so that it is not read again.

One SQLite file a folder. It may be deleted at any time; where it cannot be read or written, every
run is read again. Two commands at once each keep what they found out.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from labctl.record.timebase import DAY_S
from labctl.report.user_cache import private_folder

Known = tuple[str, str]
"""The run's stamp (:mod:`labctl.record.run_stamps`) when it was read, and what was found."""

_FILE = "index.sqlite"
_WAIT_S = 2.0
UNUSED_DAYS = 90


class RunKind(StrEnum):
    """What is known."""

    ROW = "row"
    """Its row in the list of runs."""
    FINGERPRINT = "fingerprint"
    """The fingerprint of its record (:mod:`labctl.report.data.query_tables`)."""


def cache_of(cache: Path | None, root: Path | str) -> Path | None:
    """The folder in ``cache`` for what is known of a folder of runs, or of a store (its address as
    text); None where there is none.

    A new one takes the place of those that nobody has used for long.
    """
    if cache is None or private_folder(cache) is None:
        return None
    name = root if isinstance(root, str) else root.resolve()
    folder = cache / hashlib.sha256(os.fsencode(name)).hexdigest()[:20]
    if not folder.is_dir():
        _sweep_run_indexes(cache)
    return private_folder(folder)


def _sweep_run_indexes(cache: Path) -> None:
    with contextlib.suppress(OSError):
        for folder in cache.iterdir():
            used_s = max(file.stat().st_mtime for file in (folder, *folder.glob(f"{_FILE}*")))
            if time.time() - used_s > UNUSED_DAYS * DAY_S:
                shutil.rmtree(folder, ignore_errors=True)


def known_runs(cache: Path | None, kind: RunKind) -> dict[str, Known]:
    """What is known, by the name of the run's directory; empty where there is nothing."""
    if cache is None:
        return {}
    try:
        with _open(cache) as index:
            found = index.execute("SELECT run, stamp, value FROM known WHERE kind = ?", (kind,))
            return {os.fsdecode(run): (stamp, value) for run, stamp, value in found}
    except sqlite3.OperationalError:  # busy, full, not ours
        return {}
    except sqlite3.DatabaseError:
        with contextlib.suppress(OSError):
            (cache / _FILE).unlink()
        return {}


def keep(
    cache: Path | None, kind: RunKind, found: Mapping[str, Known], gone: Iterable[str] = ()
) -> None:
    """Keep what was found out of some runs, and forget those that are gone; where possible."""
    gone = tuple(gone)
    if cache is None or not (found or gone):
        return
    rows = [(kind, os.fsencode(run), *known) for run, known in found.items()]
    with contextlib.suppress(sqlite3.Error), _open(cache) as index, index:
        index.executemany("INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?)", rows)
        index.executemany(
            "DELETE FROM known WHERE kind = ? AND run = ?",
            [(kind, os.fsencode(run)) for run in gone],
        )


@contextlib.contextmanager
def _open(cache: Path) -> Iterator[sqlite3.Connection]:
    index = sqlite3.connect(cache / _FILE, timeout=_WAIT_S)
    try:
        index.execute("PRAGMA synchronous = NORMAL")
        index.execute(
            "CREATE TABLE IF NOT EXISTS known "
            "(kind TEXT, run BLOB, stamp TEXT, value TEXT, PRIMARY KEY (kind, run)) WITHOUT ROWID"
        )
        yield index
    finally:
        index.close()
