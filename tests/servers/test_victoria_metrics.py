"""Shipping to a real VictoriaMetrics, which takes InfluxDB's lines and answers none of its queries.

It has numbers alone, by ``measurement_field``, to the millisecond.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from labctl.service.runs.shipping import ship
from labctl.sinks.influxdb.settings import InfluxSettings
from labctl.sinks.influxdb.sink import InfluxSink
from tests.servers.influx_run import MadeRun, points_of
from tests.servers.influx_sending import QUICK
from tests.servers.influx_server import free_port

READY_WITHIN_S = 60.0
PROGRAM = os.environ.get("VICTORIA_METRICS") or shutil.which("victoria-metrics")


@pytest.fixture
def victoria(tmp_path: Path) -> Iterator[str]:
    """Its address."""
    if PROGRAM is None:
        pytest.skip("no VictoriaMetrics: put victoria-metrics on PATH or in $VICTORIA_METRICS")
    address = f"127.0.0.1:{free_port()}"
    words = (f"-storageDataPath={tmp_path / 'data'}", f"-httpListenAddr={address}")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, *words, "-retentionPeriod=100y", "-search.latencyOffset=0s"],
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                urllib.request.urlopen(f"http://{address}/health", timeout=5).close()
                break
            except OSError:
                alive = process.poll() is None and time.monotonic() < deadline
                assert alive, (tmp_path / "log").read_text()
                time.sleep(0.1)
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def exported(address: str) -> dict[tuple[str, tuple[tuple[str, str], ...], int], float]:
    """Every number that it holds, by name, labels and time (ms)."""
    urllib.request.urlopen(f"{address}/internal/force_flush", timeout=30).close()
    asked = urllib.parse.urlencode({"match[]": '{run!=""}'})
    with urllib.request.urlopen(f"{address}/api/v1/export?{asked}", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    found = {}
    for series in map(json.loads, lines):
        name = series["metric"].pop("__name__")
        labels = tuple(sorted(series["metric"].items()))
        for t_ms, value in zip(series["timestamps"], series["values"], strict=True):
            found[(name, labels, t_ms)] = value
    return found


async def test_each_number_of_a_run_is_there(victoria: str, tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    reported: list[str] = []
    settings = InfluxSettings(url=victoria, bucket="labctl")
    for _ in range(2):
        sink = InfluxSink(
            run.path, "influxdb", settings, reported.append, from_start=True, pace=QUICK
        )
        (shipped,) = await ship(run.path, [sink])
        assert shipped.report.rejected == 0 and shipped.complete
    numbers = {
        (f"{name}_{field}", tuple(label for label in tags if label[1]), t_ns // 1_000_000): value
        for (name, tags, t_ns), fields in points_of(run.path).items()
        for field, value in fields.items()
        if not isinstance(value, str)
    }
    stored = exported(victoria)
    assert {key: stored.get(key) for key in numbers} == pytest.approx(numbers)
    assert all("removes nothing" in text for text in reported) and reported
