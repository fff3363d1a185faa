"""Telling a real Mosquitto of a run while everything goes wrong. Events are counted by id."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labctl.config.site import SITE_VARIABLE
from labctl.service.runs.configured_sinks import configured_sinks
from labctl.service.runs.shipping import LiveShipping, ship
from labctl.sinks.mqtt.connection import ReconnectPace
from labctl.sinks.mqtt.settings import PASSWORD_VARIABLE
from labctl.sinks.mqtt.sink import MqttSink
from tests.servers.influx_run import MadeRun, S
from tests.servers.mqtt_run import (
    LIMIT_S,
    QUICK,
    Grown,
    events_of,
    open_files,
    settings_of,
    sink_of,
)
from tests.servers.mqtt_server import PASSWORD, USER, Listener, Mosquitto, mosquitto, retained

pytestmark = pytest.mark.skipif(mosquitto() is None, reason="no mosquitto on PATH or in /usr/sbin")


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Mosquitto]:
    server = Mosquitto(tmp_path / "broker", with_password=True)
    server.start()
    yield server
    server.kill()


async def test_killed_and_started_again_in_the_middle(broker: Mosquitto, tmp_path: Path) -> None:
    """What the subscriber has got is kept by the broker; what it missed waits for it."""
    run = MadeRun(
        tmp_path,
        seconds=30.0,
        more_events=tuple((1 + 0.01 * n, "note", {"text": f"{n}"}) for n in range(2_500)),
    )
    reported: list[str] = []
    async with asyncio.timeout(LIMIT_S), Listener(broker, "labctl/#") as listener:
        await asyncio.to_thread(broker.save)
        async with Grown(run, sink_of(run, broker, reported)):
            run.grow(8.0)
            await listener.until_ids(events_of(run))
            broker.kill()
            run.grow(20.0)
            while not reported:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(broker.start)
            await listener.until_ids(events_of(run))
            run.grow(24.0)
            await listener.until_ids(events_of(run))
            state = json.loads((await retained(broker))["labctl/bench/state"])
            assert state["state"] == "running"
        await listener.until_ids(events_of(run))
        await listener.until(lambda: listener.last()["labctl/bench/availability"] == b"offline")
    assert events_of(run) > 2_500
    state = json.loads((await retained(broker))["labctl/bench/state"])
    assert (state["state"], state["outcome"]) == ("idle", "completed")
    assert len(reported) == 2, reported
    assert "no event is lost" in reported[0] and "takes messages again" in reported[1]


async def test_stopped_for_a_while(
    broker: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It neither answers nor closes the line, for several attempts. No line is left behind."""
    run = MadeRun(tmp_path)
    reported: list[str] = []
    pace = ReconnectPace(first_s=0.05, most_s=0.2, answer_s=0.3)
    sink = MqttSink(run.path, settings_of(broker), reported.append, live=True, pace=pace)
    async with asyncio.timeout(LIMIT_S), Listener(broker) as listener:
        async with Grown(run, sink):
            run.grow(3.0)
            await listener.until_ids(events_of(run))
            lines = open_files()
            broker.send(signal.SIGSTOP)
            run.grow(8.0)
            while not reported:
                await asyncio.sleep(0.02)
            await asyncio.sleep(1.5)
            assert open_files() < lines + 4
            broker.send(signal.SIGCONT)
            await listener.until_ids(events_of(run))
        await listener.until_ids(events_of(run))
        now = await retained(broker)
        assert json.loads(now["labctl/bench/state"])["state"] == "idle"
    assert len(reported) == 2
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


PUBLISHER = """
import asyncio, sys
from pathlib import Path
from labctl.service.runs.shipping import ship
from labctl.sinks.mqtt.settings import MqttSettings
from labctl.sinks.mqtt.sink import MqttSink
settings = MqttSettings(host="127.0.0.1", port=int(sys.argv[2]))
async def main():
    run = Path(sys.argv[1])
    await ship(run, [MqttSink(run, settings, print, live=True)], over=asyncio.Event())
asyncio.run(main())
"""


