"""Real servers for tests; where their binaries are not installed the tests say so and skip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labctl.config.site import SITE_VARIABLE
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE
from tests.servers.influx_server import InfluxServer, InfluxServer1, influxd, influxd1, kinds
from tests.servers.mqtt_server import Mosquitto


@pytest.fixture(scope="session")
def influx_2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InfluxServer]:
    """A real InfluxDB 2.x for the whole session."""
    if influxd() is None:
        pytest.skip("no InfluxDB 2.x: put influxd on PATH or name it in $INFLUXD")
    server = InfluxServer(tmp_path_factory.mktemp("influxdb2"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def influx_1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InfluxServer1]:
    """A real InfluxDB 1.x for the whole session."""
    if influxd1() is None:
        pytest.skip("no InfluxDB 1.x: put influxd on PATH or name it in $INFLUXD1")
    server = InfluxServer1(tmp_path_factory.mktemp("influxdb1"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=kinds(), ids="{}.x".format)
def influx(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> InfluxServer:
    """A real InfluxDB of each kind; take a bucket of your own."""
    server: InfluxServer = request.getfixturevalue(f"influx_{request.param}")
    monkeypatch.setenv(TOKEN_VARIABLE, server.token)
    return server


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine that the tests run on."""
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    empty = tmp_path / "empty-site.toml"
    empty.write_text("")
    monkeypatch.setenv(SITE_VARIABLE, str(empty))


@pytest.fixture
def bucket(influx: InfluxServer, request: pytest.FixtureRequest) -> str:
    """A bucket of its own for each test. 1.x takes its name for a pattern of files."""
    name = str(request.node.name).translate({ord("["): "-", ord("]"): None})[:60]
    influx.make_bucket(name)
    return name


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker of its own for each test."""
    server = Mosquitto(tmp_path / "broker")
    server.start()
    yield server
    server.kill()
