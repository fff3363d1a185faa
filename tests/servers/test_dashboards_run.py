"""The dashboards over a real run: the real fio on a simulated drive, shipped live by ``labctl run``
to a real InfluxDB, and later by ``labctl ship`` to one of the other kind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from instruments.simulated.bench import Bench, configure
from labctl.config.site import SITE_VARIABLE
from labctl.record.reader import find_runs
from labctl.sinks.follow.event_points import WITHDRAWN
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE
from tests.servers.dashboard_viewer import DASHBOARDS, Database, Rows, Viewer, missing_columns
from tests.servers.influx_run import points_of
from tests.servers.influx_sending import assert_same
from tests.servers.influx_server import ORG, InfluxServer, kinds

pytestmark = [pytest.mark.bench, pytest.mark.long, pytest.mark.timeout(400)]

LABCTL = (sys.executable, "-m", "labctl.cli.main")
BUCKET = "real-run"
PLAN = """
name = "short"
idle_before_s = 3
idle_after_s = 2
[[sweeps]]
pattern = "randread"
queue_depth = [1, 4, 16]
duration_s = 6
[[sweeps]]
pattern = "write"
block_size = "128k"
queue_depth = 32
duration_s = 14
"""
INTERRUPTED = """
name = "interrupted"
idle_before_s = 60
[[sweeps]]
pattern = "read"
duration_s = 5
"""
MAY_BE_EMPTY = re.compile(
    r".* [B-F]: no rows|(Difference .*|Heat) A: no rows| B: (now|phase)|Power now A: total"
    r"|Power envelope A: max_watts_(100us|100ms|60s)"
)
"""There is no run to compare with, no phase need be in doubt, the rig has ended its run, and its
meters and phases carry no such windows."""

HOT_ROOM = {"thermal.ambient_celsius": 35.0, "speed_divisor": 60.0}
"""So that the writes throttle within their fourteen seconds, on a busy machine, too."""


@dataclass(frozen=True)
class RealRun:
    """A run on disk, what it printed, and the server that it was shipped to while it was on."""

    path: Path
    message: str
    server: InfluxServer

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "summary.json").read_text("utf-8"))
        return found


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    with Bench(folder / "bench", configure(5, HOT_ROOM)) as running:
        yield running


def started(bench: Bench, plan: str, folder: Path, server: InfluxServer) -> subprocess.Popen[str]:
    """``labctl run`` with a site file that names the server."""
    (folder / "plan.toml").write_text(plan)
    (folder / "site.toml").write_text(
        f'[sinks.influxdb]\nurl = "{server.url}"\norg = "{ORG}"\nbucket = "{BUCKET}"\n'
    )
    secret = {SITE_VARIABLE: str(folder / "site.toml"), TOKEN_VARIABLE: server.token}
    return subprocess.Popen(
        [*LABCTL, "run", bench.rig, folder / "plan.toml", "--runs", folder / "runs"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **secret},
    )  # fmt: skip


def interrupt_a_run(bench: Bench, folder: Path, server: InfluxServer) -> None:
    """A run that somebody ended, once its heartbeats had told of watts: so that something went
    wrong in this lab, too."""
    begin_ns = time.time_ns()
    run = started(bench, INTERRUPTED, folder, server)
    deadline = time.monotonic() + 50
    while not server.influxql(f"SELECT watts FROM rig WHERE time >= {begin_ns}", BUCKET):
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    _, message = run.communicate(timeout=60)
    assert run.returncode == 130, message


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest) -> dict[str, InfluxServer]:
    """Those of each kind that is here; the first one gets the run while it is on."""
    return {kind: request.getfixturevalue(f"influx_{kind}") for kind in kinds()}


@pytest.fixture(scope="module")
def run(
    bench: Bench, servers: dict[str, InfluxServer], tmp_path_factory: pytest.TempPathFactory
) -> RealRun:
    server = servers[kinds()[0]]
    server.make_bucket(BUCKET)
    interrupt_a_run(bench, tmp_path_factory.mktemp("interrupted"), server)
    folder = tmp_path_factory.mktemp("completed")
    process = started(bench, PLAN, folder, server)
    _, message = process.communicate(timeout=180)
    assert process.returncode == 0, message
    (path,) = find_runs(folder / "runs")
    return RealRun(path, message, server)


@pytest.fixture(scope="module", params=kinds(), ids="{}.x".format)
def database(
    request: pytest.FixtureRequest,
    run: RealRun,
    bench: Bench,
    servers: dict[str, InfluxServer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Database:
    """Where the run was shipped while it was on, then one that gets it afterwards, and was there
    while another one was on."""
    server = servers[request.param]
    if server is not run.server:
        server.make_bucket(BUCKET)
        interrupt_a_run(bench, tmp_path_factory.mktemp("interrupted"), server)
        done = subprocess.run(
            [*LABCTL, "ship", run.path, "--to", f"{server.url}?org={ORG}&bucket={BUCKET}"],
            capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, TOKEN_VARIABLE: server.token},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    # On a busy machine the report takes longer than a heartbeat counts as one of now.
    (heard,) = server.influxql("SELECT alive FROM rig ORDER BY time DESC LIMIT 1", BUCKET)
    return Database(server.url, server.token, BUCKET, heard["values"][0][0] // 1_000_000)


@pytest.mark.long
def test_what_was_shipped_live_is_what_the_journal_says(run: RealRun) -> None:
    assert "labctl:" not in run.message
    stored = run.server.points(BUCKET)
    of_run = {
        key: fields
        for key, fields in stored.items()
        if ("run", run.path.name) in key[1]
        # A cause that the whole run gave another severity has left a point that is marked so.
        and fields.get("title") != WITHDRAWN
    }
    assert_same(of_run, points_of(run.path))


def test_while_it_was_on_the_rig_reported_how_it_was(run: RealRun) -> None:
    (series,) = run.server.influxql(
        "SELECT state, queue_length, meters_ok, journal_lag_s, alive FROM rig "
        f"WHERE time > {run.summary['begin_ns']} GROUP BY rig",
        BUCKET,
    )
    assert series["tags"] == {"rig": "bench"}
    *on, last = [dict(zip(series["columns"], row, strict=True)) for row in series["values"]]
    for heartbeat in on:
        assert (heartbeat["state"], heartbeat["queue_length"], heartbeat["alive"]) == (
            "running",
            0,
            1,
        )
        assert heartbeat["meters_ok"] == 1
        assert heartbeat["journal_lag_s"] is not None
    assert on and (last["state"], last["alive"]) == ("idle", 0)


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_every_panel_has_rows(run: RealRun, database: Database, uid: str) -> None:
    missing = missing_columns(Viewer(database, uid, run=[run.path.name]))
    assert [one for one in missing if not MAY_BE_EMPTY.fullmatch(one)] == []


def test_throttling_is_a_region_with_an_end(run: RealRun, database: Database) -> None:
    viewer = Viewer(database, "labctl-rig-live", run=[run.path.name])
    (query,) = (
        annotation["query"]
        for annotation in viewer.dashboard["annotations"]["list"]
        if annotation["name"] == "Throttling"
    )
    regions = [(row["time"], row["end_ms"]) for row in database.rows(viewer.interpolate(query))]
    held_back = [
        (found["begin_ns"] // 10**6, found["end_ns"] // 10**6)
        for found in run.summary["throttling"]
        if found["cause"] in ("thermal", "power_limit")
    ]
    assert held_back and regions == held_back


def test_power_per_queue_depth_says_what_summary_json_says(
    run: RealRun, database: Database
) -> None:
    phases = {label_of(phase): phase for phase in run.summary["phases"]}
    measured = {
        label: phase for label, phase in phases.items() if phase["phase"]["role"] == "measure"
    }
    assert len(measured) == 4
    viewer = Viewer(database, "labctl-power-per-qd", run=[run.path.name])
    names = {phase["label"]: phase["bar_label"] for phase in stored_phases(run, database)}
    shown_as = {names[label]: numbers_of(phase) for label, phase in measured.items()}
    marks = {"throttled": "QD32 throttled", "cannot be excluded": "QD32 throttled?"}
    verdict = shown_as[names["write 128k QD32"]]["throttling"]
    assert names["write 128k QD32"] == marks.get(verdict, "QD32")
    panels: Mapping[tuple[str, str], tuple[str, ...]] = {
        ("Watts of each rail", "B"): ("watts_12V", "watts_3V3"),
        ("IOPS per watt", "A"): ("iops_per_watt",),
        ("Latency per queue depth", "A"): ("latency_mean_us",),
    }
    for (title, ref), fields in panels.items():
        shown = {row["bar_label"]: row for row in viewer.rows(title, ref)}
        with_total = {label for label, found in shown_as.items() if "watts" in found}
        assert shown.keys() == (with_total if ref == "B" else shown_as.keys()), title
        for label, row in shown.items():
            assert {name: row[name] for name in fields} == {
                name: shown_as[label].get(name) for name in fields
            }, title
    for row in viewer.rows("Total watts ± U"):
        expected = shown_as[row["bar_label"]]
        if "watts" not in expected:
            continue
        value, u = (float(text) for text in re.findall(r"\d+\.?\d*", row["bar_text"]))
        assert (value, u) == (
            pytest.approx(expected["watts"], abs=u),
            pytest.approx(expected["watts_u"], rel=0.05),
        )
    table = by_label(viewer.rows("Every phase"))
    assert table.keys() == phases.keys()
    for label, row in table.items():
        expected = numbers_of(phases[label])
        row = {name: row[name] for name in row if name not in ("time", "label", "watts_text")}
        assert row == {name: expected.get(name) for name in row}
    assert any(phase["throttled_s"] > 0 for phase in measured.values())
    judged = {label for label, row in table.items() if row["steady"] is not None}
    assert judged == measured.keys(), "an idle phase is not"
    assert table["write 128k QD32"]["steady"] == 0, "it throttled"


def stored_phases(run: RealRun, database: Database) -> Rows:
    return database.rows(
        f'SELECT "label", "bar_label" FROM "phase" WHERE "run" = \'{run.path.name}\''
    )


def by_label(rows: Rows) -> dict[str, dict[str, Any]]:
    return {row["label"]: row for row in rows}


def label_of(phase: dict[str, Any]) -> str:
    """As ``Phase.label``, from ``summary.json`` alone."""
    axes = phase["phase"]
    if axes["pattern"] == "idle":
        return str(axes["role"]).replace("_", " ")
    return f"{axes['pattern']} {axes['block_size_bytes'] // 1024}k QD{axes['queue_depth']}"


def numbers_of(phase: dict[str, Any]) -> dict[str, Any]:
    """The fields of a phase that dashboards show, taken from ``summary.json``."""
    numbers: dict[str, Any] = {
        "duration_s": (phase["end_ns"] - phase["begin_ns"]) / 1e9,
        "celsius_max": max(sensor["max"] for sensor in phase["temperatures"].values()),
        "steady": None if phase["steady"] is None else int(phase["steady"]),
    }
    for name in ("iops", "bytes_per_s", "alignment_ms", "throttled_s"):
        numbers[name] = phase[name]
    estimates = {f"watts_{rail}": found["watts"] for rail, found in phase["rails"].items()}
    for name in ("watts", "joules", "iops_per_watt", "bytes_per_joule", "joules_per_io"):
        estimates[name] = phase[name]
    estimates["unthrottled_watts"] = phase["watts_unthrottled"]
    estimates["unthrottled_iops"] = phase["iops_unthrottled"]
    numbers["unthrottled_s"] = phase["unthrottled_s"]
    numbers["throttling"] = (phase["throttling"] or {}).get("verdict")
    for name, estimate in estimates.items():
        if estimate is not None:
            numbers |= {name: estimate["value"], f"{name}_u": estimate["u"]}
    side = phase["read"] or phase["write"]
    if side is not None:
        numbers["latency_mean_us"] = side["latency_mean_us"]
        numbers["latency_p99_us"] = side["latency_percentiles_us"]["99"]
    return numbers