async def test_the_last_will_after_sigkill_and_the_rest_sent_later(
    broker: Mosquitto, tmp_path: Path
) -> None:
    run = MadeRun(tmp_path)
    run.grow(4.0)
    async with asyncio.timeout(LIMIT_S), Listener(broker) as listener:
        publisher = subprocess.Popen([sys.executable, "-c", PUBLISHER, run.path, str(broker.port)])
        try:
            await listener.until_reported("labctl/bench/heartbeat")
            assert listener.last()["labctl/bench/availability"] == b"online"
        finally:
            publisher.kill()
            publisher.wait()
        await listener.until(lambda: listener.last()["labctl/bench/availability"] == b"offline")
        run.grow(1e9)
        await ship(run.path, [sink_of(run, broker, [], live=False)])
        await listener.until_ids(events_of(run))
        assert b"online" not in [text for _, text, _ in listener.received[-5:]]
        state = json.loads((await retained(broker))["labctl/bench/state"])
        assert (state["state"], state["outcome"]) == ("idle", "completed")


async def test_a_wrong_password_is_reported_once_and_can_be_put_right(
    locked: Mosquitto, tmp_path: Path
) -> None:
    run = MadeRun(tmp_path).whole()
    file = tmp_path / "password"
    file.write_text("wrong\n")
    reported: list[str] = []
    sink = sink_of(run, locked, reported, live=False, user=USER, password_file=str(file))
    async with asyncio.timeout(LIMIT_S):
        shipping = asyncio.create_task(ship(run.path, [sink]))
        log = locked.folder / "log"
        while log.read_text().count("not authorised") < 4:
            await asyncio.sleep(0.05)
        assert len(reported) == 1 and "are user and password right?" in reported[0]
        assert "wrong" not in reported[0]
        file.write_text(f"{PASSWORD}\n")
        (shipped,) = await shipping
    assert len(reported) == 2
    assert shipped.complete and shipped.report.sent >= events_of(run)


def test_beside_a_run_with_the_password_from_the_environment(
    locked: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``labctl run`` does it, in a thread of its own."""
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    site = tmp_path / "site.toml"
    site.write_text(f'[sinks.mqtt]\nhost = "127.0.0.1"\nport = {locked.port}\nuser = "{USER}"\n')
    monkeypatch.setenv(SITE_VARIABLE, str(site))
    run = MadeRun(tmp_path)
    run.grow(3.0)
    reported: list[str] = []
    shipping = LiveShipping(configured_sinks("", "rig"), reported.append)
    shipping.begin(run.path)
    run.grow(1e9)
    assert shipping.finish(), reported
    login = {"username": USER, "password": PASSWORD}
    state = json.loads(asyncio.run(retained(locked, **login))["labctl/bench/state"])
    assert (state["state"], state["outcome"]) == ("idle", "completed")


def test_a_broker_that_is_never_there_does_not_hold_up_the_run(tmp_path: Path) -> None:
    server = Mosquitto(tmp_path)
    run = MadeRun(tmp_path).whole()
    reported: list[str] = []

    def make(path: Path, report_line: Callable[[str], None]) -> MqttSink:
        return MqttSink(path, settings_of(server), report_line, live=True, pace=QUICK)

    shipping = LiveShipping([make], reported.append)
    shipping.begin(run.path)
    assert not shipping.finish(grace_s=0.5)
    assert sum("cannot be reached" in text for text in reported) == 1
    assert not any(thread.name == "shipping" for thread in threading.enumerate())


async def test_nothing_grows_while_the_broker_is_away(tmp_path: Path) -> None:
    """An hour of live values, and no place to bring them."""
    server = Mosquitto(tmp_path)
    run = MadeRun(tmp_path, seconds=3600.0, rig="away")
    run.grow(3600.0)
    sink = sink_of(run, server, [])
    async with asyncio.timeout(LIMIT_S), sink:
        from labctl.sinks.follow.follower import Follower

        follower = Follower(run.path, sink.cursor)
        for number in range(3_600):
            while (part := follower.advance(run.epoch_ns + number * S)) is not None:
                await sink.put(part)
            if number % 60 == 0:
                await asyncio.sleep(0)
        waiting = sink._publisher  # what would grow is in no report
        assert len(waiting._queue) < 20
        assert len(waiting._unsent) < 10
        assert len(sink._marks) <= len(waiting._queue) + 1
