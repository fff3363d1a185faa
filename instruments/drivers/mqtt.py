"""A topic of an MQTT broker as an instrument: an ESP32 thermometer, a smart plug.

The device publishes when it likes; a reading's time is when its message arrived. What the broker
retained from before is no reading: nobody knows how old it is.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, field_validator

from instruments.driver_kit.base_settings import NotNegative, Positive, accuracy_from_rig
from instruments.driver_kit.batches import blocks_and_statuses
from instruments.drivers import Driver
from instruments.errors import ConnectionLost, NoAnswer, SettingRefused
from instruments.install_command import install_command
from instruments.reading import (
    Batch,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
    Status,
    StatusReading,
)
from instruments.transports.mqtt_broker import BrokerSettings

if TYPE_CHECKING:
    from paho.mqtt import client as paho

PAHO: Final = "paho-mqtt>=2.1"
"""The library, as the package's extra ``mqtt`` requires it."""

ANSWER_WITHIN_S: Final = 4.0
READ_WAIT_S: Final = 0.5
KEEPALIVE_S: Final = 15
STALE_INTERVALS: Final = 3
LONGEST_PAYLOAD: Final = 65_536
SHOWN_CHARACTERS: Final = 60

_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\["([^"]*)"\]')

Finite = Annotated[float, Field(allow_inf_nan=False)]


class MqttTopicSettings(BrokerSettings):
    """Which topic, where in its messages the number stands, and what it means."""

    topic: Annotated[str, Field(min_length=1, max_length=1024)]
    path: str = ""
    """``ENERGY.Power``, ``sensors[0].t``, ``["a.b"].c``; empty: the message is the number."""
    quantity: Quantity
    factor: Finite = 1.0
    """Value in V, A, W or °C = ``factor`` · number + ``offset`` (0.001 for mW)."""
    offset: Finite = 0.0
    interval_s: Positive
    """How often the device publishes."""
    stale_after_s: Positive | None = None
    """Without a message for so long there is no value; default three intervals."""
    time_u_s: Positive | None = None
    """How old a value may be when it arrives; default one interval."""
    accuracy_pct_of_reading: NotNegative
    accuracy_floor: NotNegative

    @field_validator("topic")
    @classmethod
    def _one_topic(cls, topic: str) -> str:
        if any(mark in topic for mark in "+#\0"):
            raise ValueError("must be one topic, without + and #")
        return topic

    @field_validator("path")
    @classmethod
    def _readable_path(cls, path: str) -> str:
        parse_path(path)
        return path


def parse_path(path: str) -> tuple[str | int, ...]:
    """Keys and places that lead to the number. Raises ValueError."""
    steps: list[str | int] = []
    place = 0
    while place < len(path):
        found = _STEP.match(path, place)
        key = found[1] if found is not None else None
        if found is None or (key is not None and (path[place] == ".") != (place > 0)):
            raise ValueError('must be a path such as ENERGY.Power, sensors[0].t or ["a.b"].c')
        steps.append(key or (int(found[2]) if found[2] is not None else found[3]))
        place = found.end()
    return tuple(steps)


def decode(payload: bytes, steps: tuple[str | int, ...]) -> float | Status:
    """The number in a message. NaN, infinite and null are ``NO_VALUE``, nonsense ``UNREADABLE``."""
    if len(payload) > LONGEST_PAYLOAD:
        return Status.UNREADABLE
    try:
        found: Any = payload.decode("utf-8")
        if steps:
            found = json.loads(found)
            for step in steps:
                if isinstance(found, list) != isinstance(step, int):
                    return Status.UNREADABLE
                found = found[step]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return Status.UNREADABLE
    if found is None:
        return Status.NO_VALUE
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return Status.UNREADABLE
    if isinstance(found, str) and "_" in found:  # Python's own way to write numbers
        return Status.UNREADABLE
    try:
        number = float(found)
    except ValueError:
        return Status.UNREADABLE
    except OverflowError:
        return Status.NO_VALUE
    return number if math.isfinite(number) else Status.NO_VALUE


