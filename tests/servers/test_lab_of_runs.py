"""A made-up lab of many runs in a real InfluxDB, as `make bench-screens` fills and asks it."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

from dashboards import JSON_DIR
from labctl.sinks.schema import SCHEMA
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


def asked_of_a_phase() -> set[str]:
    """The fields of ``phase`` that the dashboards' queries name."""
    names: set[str] = set()
    for path in JSON_DIR.glob("*.json"):
        for query in re.findall(r'"SELECT (.*?[^\\])"', path.read_text("utf-8")):
            if r"FROM \"phase\"" in query:
                names |= set(re.findall(r'\\"(\w+)\\"', query))
    return {name for name in names if is_field(name)}


def is_field(name: str) -> bool:
    try:
        SCHEMA["phase"].kind_of(name)
    except KeyError:
        return False
    return True


def test_a_phase_of_the_lab_has_every_field_that_a_screen_asks_for() -> None:
    """What is not there is answered at once: the power envelope came after the benchmark."""
    stored = {
        name
        for texts in Lab(1_800_000_000, rigs=1, runs=1, phases=24, phase_s=61).lines()
        for text in texts
        if text.startswith("phase,")
        for name in re.findall(r"[ ,](\w+)=", text)
    }
    asked = asked_of_a_phase()
    assert {"watts", "qd", "max_watts_1s"} <= asked
    assert asked - stored == set()


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
