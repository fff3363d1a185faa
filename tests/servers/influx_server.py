"""A real InfluxDB, 2.x or 1.x, in a process of its own: started, killed, stopped and
asked by tests."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tests.servers.influx_lines import Stored
from tests.servers.influx_relay import Relay

ORG = "lab"
TOKEN = "token-of-the-tests"
USER, PASSWORD = "u", "password-of-tests"
READY_WITHIN_S = 30.0
REPOSITORY = Path(__file__).parents[2]


@functools.cache  # a test may change PATH
def influxd() -> str | None:
    """The binary of 2.x: ``$INFLUXD``, or on PATH, or in ``shared/bin`` beside the repository."""
    beside = REPOSITORY.parent / "shared" / "bin" / "influxd2"
    candidates = [os.environ.get("INFLUXD"), shutil.which("influxd2"), shutil.which("influxd")]
    candidates.append(str(beside) if beside.exists() else None)
    return next((found for found in candidates if found and not _is_1(found)), None)


@functools.cache
def influxd1() -> str | None:
    """The binary of 1.x: ``$INFLUXD1``, or on PATH."""
    candidates = (os.environ.get("INFLUXD1"), shutil.which("influxd1"), shutil.which("influxd"))
    return next((found for found in candidates if found and _is_1(found)), None)


@functools.cache
def kinds() -> tuple[str, ...]:
    """Those that tests can be run against here: ``2``, ``1``; both where there is none, to be
    skipped with the reason."""
    here = {"2": influxd(), "1": influxd1()}
    return tuple(kind for kind, binary in here.items() if binary) or tuple(here)


@functools.cache
def _is_1(binary: str) -> bool:
    """1.x prints its configuration, 2.x has no such command. (A build may not know its version.)"""
    done = subprocess.run([binary, "config"], capture_output=True, check=False, timeout=30)
    return b"[meta]" in done.stdout


@functools.cache
def is_before_1_8(binary: str) -> bool:
    """Whether it lacks the write address of 2.x; not a build that does not know its version."""
    message = subprocess.run(
        [binary, "version"], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"InfluxDB v1\.(\d+)", message)
    return found is not None and int(found[1]) < 8


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class InfluxServer:
    """One 2.x server with its data under ``folder``. The bucket ``main`` is always there."""

    token: ClassVar[str] = TOKEN

    folder: Path
    port: int = field(default_factory=free_port)
    engine: Path | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self._command(), stdout=log, stderr=log)
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            with contextlib.suppress(OSError):
                self._set_up()
                break
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    def _command(self) -> list[str]:
        binary = influxd()
        assert binary is not None
        return [
            binary,
            f"--http-bind-address=127.0.0.1:{self.port}",
            f"--bolt-path={self.folder / 'influxd.bolt'}",
            f"--engine-path={self.engine or self.folder / 'engine'}",
            f"--sqlite-path={self.folder / 'influxd.sqlite'}",
            "--reporting-disabled",
            "--log-level=error",
        ]

    def _set_up(self) -> None:
        """Raises OSError while the server does not listen yet."""
        if json.loads(self._open("/api/v2/setup"))["allowed"]:
            owner = {"username": USER, "password": PASSWORD, "org": ORG}
            self._open("/api/v2/setup", {**owner, "bucket": "main", "token": TOKEN})

    def send(self, number: int) -> None:
        """SIGSTOP, SIGCONT …"""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and gone. It may be started again."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None

    def make_bucket(self, name: str, keep_s: int = 0) -> None:
        orgs = json.loads(self._open("/api/v2/orgs"))["orgs"]
        rules = [{"type": "expire", "everySeconds": keep_s}] if keep_s else []
        organisation = next(org["id"] for org in orgs if org["name"] == ORG)
        self._open(
            "/api/v2/buckets", {"orgID": organisation, "name": name, "retentionRules": rules}
        )

    def influxql(self, query: str, bucket: str = "main") -> list[dict[str, Any]]:
        """The series of an InfluxQL answer. An error may come with a 200: it is raised."""
        asked = urllib.parse.urlencode({"db": bucket, "q": query, "epoch": "ns"})
        (result,) = json.loads(self._open(f"/query?{asked}"))["results"]
        assert "error" not in result, result
        series: list[dict[str, Any]] = result.get("series", [])
        return series

    def points(self, bucket: str = "main") -> Stored:
        """Everything that the bucket holds, apart from signs of life."""
        found: Stored = {}
        for named in self.influxql("SHOW MEASUREMENTS", bucket):
            for (measurement,) in named["values"]:
                if measurement == "rig":
                    continue
                for series in self.influxql(f'SELECT * FROM "{measurement}" GROUP BY *', bucket):
                    tags = tuple(sorted((k, v) for k, v in series["tags"].items() if v))
                    for t_ns, *values in series["values"]:
                        fields = {
                            name: value
                            for name, value in zip(series["columns"][1:], values, strict=True)
                            if value is not None
                        }
                        found[(measurement, tags, t_ns)] = fields
        return found

    def _open(self, path: str, data: dict[str, Any] | None = None) -> bytes:
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(
            self.url + path, body, {"Authorization": f"Token {self.token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read()[:500]!r}") from error


@dataclass
class InfluxServer1(InfluxServer):
    """One 1.x server, with users. A bucket is a database.

    One that is older than 1.8 has a relay before it, which is reached in its place.
    """

    token: ClassVar[str] = f"{USER}:{PASSWORD}"

    own_port: int = field(default_factory=free_port)
    relay: Relay | None = None

    def start(self) -> None:
        if is_before_1_8(influxd1() or "") and self.relay is None:
            self.relay = Relay(self.port, self.own_port)
        super().start()

    def make_bucket(self, name: str, keep_s: int = 0) -> None:
        keep = f" WITH DURATION {keep_s}s" if keep_s else ""
        self._tell(f'CREATE DATABASE "{name}"{keep}')

    def _command(self) -> list[str]:
        binary = influxd1()
        assert binary is not None
        data = self.engine or self.folder / "engine"
        configuration = self.folder / "influxd.conf"
        configuration.write_text(f"""
            reporting-disabled = true
            bind-address = "127.0.0.1:0"
            [meta]
            dir = "{self.folder / "meta"}"
            [data]
            dir = "{data / "data"}"
            wal-dir = "{data / "wal"}"
            [monitor]
            store-enabled = false
            [logging]
            level = "error"
            [http]
            bind-address = "127.0.0.1:{self.own_port if self.relay else self.port}"
            auth-enabled = true
            log-enabled = false
        """)
        return [binary, "-config", str(configuration)]

    def _set_up(self) -> None:
        with contextlib.suppress(AssertionError):  # there is one already
            self._tell(f"CREATE USER {USER} WITH PASSWORD '{PASSWORD}' WITH ALL PRIVILEGES")
        self.make_bucket("main")

    def _tell(self, statement: str) -> None:
        """Have a statement carried out: by POST, or it is refused."""
        self._open(f"/query?{urllib.parse.urlencode({'q': statement})}", {})
