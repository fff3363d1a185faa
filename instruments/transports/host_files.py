"""Small files of a machine: this one's, or another's over ssh.

The other machine needs a POSIX shell (dash and busybox will do) and ``cat``. All files of one read
come in one round trip.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import select
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from instruments.errors import ConnectionLost, NoAnswer
from instruments.process_environment import environment_without_secrets
from instruments.transports.ssh import CONNECTION_FAILED, ssh_command, ssh_failure

_GONE_ERRNOS: Final = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ENXIO)
_CONNECT_TIMEOUT_S: Final = 11.0
_ANSWER_TIMEOUT_S: Final = 2.0
_CLOSE_TIMEOUT_S: Final = 1.0
_GLOB: Final = re.compile(r"(\*|\?|\[!?[A-Za-z0-9_.-]+\])")
"""The parts of a pattern that the shell gets unquoted: other brackets may hold a command."""


def print_files_script(patterns: Sequence[str], mark: str) -> str:
    """Shell code that prints every regular file that the patterns name, between marks.

    The shell itself reads files of one line, as most of sysfs are: one ``cat`` a file takes seconds
    where there are many drives or the processor is slow.
    """
    words = " ".join(_glob_word(pattern) for pattern in patterns)
    return (
        f"for f in {words}; do\n"
        '[ -f "$f" ] || continue\n'
        f"printf '%s %s\\n' {mark} \"$f\"\n"
        "one= more=\n"
        '{ IFS= read -r one && ! IFS= read -r more && [ -z "$more" ]; } 2>/dev/null < "$f"\n'
        f"if [ $? = 0 ]; then printf '%s\\n%s 0\\n' \"$one\" {mark}\n"
        f"else cat \"$f\" 2>/dev/null; printf '%s %s\\n' {mark} $?; fi\n"
        f"done\necho {mark}=\n"
    )


def parse_printed_files(output: bytes, mark: str) -> dict[str, str | None]:
    """The text of each file in the output of the script; None for an unreadable file."""
    texts: dict[str, str | None] = {}
    parts = output.split(mark.encode())[1:-1]
    for begin, end in zip(parts[::2], parts[1::2], strict=False):
        path, _, content = begin.partition(b"\n")
        readable = end.strip() == b"0"
        text = content.decode("utf-8", "replace") if readable else None
        texts[path[1:].decode("utf-8", "replace")] = text
    return texts


def _glob_word(pattern: str) -> str:
    """A pattern as a word of the shell: only its ``*``, ``?`` and ``[…]`` are special."""
    parts = _GLOB.split(pattern)
    return "".join(
        part if number % 2 else shlex.quote(part) if part else ""
        for number, part in enumerate(parts)
    )


class HostFiles(Protocol):
    """The small files of a machine."""

    def open(self) -> None:
        """Connect. Raises ConnectionLost."""
        ...

    def texts(self, patterns: Sequence[str]) -> dict[str, str | None]:
        """Every regular file that a pattern names, by path; None for one that cannot be read.

        Raises ConnectionLost, NoAnswer.
        """
        ...

    def close(self) -> None:
        """Close the connection; never raises."""
        ...


def host_files(name: str, host: str) -> HostFiles:
    """The files of ``host``: "local", or an ssh destination. ``name`` names the instrument."""
    return LocalFiles() if host == "local" else RemoteFiles(name, host)


class LocalFiles:
    """The files of this machine."""

    def open(self) -> None:
        """Nothing to connect."""

    def texts(self, patterns: Sequence[str]) -> dict[str, str | None]:
        """See :class:`HostFiles`."""
        texts: dict[str, str | None] = {}
        for pattern in patterns:
            for name in sorted(glob.glob(pattern)):  # noqa: PTH207 absolute
                path = Path(name)
                try:
                    if path.is_file():
                        texts[name] = path.read_text("utf-8", "replace")
                except OSError as error:
                    if error.errno not in _GONE_ERRNOS:
                        texts[name] = None
        return texts

    def close(self) -> None:
        """Nothing is held open."""


class RemoteFiles:
    """The files of another machine, through one shell that stays open."""

    def __init__(self, name: str, destination: str) -> None:
        self._name = name
        self._destination = destination
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """See :class:`HostFiles`."""
        self.close()
        try:
            self._process = subprocess.Popen(
                [*ssh_command(self._destination), "exec sh"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment_without_secrets(),
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise ConnectionLost(
                f"{self._name}: ssh cannot be started: {error.strerror}; install the OpenSSH client"
            ) from error
        self.texts([], _CONNECT_TIMEOUT_S)

    def close(self) -> None:
        """See :class:`HostFiles`. The remote shell ends with its standard input."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin and process.stdout and process.stderr
        process.stdin.close()
        try:
            process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()

    def texts(
        self, patterns: Sequence[str], timeout_s: float = _ANSWER_TIMEOUT_S
    ) -> dict[str, str | None]:
        """See :class:`HostFiles`."""
        if self._process is None:
            raise ConnectionLost(f"{self._name}: not connected to {self._destination}")
        assert self._process.stdin and self._process.stdout
        mark = secrets.token_hex(12)
        try:
            self._process.stdin.write(print_files_script(patterns, mark).encode())
        except OSError as error:
            raise self._lost() from error
        answer, end = bytearray(), f"{mark}=\n".encode()
        deadline = time.monotonic() + timeout_s
        while not answer.endswith(end):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._process.stdout], [], [], left_s)[0]:
                raise NoAnswer(
                    f"{self._name}: {self._destination} did not answer within {timeout_s:g} s"
                )
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise self._lost()
            answer += chunk
        return parse_printed_files(bytes(answer), mark)

    def _lost(self) -> ConnectionLost:
        """The error of a lost connection, with ssh's own reason."""
        process = self._process
        assert process is not None and process.stderr is not None
        try:
            code = process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        message = process.stderr.read(1 << 16).decode("utf-8", "replace")
        if code == CONNECTION_FAILED:
            return ConnectionLost(f"{self._name}: {ssh_failure(message, self._destination).text}")
        last = message.strip().splitlines()[-1:] or [f"exit code {code}"]
        return ConnectionLost(f"{self._name}: the shell of {self._destination} ended ({last[0]})")
