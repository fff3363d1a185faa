"""Runs that are published to a broker while they grow."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from labctl.record.reader import RunRecord
from labctl.service.runs.shipping import ship
from labctl.sinks.mqtt.connection import ReconnectPace
from labctl.sinks.mqtt.settings import MqttSettings
from labctl.sinks.mqtt.sink import MqttSink
from tests.servers.influx_run import MadeRun
from tests.servers.mqtt_server import Mosquitto

QUICK = ReconnectPace(first_s=0.05, most_s=0.2, answer_s=3.0)
LIMIT_S = 90


def settings_of(server: Mosquitto, **values: Any) -> MqttSettings:
    return MqttSettings(host="127.0.0.1", port=server.port, **values)


def sink_of(
    run: MadeRun, server: Mosquitto, reported: list[str], *, live: bool = True, **values: Any
) -> MqttSink:
    return MqttSink(run.path, settings_of(server, **values), reported.append, live=live, pace=QUICK)


class Grown:
    """A run that is on, shipped beside it. It ends when the ``with`` does."""

    def __init__(self, run: MadeRun, sink: MqttSink) -> None:
        self.run = run
        self.over = asyncio.Event()
        self._sink = sink
        self._task: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> Grown:
        self.run.grow(0.0)
        self._task = asyncio.create_task(ship(self.run.path, [self._sink], over=self.over))
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        assert self._task is not None
        if kind is not None:
            self._task.cancel()
            return
        self.run.grow(1e9)
        self.over.set()
        await self._task


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def events_of(run: MadeRun) -> int:
    return len(RunRecord(run.path).events)
