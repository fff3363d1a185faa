"""Home Assistant's MQTT discovery: the rig as a device with its sensors."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from labctl.record.header import Header
from labctl.sinks.mqtt.messages import Message
from labctl.sinks.mqtt.settings import MqttSettings
from labctl.sinks.mqtt.topics import OFFLINE, ONLINE, topic_name

FEWEST_EXPIRY_S = 30
MISSED_BINS = 5
"""A live value is "unavailable" after so many bins (at least 30 s) without a new one."""

LONGEST_ID = 48

_RAIL = (
    ("watts", "power", "W", 3),
    ("volts", "voltage", "V", 3),
    ("amps", "current", "A", 4),
)
"""Field, device class, unit, decimals shown."""


def identifier(name: str) -> str:
    """A name as Home Assistant takes it in topics and ids; two names never become one."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:LONGEST_ID]
    if plain == name and name:
        return plain
    mark = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{plain}_{mark}"


def device_id(prefix: str, rig: str) -> str:
    """The rig's id as a device; rigs of one name under different prefixes have different ids."""
    return f"{identifier(prefix)}_{identifier(rig)}"


def discovery(header: Header, base: str, settings: MqttSettings) -> list[Message]:
    """The retained messages that announce a rig. ``base`` is what its topics begin with."""
    device = device_id(settings.prefix, header.rig_name)
    shared = {
        "availability_topic": topic_name(base, "availability"),
        "payload_available": ONLINE.decode(),
        "payload_not_available": OFFLINE.decode(),
        "device": {
            "identifiers": [device],
            "name": header.rig_name,
            "manufacturer": "labctl",
            "model": "SSD power rig",
            "sw_version": header.versions.get("labctl", ""),
        },
        "origin": {"name": "labctl", "sw_version": header.versions.get("labctl", "")},
    }
    found = []
    for component, name, keys in _entities(header, base, settings):
        content = {
            **shared,
            **keys,
            "default_entity_id": f"{component}.{device}_{name}",
            "unique_id": f"{device}_{name}",
        }
        topic = f"{settings.home_assistant_prefix}/{component}/{device}/{name}/config"
        text = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
        found.append(Message(topic, text, qos=1, retain=True))
    return found


def _entities(
    header: Header, base: str, settings: MqttSettings
) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Component, name and own keys of each."""

    def entity(
        name: str, shown: str, topic: tuple[str, ...], template: str, **keys: object
    ) -> tuple[str, str, Mapping[str, object]]:
        component = "binary_sensor" if keys.get("device_class") == "problem" else "sensor"
        about = {"name": shown, "state_topic": topic_name(base, *topic), "value_template": template}
        return component, name, {**about, **keys}

    measured: dict[str, Any] = {
        "state_class": "measurement",
        "expire_after": max(FEWEST_EXPIRY_S, round(MISSED_BINS * settings.bin_s)),
    }
    for rail in header.rails:
        for field, device_class, unit, decimals in _RAIL:
            yield entity(
                f"{identifier(rail.name)}_{field}",
                f"{rail.name} {field}",
                ("power", rail.name),
                _home_assistant_template(field),
                device_class=device_class,
                unit_of_measurement=unit,
                suggested_display_precision=decimals,
                **measured,
            )
    for sensor in header.temperatures:
        yield entity(
            f"{identifier(sensor)}_celsius",
            f"{sensor} temperature",
            ("temperature", sensor),
            _home_assistant_template("celsius"),
            device_class="temperature",
            unit_of_measurement="°C",
            suggested_display_precision=1,
            **measured,
        )
    yield entity(
        "state",
        "state",
        ("state",),
        _home_assistant_template("state"),
        json_attributes_topic=topic_name(base, "state"),
        icon="mdi:test-tube",
    )
    yield entity(
        "phase",
        "phase",
        ("phase",),
        "{{ value_json.label if value_json.active else 'none' }}",
        icon="mdi:format-list-numbered",
    )
    yield entity(
        "heartbeat",
        "last heartbeat",
        ("heartbeat",),
        _home_assistant_template("time"),
        device_class="timestamp",
        entity_category="diagnostic",
    )
    yield entity(
        "meters",
        "meters",
        ("heartbeat",),
        "{{ 'OFF' if value_json.meters_ok | default(true) else 'ON' }}",
        device_class="problem",
        entity_category="diagnostic",
    )


def _home_assistant_template(field: str) -> str:
    return f"{{{{ value_json.{field} | default('None') }}}}"
