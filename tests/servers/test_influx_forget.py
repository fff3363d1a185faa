"""Old runs leave a real InfluxDB, 2.x and 1.x, or leave their results; what is left is right."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from labctl.service.runs.shipping import ship
from labctl.sinks.influxdb.line_protocol import line
from labctl.sinks.influxdb.settings import InfluxSettings
from labctl.sinks.influxdb.writer import InfluxWriter
from labctl.sinks.schema import Point, rig_point
from tests.forked_labctl import labctl
from tests.json_schemas import validate
from tests.servers.dashboard_viewer import Database, Rows, Viewer
from tests.servers.influx_lines import Stored
from tests.servers.influx_run import MadeRun, S, points_of
from tests.servers.influx_sending import assert_same, sink_of
from tests.servers.influx_server import ORG, InfluxServer, InfluxServer1, influxd1, is_before_1_8

BINS = {"power", "temperature", "io"}
DAY_NS = 86_400 * S
DAYS = {"old": 4, "older": 5, "new": 1}


@pytest.fixture(autouse=True)
def removes(influx: InfluxServer) -> None:
    """1.6, which is not supported, shows phases of other runs after a removal when it is
    started again."""
    if isinstance(influx, InfluxServer1) and is_before_1_8(influxd1() or ""):
        pytest.skip("needs InfluxDB 1.8 or newer: $INFLUXD1")


def forget(server: InfluxServer, bucket: str, *words: str) -> str:
    to = f"{server.url}?org={ORG}&bucket={bucket}"
    done = labctl("influxdb", "forget", *words, "--to", to)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return done.stdout


async def shipped(server: InfluxServer, bucket: str, root: Path) -> dict[str, MadeRun]:
    """Three runs of one rig, by how old they are."""
    now_ns = time.time_ns()
    runs = {
        name: MadeRun(root, run_id=name, epoch_ns=now_ns - days * DAY_NS, seed=days).whole()
        for name, days in DAYS.items()
    }
    for run in runs.values():
        await ship(run.path, [sink_of(run.path, server, bucket, [])])
    await stored(
        server, bucket, root, [rig_point("bench", now_ns, "idle", at_work={"run": "gone"})]
    )
    return runs


async def stored(server: InfluxServer, bucket: str, folder: Path, points: list[Point]) -> None:
    settings = InfluxSettings(url=server.url, org=ORG, bucket=bucket)
    async with InfluxWriter(settings, folder / "rejects", print) as writer:
        await writer.store([str(line(point)) for point in points])


def of_runs(runs: dict[str, MadeRun], *names: str) -> Stored:
    return {key: fields for name in names for key, fields in points_of(runs[name].path).items()}


def without_bins(points: Stored) -> Stored:
    """Without values over time, but for the first watts of each rail and what is not later."""
    first: dict[tuple[str, str], int] = {}
    for (name, tags, t_ns), fields in points.items():
        if name == "power" and "watts" in fields:
            key = (dict(tags)["run"], dict(tags)["rail"])
            first[key] = min(t_ns, first.get(key, t_ns))
    kept_ns = {run: max(t_ns for (one, _), t_ns in first.items() if one == run) for run, _ in first}
    return {
        (name, tags, t_ns): fields
        for (name, tags, t_ns), fields in points.items()
        if name not in BINS or (name == "power" and t_ns <= kept_ns[dict(tags)["run"]])
    }


async def test_old_runs_are_reduced_to_their_results_and_come_back(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    runs = await shipped(influx, bucket, tmp_path)
    rule = ("--older-than", "3", "--bins")
    assert forget(influx, bucket, *rule, "--dry-run").splitlines()[:2] == ["older", "old"]
    everything = of_runs(runs, *DAYS)
    assert_same(influx.points(bucket), everything)
    text = forget(influx, bucket, *rule)
    assert text.startswith("older\nold\nthe bins of 2 runs removed from ")
    reduced = without_bins(of_runs(runs, "old", "older"))
    assert_same(influx.points(bucket), {**reduced, **of_runs(runs, "new")})
    assert forget(influx, bucket, *rule).startswith("the bins of 0 runs removed from ")
    for run in runs.values():
        await ship(run.path, [sink_of(run.path, influx, bucket, [])])
    assert len(influx.points(bucket)) < len(everything), "what was forgotten stays so"
    for run in runs.values():
        await ship(run.path, [sink_of(run.path, influx, bucket, [], from_start=True)])
    assert_same(influx.points(bucket), everything)


async def test_runs_are_forgotten_by_name_or_age_and_no_other_loses_a_point(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    runs = await shipped(influx, bucket, tmp_path)
    data = json.loads(forget(influx, bucket, str(runs["older"].path), "--json"))
    validate("influxdb-forget", data)
    assert (data["runs"], data["removed"], data["bins_only"]) == (["older"], True, False)
    assert_same(influx.points(bucket), of_runs(runs, "old", "new"))
    assert forget(influx, bucket, "--older-than", "3").splitlines()[0] == "old"
    assert_same(influx.points(bucket), of_runs(runs, "new"))
    to = f"{influx.url}?org={ORG}&bucket={bucket}"
    done = labctl("influxdb", "forget", "old", "new", "--to", to)
    assert done.returncode == 2 and "old" in done.stderr and "no points" in done.stderr
    assert_same(influx.points(bucket), of_runs(runs, "new"))


async def test_old_heartbeats_go_with_the_runs(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    now_ns = time.time_ns()
    points = [rig_point("bench", now_ns - days * DAY_NS, "idle") for days in (1, 2, 200)]
    await stored(influx, bucket, tmp_path, points)
    forget(influx, bucket, "--older-than", "3", "--bins")
    (series,) = influx.influxql('SELECT "state" FROM "rig"', bucket)
    assert [t_ns for t_ns, _ in series["values"]] == [points[1].t_ns, points[0].t_ns]


async def test_a_run_that_is_on_is_not_cut(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    runs = await shipped(influx, bucket, tmp_path)
    beat = rig_point("bench", time.time_ns() + 3600 * S, "running", at_work={"run": "new"})
    await stored(influx, bucket, tmp_path, [beat])
    assert forget(influx, bucket, "--older-than", "0").splitlines()[:-1] == ["older", "old"]
    to = f"{influx.url}?org={ORG}&bucket={bucket}"
    done = labctl("influxdb", "forget", "new", "--to", to)
    assert done.returncode == 2 and "is on" in done.stderr
    assert_same(influx.points(bucket), of_runs(runs, "new"))


@pytest.mark.parametrize("uid", ["labctl-power-per-qd", "labctl-compare"])
async def test_dashboards_show_no_half_run(
    influx: InfluxServer, bucket: str, tmp_path: Path, uid: str
) -> None:
    """A run without bins is whole where results are shown; one that is forgotten is in no list."""
    await shipped(influx, bucket, tmp_path)
    database = Database(influx.url, influx.token, bucket, time.time_ns() // 1_000_000)

    def seen(*runs: str) -> dict[str, Rows]:
        page = Viewer(database, uid, run=list(runs))
        return {
            f"{panel['title']} {target['refId']}": database.rows(page.interpolate(target["query"]))
            for panel in page.panels()
            for target in panel["targets"]
            if "query" in target
        }

    old, new = seen("old"), seen("new")
    assert any(old.values()) and any(new.values())
    forget(influx, bucket, "old", "older", "--bins")
    assert seen("old") == old
    forget(influx, bucket, "old", "older")
    assert Viewer(database, uid).options["run"] == ["new"]
    assert seen("new") == new and not any(seen("old").values())
