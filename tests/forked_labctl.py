"""``labctl`` in a process of its own that has its modules already.

A command spends 0.3 s of CPU on the import of its modules and some milliseconds on the rest. So one
process per test worker imports all of them once, and forks for each command. The command has the
words, environment, working directory and output it is given, ends as any process does, and sees
nothing of another command. What stops, kills or watches a process starts a real one instead.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import importlib
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

MOST_REQUEST_BYTES = 1 << 20


def labctl(
    *words: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """The command as ``subprocess.run`` gives it, with text. Raises TimeoutExpired, after a kill.

    It has nothing on its standard input.
    """
    done = labctl_bytes(*words, cwd=cwd, env=env, timeout=timeout)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def labctl_bytes(
    *words: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[bytes]:
    """The same, with bytes."""
    texts = [str(word) for word in words]
    request = {
        "words": texts,
        "cwd": str(cwd or Path.cwd()),
        "env": dict(os.environ if env is None else env),
    }
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        Path(os.devnull).open("rb") as empty,
    ):
        code = _server().ask(request, (empty, out, err), timeout)
        printed = [_whole(file) for file in (out, err)]
    if code is None:
        raise subprocess.TimeoutExpired(["labctl", *texts], timeout, *printed)
    return subprocess.CompletedProcess(["labctl", *texts], code, *printed)


def _whole(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


class _Server:
    """The process that forks, asked by messages; it ends when their socket closes."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=Path(__file__).parents[1],  # where it is found: a test may be anywhere
            )
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_REQUEST_BYTES)
        self._socket = ours
        atexit.register(self._end)

    def ask(
        self, request: Mapping[str, Any], files: tuple[IO[bytes], ...], timeout_s: float
    ) -> int | None:
        """The exit status as in ``subprocess``; None where it was killed for its time."""
        descriptors = array.array("i", [file.fileno() for file in files])
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)
        self._socket.sendmsg([json.dumps(request).encode()], [rights])
        self._socket.settimeout(None)
        pid = int(self._socket.recv(64))
        self._socket.settimeout(timeout_s)
        try:
            return int(self._socket.recv(64))
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(pid, signal.SIGKILL)
            self._socket.settimeout(None)
            self._socket.recv(64)
            return None

    def _end(self) -> None:
        self._socket.close()
        self._process.wait(10)


@cache
def _server() -> _Server:
    return _Server()


def _serve(requests: socket.socket) -> None:
    """Fork for each request: answers the process's id, and its exit status when it has ended.

    What ``multiprocessing`` forks ends without taking its modules down, 0.05 s of CPU.
    """
    forks = multiprocessing.get_context("fork")
    while True:
        data, rights, _, _ = requests.recvmsg(MOST_REQUEST_BYTES, socket.CMSG_SPACE(3 * 4))
        if not data:
            return
        files = array.array("i")
        files.frombytes(rights[0][2])
        child = forks.Process(target=_become, args=(json.loads(data), files))
        child.start()
        for descriptor in files:
            os.close(descriptor)
        requests.send(str(child.pid).encode())
        child.join()
        requests.send(str(child.exitcode).encode())


def _become(request: Mapping[str, Any], files: array.array[int]) -> None:
    """Run the command as a process that was started for it would."""
    from labctl.cli.main import main

    for standard, descriptor in enumerate(files):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["labctl", *request["words"]]
    sys.modules["__main__"].__package__ = None  # else click calls it "python -m tests…"
    main()


def _import_all() -> None:
    """Import what commands import, and the slow libraries that they import late."""
    from labctl.cli.commands import COMMANDS

    for command in COMMANDS.values():
        importlib.import_module(f"labctl.cli.{command.place.partition(':')[0]}")
    for library in ("altair", "influxdb_client", "pyvisa"):
        importlib.import_module(library)


if __name__ == "__main__":
    _import_all()
    _serve(socket.socket(fileno=int(sys.argv[1])))
