"""A connection to an MQTT broker that is made again whenever it is lost.

aiomqtt does not reconnect: a loop around its ``async with`` does, with growing pauses. A message
that must arrive waits in a queue until the broker has acknowledged it; of a live value only the
newest is kept. So while the broker is away only the queue grows, and its users bound it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import re
import secrets
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiomqtt
from aiomqtt.exceptions import MqttConnectError
from paho.mqtt.reasoncodes import ReasonCode

from labctl.sinks.mqtt.messages import Availability, Message
from labctl.sinks.mqtt.settings import PASSWORD_VARIABLE, MqttSettings
from labctl.sinks.sink import ReportLine

AT_ONCE = 100
"""Messages under way before their acknowledgements are waited for."""

KEEPALIVE_S = 15
OFFLINE_WITHIN_S = 2.0
MOST_INCOMING = 1_000

_NO_DELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
_BAD_LOGIN = (134, 135)
"""Reason codes: bad user name or password, not authorized."""

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
"""Before the words of an operating system's error."""

_SILENT = logging.getLogger("labctl.sinks.mqtt.client")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False  # trouble is reported once, in a sentence


@dataclass(frozen=True, slots=True)
class ReconnectPace:
    """How long to wait between attempts, and for an answer. Seconds."""

    first_s: float = 0.5
    most_s: float = 15.0
    answer_s: float = 5.0


class _Client(aiomqtt.Client):
    """One connection; its socket is closed also when connecting failed.

    It uses ``_client`` and ``_disconnected`` of aiomqtt 2, which offers nothing public for either:
    ``pyproject.toml`` takes no version 3.
    """

    async def __aenter__(self) -> Self:
        try:
            return await super().__aenter__()
        except BaseException:
            # aiomqtt's own handler asks a future that is cancelled by now, and asyncio prints that
            self._client.on_disconnect = None
            self._client.disconnect()  # else the socket stays open when the broker does not answer
            raise

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            await super().__aexit__(exc_type, exc, tb)
        finally:
            if self._disconnected.done() and not self._disconnected.cancelled():
                self._disconnected.exception()  # retrieved: else asyncio logs it


async def client_for(
    settings: MqttSettings, identifier: str, answer_s: float, will: Message | None = None
) -> aiomqtt.Client:
    """A client that is not connected yet. Raises OSError, UnicodeDecodeError (files)."""
    password, context = await asyncio.to_thread(_connection_credentials, settings)
    last = None if will is None else aiomqtt.Will(will.topic, will.payload, will.qos, will.retain)
    client = _Client(
        settings.host,
        settings.port_used,
        username=settings.user or None,
        password=password or None,
        identifier=identifier,
        will=last,
        timeout=answer_s,
        keepalive=KEEPALIVE_S,
        max_queued_incoming_messages=MOST_INCOMING,
        tls_context=context,
        socket_options=(_NO_DELAY,),
        logger=_SILENT,
    )
    client.pending_calls_threshold = AT_ONCE
    return client


def _connection_credentials(settings: MqttSettings) -> tuple[str, ssl.SSLContext | None]:
    return settings.password(), settings.tls_context()


def new_identifier() -> str:
    """A client identifier. A client that reconnects must keep it: then the broker ends the old
    connection, and publishes its last will before the new connection's ``online``."""
    return f"labctl-{secrets.token_hex(6)}"


async def no_setup(client: aiomqtt.Client) -> None:
    """Nothing to do on a new connection."""


def ignore_message(topic: str, content: bytes) -> None:
    """For a client that subscribes to nothing."""


@dataclass(slots=True)
class _Entry:
    message: Message
    acknowledged: bool = False


