"""Finds and reads a chip's files in the kernel's hwmon directories, on this machine or another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from instruments.errors import ConnectionLost, WrongInstrument
from instruments.reading import Status
from instruments.transports.host_files import HostFiles

CLASS_DIRECTORY: Final = Path("/sys/class/hwmon")


def find_directory(name: str, directory: str, files: HostFiles) -> str:
    """The one directory meant. Raises ConnectionLost (none), WrongInstrument (several)."""
    if "/" in directory:
        inside = files.texts([f"{directory}/name", f"{directory}/*_input"])
        found = sorted({path.rpartition("/")[0] for path in inside})
    else:
        names = files.texts([f"{CLASS_DIRECTORY}/hwmon*/name"])
        found = sorted(
            path.rpartition("/")[0]
            for path, name in names.items()
            if (name or "").strip() == directory
        )
    if not found:
        raise ConnectionLost(f"{name}: no hwmon directory {directory}; is the device there?")
    if len(found) > 1:
        raise WrongInstrument(
            f"{name}: {directory} means several: {', '.join(found)}; name one of them, "
            "or a pattern under /sys/class/nvme/nvme0"
        )
    return found[0]


def chip_name(directory: str, files: HostFiles) -> str:
    """What the chip in a directory is called."""
    path = f"{directory}/name"
    return (files.texts([path]).get(path) or "").strip() or directory.rpartition("/")[2]


def number_in_file(name: str, path: str, texts: Mapping[str, str | None]) -> float | Status:
    """The integer in a file that was read. Raises ConnectionLost when there was no such file."""
    if path not in texts:
        raise ConnectionLost(f"{name}: {path} vanished; is the device gone?")
    try:
        return int(texts[path] or "")
    except ValueError:
        return Status.UNREADABLE


def directory_on_host(host: str, directory: str) -> str:
    """A directory with the machine that it is on, where it is another one."""
    return directory if host == "local" else f"{host}:{directory}"
