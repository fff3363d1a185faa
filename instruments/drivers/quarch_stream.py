"""What QIS, Quarch's instrument server, says of a stream, and its stripes: decoded without I/O.

Facts from the ``help.txt`` that comes with QIS 1.55.1 (it says v1.54 of itself): a stream has a
header (V3 is XML: the period of its stripes, and of each channel name, unit and ``dataPosition``)
and stripes. A stripe in text is a line of numbers: its time in µs from the begin of the stream,
then the values of all channels, the one with ``dataPosition`` n in column n. The vendor's note
AN-032 (quarchpy-appnotes) takes the columns in the same way. ``eof`` ends an answer where no more
stripes wait.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from instruments.errors import ProtocolError
from instruments.reading import Quantity

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

END_OF_STRIPES: Final = b"eof"
_PERIOD: Final = re.compile(r"\s*(\d+)\s*(ns|us|ms|s)\s*", re.IGNORECASE)
_NS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_UNIT: Final = re.compile(r"([numµ]?)([VAW])")
_FACTOR: Final = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}
_QUANTITY: Final = {"V": Quantity.VOLTAGE, "A": Quantity.CURRENT, "W": Quantity.POWER}
_PERIOD_TAGS: Final = ("devicePeriod", "mainPeriod")
_SHOWN: Final = 60
_NAME: Final = re.compile(r"[^a-z0-9]")


@dataclass(frozen=True, slots=True)
class Column:
    """Where the values of a channel are in a stripe; ``factor`` makes V, A or W of them."""

    place: int
    factor: float


@dataclass(frozen=True, slots=True)
class StreamHeader:
    """The header of a stream."""

    period_ns: int
    """From one stripe to the next."""
    time_ns: int
    """Unit of the stripes' times."""
    columns: dict[tuple[str, Quantity], Column]
    """By the channel's name, as :func:`plain_name` has it, and what it measures."""
    names: tuple[str, ...]
    """Channels that measure V, A or W, as the header calls them."""
    width: int
    """Numbers in a stripe."""

    def column(self, name: str, quantity: Quantity) -> Column | None:
        """Where the volts or amps of a rail are; None: it has none."""
        return self.columns.get((plain_name(name), quantity))


def plain_name(name: str) -> str:
    """A channel's name without letter case and punctuation: 3.3V, 3V3 and 3v3 stay different."""
    return _NAME.sub("", name.lower())


def parse_header(text: str) -> StreamHeader:
    """The header of a stream, V3. Raises ProtocolError."""
    try:
        root = ET.fromstring(text.strip())
    except ET.ParseError as error:
        raise ProtocolError(f"its stream header is no V3 header: {text[:_SHOWN]!r}") from error
    period = next((found for tag in _PERIOD_TAGS if (found := root.findtext(f".//{tag}"))), "")
    matched = _PERIOD.fullmatch(period)
    if matched is None:
        raise ProtocolError(f"its stream header has the period {period[:_SHOWN]!r}")
    unit = matched[2].lower()
    columns: dict[tuple[str, Quantity], Column] = {}
    names: list[str] = []
    last = 0
    for channel in root.iterfind(".//channels/channel"):
        name, units = channel.findtext("name") or "", channel.findtext("units") or ""
        position = channel.findtext("dataPosition") or ""
        if not position.strip().isdecimal():
            raise ProtocolError(f"its stream header has no dataPosition for {name[:_SHOWN]!r}")
        place = int(position)
        last = max(last, place)
        measured = _UNIT.fullmatch(units.strip())
        if measured is None or not place:  # a status or a digital line; the stripe's time
            continue
        quantity = _QUANTITY[measured[2]]
        columns.setdefault((plain_name(name), quantity), Column(place, _FACTOR[measured[1]]))
        if name not in names:
            names.append(name)
    if not columns:
        raise ProtocolError("its stream header has no channel in V, A or W")
    return StreamHeader(
        period_ns=int(matched[1]) * _NS[unit],
        time_ns=_NS["ns"] if unit == "ns" else _NS["us"],
        columns=columns,
        names=tuple(names),
        width=last + 1,
    )


