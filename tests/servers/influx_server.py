"""A real InfluxDB 2.x in a process of its own: started, killed, stopped and asked by tests."""

from __future__ import annotations

import contextlib
import json
import os
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
from typing import Any

from tests.servers.influx_lines import Stored

ORG = "lab"
TOKEN = "token-of-the-tests"
READY_WITHIN_S = 30.0
REPOSITORY = Path(__file__).parents[2]


def influxd() -> str | None:
    """The binary: ``$INFLUXD``, or on PATH, or in ``shared/bin`` beside the repository."""
    beside = REPOSITORY.parent / "shared" / "bin" / "influxd2"
    candidates = [os.environ.get("INFLUXD"), shutil.which("influxd2"), shutil.which("influxd")]
    candidates.append(str(beside) if beside.exists() else None)
    return next((found for found in candidates if found), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class InfluxServer:
    """One server with its data under ``folder``; the bucket ``main`` is there from the start."""

    folder: Path
    port: int = field(default_factory=free_port)
    engine: Path | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        binary = influxd()
        assert binary is not None
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    binary,
                    f"--http-bind-address=127.0.0.1:{self.port}",
                    f"--bolt-path={self.folder / 'influxd.bolt'}",
                    f"--engine-path={self.engine or self.folder / 'engine'}",
                    f"--sqlite-path={self.folder / 'influxd.sqlite'}",
                    "--reporting-disabled",
                    "--log-level=error",
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            with contextlib.suppress(OSError):
                setup = json.loads(self._open("/api/v2/setup"))
                break
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)
        if setup["allowed"]:
            owner = {"username": "u", "password": "password-of-tests", "org": ORG}
            self._open("/api/v2/setup", {**owner, "bucket": "main", "token": TOKEN})

    def send(self, number: int) -> None:
        """SIGSTOP, SIGCONT …"""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and gone."""
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
        request = urllib.request.Request(self.url + path, body, {"Authorization": f"Token {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read()[:500]!r}") from error
