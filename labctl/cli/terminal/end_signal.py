"""Signals that end a command, also where they come at a bad moment.

The handler of a signal interrupts the main thread anywhere, also where that holds the lock of a
``threading.Event`` it waits for: an ``Event.set`` in the handler would then wait for ever. The
``put`` of a ``queue.SimpleQueue`` is reentrant (Python's documentation of ``queue``).
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Final

AGAIN_AFTER_S: Final = 0.01
"""Long enough for Python to leave the place where it gives an exception up."""


class EndSignal:
    """Whether one of the signals came."""

    def __init__(self) -> None:
        self._came: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._asked = False

    def ask(self, *_: object) -> None:
        """Ask for the end; callable from a signal handler."""
        self._came.put(None)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the end is asked for, at most ``timeout_s``; whether it was."""
        if not self._asked:
            with contextlib.suppress(queue.Empty):
                self._came.get(timeout=max(timeout_s, 0.0))
                self._asked = True
        return self._asked


@contextlib.contextmanager
def ended_by(*numbers: signal.Signals) -> Iterator[EndSignal]:
    """What these signals ask for, in place of what they did before."""
    end = EndSignal()
    before = {number: signal.signal(number, end.ask) for number in numbers}
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def redeliver_lost_interrupts() -> None:
    """Have a Ctrl-C come once more that Python gave up.

    KeyboardInterrupt is raised wherever the main thread is. In the callback of a weak reference, of
    which each import has some, or in a finalizer it goes nowhere ("Exception ignored in"): who
    pressed Ctrl-C while a command began then waited for an end that never came.
    """
    before = sys.unraisablehook

    def hook(given_up: sys.UnraisableHookArgs) -> None:
        if isinstance(given_up.exc_value, KeyboardInterrupt):
            again = threading.Timer(AGAIN_AFTER_S, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
        else:
            before(given_up)

    sys.unraisablehook = hook
