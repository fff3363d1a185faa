"""Every query of every dashboard and alert rule against real InfluxDBs, and in Grafana."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from dashboards import PROVISIONING_DIR
from dashboards.sample import Lab, lab
from dashboards.stack.native import NativeStack, Ports
from dashboards.stack.programs import grafana_command
from tests.servers.dashboard_viewer import DASHBOARDS, DAY_MS, Database, Viewer, empty_queries
from tests.servers.influx_server import InfluxServer1, free_port, influxd, kinds


@dataclass(frozen=True)
class SampleDatabase(Database):
    """InfluxDB, filled with the sample lab."""

    lab: Lab


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeStack]:
    program = influxd()
    if program is None:
        pytest.skip("no InfluxDB 2.x: influxd is not on PATH and INFLUXD does not name it")
    folder = tmp_path_factory.mktemp("stack")
    (folder / "influxd").symlink_to(Path(program).resolve())
    without = {"mosquitto"} | (set() if grafana_command() else {"grafana"})
    ports = Ports(free_port(), free_port(), free_port())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        with NativeStack(folder / "state", ports, frozenset(without)) as running:
            yield running


def _filled(url: str, name: str, token: str, read_token: str) -> SampleDatabase:
    now_ns = time.time_ns()
    made = lab(now_ns)
    for start in range(0, len(made.lines), 5000):
        request = urllib.request.Request(
            f"{url}/api/v2/write?org=labctl&bucket={name}&precision=ns",
            "\n".join(made.lines[start : start + 5000]).encode(),
            {"Authorization": f"Token {token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            assert response.status == 204
    return SampleDatabase(url, read_token, name, now_ns // 1_000_000, made)


@pytest.fixture(scope="module")
def sample_2(stack: NativeStack) -> SampleDatabase:
    """The stack's InfluxDB, as its Grafana reads it."""
    token, read_token = (stack.secrets[f"LABCTL_INFLUX_{kind}TOKEN"] for kind in ("", "READ_"))
    return _filled(stack.addresses()["influxdb"], "labctl", token, read_token)


@pytest.fixture(scope="module")
def sample_1(influx_1: InfluxServer1) -> SampleDatabase:
    influx_1.make_bucket("sample")
    return _filled(influx_1.url, "sample", influx_1.token, influx_1.token)


@pytest.fixture(scope="module", params=kinds(), ids="{}.x".format)
def database(request: pytest.FixtureRequest) -> SampleDatabase:
    found: SampleDatabase = request.getfixturevalue(f"sample_{request.param}")
    return found


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_every_query_of_every_panel_returns_rows(database: SampleDatabase, uid: str) -> None:
    assert empty_queries(Viewer(database, uid)) == []


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_annotations_are_accepted_and_throttling_has_an_end(
    database: SampleDatabase, uid: str
) -> None:
    viewer = Viewer(database, uid)
    for annotation in viewer.dashboard["annotations"]["list"]:
        assert annotation["query"] == annotation["target"]["query"]
        found = database.rows(viewer.interpolate(annotation["query"], DAY_MS))
        if annotation["name"] == "Throttling":
            assert found
            assert all(row["end_ms"] - row["time"] == 10_000 for row in found)


def test_variables_list_what_is_in_the_time_range_and_nothing_else(
    database: SampleDatabase,
) -> None:
    runs = {str(phase["run"]) for phase in database.lab.phases}
    recent = {run for run in runs if "bench-1" in run}
    wide = Viewer(database, "labctl-power-per-qd")
    assert set(wide.options["run"]) == runs
    assert wide.options["run"] == sorted(runs, reverse=True), "the newest run comes first"
    assert wide.options["rig"] == ["bench-1", "bench-2"]
    assert wide.options["drive"] == ["SN 001/A=1"], "those of the chosen run"
    assert wide.options["workload"] == ["randread 4k", "write 128k"]
    assert wide.options["rail"] == ["12V", "3V3"]
    narrow = Viewer(database, "labctl-rig-live")
    assert narrow.options == {
        "rig": ["bench-1"],
        "drive": ["SN 001/A=1"],
        "run": [max(recent, key=lambda run: run)],
    }
    other = Viewer(database, "labctl-power-per-qd", rig=["bench-2"])
    assert set(other.options["run"]) == runs - recent


def test_power_per_queue_depth_is_what_was_written(database: SampleDatabase) -> None:
    run = sorted({str(phase["run"]) for phase in database.lab.phases if phase["rig"] == "bench-1"})[
        0
    ]
    written = {
        phase["label"]: phase
        for phase in database.lab.phases
        if phase["run"] == run and phase["role"] == "measure"
    }
    viewer = Viewer(database, "labctl-power-per-qd", run=[run])
    panels = {
        "Watts per queue depth": ("watts_12V", "watts_3V3"),
        "Uncertainty per queue depth": ("watts_12V_u", "watts_3V3_u", "watts_u"),
        "IOPS per watt": ("iops_per_watt",),
        "Latency per queue depth": ("latency_mean_us", "latency_p99_us"),
        "Throttled time per phase": ("throttled_s",),
        "Temperature per phase": ("celsius_max",),
    }
    for title, fields in panels.items():
        found = {row["label"]: row for row in viewer.rows(title)}
        assert found.keys() == written.keys(), title
        for label, row in found.items():
            assert {name: row[name] for name in fields} == {
                name: written[label][name] for name in fields
            }
    for row in viewer.rows("Every phase"):
        if row["label"] in written:
            shown = {name: value for name, value in row.items() if name not in ("time", "steady")}
            assert shown == {name: written[row["label"]][name] for name in shown}
    curve = viewer.rows("IOPS against watts")
    by_iops = {phase["iops"]: phase for phase in written.values()}
    for row in curve:
        phase = by_iops[row["iops"]]
        assert row["watts"] == phase["watts"]
        assert row["upper"] - row["watts"] == pytest.approx(phase["watts_u"])
        assert row["watts"] - row["lower"] == pytest.approx(phase["watts_u"])


