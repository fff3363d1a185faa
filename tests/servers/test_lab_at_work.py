"""Rigs at work at real rates beside each other, as `make bench-lab` measures them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.benchmarks.lab_at_work import counted, lab, status
from tests.benchmarks.wall_screens import BUCKET
from tests.servers.influx_server import influxd
from tests.servers.mqtt_server import mosquitto, retained

RIGS = 12
WITHIN_S = 240.0


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.skipif(influxd() is None or mosquitto() is None, reason="no InfluxDB 2.x or Mosquitto")
def test_every_rig_is_in_the_table_and_in_the_database(tmp_path: Path) -> None:
    with lab(tmp_path, RIGS, 2 * WITHIN_S) as (broker, database):
        deadline, text = time.monotonic() + WITHIN_S, ""
        while f"{RIGS} rigs: {RIGS} running" not in text or text.count("  – ") > 0:
            assert time.monotonic() < deadline, text
            _, _, text = status(broker.port)
        assert [line.split()[0] for line in text.splitlines()[2:]] == [
            f"bench-{number:02d}" for number in range(1, RIGS + 1)
        ]
        kept = asyncio.run(retained(broker, "labctl/#"))
        kinds = {topic.rpartition("/")[2] for topic in kept}
        assert kinds == {"availability", "state", "heartbeat", "phase"}
        assert len(kept) == RIGS * len(kinds)
        (series,) = database.influxql('SHOW TAG VALUES FROM "rig" WITH KEY = "rig"', BUCKET)
        assert len(series["values"]) == RIGS
        assert counted(broker, database).messages > RIGS
