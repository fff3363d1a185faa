"""Where the files of a run lie, what they are named, and how a channel's records are laid out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FORMAT = 1
"""Version of the format on disk; a reader refuses what is newer than itself."""

READING = np.dtype([("t", "<i8"), ("v", "<f8")])
CLOCK_PAIR = np.dtype([("device_ns", "<i8"), ("host_ns", "<i8"), ("round_trip_ns", "<i8")])

HEADER_FILE = "run.json"
EVENTS_FILE = "journal.jsonl"
ABOUT_FILE = "about.json"
"""A title and a note of a person's own; no number depends on it."""
CHANNELS_DIR = "channels"
FIO_DIR = "fio"
IMPORT_DIR = "import"
"""The files that an imported run was made of, untouched."""

HOST_CLOCK = "host.wall"
"""The samples of the wall clock of the drive's host, which fio there prints."""

HOST_INSTRUMENT = HOST_CLOCK.partition(".")[0]

HOST_WAITING = "host.cpu_waiting"
HOST_STOLEN = "host.cpu_stolen"
"""Channels of the drive's host: the share (0 to 1) of the time in which something waited for a
processor, and of the processors' time that other virtual machines took."""

LAST_NS = 1 << 62
"""In the year 2116: no time of a record is later, and the sum of two times fits into 64 bits."""

CHANNEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
"""``instrument.channel``, which is also the name of its file."""

VERBATIM = ("rig_text", "plan_text")
"""What of a header stays as it was written: only :func:`labctl.toml_reading.parse_toml` reads them,
which refuses what is not printable, and who shows them makes them so."""

LONGEST_S = 1e7
"""No meter's interval, integration, tick or doubt is longer, in seconds: four months."""


def written_records(rows: NDArray[np.void]) -> int:
    """How many records there are before those at the end that are nothing but zeros: a file system
    may leave a file that long after a loss of power, and never have had the data."""
    if not len(rows) or rows[-1].tobytes().strip(b"\0"):
        return len(rows)
    words = rows.view(np.int64).reshape(len(rows), -1)
    written = np.flatnonzero(words.any(axis=1))
    return int(written[-1]) + 1 if len(written) else 0


MOST_HEADER_BYTES = 1 << 24
"""Of ``run.json``: thirty thousand phases, and both texts."""


NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"


def raw_files(path: Path) -> Iterator[Path]:
    """The files of the record itself, sorted."""
    for name in (HEADER_FILE, EVENTS_FILE, ABOUT_FILE):
        if (path / name).is_file():
            yield path / name
    for folder in (CHANNELS_DIR, FIO_DIR, IMPORT_DIR):
        yield from sorted(file for file in (path / folder).rglob("*") if file.is_file())
