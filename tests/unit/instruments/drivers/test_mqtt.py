"""The MQTT instrument without a broker: settings, paths, decoding."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest
from pydantic import ValidationError

from instruments import drivers
from instruments.drivers.mqtt import LONGEST_PAYLOAD, decode, parse_path
from instruments.errors import SettingRefused
from instruments.reading import Status

SETTINGS: dict[str, Any] = {
    "host": "broker.example",
    "topic": "t",
    "quantity": "temperature",
    "interval_s": 1.0,
    "accuracy_pct_of_reading": 0.0,
    "accuracy_floor": 0.5,
}


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("", ()),
        ("a", ("a",)),
        ("ENERGY.Power", ("ENERGY", "Power")),
        ("sensors[0].t", ("sensors", 0, "t")),
        ("[2][0]", (2, 0)),
        ('["a.b"].c["d e"]', ("a.b", "c", "d e")),
        ("DS18B20-1.Temperatur °C", ("DS18B20-1", "Temperatur °C")),
    ],
)
def test_paths(path: str, steps: tuple[str | int, ...]) -> None:
    assert parse_path(path) == steps


@pytest.mark.parametrize("path", [".a", "a.", "a..b", "a[", "a[x]", "a[-1]", "a]", 'a["b', "a[0]b"])
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(ValueError, match="must be a path such as"):
        parse_path(path)


@pytest.mark.parametrize(
    ("payload", "path", "value"),
    [
        (b"21.5", "", 21.5),
        (b" -3e2\n", "", -300.0),
        (b'{"ENERGY": {"Power": 7}}', "ENERGY.Power", 7.0),
        (b'{"s": [{"t": "23.25"}]}', "s[0].t", 23.25),
        (b"nan", "", Status.NO_VALUE),
        (b"-inf", "", Status.NO_VALUE),
        (b'{"t": NaN}', "t", Status.NO_VALUE),
        (b'{"t": 1e999}', "t", Status.NO_VALUE),
        (b'{"t": 1' + b"0" * 400 + b"}", "t", Status.NO_VALUE),
        (b'{"t": null}', "t", Status.NO_VALUE),
        (b"", "", Status.UNREADABLE),
        (b"hot", "", Status.UNREADABLE),
        (b"1_000", "", Status.UNREADABLE),
        (b"\xff\xfe", "", Status.UNREADABLE),
        (b"21.5", "t", Status.UNREADABLE),
        (b'{"t": ', "t", Status.UNREADABLE),
        (b'{"t": true}', "t", Status.UNREADABLE),
        (b'{"t": "23"}', "t[0]", Status.UNREADABLE),
        (b'{"t": {}}', "t", Status.UNREADABLE),
        (b'{"u": 1}', "t", Status.UNREADABLE),
        (b'{"t": []}', "t[0]", Status.UNREADABLE),
        (b"[" * 60_000, "t", Status.UNREADABLE),
        (b"1" * 5_000, "[0]", Status.UNREADABLE),
        (b"1".rjust(LONGEST_PAYLOAD + 1), "", Status.UNREADABLE),
    ],
)
def test_numbers_in_messages(payload: bytes, path: str, value: float | Status) -> None:
    assert decode(payload, parse_path(path)) == value


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"topic": "a/+/b"}, "without"),
        ({"path": "a["}, "sensors"),
        ({"host": "mqtt://broker"}, "name or address alone"),
        ({"host": "broker:1883"}, "port and user are keys"),
        ({"ca_file": "ca.pem"}, "need tls"),
        ({"tls": True, "key_file": "key.pem"}, "needs certificate_file"),
        ({"password_file": "secret"}, "needs user"),
        ({"factor": float("nan")}, "finite"),
        ({"accuracy_floor": None}, "valid number"),
    ],
)
def test_mistakes_in_settings(change: dict[str, Any], output: str) -> None:
    with pytest.raises(ValidationError, match=output):
        drivers.create("room", "mqtt", SETTINGS | change, time.monotonic_ns)


def test_the_channel_says_how_old_a_value_may_be() -> None:
    (channel,) = drivers.create("room", "mqtt", SETTINGS, time.monotonic_ns).channels
    assert (channel.name, channel.unit, channel.time_u_s) == ("temperature", "°C", 1.0)
    changed = SETTINGS | {"time_u_s": 0.2}
    (channel,) = drivers.create("room", "mqtt", changed, time.monotonic_ns).channels
    assert channel.time_u_s == 0.2


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paho.mqtt", None)
    instrument = drivers.create("room", "mqtt", SETTINGS, time.monotonic_ns)
    with pytest.raises(SettingRefused, match=r"add it: .*'paho-mqtt>="):
        instrument.open()
    instrument.close()


def test_a_password_file_that_is_not_there_is_named() -> None:
    pytest.importorskip("paho.mqtt.client")
    settings = SETTINGS | {"user": "u", "password_file": "no-such-file"}
    instrument = drivers.create("room", "mqtt", settings, time.monotonic_ns)
    with pytest.raises(SettingRefused, match="no-such-file"):
        instrument.open()
    instrument.close()
