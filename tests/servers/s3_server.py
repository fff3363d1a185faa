"""A real S3 server, versitygw over a folder, in a process of its own: started, killed, asked."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

KEY, SECRET = "key-of-the-tests", "secret-of-the-tests"
BUCKET = "lab"
READY_WITHIN_S = 30.0
NO_SERVER = (
    "no versitygw: put it on PATH, into ~/go/bin, or name it in $VERSITYGW "
    "(go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)"
)


@functools.cache
def versitygw() -> str | None:
    """The binary: ``$VERSITYGW``, on PATH, or where Go installs programs."""
    own = Path("~/go/bin/versitygw").expanduser()
    candidates = (os.environ.get("VERSITYGW"), shutil.which("versitygw"))
    return next(filter(None, candidates), str(own) if own.exists() else None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@dataclass
class S3Server:
    """A gateway over ``folder``, whose folders are its buckets. Skips where there is none."""

    folder: Path
    read_only: bool = False
    port: int = field(default_factory=free_port)
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if versitygw() is None:
            pytest.skip(NO_SERVER)
        (self.folder / BUCKET).mkdir(parents=True, exist_ok=True)
        probe = self.folder / BUCKET
        try:
            os.setxattr(probe, "user.labctl", b"1")
            os.removexattr(probe, "user.labctl")
        except OSError:
            pytest.skip("versitygw needs a file system with extended attributes")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        binary = versitygw()
        assert binary is not None
        words = [binary, "--port", f"127.0.0.1:{self.port}", "--access", KEY, "--secret", SECRET]
        words += ["--quiet", *(["--readonly"] if self.read_only else [])]
        self._process = subprocess.Popen(
            [*words, "posix", *self.options, str(self.folder)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.05)
        raise AssertionError("versitygw does not listen")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """What says key and server to who asks it."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        return {
            **own,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
        }


@contextlib.contextmanager
def running(
    folder: Path, *, read_only: bool = False, options: tuple[str, ...] = ()
) -> Iterator[S3Server]:
    server = S3Server(folder, read_only, options=options)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class SlowLine:
    """A line to a server: every piece waits ``delay_s``. After ``most_bytes`` towards the server
    (None: never) nothing more comes through, without a word, as in a network that broke."""

    def __init__(self, server_port: int, delay_s: float, most_bytes: int | None = None) -> None:
        self._behind = server_port
        self._delay_s = delay_s
        self._left = most_bytes
        self._lock = threading.Lock()
        self.stuck = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._behind))
                self._open += [client, server]
                for pair in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._hand_on, args=pair, daemon=True).start()

    def _hand_on(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                time.sleep(self._delay_s)
                if counts and not self._passes(len(piece)):
                    self.stuck.set()
                    return
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def _passes(self, size: int) -> bool:
        with self._lock:
            if self._left is None:
                return True
            self._left -= size
            return self._left >= 0
