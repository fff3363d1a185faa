"""The connection to a broker."""

from __future__ import annotations

import asyncio
import socket

import pytest

from labctl.sinks.mqtt.connection import client_for
from labctl.sinks.mqtt.settings import MqttSettings


async def test_a_broker_that_takes_a_connection_and_never_answers_leaves_no_traceback() -> None:
    traced: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: traced.append(context))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = MqttSettings(host="127.0.0.1", port=silent.getsockname()[1])
        client = await client_for(settings, "labctl-test", answer_s=60.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), client:
                pass
        for _ in range(20):  # what is called back later
            await asyncio.sleep(0.01)
    assert traced == []
