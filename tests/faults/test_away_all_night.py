"""InfluxDB and the broker are away for the whole run, and get all of it when they are back."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.record.reader import RunRecord
from labctl.sinks.follow.event_points import NOT_SHOWN
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE
from tests.faults.resumed_run import (
    WITHIN_S,
    Interruptible,
    assert_completed_once,
    labctl,
    plan_file,
)
from tests.servers.influx_run import points_of
from tests.servers.influx_sending import assert_same
from tests.servers.influx_server import ORG, TOKEN, InfluxServer, influxd
from tests.servers.mqtt_server import Listener, Mosquitto, mosquitto

pytestmark = [
    pytest.mark.bench,
    pytest.mark.fault,
    pytest.mark.skipif(influxd() is None, reason="no InfluxDB 2.x: put influxd on PATH"),
    pytest.mark.skipif(mosquitto() is None, reason="mosquitto is not installed"),
]

SINKS = """
[sinks.influxdb]
url = "{url}"
org = "{org}"
bucket = "main"
[sinks.mqtt]
host = "127.0.0.1"
port = {port}
"""


@pytest.mark.long
async def test_all_of_it_is_sent_when_they_are_back(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    influx, broker = InfluxServer(tmp_path / "influx"), Mosquitto(tmp_path / "broker")
    influx.folder.mkdir()
    sinks = SINKS.format(url=influx.url, org=ORG, port=broker.port)
    rig = tmp_path / "rig.toml"
    rig.write_text(bench.rig.read_text() + sinks)
    run = Interruptible(rig, plan_file(tmp_path, 2, "[8]"), tmp_path / "runs")
    output, _ = await asyncio.to_thread(run.go_on().communicate, timeout=WITHIN_S)
    assert run.process is not None and run.process.returncode == 0, output
    assert f"labctl ship {run.path}" in output
    assert_completed_once(run.path)
    try:
        await asyncio.to_thread(influx.start)
        await asyncio.to_thread(broker.start)
        await assert_sent(run.path, rig, influx, broker)
    finally:
        influx.kill()
        broker.kill()


async def assert_sent(run: Path, rig: Path, influx: InfluxServer, broker: Mosquitto) -> None:
    """Send the run, and see that each event and point of it comes, and nothing else."""
    shown = [event for event in RunRecord(run).events if event.kind not in NOT_SHOWN]
    async with asyncio.timeout(WITHIN_S), Listener(broker, "labctl/#") as listener:
        await listener.subscribed.wait()
        done = await asyncio.to_thread(
            subprocess.run, labctl("ship", str(run), "--rig", str(rig)), env={**os.environ},
            capture_output=True, text=True, timeout=WITHIN_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        await listener.until(lambda: len(listener.ids) >= len(shown))
    assert len(listener.ids) == len(shown)
    points = await asyncio.to_thread(influx.points)
    assert_same(points, points_of(run))
    assert {key[0] for key in points} >= {"power", "temperature", "io", "phase", "event"}
