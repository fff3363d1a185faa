"""What a program that works on drives really has open, compared with what it was given.

A program that was told something else, or takes something else, is killed: see
docs/decisions/0016-what-fio-opens.md.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

from labctl.capture.host.drive_host import Spawned
from labctl.capture.host.machine import Machine
from labctl.capture.identity.node import DrivePlace, Node
from labctl.capture.identity.opened import Opened
from labctl.errors import Refused

_WITHIN_S = 30.0
_WRITABLE = os.O_WRONLY | os.O_RDWR
_SHARED_MEMORY = "/dev/shm/"
"""shm_overview(7). Libraries that are loaded before a program (LD_PRELOAD) keep some open."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """An open file of a process, by its path in /proc, and what it is called there."""

    at: str
    name: str
    node: Node
    writable: bool


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """Those of a program and of all that it started, and the files (``FILESYSTEM:INODE``) of the
    directory that it works in."""

    pid: int
    files: tuple[OpenFile, ...]
    own: frozenset[str]


def look_at_open_files(directory: str, pid: int | None, machine: Machine) -> OpenFiles | None:
    """What the program that was started in ``directory`` has open; None when it is gone, or may not
    be looked at.

    ``pid`` is None where the file "pid" in its directory has it.
    """
    number = "" if pid is None else str(pid)
    script = resources.files("labctl.capture.identity").joinpath("open_files.sh").read_text("utf-8")
    done = machine.run(["sh", "-c", script, "sh", directory, number], _WITHIN_S)
    first, *lines = done.stdout.splitlines() or [""]
    if not re.fullmatch(r"pid \d+", first):
        return None
    names: dict[str, str] = {}
    flags: dict[str, int] = {}
    nodes: dict[str, Node] = {}
    own = set()
    for line in lines:
        path, _, rest = line.partition(" ")
        if path == "own":
            own.add(rest)
        elif node := Node.parse(rest):
            nodes[path] = node
        elif told := re.fullmatch(r"(/proc/\d+/)fdinfo(/\d+):flags:\s*([0-7]+)", line):
            flags[f"{told[1]}fd{told[2]}"] = int(told[3], 8)
        elif told := re.search(r" (/proc/\d+/fd/\d+) -> (.*)", line):
            names[told[1]] = told[2]
    if not flags:
        return None
    # what was opened or closed between the three looks is not held
    held = (at for at in nodes if at in flags and at in names)
    files = (OpenFile(at, names[at], nodes[at], bool(flags[at] & _WRITABLE)) for at in held)
    return OpenFiles(int(first.removeprefix("pid ")), tuple(files), frozenset(own))


def difference(found: OpenFiles, allowed: Iterable[Opened]) -> str:
    """What is open that may not be, or is not open that should, in words; empty when all is right.

    Block devices may be open in no way, other files not for writing, but for those of the
    program's own directory and shared memory.
    """
    meant = {opened.node.identity: opened for opened in allowed}
    there = {file.at: file.node.identity for file in found.files}
    for identity, opened in meant.items():
        if there.get(f"/proc/{found.pid}/fd/{opened.number}") != identity:
            return f"it does not have {opened.place.path} ({identity}) open"
    for file in found.files:
        node = file.node
        other = node.is_file and file.writable and not file.name.startswith(_SHARED_MEMORY)
        own = f"{node.filesystem}:{node.inode}" in found.own
        if node.identity not in meant and (node.is_device or (other and not own)):
            allowed_names = ", ".join(opened.place.path for opened in meant.values())
            return (
                f"it has {file.name} ({node.identity}) open, which nobody checked; it may open "
                f"{allowed_names or 'no device and no file'}"
            )
    return ""


class ComparedFiles:
    """What ``process`` has open, against the targets that it was given, by the drive's name."""

    def __init__(self, process: Spawned, opened: Mapping[str, Opened], machine: Machine) -> None:
        self.difference = ""
        """What was found to be otherwise, in words."""
        self._process = process
        self._opened = opened
        self._machine = machine

    @property
    def missing_bytes(self) -> int:
        """How much is written to scratch files before the program begins."""
        return sum(one.missing_bytes for one in self._opened.values())

    async def compare(self, *, must_be_there: bool) -> str:
        """Compare now, and kill the process where there is a difference, which is given.

        ``must_be_there``: that nothing can be seen is a difference, too. Raises HostUnreachable.
        """
        process, machine = self._process, self._machine
        found = await asyncio.to_thread(look_at_open_files, process.directory, process.pid, machine)
        if found is not None:
            self.difference = difference(found, self._opened.values())
        elif must_be_there:
            self.difference = "what it has open cannot be seen on the drive's host"
        if self.difference:
            process.kill()
        return self.difference

    def refuse_others(self, places: Mapping[str, DrivePlace]) -> None:
        """Raise Refused where a target has become something else than the process was given."""
        for name, opened in self._opened.items():
            place = places.get(name)
            identity = place.node.identity if place and place.node else "nothing"
            if place is not None and identity != opened.node.identity:
                raise Refused(
                    f"{opened.place.path} leads to {identity} now, and led to "
                    f"{opened.node.identity} when it was checked; find out who changes it"
                )

    def named(self, text: str) -> str:
        """``text`` of the process, with the names of the targets as they are in the rig's host."""
        for opened in reversed(tuple(self._opened.values())):
            text = text.replace(opened.name, opened.place.path)
        return text
