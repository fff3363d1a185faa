"""The dashboards over a run of several drives, in real InfluxDBs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from labctl.record.reader import RunRecord
from labctl.service.runs.shipping import ship
from tests.servers.dashboard_viewer import Database, Viewer
from tests.servers.influx_sending import sink_of
from tests.servers.influx_server import InfluxServer
from tests.unit.several_drives import several

TOGETHER = "(S-left + S-right)"


@pytest.fixture
async def database(influx: InfluxServer, bucket: str, tmp_path: Path) -> Database:
    """The run of a rig with two drives."""
    run = several(tmp_path)
    async with asyncio.timeout(60):
        await ship(run.path, [sink_of(run.path, influx, bucket, [])])
    now_ms = RunRecord(run.path).events[-1].t_ns // 1_000_000
    return Database(influx.url, influx.token, bucket, now_ms)


async def test_several_drives_are_shown_one_at_a_time_and_all_together_first(
    database: Database,
) -> None:
    """All of them and each of them lie in the same run: shown together they would count twice."""
    shown = Viewer(database, "labctl-power-per-qd")
    assert shown.options["drive"] == [TOGETHER, "S-left", "S-right"]
    one = Viewer(database, "labctl-power-per-qd", drive=["S-right"])
    for viewer, iops in ((shown, [5000, 10000]), (one, [4000, 8000])):
        rows = viewer.rows("IOPS against watts")
        assert sorted(row["iops"] for row in rows) == iops


async def test_a_verdict_is_that_of_all_drives_and_is_listed_once(database: Database) -> None:
    """With the name of the drive in its words; each drive's own are in the database beside it."""
    for uid in ("labctl-rig-live", "labctl-overview", "labctl-power-per-qd"):
        viewer = Viewer(database, uid, rig=["bench"])
        listed = viewer.rows("Throttling", "B", kind="table")
        found = [(row["phase"], row["text"].partition(":")[0]) for row in listed]
        assert found == [("randread 4k QD4", "left"), ("randread 4k QD2", "left")], uid


RUN = "2026-01-01T00-00-00Z_bench_made-up"


LEFT, RIGHT = [1000, 2000], [4000, 8000]
BARS: list[tuple[list[str], dict[str, list[int]]]] = [
    ([], {RUN: [5000, 10000]}),
    (["S-left"], {f"{RUN} S-left": LEFT}),
    (["S-left", "S-right"], {f"{RUN} S-left": LEFT, f"{RUN} S-right": RIGHT}),
]
"""The chosen drives (none: "All"), what stands side by side, and the IOPS of each bar."""


async def test_compare_never_mixes_a_run_with_its_parts(database: Database) -> None:
    for drives, bars in BARS:
        viewer = Viewer(database, "labctl-compare", **({"drive": drives} if drives else {}))
        found = {}
        for place, slot in enumerate(("r1", "r2", "r3")):
            rows = viewer.rows("IOPS", "ABC"[place])
            for name in viewer.options[slot]:
                found[name] = sorted(row[slot] for row in rows)
        assert found == bars
        assert len(viewer.rows("Numbers")) == 2 * len(bars)
