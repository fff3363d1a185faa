"""Whether the servers that a rig's runs are sent to would take them. Nothing is stored.

A server that is away stops no run: what is wrong with one is a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from labctl.checks import Check, ok, warning
from labctl.sinks.influx import InfluxWriter, Pace
from labctl.sinks.mqtt_connection import MqttPublisher
from labctl.sinks.mqtt_settings import MqttSettings
from labctl.sinks.settings import InfluxSettings

ANSWER_S = 5.0


async def check_influx(settings: InfluxSettings) -> AsyncIterator[Check]:
    """Whether it answers, takes the token, and has the bucket."""
    said: list[str] = []
    pace = Pace(answer_s=ANSWER_S, connect_s=ANSWER_S)
    async with InfluxWriter(settings, Path("/dev/null"), said.append, pace) as writer:
        wrong = await writer.probe()
    for text in said:
        yield warning("influxdb", text)
    if wrong:
        yield warning(
            "influxdb", f"{settings.destination}: {wrong}", "a run is kept, and sent later"
        )
    else:
        yield ok("influxdb", f"{settings.destination} takes points")


async def check_mqtt(settings: MqttSettings) -> AsyncIterator[Check]:
    """Whether the broker takes the connection."""
    publisher = MqttPublisher(settings, lambda _: None)
    publisher.start()
    greeted = False
    try:
        async with asyncio.timeout(ANSWER_S):
            await publisher.until_greeted()
            greeted = True
    except TimeoutError:
        pass
    finally:
        await publisher.stop()
    if greeted:
        yield ok("mqtt", f"{settings.destination} takes messages")
    else:
        wrong = publisher.trouble or f"no answer within {ANSWER_S:.0f} s"
        yield warning("mqtt", f"{settings.destination}: {wrong}", "a run is kept, and told later")
