"""Work in a thread that nobody waits for: a call that hangs in the kernel blocks nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T], name: str) -> T:
    """The result of ``work``, done in a thread that the program does not wait for when it ends.

    So a dead drive or a dead file server does not hang labctl. Raises what ``work`` raises.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[], None]) -> None:
        if not result.done():  # it was cancelled meanwhile
            set_outcome()

    def run() -> None:
        try:
            set_outcome = partial(result.set_result, work())
        except BaseException as error:
            set_outcome = partial(result.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, set_outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await result
