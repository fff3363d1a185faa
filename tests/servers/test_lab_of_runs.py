"""A made-up lab of many runs in a real InfluxDB, as `make bench-screens` fills and asks it."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.benchmarks.lab_of_runs import Lab
from tests.benchmarks.wall_screens import BUCKET, fill, opened, series_of
from tests.servers.dashboard_viewer import DASHBOARDS, Database
from tests.servers.influx_server import InfluxServer, influxd

RIGS, RUNS, PHASES = 2, 6, 24


@pytest.fixture(scope="module")
def filled(influx_2: InfluxServer) -> Database:
    if influxd() is None:
        pytest.skip("no InfluxDB 2.x")
    now_s = int(time.time())
    influx_2.make_bucket(BUCKET)
    asyncio.run(fill(influx_2, Lab(now_s, rigs=RIGS, runs=RUNS, phases=PHASES, phase_s=2)))
    return Database(influx_2.url, influx_2.token, BUCKET, now_s * 1000)


def test_a_series_is_a_run_however_many_phases_it_has(
    filled: Database, influx_2: InfluxServer
) -> None:
    """A tag for what differs from phase to phase makes each list and each comparison slow."""
    assert series_of(influx_2, "phase") == RUNS
    assert series_of(influx_2, "power") == 2 * RUNS
    assert series_of(influx_2, "rig") == RIGS
    assert series_of(influx_2, "event") < 10 * RUNS


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_each_dashboard_has_something_to_show(
    filled: Database, influx_2: InfluxServer, uid: str
) -> None:
    assert influx_2.process is not None
    found = opened(filled, uid, influx_2.process.pid)
    assert found.queries > 10
    assert found.lists_s <= found.first_s <= found.last_s
    assert found.size > 100 * found.queries
