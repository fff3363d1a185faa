"""The steps that end something: each is done, whatever the ones before it raised."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from labctl.errors import error_line


class Ending:
    """Collects in ``problems`` what went wrong in the steps, in words."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    @contextlib.asynccontextmanager
    async def step(self, what: str, within_s: float) -> AsyncIterator[None]:
        """Do what stands in the ``async with``, for ``within_s`` at most. Raises nothing."""
        try:
            async with asyncio.timeout(within_s):
                yield
        except TimeoutError:
            self.problems.append(f"{what}: not done within {within_s:.0f} s")
        except BaseException as error:  # also a cancellation: the steps behind it are still to come
            self.problems.append(f"{what}: {error_line(error)}")
