"""The journal: the only thing that is written while a run is on.

Readings go to one flat file a channel, events to one JSON line each. A writer thread
writes readings to the kernel within 60 ms and syncs them every second. The kernel has an
event before :meth:`Journal.event` returns, and it is synced at once. So a crash of the program
loses no event that was reported to anybody and at most 250 ms of readings (a meter with a memory is
asked every 170 ms at the latest), and a loss of power about a second of readings.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from instruments.reading import Block, ClockPair
from labctl.errors import JournalError
from labctl.record.atomic_write import sync_folder, write_atomically
from labctl.record.events import Event, EventKind
from labctl.record.file_lock import is_locked, lock_file, unlock_file
from labctl.record.header import Header
from labctl.record.layout import (
    CHANNELS_DIR,
    CLOCK_PAIR,
    EVENTS_FILE,
    FIO_DIR,
    HEADER_FILE,
    READING,
    written_records,
)

WRITE_WITHIN_S = 0.06
SYNC_EVERY_S = 1.0


class _File:
    """An append-only file of whole records: a failed write leaves no half record behind."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.size = os.fstat(self.descriptor).st_size
        self.dirty = False

    def append(self, data: bytes | memoryview) -> None:
        left = memoryview(data).cast("B")
        size = self.size + len(left)
        try:
            while left:
                left = left[os.write(self.descriptor, left) :]
        except OSError:
            os.ftruncate(self.descriptor, self.size)
            raise
        self.size = size
        self.dirty = True

    def sync(self) -> None:
        if self.dirty:
            self.dirty = False  # first: what is appended meanwhile is for the next time
            os.fdatasync(self.descriptor)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1  # its number may soon be another file's
        os.close(descriptor)


