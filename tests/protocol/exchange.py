"""A line that plays an expected exchange and fails on anything else."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from instruments.errors import ConnectionLost, NoAnswer


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("ascii") + b"\n"


class ExpectedExchange:
    """Both kinds of line. Each step is what is sent and what is answered.

    Answers: a string (gets its line feed), bytes (as they are), None (a command), or an error
    that reading raises. ``arriving`` comes by itself; once ``gone``, writing fails. Leaving the
    ``with`` block fails if a step was not sent or an answer was not read (``discard`` reads too).
    """

    def __init__(
        self,
        *steps: tuple[str | bytes, str | bytes | Exception | None],
        arriving: Iterable[bytes | Exception] = (),
    ) -> None:
        self._steps = list(steps)
        self._unread: list[bytes | Exception] = list(arriving)
        self.opened = 0
        self.closed = 0
        self.gone = False

    def open(self) -> None:
        self.opened += 1

    def close(self) -> None:
        self.closed += 1

    def write(self, data: bytes) -> None:
        if self.gone:
            raise ConnectionLost("gone")
        assert self._steps, f"unexpected: {data!r}"
        expected, answer = self._steps.pop(0)
        assert data in (_bytes(expected), expected), f"sent {data!r}, expected {expected!r}"
        if isinstance(answer, Exception):
            self._unread.append(answer)
        elif answer is not None:
            self._unread.append(_bytes(answer))

    def discard(self, quiet_s: float = 0.0) -> None:
        self._unread.clear()

    def read_line(self, timeout_s: float) -> bytes:
        return self._next() or self._nothing(timeout_s)

    def read_some(self, timeout_s: float) -> bytes:
        return self._next()

    def _next(self) -> bytes:
        if not self._unread:
            return b""
        answer = self._unread.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @staticmethod
    def _nothing(timeout_s: float) -> bytes:
        raise NoAnswer(f"nothing within {timeout_s:g} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            assert not self._steps, f"not sent: {self._steps}"
            assert not self._unread, f"not read: {self._unread}"


class Clock:
    """A host clock that stands still until it is set, or steps by ``step_ns`` at each reading."""

    def __init__(self, now_ns: int = 1_000_000_000, step_ns: int = 0) -> None:
        self.now_ns = now_ns
        self.step_ns = step_ns

    def __call__(self) -> int:
        self.now_ns += self.step_ns
        return self.now_ns
