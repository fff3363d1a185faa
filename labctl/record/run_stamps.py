"""Which runs are in a folder, and whether one may have changed since it was last read.

To read ten thousand runs takes minutes, to look at the few files of each that say what was done
with it a tenth of a second. A stamp holds sizes, times and inode numbers of these: the header, the
journal, the person's note and the two folders. Whatever labctl does with a run changes it, and so
does a file that is added, removed or replaced. Not seen is who writes into a file of readings, in
place. Who needs the readings takes a stamp therefore of runs at rest only (:func:`at_rest`).
"""

from __future__ import annotations

import os
from pathlib import Path

from labctl.record.layout import ABOUT_FILE, CHANNELS_DIR, EVENTS_FILE, FIO_DIR, HEADER_FILE
from labctl.record.timebase import NS_PER_S

AT_REST_S = 60
"""A run of which no file changed for so long, and which nobody records, is at rest. Clocks of file
servers are wrong by seconds, and who copies a file does not pause for longer."""
_STAMPED = (HEADER_FILE, EVENTS_FILE, ABOUT_FILE, CHANNELS_DIR, FIO_DIR)


def stamped_runs(root: Path) -> dict[str, str]:
    """The stamp of each run in a folder, by the name of its directory, in the names' order.

    Empty where the folder cannot be listed.
    """
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries)
    except OSError:
        return {}
    found = ((name, stamp_of(f"{root}/{name}")) for name in names)
    return {name: stamp for name, stamp in found if stamp}


def stamp_of(path: str) -> str:
    """The stamp of one run; empty where there is none."""
    parts = dict.fromkeys(_STAMPED, "")
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name in parts:
                    found = entry.stat()
                    state = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
                    parts[entry.name] = " ".join(map(str, state))
    except OSError:
        return ""
    return ",".join(parts.values()) if parts[HEADER_FILE] else ""


def at_rest(newest_change_ns: int, now_ns: int) -> bool:
    """Whether a run is at rest of which the newest file was changed then (its ``st_ctime``)."""
    return now_ns - newest_change_ns > AT_REST_S * NS_PER_S