class Journal:
    """Writes one run. Every method may be called from any thread."""

    def __init__(
        self,
        path: Path,
        now_ns: Callable[[], int],
        on_failure: Callable[[str], None] | None = None,
        device_begin_ns: Mapping[str, int] | None = None,
    ) -> None:
        """Open the run directory ``path`` that :func:`create` made, or :func:`reopen` prepared.

        ``on_failure`` is called once, from the thread that failed, when nothing more can be
        written, whatever the reason. ``device_begin_ns`` (of :func:`reopen`) is added to the device
        times of each channel named. Raises JournalError, also when another process is writing it.
        """
        self.path = path
        self._now_ns = now_ns
        self._on_failure = on_failure
        self._files: dict[str, _File] = {}
        self._device_begin_ns = device_begin_ns or {}
        try:
            self._events = _File(path / EVENTS_FILE)
        except OSError as error:
            raise JournalError(_cannot_write(path, error)) from error
        self._unsynced_folders = {path}
        if not lock_file(self._events.descriptor):
            self._events.close()
            raise _in_use(path)
        self._blocks: dict[str, list[Block]] = {}
        self._pairs: dict[str, list[ClockPair]] = {}
        self._events_lock = threading.Lock()
        self._lock = threading.Lock()
        # The writer waits until somebody releases it: much cheaper than a Condition.
        self._wake = threading.Lock()
        self._wake.acquire()
        self._flushed = threading.Condition(self._lock)
        self._write_at: float | None = None
        self._asked = 0
        self._done = 0
        self._closing = False
        self._closed = False
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._write_until_over, name="journal", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # no room for another thread
            self._events.close()
            raise JournalError(_cannot_write(path, error)) from error

    def readings(self, instrument: str, block: Block) -> None:
        """Record a block. Raises JournalError once nothing can be written any more."""
        if not len(block):
            return
        with self._lock:
            self._raise_failure()
            self._blocks.setdefault(f"{instrument}.{block.channel}", []).append(block)
            self._schedule_write()

    def clock_pairs(self, instrument: str, pairs: Iterable[ClockPair]) -> None:
        """Record samples of device clocks. Raises JournalError, as :meth:`readings`."""
        with self._lock:
            self._raise_failure()
            for pair in pairs:
                self._pairs.setdefault(f"{instrument}.{pair.channel}", []).append(pair)
            self._schedule_write()

    def event(self, kind: EventKind, t_ns: int | None = None, **data: Any) -> Event:
        """Record an event (now, unless ``t_ns`` is given). A kill does not undo it any more when
        this returns; it is synced at once.

        Raises JournalError once nothing can be written any more. The end of a run is tried even
        then: what failed may have been one channel's file.
        """
        event = Event(self._now_ns() if t_ns is None else t_ns, kind, data)
        line = event.to_line().encode()
        with self._events_lock:
            if kind != EventKind.RUN_ENDED:
                self._raise_failure()
            try:
                self._events.append(line)
                if self.failure is not None:  # nobody else syncs it any more
                    self._events.sync()
            except OSError as error:
                self._fail(error)
                self._raise_failure()
        self._wake_writer()
        return event

    def flush(self, timeout_s: float = 10.0) -> None:
        """Wait until everything recorded so far is written and synced.

        Raises JournalError when that cannot be done.
        """
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._asked += 1
            ticket = self._asked
            self._wake_writer()
            while self._done < ticket:
                self._raise_failure()
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise JournalError(f"{self.path}: the disk did not answer for {timeout_s} s")
                self._flushed.wait(remaining)
            self._raise_failure()

    def close(self, timeout_s: float = 30.0) -> None:
        """Write what is left, sync and let go. Never raises: see ``failure``."""
        with self._lock:
            self._closing = True
            self._wake_writer()
        self._thread.join(timeout_s)
        if self._thread.is_alive() or self._closed:
            return
        self._closed = True
        unlock_file(self._events.descriptor)
        for file in (self._events, *self._files.values()):
            file.close()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise JournalError(self.failure)

    def _schedule_write(self) -> None:
        """Schedule a write of new readings, with others that come in meanwhile. Needs the lock.

        While readings keep coming the writer has set its next write, and is not woken for each.
        """
        if self._write_at is None:
            self._write_at = time.monotonic() + WRITE_WITHIN_S
            self._wake_writer()

    def _wake_writer(self) -> None:
        """Wake the writer's thread."""
        with contextlib.suppress(RuntimeError):  # somebody else has just woken it
            self._wake.release()

    def _write_until_over(self) -> None:
        """The writer's thread. Whatever ends it early is reported: the record is not whole."""
        try:
            self._write_loop()
        except BaseException as error:
            self._fail(error)

    def _write_loop(self) -> None:
        next_sync = time.monotonic() + SYNC_EVERY_S
        while True:
            wait_s = min(self._write_at or next_sync, next_sync) - time.monotonic()
            if wait_s > 0:
                self._wake.acquire(timeout=wait_s)
            with self._lock:
                asked, closing = self._asked, self._closing
                now = time.monotonic()
                blocks, pairs = {}, {}
                if closing or asked > self._done or now >= (self._write_at or next_sync):
                    blocks, self._blocks = self._blocks, {}
                    pairs, self._pairs = self._pairs, {}
                    self._write_at = now + WRITE_WITHIN_S if blocks or pairs else None
            self._write(blocks, pairs)
            self._events.sync()
            if closing or asked > self._done or now >= next_sync:
                self._sync()
                next_sync = time.monotonic() + SYNC_EVERY_S
            if asked > self._done:
                with self._lock:
                    self._done = asked
                    self._flushed.notify_all()
            if closing:
                return

    def _write(self, blocks: dict[str, list[Block]], pairs: dict[str, list[ClockPair]]) -> None:
        for name, new in pairs.items():  # first: readings without a clock pair cannot be mapped
            begin_ns = self._device_begin_ns.get(name, 0)
            rows = [(begin_ns + pair.device_ns, pair.host_ns, pair.round_trip_ns) for pair in new]
            self._file(f"{name}.clock").append(np.array(rows, CLOCK_PAIR).data)
        for name, parts in blocks.items():
            t_ns = [part.t_ns for part in parts]
            values = [part.values for part in parts]
            one = len(parts) == 1
            records = np.empty(sum(map(len, values)), READING)
            records["t"] = t_ns[0] if one else np.concatenate(t_ns)
            records["v"] = values[0] if one else np.concatenate(values)
            if name in self._device_begin_ns:
                records["t"] += self._device_begin_ns[name]
            self._file(name).append(records.data)

    def _file(self, name: str) -> _File:
        if name not in self._files:
            self._files[name] = _File(self.path / CHANNELS_DIR / name)
            self._unsynced_folders.add(self.path / CHANNELS_DIR)
        return self._files[name]

    def _sync(self) -> None:
        for file in (self._events, *self._files.values()):
            file.sync()
        while self._unsynced_folders:
            sync_folder(self._unsynced_folders.pop())

    def _fail(self, error: BaseException) -> None:
        message = _cannot_write(self.path, error)
        with self._lock:
            first, self.failure = self.failure is None, self.failure or message
            self._blocks, self._pairs = {}, {}
            self._flushed.notify_all()
        if first and self._on_failure is not None:
            with contextlib.suppress(RuntimeError):  # the loop that it is reported to is closed
                self._on_failure(message)


