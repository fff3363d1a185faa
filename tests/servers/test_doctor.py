"""The servers as ``labctl doctor`` sees them: right, with a wrong token, without the bucket."""

from __future__ import annotations

from collections.abc import AsyncIterable
from pathlib import Path

import pytest

from labctl.service.doctor.checks import Check, Level
from labctl.service.doctor.servers import check_influx, check_mqtt
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE, InfluxSettings
from labctl.sinks.mqtt.settings import PASSWORD_VARIABLE, MqttSettings
from tests.servers.influx_fake import FakeInflux, serving
from tests.servers.influx_server import ORG, InfluxServer
from tests.servers.mqtt_server import PASSWORD, USER, Mosquitto, mosquitto
from tests.servers.recorder import TcpRecorder, recording


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


async def test_a_secret_that_every_user_can_read_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t")
    with recording() as server:
        settings = InfluxSettings(url=server.url, bucket="b", token_file=str(file))
        for mode, reported in ((0o644, 1), (0o604, 1), (0o640, 0), (0o600, 0)):
            file.chmod(mode)
            checks = [check async for check in check_influx(settings)]
            assert [check.level for check in checks] == [Level.WARNING] * reported + [Level.OK]
            assert not reported or (
                f"{mode:04o}" in checks[0].text and "chmod 600" in checks[0].todo
            )
    with TcpRecorder() as broker:
        file.chmod(0o644)
        login = {"user": "u", "password_file": str(file)}
        mqtt = MqttSettings(host="127.0.0.1", port=broker.port, **login)
        first, *_ = [check async for check in check_mqtt(mqtt)]
        assert "password_file" in first.text


async def test_a_server_that_has_no_token_of_its_own_is_reported(tmp_path: Path) -> None:
    async with serving(FakeInflux()) as fake:
        found = await only(check_influx(InfluxSettings(url=fake.url, bucket="lab")))
    assert "there is no token for this address" in found.text
