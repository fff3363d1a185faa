"""Shipping while a run is on, and by processes that die: nothing is missing in the end."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from labctl.service.data_dir import Home
from labctl.service.queue.job import Job
from labctl.service.queue.store import Queue
from labctl.service.runs.configured_sinks import configured_sinks
from labctl.service.runs.shipping import LiveShipping, ship
from labctl.sinks.follow.follower import Follower
from tests.servers.influx_run import MadeRun, points_of
from tests.servers.influx_sending import assert_same, busy_run, sink_of
from tests.servers.influx_server import ORG, InfluxServer


def grown_live(run: MadeRun, seconds: float) -> None:
    """Write the run as time goes by."""
    begin = time.monotonic()
    while (now := time.monotonic() - begin) < seconds:
        run.grow(now)
        time.sleep(0.1)
    run.grow(1e9)


def test_a_run_is_shipped_while_it_is_on(
    influx: InfluxServer, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "home"))
    waiting = Job(id=1, rig="bench", plan="p", plan_text="", drive_target="x", added_s=1.0)
    Queue(Home(tmp_path / "home")).add(lambda number: waiting.model_copy(update={"id": number}), 2)
    rig_text = f'[sinks.influxdb]\nurl = "{influx.url}"\norg = "{ORG}"\nbucket = "{bucket}"\n'
    run = MadeRun(tmp_path, seconds=5.0, rig_text=rig_text, epoch_ns=time.time_ns())
    run.grow(0.0)
    reported: list[str] = []
    live = LiveShipping(configured_sinks(rig_text, "rig"), reported.append)
    live.begin(run.path)
    seen: list[int] = []

    def look() -> None:
        time.sleep(3.0)
        seen.append(len(influx.points(bucket)))

    looking = threading.Thread(target=look)
    looking.start()
    grown_live(run, 5.0)
    looking.join()
    assert live.finish()
    assert seen[0] > 3, "nothing came while the run was on"
    assert reported == []
    assert_same(influx.points(bucket), points_of(run.path))
    known = '"meters_ok", "alive", "queue_length"'
    heartbeats = influx.influxql(f'SELECT last("state"), {known} FROM rig', bucket)
    assert heartbeats[0]["values"][0][1:] == ["idle", 1, 0, 2]


def test_without_its_server_a_run_ends_in_time_and_is_sent_later(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    rig_text = '[sinks.influxdb]\nurl = "http://127.0.0.1:9"\nbucket = "b"\n'
    run = MadeRun(tmp_path, seconds=2.0, rig_text=rig_text, epoch_ns=time.time_ns())
    run.grow(0.0)
    reported: list[str] = []
    live = LiveShipping(configured_sinks(rig_text, "rig"), reported.append)
    live.begin(run.path)
    grown_live(run, 2.0)
    assert not live.finish(grace_s=0.5)
    assert "does not answer" in reported[0]
    assert f"labctl ship {run.path}" in reported[-1]
    asyncio.run(ship(run.path, [sink_of(run.path, influx, bucket, [])]))
    assert_same(influx.points(bucket), points_of(run.path))


def test_sent_in_pieces_by_followers_that_were_killed(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    """A shipping process that dies at any moment leaves nothing that the next one misses."""
    run = busy_run(tmp_path, 15.0)

    async def some(slices: int) -> None:
        sink = sink_of(run.path, influx, bucket, [], full_rate=True)
        async with sink:
            follower = Follower(run.path, sink.cursor)
            for _ in range(slices):
                part = follower.advance(None)
                if part is not None:
                    await sink.put(part)
            await asyncio.sleep(0.05)  # and gone, without drain

    for slices in (2, 3, 1, 4):
        asyncio.run(some(slices))
    asyncio.run(ship(run.path, [sink_of(run.path, influx, bucket, [], full_rate=True)]))
    assert_same(influx.points(bucket), points_of(run.path, bin_ns=0))
