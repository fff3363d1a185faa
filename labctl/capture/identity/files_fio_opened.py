"""The files that a program working on drives has open, compared with those it was given.

A program that has anything else open is killed: see
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
from labctl.capture.identity.opened_target import OpenedTarget
from labctl.errors import Refused

_WITHIN_S = 30.0
_WRITABLE = os.O_WRONLY | os.O_RDWR
_SHARED_MEMORY = "/dev/shm/"
"""shm_overview(7). Libraries that are loaded before a program (LD_PRELOAD) keep some open."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """An open file of a process: ``at`` is its path in /proc, ``name`` where that link leads."""

    at: str
    name: str
    node: Node
    writable: bool


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """The open files of a program and its children. ``own``: the files in its working directory, as
    ``FILESYSTEM:INODE``."""

    pid: int
    files: tuple[OpenFile, ...]
    own: frozenset[str]


def read_open_files(directory: str, pid: int | None, machine: Machine) -> OpenFiles | None:
    """The open files of the program started in ``directory``; None when it has ended, or when its
    files may not be read.

    With ``pid`` None the number is read from the file "pid" in its directory.
    """
    number = "" if pid is None else str(pid)
    script = (
        resources.files("labctl.capture.identity")
        .joinpath("files_fio_opened.sh")
        .read_text("utf-8")
    )
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
        elif match := re.fullmatch(r"(/proc/\d+/)fdinfo(/\d+):flags:\s*([0-7]+)", line):
            flags[f"{match[1]}fd{match[2]}"] = int(match[3], 8)
        elif match := re.search(r" (/proc/\d+/fd/\d+) -> (.*)", line):
            names[match[1]] = match[2]
    if not flags:
        return None
    # what was opened or closed between the three listings is left out
    complete = (at for at in nodes if at in flags and at in names)
    files = (OpenFile(at, names[at], nodes[at], bool(flags[at] & _WRITABLE)) for at in complete)
    return OpenFiles(int(first.removeprefix("pid ")), tuple(files), frozenset(own))


def difference(found: OpenFiles, allowed: Iterable[OpenedTarget]) -> str:
    """What is open but not allowed, or allowed but not open, in words; empty when both agree.

    Other block devices may not be open at all. Other files may not be open for writing, except
    those of the program's own directory and of shared memory.
    """
    meant = {opened.node.identity: opened for opened in allowed}
    if words := missing(found, meant.values()):
        return words
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


def missing(found: OpenFiles, allowed: Iterable[OpenedTarget]) -> str:
    """What is allowed but not open, in words; empty when all of it is."""
    there = {file.at: file.node.identity for file in found.files}
    for opened in allowed:
        identity = opened.node.identity
        if there.get(f"/proc/{found.pid}/fd/{opened.number}") != identity:
            return f"it does not have {opened.place.path} ({identity}) open"
    return ""


class ComparedFiles:
    """Compares what ``process`` has open with the targets that it was given, by drive name."""

    def __init__(
        self, process: Spawned, opened: Mapping[str, OpenedTarget], machine: Machine
    ) -> None:
        self.difference = ""
        """The difference that was found, in words; empty without one."""
        self._process = process
        self._opened = opened
        self._machine = machine

    @property
    def missing_bytes(self) -> int:
        """How much is written to scratch files before the program begins."""
        return sum(one.missing_bytes for one in self._opened.values())

    async def compare(self, *, must_be_there: bool) -> str:
        """Compare now, kill the process on a difference, and return the difference.

        ``must_be_there``: unreadable open files count as a difference. Otherwise it may be ending:
        the kernel closes its files one after another, so what is missing is looked for again.
        Raises HostUnreachable.
        """
        found = await self._read()
        if found is not None and not must_be_there and missing(found, self._opened.values()):
            found = await self._read()
        if found is not None:
            self.difference = difference(found, self._opened.values())
        elif must_be_there:
            self.difference = "what it has open cannot be seen on the drive's host"
        if self.difference:
            self._process.kill()
        return self.difference

    async def _read(self) -> OpenFiles | None:
        process, machine = self._process, self._machine
        return await asyncio.to_thread(read_open_files, process.directory, process.pid, machine)

    def refuse_others(self, places: Mapping[str, DrivePlace]) -> None:
        """Raise Refused where a target is another file or device than the process was given."""
        for name, opened in self._opened.items():
            place = places.get(name)
            identity = place.node.identity if place and place.node else "nothing"
            if place is not None and identity != opened.node.identity:
                raise Refused(
                    f"{opened.place.path} leads to {identity} now, and led to "
                    f"{opened.node.identity} when it was checked; find out who changes it"
                )

    def named(self, text: str) -> str:
        """``text`` from the process, with its /proc names replaced by the paths of the targets."""
        for opened in reversed(tuple(self._opened.values())):
            text = text.replace(opened.name, opened.place.path)
        return text
