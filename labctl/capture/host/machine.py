"""The machine that the drive is in: what labctl asks of it, and the one it runs on itself.

Identity, state and safety are written against :class:`Machine` alone, so that they work the same
on this machine and on one behind ssh.
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from labctl.capture.host.programs import Programs, tied

NOT_FOUND = 127
"""Exit code of a program that is not there, as a shell gives it (POSIX, 2.8.2)."""
NOT_EXECUTABLE = 126
TIMED_OUT = 124
"""Exit code of a program that did not end in time, as ``timeout`` of coreutils gives it."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MOST_BYTES = 4 << 20
_AT_ONCE_BYTES = 1 << 16
"""Files below /proc/sys refuse a buffer of 4 MiB and more (proc_sys_call_handler: ENOMEM)."""
_SYSTEM_FOLDERS = ("/usr/sbin/", "/sbin/", "/usr/local/sbin/")


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str
    raw: bytes = b""
    """The bytes of ``stdout``, for a tool that prints no text."""

    @property
    def message(self) -> str:
        """What it printed about its failure, on one line, cut to 300 characters."""
        return " ".join((self.stderr or self.stdout).split())[:300]


class Machine(Protocol):
    """What is asked of the machine that the drive is in. No method raises for what it finds."""

    def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
        """Run a program to its end.

        Exit code 127: there is no such program. 124: it was killed, after ``timeout_s`` or because
        the run ends.
        """

    def read_texts(self, paths_or_globs: Sequence[str]) -> dict[str, str]:
        """Many small files at once, by path; what is missing or cannot be read is absent."""

    def resolve(self, path: str) -> str | None:
        """The path without symbolic links (``readlink -f``); None when nothing is there."""


class LocalMachine:
    """The machine that labctl runs on."""

    def __init__(self, tools: str = "") -> None:
        """``tools``: a folder whose programs come before those on PATH."""
        path = os.environ.get("PATH", os.defpath)
        self._path = f"{tools}{os.pathsep}{path}" if tools else path
        self._programs = Programs()

    def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
        """See :class:`Machine`. Messages are in English whatever the user's language. The kernel
        kills it when this process dies (where there is a setpriv), and Ctrl-C does not reach it."""
        program = shutil.which(argv[0], path=self._path)
        if program is None:
            there = "/" in argv[0] and Path(argv[0]).exists()
            what = "not executable" if there else "not found"
            return Completed(NOT_EXECUTABLE if there else NOT_FOUND, "", f"{argv[0]}: {what}")
        command = [program, *argv[1:]]
        if shutil.which("setpriv", path=self._path):
            command = tied(command)
        changes = {"LC_ALL": "C", "PATH": self._path}
        try:
            done = self._programs.run(command, changes, b"", timeout_s)
        except OSError as error:
            return Completed(NOT_EXECUTABLE, "", f"{argv[0]}: {error.strerror}")
        if done is None:
            return Completed(TIMED_OUT, "", no_answer(argv[0], timeout_s))
        stdout, stderr = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return Completed(done.returncode, stdout, stderr, done.stdout)

    def kill(self, *, for_good: bool = False) -> None:
        """SIGKILL to every program that :meth:`run` waits for in another thread. ``for_good``: no
        other is started."""
        self._programs.kill(for_good=for_good)

    def read_texts(self, paths_or_globs: Sequence[str]) -> dict[str, str]:
        """See :class:`Machine`."""
        texts: dict[str, str] = {}
        for pattern in paths_or_globs:
            found = glob.glob(pattern) if glob.has_magic(pattern) else [pattern]  # noqa: PTH207
            for path in found:  # absolute
                text = _read_machine_file(path)
                if text is not None:
                    texts[path] = text
        return texts

    def resolve(self, path: str) -> str | None:
        """See :class:`Machine`."""
        try:
            return str(Path(path).resolve(strict=True))
        except (OSError, RuntimeError, ValueError):
            return None


def _read_machine_file(path: str) -> str | None:
    """Without the layers of ``open``: the counters of a host are read twice a second."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = b""
            while len(data) < _MOST_BYTES and (part := os.read(descriptor, _AT_ONCE_BYTES)):
                data += part
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return data.decode("utf-8", "replace")


def no_answer(program: str, timeout_s: float) -> str:
    """The message about a program that was killed."""
    return f"{program}: no answer within {timeout_s:g} s, or the run ended before"


def run_tool(machine: Machine, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
    """Run an administrator's program, also where the user's PATH lacks the system folders."""
    done = machine.run(argv, timeout_s)
    if "/" in argv[0]:
        return done
    for folder in _SYSTEM_FOLDERS:
        if done.exit_code != NOT_FOUND:
            break
        done = machine.run([folder + argv[0], *argv[1:]], timeout_s)
    return done


def is_this_machine(machine: Machine) -> bool:
    """Whether ``machine`` is this one, by the boot id of its kernel."""
    theirs = machine.read_texts([_BOOT_ID]).get(_BOOT_ID, "")
    return theirs == LocalMachine().read_texts([_BOOT_ID]).get(_BOOT_ID, "")