def _cannot_write(path: Path, error: BaseException) -> str:
    reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
    return f"cannot write the journal {path}: {reason}; what was recorded stays"


def create(root: Path, header: Header) -> Path:
    """Make the directory of a run under ``root`` with its header, and return it.

    A second run of the same second gets ``-2`` behind its name, and so in its ``run_id``.
    Raises JournalError.
    """
    try:
        path = _fresh_directory(root, header.run_id)
        (path / CHANNELS_DIR).mkdir()
        (path / FIO_DIR).mkdir()
        header = replace(header, run_id=path.name)
        text = json.dumps(header.to_json(), indent=1) + "\n"
        write_atomically(path / HEADER_FILE, text, durable=True)
        sync_folder(root)
    except OSError as error:
        raise JournalError(f"cannot make a run in {root}: {error.strerror or error}") from error
    return path


def reopen(path: Path) -> dict[str, int]:
    """Cut what a crash tore off the files of a run, so that whole records can be appended.

    The bytes that were cut, by file; what is whole is never touched. Raises JournalError, also
    when another process is writing the run.
    """
    events = path / EVENTS_FILE
    cut = {}
    try:
        descriptor = os.open(events, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not lock_file(descriptor):
                raise _in_use(path)
            data = events.read_bytes()
            torn = len(data) - (data.rfind(b"\n") + 1)
            if torn:
                cut[EVENTS_FILE] = torn
                os.ftruncate(descriptor, len(data) - torn)
                os.fsync(descriptor)
        finally:
            unlock_file(descriptor)
            os.close(descriptor)
        for folder in (path / CHANNELS_DIR, path / FIO_DIR):
            folder.mkdir(exist_ok=True)
        for file in sorted((path / CHANNELS_DIR).iterdir()):
            record = CLOCK_PAIR if file.suffix == ".clock" else READING
            size = file.stat().st_size
            count = size // record.itemsize
            written = written_records(np.memmap(file, record, "r", shape=(count,))) if count else 0
            torn = size - written * record.itemsize
            if torn:
                cut[f"{CHANNELS_DIR}/{file.name}"] = torn
                os.truncate(file, size - torn)
    except OSError as error:
        raise JournalError(f"cannot go on with {path}: {error.strerror or error}") from error
    return cut


def is_held(path: Path) -> bool:
    """Whether a process records the run in ``path`` (or deletes it) now. Raises OSError."""
    try:
        descriptor = os.open(path / EVENTS_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return is_locked(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def holding(path: Path) -> Iterator[bool]:
    """Keep everybody from recording the run in ``path`` meanwhile; gives False where a process
    does. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path / EVENTS_FILE, flags, 0o644)
    try:
        yield lock_file(descriptor)
    finally:
        unlock_file(descriptor)
        os.close(descriptor)


def _in_use(path: Path) -> JournalError:
    return JournalError(f"{path} is being recorded: wait for its end, or stop it first")


def _fresh_directory(root: Path, name: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for number in range(1, 1000):
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise JournalError(f"{root / name}: a thousand runs of that name; give the rig another")
