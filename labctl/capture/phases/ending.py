"""The steps that end something: each is done, whatever the ones before it raised."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from traceback import extract_tb

from labctl.errors import LabctlError
from labctl.printable import printable


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
            self.problems.append(f"{what}: {in_words(error)}")


def in_words(error: BaseException) -> str:
    """An error in one line for a person; where it comes from, if nobody has foreseen it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(in_words, error.exceptions))
    if isinstance(error, LabctlError):
        return str(error)
    places = extract_tb(error.__traceback__)
    where = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    return f"unexpected {type(error).__name__}: {printable(str(error))}{where}"