class MqttPublisher:
    """Sends to one broker. ``report_line`` gets a sentence when trouble begins and when it ends."""

    def __init__(
        self,
        settings: MqttSettings,
        report_line: ReportLine,
        *,
        availability: Availability | None = None,
        on_connect: Callable[[aiomqtt.Client], Awaitable[None]] = no_setup,
        on_message: Callable[[str, bytes], None] = ignore_message,
        pace: ReconnectPace | None = None,
        meanwhile: str = "; no event is lost, it is sent when it can be",
    ) -> None:
        """``on_connect`` is awaited on each new connection; ``on_message`` gets what comes in.

        ``meanwhile`` ends the sentence about trouble: what becomes of what is to be sent.
        """
        self.accepted = 0
        self.delivered = 0
        """Messages of :meth:`deliver`: accepted; and acknowledged, as are all before them."""
        self.trouble = ""
        """What is wrong now, in words; empty when the broker takes what is sent."""
        self._settings = settings
        self._report_line = report_line
        self._on_connect = on_connect
        self._on_message = on_message
        self._availability = availability
        self._meanwhile = meanwhile
        self._stopping = False
        self._pace = pace or ReconnectPace()
        self._identifier = new_identifier()
        self._queue: deque[_Entry] = deque()
        self._retained: dict[str, Message] = {}
        self._unsent: dict[str, Message] = {}
        self._work = asyncio.Event()
        self._progress = asyncio.Event()
        self._reported = ""
        self._pause_s = self._pace.first_s
        self._client: aiomqtt.Client | None = None
        self._connected = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect, and stay connected."""
        self._task = asyncio.create_task(self._run(), name="mqtt")
        self._task.add_done_callback(lambda _: self._progress.set())

    async def stop(self) -> None:
        """Publish ``offline`` where there is a connection, and disconnect at once."""
        self._stopping = True
        if self._client is not None and self._availability is not None:
            self._unsent.pop(self._availability.online.topic, None)
            with contextlib.suppress(aiomqtt.MqttError, TimeoutError):
                async with asyncio.timeout(OFFLINE_WITHIN_S):
                    await self._publish(self._client, self._availability.offline)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def deliver(self, messages: Sequence[Message]) -> None:
        """Send these in order, each until it is acknowledged."""
        self._queue.extend(map(_Entry, messages))
        self.accepted += len(messages)
        self._work.set()

    def show(self, message: Message) -> None:
        """Send a message, unless a newer one of its topic comes first. A retained one is sent again
        on each new connection: the broker may have lost it."""
        if message.retain:
            self._retained[message.topic] = message
        self._unsent[message.topic] = message
        self._work.set()

    async def until_below(self, limit: int) -> None:
        """Wait until fewer than ``limit`` messages wait for their acknowledgement."""
        await self._until(lambda: len(self._queue) < limit)

    async def until_sent(self) -> None:
        """Wait until everything is sent and acknowledged, however long that takes."""
        await self._until(lambda: not self._queue and not self._unsent and not self.trouble)

    async def until_connected(self) -> None:
        """Wait until there is a connection, and ``on_connect`` has returned on it."""
        await self._until(lambda: self._connected and not self.trouble)

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            if self._task is not None and self._task.done():
                self._task.result()
            self._progress.clear()
            await self._progress.wait()

    async def _run(self) -> None:
        will = self._availability.offline if self._availability is not None else None
        while True:
            try:
                client = await client_for(
                    self._settings, self._identifier, self._pace.answer_s, will
                )
                async with client, asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._listen(client), name="mqtt-listen")
                    tasks.create_task(self._send(client), name="mqtt-send")
            except* (aiomqtt.MqttError, OSError, UnicodeDecodeError) as group:
                self._client, self._connected = None, False
                self._report_trouble(_first_connection_error(group))
            await asyncio.sleep(self._pause_s * random.uniform(0.75, 1.25))
            self._pause_s = min(self._pause_s * 2, self._pace.most_s)

    async def _listen(self, client: aiomqtt.Client) -> None:
        """Raises MqttError when the connection is lost."""
        async for message in client.messages:
            if isinstance(message.payload, bytes):
                self._dispatch(str(message.topic), message.payload)

    def _dispatch(self, topic: str, content: bytes) -> None:
        present = self._availability
        if present is None or topic != present.offline.topic:
            self._on_message(topic, content)
        elif content == present.offline.payload and not self._stopping:
            # published for an earlier connection, or for another one beside this
            self.show(present.online)

    async def _send(self, client: aiomqtt.Client) -> None:
        self._client = client  # from now on stop() publishes offline
        if self._availability is not None:
            await self._publish(client, self._availability.online)
            await client.subscribe(self._availability.online.topic, qos=1)
        await self._on_connect(client)
        self._connected = True
        self._unsent |= {**self._retained, **self._unsent}
        while True:
            self._work.clear()
            await self._send_newest(client)
            while self._queue:
                async with asyncio.TaskGroup() as tasks:
                    for entry in itertools.islice(self._queue, AT_ONCE):
                        tasks.create_task(self._send_entry(client, entry))
                await self._send_newest(client)
            self._trouble_over()
            self._progress.set()
            await self._work.wait()

    async def _send_newest(self, client: aiomqtt.Client) -> None:
        for topic, message in list(self._unsent.items()):
            await self._publish(client, message)
            if self._unsent.get(topic) is message:
                del self._unsent[topic]

    async def _send_entry(self, client: aiomqtt.Client, entry: _Entry) -> None:
        if not entry.acknowledged:
            await self._publish(client, entry.message)
            entry.acknowledged = True
        while self._queue and self._queue[0].acknowledged:
            self._queue.popleft()
            self.delivered += 1
        self._progress.set()

    async def _publish(self, client: aiomqtt.Client, message: Message) -> None:
        await client.publish(message.topic, message.payload, message.qos, message.retain)

    def _report_trouble(self, error: BaseException) -> None:
        """Report an outage once, and again when the broker refuses instead of being away."""
        refused = isinstance(error, MqttConnectError)
        kind = "refuses" if refused else "cannot be reached:"
        self.trouble = _ERRNO.sub("", str(error)) or type(error).__name__
        if refused and _is_bad_login(error):
            self.trouble += f"; are user and password right? ({PASSWORD_VARIABLE} or password_file)"
        if kind == self._reported:
            return
        self._reported = kind
        self._report_line(
            f"MQTT broker {self._settings.destination} {kind} {self.trouble}{self._meanwhile}"
        )

    def _trouble_over(self) -> None:
        self._pause_s = self._pace.first_s
        self.trouble = ""
        if self._reported:
            self._reported = ""
            self._report_line(f"MQTT broker {self._settings.destination} takes messages again")


def _is_bad_login(error: BaseException) -> bool:
    code = getattr(error, "rc", None)
    return isinstance(code, ReasonCode) and code.value in _BAD_LOGIN


def _first_connection_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """One of the errors in a group, which may hold groups."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
