"""Prints in a thread of its own: an output that takes nothing (a pager that is not read, Ctrl-S)
holds up nobody else."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable
from functools import partial

MOST_WAITING = 1_000
"""Lines that wait for the output; those that come while so many do are not shown."""
PRINTED_WITHIN_S = 2.0


class Printer:
    """Does what prints something, one after the other. ``stderr``: where lines go."""

    def __init__(self, *, stderr: bool) -> None:
        self._stderr = stderr
        self._waiting: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._left_out = 0
        self._thread = threading.Thread(target=self._work, name="printer", daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], object]) -> None:
        """Have it done soon, behind what waits."""
        self._waiting.put(work)

    def line(self, text: str) -> None:
        """Print a line; where too many wait, only that it was left out."""
        if self._waiting.qsize() >= MOST_WAITING:
            self._left_out += 1
            return
        self._tell_left_out()
        self.do(partial(self._print, text))

    def close(self) -> None:
        """Wait until all is printed, for a limited time. Nothing may come after that."""
        self._tell_left_out()
        self._waiting.put(None)
        self._thread.join(PRINTED_WITHIN_S)

    def _tell_left_out(self) -> None:
        if self._left_out:
            self.do(partial(self._print, f"… {self._left_out} lines not shown"))
            self._left_out = 0

    def _print(self, text: str) -> None:
        stream = sys.stderr if self._stderr else sys.stdout
        encoding = stream.encoding or "utf-8"
        print(text.encode(encoding, "replace").decode(encoding), file=stream, flush=True)

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None:
            with contextlib.suppress(Exception):  # the terminal may be gone
                work()
