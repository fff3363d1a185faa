"""The reading buffer of Keithley's touch screen meters: what is new in it, and what it answers."""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from instruments.driver_kit.scpi import ScpiSession, parse_seconds, reading_or_unreadable
from instruments.errors import ProtocolError
from instruments.reading import Status

BUFFER: Final = "defbuffer1"
FILLED_QUERY: Final = f'TRAC:ACT:STAR? "{BUFFER}";:TRAC:ACT:END? "{BUFFER}"'
"""See :func:`parse_filled`."""
STAMP_U_S: Final = 0.1e-3
GAP_INTERVALS: Final = 1.5
"""Stamps further apart than this many intervals have missing readings between them."""


def is_measuring(scpi: ScpiSession) -> bool:
    """Whether the trigger model runs."""
    state = scpi.ask("TRIG:STAT?").upper()
    return state.startswith(("RUNNING", "WAITING", "BUILDING"))


def parse_filled(text: str) -> tuple[int, int]:
    """First and last index in the buffer, from ``1;12`` (0 when empty). Raises ProtocolError."""
    match = re.fullmatch(r"\+?(\d+);\+?(\d+)", text.strip())
    if match is None:
        raise ProtocolError(f"expected the buffer's first and last index, got {text[:60]!r}")
    return int(match[1]), int(match[2])


def looks_cleared(cursor: int, first: int, last: int) -> bool:
    """Whether the buffer is shorter than it was when ``cursor`` was read last.

    It is also so, once, where it wrapped between its two answers, ``first`` and then ``last``: ask
    again before you believe it.
    """
    return first <= 1 and last < cursor


def parse_stamped(text: str, count: int) -> list[tuple[float | Status, float]]:
    """``count`` readings with their seconds, from ``value,seconds,value,…``.

    Raises ProtocolError where there are fewer or more, or a time is no number.
    """
    fields = text.strip().split(",")
    if len(fields) != 2 * count:
        raise ProtocolError(f"expected {count} readings with stamps, got {len(fields)} fields")
    return [
        (reading_or_unreadable(value), parse_seconds(seconds))
        for value, seconds in zip(fields[::2], fields[1::2], strict=True)
    ]


def new_indices(cursor: int, first: int, last: int, capacity: int) -> list[tuple[int, int]]:
    """Stretches of the buffer that were not read, oldest first; ``cursor`` was read last.

    Where the buffer has wrapped (``first`` is not 1) there are two: its end, and its beginning.
    """
    if last in (0, cursor):
        return []
    if last > cursor:
        return [(cursor + 1, last)]
    if first <= 1:  # it was cleared: somebody else did
        return [(1, last)]
    stretches = [(cursor + 1, capacity)] if cursor < capacity else []
    return [*stretches, (1, last)]


class StampAges:
    """Tells the newest stamp of a meter that measures from that of one which has stopped.

    While it measures, the newest stamp is at most ``tick_ns`` older than the youngest one was when
    it was read; the clocks drift by far less over so few polls.
    """

    _POLLS = 32

    def __init__(self, tick_ns: float) -> None:
        self._tick_ns = tick_ns
        self._ages_ns: deque[int] = deque(maxlen=self._POLLS)

    def restart(self) -> None:
        """The meter's clock begins anew."""
        self._ages_ns.clear()

    def is_of_now(self, stamp_ns: int, asked_ns: int, answered_ns: int) -> bool:
        """Whether the newest stamp at a poll is a sample of the meter's clock."""
        youngest_ns = min(self._ages_ns, default=None)
        if youngest_ns is not None and asked_ns - stamp_ns - youngest_ns > self._tick_ns:
            return False
        self._ages_ns.append(answered_ns - stamp_ns)
        return True
