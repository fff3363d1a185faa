"""Every query of every dashboard and alert rule against real InfluxDBs, and in Grafana."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from dashboards import PROVISIONING_DIR
from dashboards.sample import Lab, lab
from dashboards.stack.native import NativeStack, Ports
from dashboards.stack.programs import grafana_command
from tests.servers.dashboard_viewer import DASHBOARDS, DAY_MS, Database, Viewer, missing_columns
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
def test_every_column_of_every_query_has_a_value(database: SampleDatabase, uid: str) -> None:
    """Of the six places of Compare the sample fills three; a drive is over its limit or below."""
    empty = re.compile(r"Difference .* [C-E]: no rows|[^%]* [D-F]: no rows|Heat B: no rows")
    missing = missing_columns(Viewer(database, uid))
    assert [one for one in missing if not empty.fullmatch(one)] == []


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
    of_bench_1 = {run for run in runs if "bench-1" in run}
    wide = Viewer(database, "labctl-power-per-qd")
    assert set(wide.options["run"]) == runs
    assert wide.options["run"] == sorted(runs, reverse=True), "the newest run comes first"
    assert wide.options["rig"] == ["bench-1", "bench-2"]
    assert wide.options["over"][0] == min(runs), "a run to compare with: the first"
    assert wide.options["drive"] == ["SN 001/A=1"], "those of the chosen run"
    assert wide.options["workload"] == ["randread 4k", "write 128k"]
    assert wide.options["rail"] == ["12V", "3V3"]
    live = Viewer(database, "labctl-rig-live")
    assert live.options == {"rig": [*STATES]}, "the silent ones, too"
    other = Viewer(database, "labctl-power-per-qd", rig=["bench-2"])
    assert set(other.options["run"]) == runs - of_bench_1


def test_power_per_queue_depth_is_what_was_written(database: SampleDatabase) -> None:
    run = sorted({str(phase["run"]) for phase in database.lab.phases if phase["rig"] == "bench-1"})[
        0
    ]
    written = {
        phase["label"]: phase
        for phase in database.lab.phases
        if phase["run"] == run and phase["role"] == "measure"
    }
    panels = {
        ("Total watts ± U", "A"): ("bar_text",),
        ("Watts of each rail", "B"): ("watts_12V", "watts_3V3"),
        ("IOPS per watt", "A"): ("iops_per_watt",),
        ("Latency per queue depth", "A"): ("latency_mean_us",),
    }
    by_bar = {phase["bar_label"]: phase for phase in written.values() if "4k" in phase["label"]}
    viewer = Viewer(database, "labctl-power-per-qd", run=[run], workload=["randread 4k"])
    for (title, ref), fields in panels.items():
        found = {row["bar_label"]: row for row in viewer.rows(title, ref)}
        assert found.keys() == by_bar.keys(), title
        for label, row in found.items():
            assert {name: row[name] for name in fields} == {
                name: by_bar[label][name] for name in fields
            }
    viewer = Viewer(database, "labctl-power-per-qd", run=[run])
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
    labels = {row["bar_label"] for row in viewer.rows("Total watts ± U")}
    assert labels == {"QD1", "QD4", "QD32 throttled"}
    depths = {row["qd"] for row in viewer.rows("Total watts ± U")}
    assert depths == {1, 4, 32}, "a number: it sorts as one"


def test_a_phase_without_a_rail_keeps_its_place_and_has_no_bar(database: SampleDatabase) -> None:
    viewer = Viewer(database, "labctl-power-per-qd", rig=["bench-2"], workload=["randread 4k"])
    tiles = {row["bar_label"]: row["bar_text"] for row in viewer.rows("Total watts ± U")}
    places = {row["bar_label"] for row in viewer.rows("Watts of each rail")}
    bars = {row["bar_label"] for row in viewer.rows("Watts of each rail", "B")}
    assert tiles.keys() == places
    assert places - bars == {"QD2"}
    assert tiles["QD2"].startswith("≥ ")


STATES = {"bench-1": 3, "bench-2": 1, "bench-3": 0, "bench-4": 4}
"""Running; silent, although the last that it said was "idle"; ended in order; recording idle."""


def test_a_tile_says_what_its_rig_does(database: SampleDatabase) -> None:
    overview = Viewer(database, "labctl-overview")
    assert overview.options["rig"] == [*STATES]
    for rig, state in STATES.items():
        tile = overview.at(rig=rig)
        assert [row[rig] for row in tile.rows("", "A")] == [state]
        on_its_page = Viewer(database, "labctl-rig-live", rig=[rig])
        assert [row["state"] for row in on_its_page.rows("State")] == [state]
    running, silent, ended, idle = (overview.at(rig=rig) for rig in STATES)
    (load,) = running.rows("", "B")
    assert re.fullmatch(r"QD32 \d+\.\d W \d\d °C", load["now"])
    assert re.fullmatch(r"10/10, \d+ min left", load["phase"])
    (job,) = running.rows("", "C")
    assert (job["drive"], job["plan"]) == ("SN 001/A=1", "power-per-qd")
    assert running.rows("", "D")[0]["throttled"] > database.now_ms - DAY_MS
    assert running.rows("", "E")[0]["last run"] == "run completed"
    assert silent.rows("", "B") == [], "what it drew when it was last heard of is not now"
    assert silent.rows("", "E")[0]["last run"] == "run failed"
    assert ended.rows("", "D") == ended.rows("", "E") == []
    (load,) = idle.rows("", "B")
    assert load["now"] == "1.10 W 38 °C"
    (job,) = idle.rows("", "C")
    assert (job["drive"], job["plan"]) == (None, "idle"), "no name, and not that of another drive"
    assert idle.rows("", "E")[0]["last run"] == "run interrupted", "not that of an idle record"


def test_throttling_counts_by_when_it_ended(database: SampleDatabase) -> None:
    """It is stored with the time of its begin."""
    for seconds, shown in ((3600, 1), (3610, 0)):
        then = replace(database, now_ms=database.now_ms + 1000 * seconds)
        assert len(Viewer(then, "labctl-overview").at(rig="bench-1").rows("", "D")) == shown


def test_an_idle_record_is_no_run(database: SampleDatabase) -> None:
    overview = Viewer(database, "labctl-overview")
    assert [row["count"] for row in overview.rows("Runs")] == [2]
    (newest,) = Viewer(database, "labctl-rig-live", rig=["bench-1"]).rows("Run")
    assert newest["run"].endswith("bench-1_power-per-qd")
    of_idle = Viewer(database, "labctl-rig-live", rig=["bench-4"])
    assert of_idle.rows("Run") == [], "its run is older than a day"


def test_throttling_is_listed_with_phase_cause_seconds_and_evidence(
    database: SampleDatabase,
) -> None:
    for uid in ("labctl-overview", "labctl-rig-live", "labctl-power-per-qd"):
        viewer = Viewer(database, uid)
        (found, *_) = viewer.rows("Throttling", kind="table")
        assert (found["phase"], found["duration_s"]) == ("write 128k QD32", 10)
        assert found["title"] == "throttled: hot" and "71 °C" in found["text"]
        (doubtful, *_) = viewer.rows("Throttling", "B", kind="table")
        assert doubtful["phase"] == "randread 4k QD16"
        assert doubtful["title"] == "cannot be excluded" and doubtful["text"]


def test_heat_is_either_below_or_over_the_limit(database: SampleDatabase) -> None:
    viewer = Viewer(database, "labctl-rig-live")
    (over,) = viewer.rows("Heat")
    assert over["over WCTEMP"] == pytest.approx(13.8, abs=0.5)
    assert viewer.rows("Heat", "B") == []


def test_what_is_of_now_was_heard_within_the_last_heartbeats(database: SampleDatabase) -> None:
    """Nor is it the sum of two drives, of which one has taken the place of the other."""
    live = Viewer(database, "labctl-rig-live")
    (power,) = live.rows("Power now")
    load = Viewer(database, "labctl-overview").at(rig="bench-1").rows("", "B")[0]["now"]
    assert f"{power['total']:.3g} W" in load
    later = Viewer(replace(database, now_ms=database.now_ms + 30_000), "labctl-rig-live")
    assert [later.rows("Power now"), *(later.rows("Heat", ref) for ref in "AB")] == [[], [], []]


def test_compare_puts_the_newest_runs_side_by_side_in_order(database: SampleDatabase) -> None:
    viewer = Viewer(database, "labctl-compare")
    runs = sorted({str(phase["run"]) for phase in database.lab.phases})
    assert set(viewer.options["newest"]) == set(runs)
    assert [viewer.options[f"r{number}"] for number in range(1, 5)] == [[run] for run in runs] + [
        []
    ]
    written = {(p["run"], p["label"]): p for p in database.lab.phases}
    for place, run in enumerate(runs):
        ref, slot = "ABC"[place], f"r{place + 1}"
        found = {row["label"]: row[slot] for row in viewer.rows("Energy per gigabyte", ref)}
        assert found
        for label, value in found.items():
            bytes_per_joule = written[run, label].get("bytes_per_joule")
            assert value == (bytes_per_joule and pytest.approx(1e9 / float(bytes_per_joule)))
        (named,) = viewer.rows("Runs", ref)
        assert (named["no"], named["run"]) == (place + 1, run)
    chosen = Viewer(database, "labctl-compare", run=runs[1:2])
    assert [chosen.options[f"r{number}"] for number in (1, 2)] == [[runs[1]], []]
    assert viewer.rows("Watts", "D") == []


def test_a_run_that_was_resumed_is_one_run(database: SampleDatabase) -> None:
    """A phase during which it was cut off began, has no result, and was done again."""
    (resumed,) = {str(phase["run"]) for phase in database.lab.phases if phase["rig"] == "bench-2"}
    begun = database.rows(f'SELECT "label", "outcome" FROM "phase" WHERE "run" = \'{resumed}\'')
    assert [row["label"] for row in begun if not row["outcome"]] == [
        "idle before",
        "randread 4k QD1",
    ]
    compare = Viewer(database, "labctl-compare", run=[resumed])
    assert [compare.options[f"r{number}"] for number in (1, 2)] == [[resumed], []]
    for panel in ("Watts", "IOPS", "Numbers"):
        labels = [row["label"] for row in compare.rows(panel)]
        assert sorted(labels) == sorted({*labels}) and "randread 4k QD1" in labels, panel
    bars = Viewer(database, "labctl-power-per-qd", run=[resumed], workload=["randread 4k"])
    for panel in ("Total watts ± U", "Watts of each rail", "Watts of two runs"):
        assert [row["qd"] for row in bars.rows(panel)] == [1, 2, 4, 8, 16], panel
    for panel in ("Every phase", "More of every phase"):
        labels = [row["label"] for row in bars.rows(panel)]
        assert sorted(labels) == sorted({*labels}) and "idle before" in labels, panel


def test_differences_are_against_the_first_run_with_the_repeatability_of_both(
    database: SampleDatabase,
) -> None:
    viewer = Viewer(database, "labctl-compare")
    rows = {row["label"]: row for row in viewer.rows("Difference against the first run, %")}
    assert rows["randread 4k QD4"]["r2"] == pytest.approx(0.0)
    assert rows["randread 4k QD4"]["± r2"] == pytest.approx(0.5 * 2**0.5)
    assert "randread 4k QD2" not in rows, "the first run has no total there"
    assert viewer.rows("Difference against the first run, %", "C") == [], "there is no fourth run"


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
    assert last_of_each_rig("labctl-meter-silent") == {"bench-1": 1, "bench-4": 0}
    assert last_of_each_rig("labctl-run-failed") == {}, "that run failed yesterday"
    heartbeats = last_of_each_rig("labctl-heartbeat-lost")
    for rig in ("bench-1", "bench-4"):
        assert heartbeats.pop(rig) < 0.75, "what the rule fires above"
    assert heartbeats == {"bench-2": 1, "bench-3": 0}


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
    assert not {
        title for panel in panels if "$" not in (title := panel["title"]) and title not in page
    }
    empty = {panel["fieldConfig"]["defaults"]["noValue"] for panel in panels}
    assert not {text for text in empty if " " in text and text in page}
    for trouble in ("No data", "Panel plugin not found", "Panel status error", "An error occurred"):
        assert trouble not in page, trouble
