"""Ids that Home Assistant takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from labctl.record.reader import RunRecord
from labctl.sinks.mqtt.home_assistant import LONGEST_ID, device_id, discovery, identifier
from labctl.sinks.mqtt.settings import MqttSettings
from tests.servers.influx_run import MadeRun


@given(st.text(max_size=80))
def test_ids_have_only_what_is_allowed(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]+", identifier(name))
    assert len(identifier(name)) <= LONGEST_ID + 9


@given(st.text(max_size=30), st.text(max_size=30))
def test_two_names_never_become_one(one: str, other: str) -> None:
    assert (identifier(one) == identifier(other)) == (one == other)


def test_plain_names_stay() -> None:
    assert identifier("12V") == "12V"
    assert device_id("labctl", "nvme-adapter") == "labctl_nvme-adapter"


def test_each_entity_says_the_id_it_wants_as_home_assistant_asks_for_it(tmp_path: Path) -> None:
    """``object_id`` is refused since Home Assistant 2026.4; ``default_entity_id`` holds the
    component too (its MQTT integration, from 2025.10 on)."""
    header = RunRecord(MadeRun(tmp_path).path).header
    messages = discovery(header, "labctl/bench", MqttSettings(host="broker"))
    assert len(messages) > 10
    for message in messages:
        _, component, device, name, _ = message.topic.split("/")
        content = json.loads(message.payload)
        assert content["default_entity_id"] == f"{component}.{device}_{name}"
        assert content["unique_id"] == f"{device}_{name}"
        assert "object_id" not in content
