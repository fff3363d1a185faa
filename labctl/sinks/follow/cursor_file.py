"""How far a sink has come in a run: a small file in the run directory, replaced atomically."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

from labctl.errors import LabctlError
from labctl.record.atomic_write import write_atomically
from labctl.record.bounded_read import read_small
from labctl.record.file_lock import lock_file, unlock_file
from labctl.sinks.cursor import FORMAT, Cursor
from labctl.sinks.sink import ReportLine

SINKS_DIR = "sinks"

MOST_CURSOR_BYTES = 1 << 24

SAVE_EVERY_S = 1.0
"""What was stored since would be sent again after a crash."""


class SinkBusy(LabctlError):
    """Another labctl is sending this run to this sink right now."""


class CursorFile:
    """The cursor of one sink in one run, held by this process alone while it is open."""

    def __init__(self, run: Path, name: str, report_line: ReportLine) -> None:
        """Take the cursor; ``report_line`` gets a sentence for a person when it cannot be kept.

        Raises SinkBusy, or LabctlError when nothing can be written there.
        """
        self._path = run / SINKS_DIR / f"{name}.json"
        self._report_line = report_line
        self._unsaved: Cursor | None = None
        self._saved_at = float("-inf")
        self._failed = False
        try:
            self._path.parent.mkdir(exist_ok=True)
            self._lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise LabctlError(
                f"{self._path.parent}: {error.strerror or error}; where a sink has come is kept "
                "in the run's directory: make it writable"
            ) from error
        if not lock_file(self._lock):
            os.close(self._lock)
            raise SinkBusy(
                f"{run}: another labctl is sending it to {name} right now; it goes on by itself"
            )

    def load(self, destination: str, bin_ns: int, schema: int | None = None) -> tuple[Cursor, str]:
        """The cursor to continue from, and a sentence why it is the beginning; else empty.

        ``schema``: what was sent in another one is sent again; None: it is not.
        """
        fresh = Cursor(destination=destination, bin_ns=bin_ns)
        try:
            found = Cursor.from_json(read_small(self._path, MOST_CURSOR_BYTES))
        except FileNotFoundError:
            return fresh, ""
        except (OSError, ValueError) as error:
            return fresh, f"{self._path} cannot be read ({error}): starting from the beginning"
        if found.destination != destination:
            return fresh, f"it was sent to {found.destination} before: starting from the beginning"
        if found.bin_ns != bin_ns:
            return fresh, "it was sent in other bins before: starting from the beginning"
        if schema not in (None, found.schema):
            return fresh, "it was sent in another schema before: starting from the beginning"
        return found, ""

    def keep(self, cursor: Cursor) -> None:
        """Take the cursor up to which everything is stored; it is on disk after
        :meth:`save`, which is called here at most every ``SAVE_EVERY_S``."""
        self._unsaved = cursor
        if time.monotonic() - self._saved_at >= SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Store the kept cursor durably. Reports the first failure."""
        if self._unsaved is None:
            return
        self._saved_at = time.monotonic()
        data = {"format": FORMAT, **asdict(self._unsaved)}
        try:
            write_atomically(self._path, json.dumps(data, indent=1) + "\n", durable=True)
        except OSError as error:
            if not self._failed:
                self._report_line(
                    f"{self._path}: how far it was sent cannot be kept "
                    f"({error.strerror or error}); some would be sent again"
                )
            self._failed = True
            return
        self._unsaved = None

    def close(self) -> None:
        """Save the cursor and release its lock."""
        self.save()
        unlock_file(self._lock)
        os.close(self._lock)