def test_one_workload_holds_no_other(database: SampleDatabase) -> None:
    viewer = Viewer(database, "labctl-power-per-qd", workload=["write 128k"])
    labels = {row["label"] for row in viewer.rows("Watts per queue depth")}
    assert labels == {"write 128k QD1", "write 128k QD4", "write 128k QD32"}
    depths = {row["qd"] for row in viewer.rows("Watts per queue depth")}
    assert depths == {1, 4, 32}, "a number: it sorts as one"


def test_the_overview_says_when_each_rig_was_last_heard_of(database: SampleDatabase) -> None:
    viewer = Viewer(database, "labctl-overview")
    rigs = {row["rig"]: row for row in viewer.rows("Rigs")}
    ages_s = {rig: (database.now_ms - row["time"]) / 1000 for rig, row in rigs.items()}
    assert ages_s["bench-1"] < 31
    assert ages_s["bench-2"] == pytest.approx(3600, abs=31)
    assert (rigs["bench-1"]["state"], rigs["bench-1"]["meters_ok"]) == ("running", 0)
    outcomes = {row["rig"]: row for row in viewer.rows("Last outcome")}
    assert outcomes["bench-2"]["severity"] == "error"
    assert outcomes["bench-1"]["title"] == "run completed"
    assert "bench-1" in outcomes["bench-1"]["run"]


def test_compare_puts_runs_or_drives_side_by_side(database: SampleDatabase) -> None:
    viewer = Viewer(database, "labctl-compare")
    found = viewer.rows("Energy per gigabyte")
    assert {row["series"] for row in found} == {str(p["run"]) for p in database.lab.phases}
    written = {(p["run"], p["label"]): p for p in database.lab.phases}
    for row in found:
        bytes_per_joule = written[row["series"], row["label"]]["bytes_per_joule"]
        assert row["value"] == pytest.approx(1e9 / float(bytes_per_joule))
    viewer.values["by"] = "drive"
    assert {row["series"] for row in viewer.rows("Watts")} == {"SN 001/A=1", "SN-002"}


def test_alert_rules_fire_for_whom_they_should(database: SampleDatabase) -> None:
    text = (PROVISIONING_DIR / "alerting" / "labctl.yaml").read_text("utf-8")
    (group,) = yaml.safe_load(text)["groups"]
    then = f"{database.now_ms}ms"  # of the lab: on a busy machine a minute may have gone by since
    queries = {
        rule["uid"]: rule["data"][0]["model"]["query"].replace("now()", then)
        for rule in group["rules"]
    }

    def last_of_each_rig(uid: str) -> dict[str, float]:
        found = database.rows(queries[uid])
        values = ((row["rig"], next(v for k, v in row.items() if k not in _TAGS)) for row in found)
        return dict(values)

    assert last_of_each_rig("labctl-over-wctemp")["bench-1"] > 0
    assert last_of_each_rig("labctl-meter-silent") == {"bench-1": 1}
    assert last_of_each_rig("labctl-run-failed") == {}, "that run failed yesterday"
    heartbeats = last_of_each_rig("labctl-heartbeat-lost")
    assert heartbeats == {"bench-1": pytest.approx(-1, abs=1.1), "bench-2": 1, "bench-3": 0}


_TAGS = ("time", "rig", "drive")


def test_grafana_reads_with_a_token_that_cannot_write(stack: NativeStack) -> None:
    request = urllib.request.Request(
        f"{stack.addresses()['influxdb']}/api/v2/write?org=labctl&bucket=labctl",
        b"power watts=1",
        {"Authorization": f"Token {stack.secrets['LABCTL_INFLUX_READ_TOKEN']}"},
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert refused.value.code in (401, 403)


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_grafana_shows_every_panel_without_an_error(
    stack: NativeStack, sample_2: SampleDatabase, uid: str, tmp_path: Path
) -> None:
    if "grafana" not in stack.names:
        pytest.skip("no Grafana: neither grafana nor grafana-server on PATH, nor GRAFANA_HOME")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium to look at Grafana with")
    command = [
        chromium,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1920,4200",
        "--virtual-time-budget=60000",
        f"--user-data-dir={tmp_path}",
        "--dump-dom",
        f"{stack.addresses()['grafana']}/d/{uid}?kiosk&refresh=",
    ]
    page = subprocess.run(command, capture_output=True, text=True, timeout=150, check=True).stdout
    panels = list(Viewer(sample_2, uid).panels())
    assert not {panel["title"] for panel in panels if panel["title"] not in page}
    empty = {panel["fieldConfig"]["defaults"]["noValue"] for panel in panels}
    assert not {text for text in empty if " " in text and text in page}
    for trouble in ("No data", "Panel plugin not found", "Panel status error", "An error occurred"):
        assert trouble not in page, trouble
