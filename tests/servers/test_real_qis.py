"""Quarch's own QIS, without a module, against what is written down of it and against the driver.

``QIS`` names a folder with ``qis.jar`` and a Java 25 somewhere below it: the wheels of ``quarchpy``
and ``quarchpy-binaries``, fetched with ``pip download --no-deps`` and unpacked with ``unzip``.
Their licence ties them to Quarch's modules, so labctl neither contains nor installs them, and
this test is skipped without them. QIS listens on all interfaces while it runs.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments import drivers, identify
from instruments.drivers.quarch_qis import modules_at
from instruments.errors import ConnectionLost
from tests.bench.test_quarch import asked
from tests.protocol.test_quarch import WITHOUT_MODULE
from tests.unit.instruments.drivers.test_drivers_table import SETTINGS

WITHIN_S = 120.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def java_below(folder: Path) -> str:
    """A Java that came with it, made executable (wheels are unpacked without that)."""
    for path in folder.rglob("bin/java"):
        for program in (path, *path.parents[1].glob("lib/jspawnhelper")):
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return str(path)
    return "java"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if "QIS" not in os.environ:
        pytest.skip("no QIS: the variable QIS names no folder with it (CONTRIBUTING.md)")
    folder = Path(os.environ["QIS"])
    jars = sorted(folder.rglob("qis.jar"))
    assert jars, f"QIS={folder}: there is no qis.jar in it"
    home = tmp_path_factory.mktemp("qis")
    shutil.copytree(jars[0].parent, home / "qis")
    port = free_port()
    command = [
        java_below(folder), "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true",
        f"-Duser.home={home}", "--enable-native-access=ALL-UNNAMED", "-jar", "qis.jar",
        f"-port={port}", f"-restport={free_port()}",
    ]  # fmt: skip
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=home / "qis", stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + WITHIN_S
        while not modules_at("127.0.0.1", port)[0]:
            if process.poll() is not None:
                pytest.fail(f"QIS does not start: {(home / 'log').read_text()[-300:]}")
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait()


def test_it_answers_as_written_down(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as link:
        greeting = link.recv(200)
        assert greeting.startswith(b"$t v") and greeting.endswith(b"\r\n")
        version = greeting.split()[1]
        for command, answer in WITHOUT_MODULE:
            wanted = answer.replace(b"v1.55.1", version)
            assert asked(link, command) == wanted, command


def test_the_driver_says_what_it_misses(port: int) -> None:
    settings = SETTINGS["quarch"] | {"server": f"127.0.0.1:{port}"}
    for resource in ("usb::QTL1999-02-020", "tcp::127.0.0.1"):
        ppm = drivers.create("ppm", "quarch", settings | {"resource": resource}, time.monotonic_ns)
        with pytest.raises(ConnectionLost, match=f"does not see {resource}; it sees no module"):
            ppm.open()
        ppm.close()


def test_it_is_found_without_modules(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identify, "_QIS", ("127.0.0.1", port))
    assert identify.quarch_modules() == []
    assert modules_at("127.0.0.1", port)[0].startswith("v1.")
