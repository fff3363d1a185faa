"""A run on disk, as it is read: the header, the events, and the readings of every channel.

```
<utc time>_<rig>_<plan>/
  run.json          header (Header)
  journal.jsonl     events, one JSON object a line: {"t": ns, "kind": …}
  channels/<name>   int64 time ns, float64 value, little endian (READING)
  channels/<name>.clock   device time, host time, round trip, all int64 ns (CLOCK_PAIR)
  channels/host.wall.clock   the same for the wall clock of a drive's host behind ssh
  fio/<phase>/      what fio printed and logged; of all documents but the last without bins
```

Reading never changes anything. What a crash tore off is dropped, with a line in ``problems``; texts
are made printable (:mod:`labctl.record.json_values`).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labctl.errors import JournalError
from labctl.printable import printable
from labctl.record.bounded_read import next_line, read_small
from labctl.record.calibration_used import Zero
from labctl.record.events import Event, EventKind
from labctl.record.header import ChannelInfo, Header
from labctl.record.json_values import UNREADABLE, known
from labctl.record.layout import (
    CHANNELS_DIR,
    CLOCK_PAIR,
    EVENTS_FILE,
    FIO_DIR,
    HEADER_FILE,
    LAST_NS,
    MOST_HEADER_BYTES,
    READING,
    written_records,
)
from labctl.record.phase import Phase
from labctl.record.timebase import Anchor


class RunRecord:
    """A run directory, open for reading (also while the run is still being written)."""

    drive_name = ""
    """Of several drives the one whose run this is; empty: of all of them together."""

    def __init__(self, path: Path) -> None:
        """Read the header and the events. Raises JournalError when this is no run."""
        self.path = path
        self.problems: list[str] = []
        if not (path / HEADER_FILE).exists():
            raise JournalError(f"{path}: not a run (there is no {HEADER_FILE} in it)")
        refuse_links(path)
        try:
            text = read_small(path / HEADER_FILE, MOST_HEADER_BYTES)
            self.header = Header.from_json(json.loads(text))
        except (OSError, *UNREADABLE) as error:
            raise JournalError(f"{path / HEADER_FILE} cannot be read: {error}") from error
        self.events = self._read_events()

    def _read_events(self) -> tuple[Event, ...]:
        file = self.path / EVENTS_FILE
        if not file.is_file():
            self.problems.append(f"{EVENTS_FILE} is missing")
            return ()
        events: list[Event] = []
        with file.open("rb") as stream:
            for number, line in enumerate(iter(lambda: next_line(stream), b""), start=1):
                try:
                    if not line.endswith(b"\n"):
                        raise ValueError
                    events.append(Event.from_line(line.decode("utf-8", "replace")))
                except UNREADABLE:
                    last = stream.tell() == file.stat().st_size
                    where = "torn last line" if last else f"unreadable line {number}"
                    self.problems.append(f"{EVENTS_FILE}: {where} dropped")
        return tuple(events)

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Every channel of the header."""
        return tuple(channel.name for channel in self.header.channels)

    def channel(self, name: str) -> ChannelInfo:
        """The description of a channel. Raises KeyError."""
        for channel in self.header.channels:
            if channel.name == name:
                return channel
        raise KeyError(name)

    def zero_of(self, name: str) -> Zero | None:
        """What is to be subtracted from a channel's readings."""
        used = self.header.calibration
        return None if used is None else used.zero_of(name)

    def readings(self, name: str) -> NDArray[np.void]:
        """All readings of a channel, dtype READING, mapped from the file (never copied)."""
        return self._mapped(name, READING)

    def clock_pairs(self, name: str) -> NDArray[np.void]:
        """The samples of a channel's device clock, dtype CLOCK_PAIR; empty for a host clock."""
        samples = self._mapped(f"{name}.clock", CLOCK_PAIR)
        good = samples["round_trip_ns"] >= 0
        for times in ("device_ns", "host_ns", "round_trip_ns"):
            good &= (samples[times] > -LAST_NS) & (samples[times] < LAST_NS)
        if good.all():
            return samples
        self._problem(f"{CHANNELS_DIR}/{name}.clock: {int((~good).sum())} spoilt samples dropped")
        return samples[good]

    def _mapped(self, name: str, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        file = self.path / CHANNELS_DIR / name
        size = file.stat().st_size if file.is_file() else 0
        count, torn = divmod(size, dtype.itemsize)
        if torn:
            self._problem(f"{CHANNELS_DIR}/{name}: torn last record dropped")
        if not count:
            return np.empty(0, dtype)
        rows: NDArray[np.void] = np.memmap(file, dtype=dtype, mode="r", shape=(count,))
        written = written_records(rows)
        if written < count:
            problem = f"{count - written} last records dropped that were never written"
            self._problem(f"{CHANNELS_DIR}/{name}: {problem}")
        return rows[:written]

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)

    def fio_dir(self, phase: Phase) -> Path:
        """Where fio's own files of a phase are."""
        return self.path / FIO_DIR / phase.slug

    @property
    def end(self) -> Event | None:
        """The last ``run_ended`` event, or None when the run was cut off or is on."""
        for event in reversed(self.events):
            if event.kind in (EventKind.RUN_ENDED, EventKind.RUN_RESUMED):
                return event if event.kind == EventKind.RUN_ENDED else None
        return None

    @property
    def anchor(self) -> Anchor:
        """The anchor of the process that recorded last: another than the header's after a reboot.

        Times before the last ``run_resumed`` may be on another one.
        """
        for event in reversed(self.events):
            if event.kind == EventKind.RUN_RESUMED:
                with contextlib.suppress(*UNREADABLE):
                    return known(Anchor, event.data["anchor"])
        return self.header.anchor


def refuse_links(path: Path) -> None:
    """Refuse a run directory with anything in it but files and folders: what is written into it, or
    read from it, would be elsewhere, or block. Raises JournalError."""
    strange = _neither_file_nor_folder(path)
    if strange is not None:
        raise JournalError(
            f"{path}: {printable(str(strange.relative_to(path)))} is a link, or no file: a run has "
            "files and folders alone, so that nothing outside of it is read or written (cp -rL "
            "copies one without links)"
        )


def _neither_file_nor_folder(path: Path) -> Path | None:
    """What is in a folder, at any depth, and is a link, a pipe, a socket or a device; None where
    there is nothing of the kind. Links are not followed."""
    folders = [path]
    while folders:
        folder = folders.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(folder / entry.name)
                elif not entry.is_file(follow_symlinks=False):
                    return folder / entry.name
    return None


def find_runs(root: Path) -> list[Path]:
    """The run directories under ``root``, oldest first."""
    if not root.is_dir():
        return []
    return sorted(path.parent for path in root.glob(f"*/{HEADER_FILE}"))


def runs_in(places: Iterable[Path]) -> list[Path]:
    """The run directories under several directories, oldest first."""
    return sorted((run for place in places for run in find_runs(place)), key=lambda run: run.name)
