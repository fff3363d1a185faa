"""Marks: moments with a text in a record.

A person sets one while something is recorded (``labctl mark``): a line in the directory of the run
asks for it, and the process that records puts it into the journal, which nobody else writes to. The
line has the time of this machine's CLOCK_MONOTONIC, so that a mark is where it was set and not
where it was read.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from labctl.printable import printable
from labctl.record.events import EventKind
from labctl.record.json_values import UNREADABLE, parse_json
from labctl.record.timebase import Timebase

REQUESTS_FILE = "marks.jsonl"
OF_PERSON = "person"
OF_OUTPUT = "output"
"""Where a mark comes from: a person, or a line that a measured program printed."""
MOST_CHARACTERS = 500
MOST_BYTES_AT_ONCE = 65_536
"""Of requests that are read at a time, each second."""


@dataclass(frozen=True, slots=True)
class MarkRequest:
    """A mark that somebody set, at ``t_ns`` on the timebase of the run; ``token`` names it."""

    t_ns: int
    text: str
    token: str


def ask_for_mark(run: Path, text: str) -> str:
    """Ask whoever records ``run`` for a mark with ``text``, now; the token that it will bear.

    Raises OSError where the directory cannot be written to.
    """
    token = secrets.token_hex(8)
    request = {"monotonic_ns": time.monotonic_ns(), "text": text[:MOST_CHARACTERS], "token": token}
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    folder = run.stat()  # who records must be able to read what somebody else asks for
    mode = 0o666 & folder.st_mode if folder.st_uid == os.geteuid() else 0o666
    descriptor = os.open(run / REQUESTS_FILE, flags, mode)
    try:
        os.write(descriptor, (json.dumps(request) + "\n").encode())
    finally:
        os.close(descriptor)
    return token


class MarkRequests:
    """The requests for marks in a run, from those on that come after this was made."""

    def __init__(self, run: Path, timebase: Timebase) -> None:
        self._file = run / REQUESTS_FILE
        self._timebase = timebase
        self._at = 0
        with contextlib.suppress(OSError):
            self._at = self._file.stat().st_size

    def new(self) -> Iterator[MarkRequest]:
        """Those that came since the last time. What is no request is passed over."""
        whole, end, _ = self._read().rpartition(b"\n")
        self._at += len(whole) + len(end)
        for line in whole.split(b"\n"):
            with contextlib.suppress(*UNREADABLE):
                data = parse_json(line.decode())
                yield self._request(int(data["monotonic_ns"]), data["text"], data["token"])

    def record(self, event: Callable[..., object]) -> None:
        """Have ``event`` record those that came since the last time."""
        for one in self.new():
            data = {"text": one.text, "source": OF_PERSON, "token": one.token}
            event(EventKind.MARK, t_ns=one.t_ns, **data)

    def _request(self, monotonic_ns: int, text: object, token: object) -> MarkRequest:
        """Raises ValueError where it is none of this machine and of now."""
        now_ns = self._timebase.now_ns()
        t_ns = self._timebase.anchor.from_monotonic_ns(monotonic_ns)
        if not (isinstance(text, str) and isinstance(token, str)):
            raise ValueError("a mark is a text")
        if not self._timebase.anchor.wall_ns <= t_ns <= now_ns:
            t_ns = now_ns
        return MarkRequest(t_ns, printable(text[:MOST_CHARACTERS]), printable(token[:64]))

    def _read(self) -> bytes:
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            descriptor = os.open(self._file, flags)
        except OSError:
            return b""
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return b""
            found = os.pread(descriptor, MOST_BYTES_AT_ONCE, self._at)
        except OSError:
            return b""
        finally:
            os.close(descriptor)
        # more than fits without a line's end is no request of labctl's
        return found + b"\n" if len(found) == MOST_BYTES_AT_ONCE and b"\n" not in found else found
