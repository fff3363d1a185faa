"""The servers as ``labctl doctor`` sees them: right, with a wrong token, without the bucket."""

from __future__ import annotations

from collections.abc import AsyncIterable
from pathlib import Path

import pytest

from labctl.checks import Check, Level
from labctl.sinks.doctor import check_influx, check_mqtt
from labctl.sinks.mqtt_settings import PASSWORD_VARIABLE, MqttSettings
from labctl.sinks.settings import TOKEN_VARIABLE, InfluxSettings
from tests.servers.influx_server import ORG, InfluxServer
from tests.servers.mqtt_server import PASSWORD, USER, Mosquitto, mosquitto


async def only(checks: AsyncIterable[Check]) -> Check:
    found = [check async for check in checks]
    assert len(found) == 1, found
    return found[0]


async def test_influxdb_takes_points_and_nothing_is_stored(
    influx: InfluxServer, bucket: str
) -> None:
    found = await only(check_influx(InfluxSettings(url=influx.url, org=ORG, bucket=bucket)))
    assert found.level is Level.OK
    assert not influx.points(bucket)


async def test_influxdb_with_a_wrong_token(
    influx: InfluxServer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "u:wrong")
    found = await only(check_influx(InfluxSettings(url=influx.url, org=ORG, bucket=bucket)))
    assert found.level is Level.WARNING
    assert TOKEN_VARIABLE in found.text
    assert "u:wrong" not in found.text


async def test_influxdb_without_the_bucket(influx: InfluxServer) -> None:
    found = await only(check_influx(InfluxSettings(url=influx.url, org=ORG, bucket="elsewhere")))
    assert found.level is Level.WARNING
    assert "is there a bucket 'elsewhere'?" in found.text


@pytest.mark.skipif(mosquitto() is None, reason="no mosquitto on PATH")
async def test_mqtt_with_the_right_and_a_wrong_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Mosquitto(tmp_path / "broker", with_password=True)
    broker.start()
    try:
        settings = MqttSettings(host="127.0.0.1", port=broker.port, user=USER, tls=False)
        monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
        assert (await only(check_mqtt(settings))).level is Level.OK
        monkeypatch.setenv(PASSWORD_VARIABLE, "wrong")
        found = await only(check_mqtt(settings))
        assert found.level is Level.WARNING
        assert "are user and password right?" in found.text
    finally:
        broker.kill()
