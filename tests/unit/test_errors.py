"""No message of a mistake holds a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labctl.cli.rig.lists import check
from labctl.config.site import SITE_VARIABLE
from labctl.errors import ConfigurationError, Mistake, masked
from labctl.sinks.influxdb.settings import influx_settings
from labctl.sinks.mqtt.settings import mqtt_settings
from tests.unit.config.test_rig import RIG

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "site.toml"
    empty.write_text("")
    monkeypatch.setenv(SITE_VARIABLE, str(empty))


@pytest.mark.parametrize(
    "value",
    [
        f"http://me:{SECRET}@host:8086",
        f"http://:{SECRET}@host",
        f"https://me:{SECRET}/a@b:c@host/path",
        f"http://me:{SECRET} with blanks@host",
        f"me:{SECRET}@host",
        f"mailtos://me:{SECRET}\n@mail",
    ],
)
def test_the_password_of_an_address_is_masked(value: str) -> None:
    message = str(Mistake("f", "url", value, "must be another"))
    assert SECRET not in message and "***@" in message


@pytest.mark.parametrize(
    "value",
    ["http://host:8086/a", "root@box", "ssh://root@box:22", "nbd+unix:///?socket=/a", "", 5, None],
)
def test_what_holds_no_password_is_shown(value: object) -> None:
    assert masked("drive.target", value) == value


@pytest.mark.parametrize(
    "text",
    [
        f'[sinks.influxdb]\nbucket = "b"\nurl = "http://me:{SECRET}@host:8086"\n',
        f'[sinks.influxdb]\nbucket = "b"\nurl = "http://host"\ntoken = "{SECRET}"\n',
        f'[sinks]\ninfluxdb = "http://me:{SECRET}@host"\n',
        f'[sinks.mqtt]\nhost = "me:{SECRET}@host"\n',
        f'[sinks.mqtt]\nhost = "host"\npassword = "{SECRET}"\n',
    ],
)
def test_no_command_prints_a_secret_that_stands_where_it_must_not(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rig.toml"
    file.write_text(RIG + text)
    with pytest.raises(ConfigurationError) as caught:
        check(file, json_output=True)
    output = capsys.readouterr().out
    assert json.loads(output)["mistakes"]
    with pytest.raises(ConfigurationError) as read:
        influx_settings(text, "rig")
        mqtt_settings(text, "rig")
    assert SECRET not in output + str(caught.value) + str(read.value)


@pytest.mark.parametrize("address", [f"http://me:{SECRET}@x?bucket=b", f"http://x?p={SECRET}"])
def test_an_address_at_the_command_line_is_masked_too(address: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        influx_settings("", "rig", address)
    assert SECRET not in str(caught.value)
