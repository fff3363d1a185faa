"""Real servers for tests; where their binaries are not installed the tests say so and skip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labctl.sinks.settings import SITE_VARIABLE, TOKEN_VARIABLE
from tests.servers.influx_server import TOKEN, InfluxServer, influxd


@pytest.fixture(scope="session")
def influx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InfluxServer]:
    """A real InfluxDB 2.x for the whole session; take a bucket of your own."""
    if influxd() is None:
        pytest.skip("no InfluxDB: put influxd on PATH or name it in $INFLUXD")
    server = InfluxServer(tmp_path_factory.mktemp("influxdb"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The token of the tests, and nothing of the machine that they run on."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    empty = tmp_path / "empty-site.toml"
    empty.write_text("")
    monkeypatch.setenv(SITE_VARIABLE, str(empty))


@pytest.fixture
def bucket(influx: InfluxServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A bucket of its own for each test."""
    name = str(request.node.name)[:60]
    influx.make_bucket(name)
    yield name
