"""The topic tree: docs and code agree, names are safe, messages are JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.config.site import SITE_VARIABLE
from labctl.errors import ConfigurationError
from labctl.sinks.mqtt.settings import MqttSettings, mqtt_settings
from labctl.sinks.mqtt.topics import TOPICS, Topic, level, moment, payload, topic_name

DOCUMENTATION = (Path(__file__).parents[4] / "docs" / "mqtt.md").read_text("utf-8")
TYPES = {str: "text", int: "integer", float: "number", bool: "true or false"}


def rows(heading: str) -> dict[str, str]:
    """Field and type of a section's table."""
    section = DOCUMENTATION.partition(f"\n### {heading}\n")[2].partition("\n### ")[0]
    section = section.partition("\n## ")[0]
    assert section, f"docs/mqtt.md has no section {heading}"
    found = {}
    for fields, kind in re.findall(r"^\| (`.*?) \| (.*?) \|", section, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", fields):
            found[name] = kind
    for other in re.findall(r"The fields of (`[^`]+`)", section):
        found |= rows(other)
    return found


@pytest.mark.parametrize("topic", TOPICS.values(), ids=TOPICS.keys())
def test_each_topic_is_documented_as_it_is(topic: Topic) -> None:
    heading = f"`labctl/<rig>/{topic.path}`"
    message = rows(heading)
    if topic.fields:
        message |= rows("In each object")
    if "index" in topic.fields:
        message |= rows("Of a phase")
    wanted = {name: TYPES[kind] for name, kind in topic.fields.items()}
    wanted |= {f"{name}<>": TYPES[kind] for name, kind in topic.families.items()}
    assert {re.sub("<.*>", "<>", name): kind for name, kind in message.items()} == wanted
    retained = "retained" if topic.retained else "not retained"
    assert f"### {heading}\nQoS {topic.qos}, {retained}." in DOCUMENTATION


def test_each_setting_is_documented() -> None:
    section = DOCUMENTATION.partition("\n## ")[0]
    for key in MqttSettings.model_fields:
        assert f"`{key}`" in section


@given(st.text(max_size=60))
def test_any_name_is_one_level_and_can_be_read_back(name: str) -> None:
    text = level(name)
    assert re.fullmatch(r"[A-Za-z0-9_.~%-]+", text)
    if name:
        assert unquote(text) == name


def test_names_fill_the_level_in_brackets() -> None:
    assert topic_name("labctl/bench", "power", "12 V") == "labctl/bench/power/12%20V"
    assert topic_name("labctl/bench", "state") == "labctl/bench/state"
    assert topic_name("b", "drive_io", "a/b", "read") == "b/drive/a%2Fb/io/read"
    assert len(level("ü" * 5_000)) < 2_000


def test_messages_hold_what_is_known_and_nothing_else() -> None:
    values = {"volts": 12, "amps": None, "watts": float("nan"), "watts_max": float("inf"), "n": 5.0}
    assert json.loads(payload("power", values)) == {"volts": 12.0, "n": 5}
    with pytest.raises(KeyError):
        payload("power", {"ohms": 1.0})
    text = json.loads(payload("event", {"text": "x" * 20_000 + "\udc80"}))["text"]
    assert len(text.encode()) <= 4_096 and "characters in the journal" in text


def test_times() -> None:
    assert moment(1_700_000_000_250_999_999)["time"] == "2023-11-14T22:13:20.250Z"
    assert moment(-(10**30)) == {"t_ns": -(10**30)}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "site.toml"
    file.write_text('[sinks.mqtt]\nhost = "broker"\nuser = "lab"\n')
    monkeypatch.setenv(SITE_VARIABLE, str(file))
    return file


def test_a_rig_replaces_the_sites_keys(site: Path) -> None:
    settings = mqtt_settings('[sinks.mqtt]\ntls = true\nprefix = "a/b"', "bench")
    assert settings is not None
    assert settings.destination == "broker:8883 (a/b/)" and settings.user == "lab"
    site.write_text("")
    assert mqtt_settings("", "bench") is None


@pytest.mark.parametrize(
    ("keys", "same"),
    [
        ("", True),
        ("port = 8883", True),
        ('host = "BROKER"', True),
        ('host = "other"', False),
        ("port = 1883", False),
        ("tls = false", False),
    ],
)
def test_files_of_the_site_are_for_its_own_broker(site: Path, keys: str, same: bool) -> None:
    """The password does not go to another one, nor to the same in plain text."""
    lines = 'tls = true\npassword_file = "p"\nca_file = "c"\nkey_file = "k"\n'
    site.write_text(f'{site.read_text()}{lines}certificate_file = "d"\n')
    settings = mqtt_settings(f"[sinks.mqtt]\n{keys}", "bench")
    assert settings is not None and settings.user == "lab"
    files = (settings.password_file, settings.ca_file, settings.key_file, settings.certificate_file)
    assert files == (("p", "c", "k", "d") if same else (None,) * 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('prefix = "lab/#"', "without + and #"),
        ('prefix = "/lab"', "must not begin"),
        ('home_assistant_prefix = "$SYS"', "not beginning with"),
        ('password = "secret"', "no such key"),
        ("bin_s = 0.01", "greater than or equal to 0.1"),
        ("port = 70000", "less than or equal to 65535"),
    ],
)
def test_mistakes_name_the_section(site: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        mqtt_settings(f"[sinks.mqtt]\n{text}", "bench.toml")
    assert "bench.toml: sinks.mqtt" in str(caught.value) and message in str(caught.value)


def test_no_password_is_ever_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    settings = MqttSettings(host="broker", user="lab", password_file=str(file))
    assert settings.password() == "hunter2"
    assert "hunter2" not in repr(settings) + settings.destination
