"""A real Mosquitto in a process of its own, and somebody who listens to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiomqtt

READY_WITHIN_S = 15.0
USER, PASSWORD = "lab", "password of the tests"


def mosquitto() -> str | None:
    """The binary: on PATH, or where Debian puts it."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def password_line(name: str, password: str) -> str:
    """A line of a password file, as mosquitto_passwd writes it."""
    import base64
    import hashlib

    salt = os.urandom(12)
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return f"{name}:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}\n"


@dataclass
class Mosquitto:
    """One broker on loopback with its files under ``folder``."""

    folder: Path
    with_password: bool = False
    lines: tuple[str, ...] = ()
    """More of its configuration."""
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def database(self) -> Path:
        return self.folder / "mosquitto.db"

    def start(self) -> None:
        binary = mosquitto()
        assert binary is not None
        self.folder.mkdir(exist_ok=True)
        passwords = self.folder / "passwords"
        passwords.write_text(password_line(USER, PASSWORD))
        passwords.chmod(0o600)
        access = ("allow_anonymous false", f"password_file {passwords}")
        text = [
            f"listener {self.port} 127.0.0.1",
            *(access if self.with_password else ("allow_anonymous true",)),
            "persistence true",
            f"persistence_location {self.folder}/",
            "max_queued_messages 0",
            "set_tcp_nodelay true",
            *(("user root",) if os.geteuid() == 0 else ()),
            *self.lines,
        ]
        configuration = self.folder / "mosquitto.conf"
        configuration.write_text("\n".join(text) + "\n")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [binary, "-c", str(configuration)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            alive = self.process.poll() is None
            assert alive and time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: nothing is saved."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def save(self) -> None:
        """Have it keep sessions and retained messages on disk now."""
        self.database.unlink(missing_ok=True)
        self.send(signal.SIGUSR1)
        deadline = time.monotonic() + READY_WITHIN_S
        while not self.database.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)


class Listener:
    """Receives everything below a topic, through any number of restarts of the broker."""

    def __init__(self, server: Mosquitto, topic: str = "#", **login: Any) -> None:
        self.received: list[tuple[str, bytes, bool]] = []
        """Topic, payload, retained."""
        self.ids: Counter[str] = Counter()
        """How often each event was published."""
        self.subscribed = asyncio.Event()
        self._server = server
        self._topic = topic
        self._login = login
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Listener:
        self._task = asyncio.create_task(self._listen())
        await self.subscribed.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(aiomqtt.MqttError):
                async with aiomqtt.Client(
                    "127.0.0.1",
                    self._server.port,
                    identifier=f"listener-{id(self)}",
                    clean_session=False,
                    timeout=3.0,
                    **self._login,
                ) as client:
                    await client.subscribe(self._topic, qos=1)
                    self.subscribed.set()
                    async for message in client.messages:
                        assert isinstance(message.payload, bytes)
                        self._take(str(message.topic), message.payload, bool(message.retain))
            await asyncio.sleep(0.05)

    def _take(self, topic: str, payload: bytes, retain: bool) -> None:
        self.received.append((topic, payload, retain))
        if "/event/" in topic:
            self.ids[json.loads(payload)["id"]] += 1
        self._news.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self._news.clear()
            await self._news.wait()

    async def until_ids(self, count: int) -> None:
        """Wait for so many different events."""
        await self.until(lambda: len(self.ids) == count)

    async def until_reported(self, topic: str) -> None:
        await self.until(lambda: any(name == topic for name, _, _ in self.received))

    def last(self) -> dict[str, bytes]:
        """The last payload of each topic."""
        return {topic: payload for topic, payload, _ in self.received}

    def objects_on(self, topic: str) -> list[dict[str, Any]]:
        """The objects published on a topic, or below it when it ends in /."""
        return [
            json.loads(payload)
            for name, payload, _ in self.received
            if name == topic or (topic.endswith("/") and name.startswith(topic))
        ]


async def retained(server: Mosquitto, topic: str = "#", **login: Any) -> dict[str, bytes]:
    """What a subscriber that comes now receives at once."""
    found: dict[str, bytes] = {}
    async with aiomqtt.Client("127.0.0.1", server.port, timeout=3.0, **login) as client:
        await client.subscribe(topic, qos=0)
        await client.unsubscribe(topic)
        while len(client.messages):
            message = await anext(client.messages)
            assert isinstance(message.payload, bytes)
            if message.retain:
                found[str(message.topic)] = message.payload
    return found