@dataclass(frozen=True, slots=True)
class Stripes:
    """Stripes of one answer, in order."""

    rows: Floats
    """A row a stripe: its time, then its values."""
    unreadable: int = 0
    """Lines that were no stripes."""
    sample: str = ""
    """The first of these."""
    all_taken: bool = False
    """No more stripes waited."""


def parse_stripes(answer: bytes, header: StreamHeader) -> Stripes:
    """The stripes in an answer; lines that are none are counted."""
    width = header.width
    text = answer.rstrip()
    all_taken = text.endswith(END_OF_STRIPES)
    if all_taken:
        text = text[: -len(END_OF_STRIPES)].rstrip()
    if not text:
        return Stripes(np.empty((0, width)), all_taken=all_taken)
    regular = _regular(text, header)
    if regular is not None:
        return Stripes(regular, all_taken=all_taken)
    rows: list[list[float]] = []
    sample = ""
    lines = text.split(b"\n")
    for line in lines:
        row = _quarch_stream_numbers(line, width)
        if row is None:
            sample = sample or line.strip()[:_SHOWN].decode("ascii", errors="backslashreplace")
        else:
            rows.append(row)
    return Stripes(
        np.array(rows, np.float64).reshape(-1, width), len(lines) - len(rows), sample, all_taken
    )


def _regular(text: bytes, header: StreamHeader) -> Floats | None:
    """All stripes at once where nothing is odd: whole numbers, and as many in each line.

    Twenty times as fast as line by line, which the full rate needs. None: something is odd.
    """
    try:
        numbers = np.fromstring(text, np.int64, sep=" ")
    except ValueError:
        return None
    if len(numbers) != (text.count(b"\n") + 1) * header.width:
        return None
    rows = numbers.reshape(-1, header.width)
    # Where a stripe follows each period, no number is in another's place; after a gap, look.
    if (np.diff(rows[:, 0]) * header.time_ns != header.period_ns).any() and (
        _spaces_by_line(text) != header.width - 1
    ).any():
        return None
    return rows.astype(np.float64)


def _spaces_by_line(text: bytes) -> Ints:
    data = np.frombuffer(text, np.uint8)
    ends = np.append(np.flatnonzero(data == ord("\n")), len(data))
    return np.diff(np.searchsorted(np.flatnonzero(data == ord(" ")), ends), prepend=0)


def _quarch_stream_numbers(line: bytes, width: int) -> list[float] | None:
    parts = line.split()
    if len(parts) != width:
        return None
    try:
        row = [float(part) for part in parts]
    except ValueError:
        return None
    return row if np.isfinite(row).all() else None


@dataclass(frozen=True, slots=True)
class StreamState:
    """The answer to ``stream?``."""

    text: str
    """Its first line: ``Running``, ``Stopped: User``."""
    buffered: int
    """Stripes that wait in QIS."""

    @property
    def running(self) -> bool:
        """Whether the stream runs."""
        return "running" in self.text.lower()

    @property
    def overran(self) -> bool:
        """Whether it stopped because a buffer was full: the vendor's quarchpy 2.2.23 looks for
        these two."""
        return any(words in self.text.lower() for words in ("overrun", "out of buffer"))

    @property
    def stopped(self) -> bool:
        """Whether it says so: before the first stream of a module it may say anything."""
        return "stopped" in self.text.lower() or self.overran


def parse_state(text: str) -> StreamState:
    """The state of a stream."""
    waiting = re.search(r"Stripes Buffered:\s*(\d+)", text)
    first = text.strip().partition("\n")[0].strip()
    return StreamState(first[:_SHOWN], int(waiting[1]) if waiting else 0)
