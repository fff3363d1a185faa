"""A real sshd on loopback, as the user who runs the tests, with keys and settings of its own."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psutil
import pytest

from instruments.simulated.bench import Bench

HOST = "bench"


def rig_on_host(bench: Bench, folder: Path) -> Path:
    """The rig of a bench with its drive on that host, as a file in ``folder``."""
    file = folder / "rig.toml"
    file.write_text(bench.rig.read_text().replace('host = "local"', f'host = "{HOST}"'))
    return file


class Sshd:
    """A server and the client configuration that reaches it as ``bench``.

    ``environment`` is set in every session (``SetEnv``). ``login`` is what a login does: a script
    that gets the command in ``SSH_ORIGINAL_COMMAND``.
    """

    def __init__(
        self, directory: Path, environment: Mapping[str, str] | None = None, login: str = ""
    ) -> None:
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
        if program is None or shutil.which("ssh-keygen") is None:
            pytest.skip("no sshd here (Debian: apt install openssh-server)")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # as its package does at boot
        self.directory = directory
        self._program = program
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        directory.mkdir(parents=True)
        for name in ("host_key", "user_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)],
                check=True,
            )
        (directory / "authorized_keys").write_text((directory / "user_key.pub").read_text())
        self.trust_host_key()
        pairs = " ".join(f'"{name}={value}"' for name, value in (environment or {}).items())
        (directory / "sshd_config").write_text(
            f"""Port {self.port}
ListenAddress 127.0.0.1
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
{f"SetEnv {pairs}" if pairs else ""}
{f"ForceCommand {login}" if login else ""}
"""
        )
        self.config = directory / "ssh_config"
        self.config.write_text(
            f"""Host {HOST}
  HostName 127.0.0.1
  Port {self.port}
  User {getpass.getuser()}
  IdentityFile {directory}/user_key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {directory}/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  UpdateHostKeys no
"""
        )
        self.process: subprocess.Popen[bytes] | None = None

    def trust_host_key(self, key: str | None = None) -> None:
        """Let the client know the server's key, or another in its place."""
        key = key or (self.directory / "host_key.pub").read_text()
        (self.directory / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}")

    def start(self) -> None:
        """Start it and wait until it listens."""
        log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(
            [self._program, "-D", "-e", "-f", str(self.directory / "sshd_config")], stderr=log
        )
        log.close()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError((self.directory / "log").read_text())

    def sessions(self) -> list[psutil.Process]:
        """The processes that serve connections: all that sshd has started itself, and so on."""
        assert self.process is not None
        sessions = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # one that ends meanwhile serves nobody
                if process.name().startswith("sshd"):
                    sessions.append(process)
        return sessions

    def wait_for_no_session(self) -> None:
        """A client that has ended is one that sshd has yet to see."""
        deadline = time.monotonic() + 20
        while left := self.sessions():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)

    def signal_sessions(self, number: signal.Signals) -> None:
        """Send a signal to every process that serves a connection."""
        for process in self.sessions():
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue

    def stop(self) -> None:
        """End the server and every session."""
        if self.process is None:
            return
        for process in self.sessions():
            try:
                process.send_signal(signal.SIGCONT)
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.terminate()
        self.process.wait(10)
        self.process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
