"""The retained messages that a broker keeps of a rig, and their removal."""

from __future__ import annotations

import aiomqtt

from labctl.errors import LabctlError
from labctl.sinks.mqtt.connection import ReconnectPace, client_for, new_identifier
from labctl.sinks.mqtt.home_assistant import device_id
from labctl.sinks.mqtt.settings import MqttSettings
from labctl.sinks.mqtt.topics import base_topic


async def forget(settings: MqttSettings, rig: str) -> int:
    """Clear every retained message of a rig: its Home Assistant discovery and its last states.

    A retained message is cleared by an empty one (MQTT 3.1.1, 3.3.1.3). Gives how many there were.
    Raises LabctlError when the broker cannot be reached or refuses.
    """
    announced = f"{settings.home_assistant_prefix}/+/{device_id(settings.prefix, rig)}/+/config"
    states = f"{base_topic(settings.prefix, rig)}/#"
    try:
        client = await client_for(settings, new_identifier(), ReconnectPace().answer_s)
        async with client:
            for pattern in (announced, states):
                await client.subscribe(pattern, qos=0)
                await client.unsubscribe(pattern)
            topics = []
            while len(client.messages):
                message = await anext(client.messages)
                if message.retain:
                    topics.append(str(message.topic))
            for topic in topics:
                await client.publish(topic, b"", qos=1, retain=True)
    except (aiomqtt.MqttError, OSError, UnicodeDecodeError) as error:
        raise LabctlError(f"MQTT broker {settings.destination}: {error}") from error
    return len(topics)
