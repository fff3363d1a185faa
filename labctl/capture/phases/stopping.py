"""The wish that a run should end, and why."""

from __future__ import annotations

import asyncio
from typing import Any

from labctl.record.events import Outcome


class StopRequest:
    """Somebody wants the run to end: the first reason counts."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason = ""
        self.exit_code = 0
        self.outcome: Outcome | None = None

    def ask(self, outcome: Outcome, reason: str, exit_code: int) -> None:
        """Ask for the end; later requests change nothing."""
        if not self._event.is_set():
            self.outcome, self.reason, self.exit_code = outcome, reason, exit_code
            self._event.set()

    @property
    def asked(self) -> bool:
        """Whether the end was asked for."""
        return self._event.is_set()

    async def or_done(self, work: asyncio.Future[Any]) -> bool:
        """Wait until ``work`` is done or somebody asks; whether it is done."""
        asked = asyncio.create_task(self._event.wait(), name="stop")
        try:
            await asyncio.wait((work, asked), return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        return work.done()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until somebody asks, at most ``timeout_s``; whether somebody did."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            pass
        return self.asked