class Mqtt:
    """One channel, named after its quantity, on the host's clock."""

    def __init__(self, name: str, settings: MqttTopicSettings, clock: HostClock) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._steps = parse_path(settings.path)
        self._stale_s = settings.stale_after_s or STALE_INTERVALS * settings.interval_s
        self._client: paho.Client | None = None
        self._refused = ""
        self._connected = False
        self._subscribed: bool | None = None
        self._arrived: list[tuple[int, float | Status, str]] = []
        self._fresh_at = 0.0
        self._stale = False
        self._channel = Channel(
            name=settings.quantity.value,
            quantity=settings.quantity,
            clock=Clock.HOST,
            interval_s=settings.interval_s,
            aperture_s=0.0,
            accuracy=accuracy_from_rig(settings.accuracy_pct_of_reading, settings.accuracy_floor),
            time_u_s=settings.time_u_s or settings.interval_s,
        )
        self.channels = (self._channel,)

    def open(self) -> Identity:
        """Connect and log in."""
        self._connected, self._refused, self._subscribed = False, "", None
        self._arrived.clear()
        client = self._new_client()
        self._client = client
        settings = self._settings
        try:
            client.connect(settings.host, settings.port_used, keepalive=KEEPALIVE_S)
        except OSError as error:
            raise ConnectionLost(
                f"{self._name}: MQTT broker {settings.address}: {error}; is it there?"
            ) from error
        self._wait_until(lambda: self._connected or bool(self._refused), "did not let us log in")
        if self._refused:
            raise ConnectionLost(
                f"{self._name}: MQTT broker {settings.address} refuses: {self._refused}; are user "
                "and password_file right?"
            )
        return Identity("MQTT", settings.topic, notes=(settings.address,))

    def start(self) -> None:
        """Subscribe. Raises SettingRefused when the broker does not allow it."""
        assert self._client is not None
        self._client.subscribe(self._settings.topic, qos=0)
        self._wait_until(lambda: self._subscribed is not None, "did not answer to a subscription")
        if not self._subscribed:
            raise SettingRefused(
                f"{self._name}: MQTT broker {self._settings.address} does not let user "
                f"{self._settings.user or '(none)'} read {self._settings.topic}"
            )
        self._fresh_at = time.monotonic()
        self._stale = False

    def read(self) -> Batch:
        """The readings that arrived; one NO_VALUE status when none came for too long."""
        deadline = time.monotonic() + READ_WAIT_S
        while not self._arrived and (left := deadline - time.monotonic()) > 0:
            self._loop(left)
        arrived, self._arrived = self._arrived, []
        now = time.monotonic()
        if arrived:
            self._fresh_at, self._stale = now, False
            times, values, details = zip(*arrived, strict=True)
            detail = next((text for text in details if text), "")
            return Batch(*blocks_and_statuses(self._channel.name, times, values, detail))
        if now - self._fresh_at <= self._stale_s or self._stale:
            return Batch()
        self._stale = True
        detail = f"no message on {self._settings.topic} for {self._stale_s:g} s"
        status = StatusReading(self._channel.name, self._clock(), Status.NO_VALUE, detail)
        return Batch(statuses=(status,))

    def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(OSError, ValueError):  # the line may be dead
                client.disconnect()

    def _new_client(self) -> paho.Client:
        try:
            from paho.mqtt import client as paho
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError as error:
            raise SettingRefused(
                f"{self._name}: MQTT needs a library that is not installed; add it: "
                f"{install_command(PAHO)}"
            ) from error
        client = paho.Client(CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
        client.connect_timeout = ANSWER_WITHIN_S
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        settings = self._settings
        try:
            if settings.user:
                client.username_pw_set(settings.user, settings.password_in_file() or None)
            context = settings.tls_context()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingRefused(
                f"{self._name}: a file that says how to log in cannot be used: {error}"
            ) from error
        if context is not None:
            client.tls_set_context(context)
        return client

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, _: Any) -> None:
        if reason.is_failure:
            self._refused = str(reason)
        else:
            self._connected = True

    def _on_subscribe(self, client: Any, data: Any, mid: int, reasons: Any, _: Any) -> None:
        self._subscribed = not any(reason.is_failure for reason in reasons)

    def _on_message(self, client: Any, data: Any, message: paho.MQTTMessage) -> None:
        if message.retain:
            return
        t_ns = self._clock()
        payload = bytes(message.payload)
        value = decode(payload, self._steps)
        if not isinstance(value, Status):
            value = value * self._settings.factor + self._settings.offset
            value = value if math.isfinite(value) else Status.NO_VALUE
        detail = ""
        if isinstance(value, Status):
            text = payload[: 4 * SHOWN_CHARACTERS].decode("utf-8", "replace")
            detail = f"{self._settings.path or 'a number'} in {text[:SHOWN_CHARACTERS]!r}"
        self._arrived.append((t_ns, value, detail))

    def _loop(self, seconds: float) -> None:
        """Let the client receive and send for ``seconds``. Raises ConnectionLost."""
        assert self._client is not None
        trouble = self._client.loop(seconds)
        if trouble and not self._arrived and not self._refused:
            raise ConnectionLost(
                f"{self._name}: MQTT broker {self._settings.address}: the connection is lost"
            )

    def _wait_until(self, reached: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while not reached():
            left = deadline - time.monotonic()
            if left <= 0:
                raise NoAnswer(
                    f"{self._name}: MQTT broker {self._settings.address} {otherwise} within "
                    f"{ANSWER_WITHIN_S:g} s"
                )
            self._loop(left)


DRIVER: Final = Driver(MqttTopicSettings, Mqtt)
