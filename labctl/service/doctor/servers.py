"""Checks of the servers that a rig's runs are sent to. Nothing is stored on them.

A server that is away stops no run, so a problem with one is a warning.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from labctl.capture.host.daemon_thread import in_daemon_thread
from labctl.errors import LabctlError
from labctl.service.doctor.checks import Check, ok, warning
from labctl.sinks.influxdb.settings import InfluxSettings
from labctl.sinks.mqtt.settings import MqttSettings
from labctl.store.address import StoreAddress
from labctl.store.marker import MARKER, check_store
from labctl.store.open_place import open_place
from labctl.store.place import NoSuchObject

ANSWER_S = 5.0


async def check_influx(settings: InfluxSettings) -> AsyncIterator[Check]:
    """Whether InfluxDB answers, takes the token and has the bucket, and the token is private.

    Needs the extra ``influx``.
    """
    from labctl.sinks.influxdb.writer import InfluxWriter, WritePace

    for check in _open_to_others("influxdb", {"token_file": settings.token_file}):
        yield check
    messages: list[str] = []
    pace = WritePace(answer_s=ANSWER_S, connect_s=ANSWER_S)
    async with InfluxWriter(settings, Path("/dev/null"), messages.append, pace) as writer:
        wrong = await writer.probe()
    for text in messages:
        yield warning("influxdb", text)
    if wrong:
        yield warning(
            "influxdb", f"{settings.destination}: {wrong}", "a run is kept, and sent later"
        )
    else:
        yield ok("influxdb", f"{settings.destination} takes points")


async def check_mqtt(settings: MqttSettings) -> AsyncIterator[Check]:
    """Whether the broker takes the connection, and password and key are private.

    Needs the extra ``mqtt``.
    """
    from labctl.sinks.mqtt.connection import MqttPublisher

    files = {"password_file": settings.password_file, "key_file": settings.key_file}
    for check in _open_to_others("mqtt", files):
        yield check
    publisher = MqttPublisher(settings, lambda _: None)
    publisher.start()
    connected = False
    try:
        async with asyncio.timeout(ANSWER_S):
            await publisher.until_connected()
            connected = True
    except TimeoutError:
        pass
    finally:
        await publisher.stop()
    if connected:
        yield ok("mqtt", f"{settings.destination} takes messages")
    else:
        wrong = publisher.trouble or f"no answer within {ANSWER_S:.0f} s"
        yield warning("mqtt", f"{settings.destination}: {wrong}", "a run is kept, and sent later")


async def check_place(address: StoreAddress) -> AsyncIterator[Check]:
    """Whether the store that runs are pushed into can be read, and is one, or may become one.

    Needs the extra ``store`` for a bucket.
    """

    def ask() -> str:
        place = open_place(address)
        try:
            place.get(MARKER)
        except NoSuchObject:
            return "can be read; the first run makes a store of it"
        check_store(place)
        return "can be read"

    try:
        yield ok("store", f"{address} {await in_daemon_thread(ask, 'store')}")
    except LabctlError as error:
        yield warning("store", str(error), "a run is kept, and pushed later with labctl push")


def _open_to_others(subject: str, files: Mapping[str, str | None]) -> Iterator[Check]:
    """Files with secrets, by their keys, that every user of this machine can read."""
    for key, name in files.items():
        if name is None:
            continue
        try:
            mode = stat.S_IMODE(Path(name).expanduser().stat().st_mode)
        except OSError:
            continue  # reported where it is read
        if mode & stat.S_IROTH:
            text = f"{key} {name} can be read by every user of this machine (mode {mode:04o})"
            yield warning(subject, text, f"chmod 600 {name}")
