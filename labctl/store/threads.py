"""Requests in threads that nobody waits for: Ctrl-C ends a command whose server hangs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def interruptible(work: Callable[[], R]) -> R:
    """What ``work`` gives or raises; from the main thread it is done in another one, since a signal
    is only heard between two steps of Python, and a request is one step."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    done: Future[R] = Future()
    threading.Thread(target=_settle_in_thread, args=(done, work), daemon=True).start()
    return done.result()


def mapped(work: Callable[[T], R], items: Sequence[T], at_once: int) -> Iterator[R]:
    """``map``, in order, with up to ``at_once`` items at a time. The first error is raised, and no
    further item is begun."""
    done: list[Future[R]] = [Future() for _ in items]
    numbers = itertools.count()  # its next() is one step: no two threads get the same
    stopped = threading.Event()

    def take() -> None:
        while not stopped.is_set() and (number := next(numbers)) < len(items):
            _settle_in_thread(done[number], lambda: work(items[number]))

    try:
        for _ in range(min(at_once, len(items))):
            threading.Thread(target=take, daemon=True).start()
        for one in done:
            yield one.result()
    finally:
        stopped.set()


def _settle_in_thread(done: Future[R], work: Callable[[], R]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)
