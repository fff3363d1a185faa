"""The dashboards over a run of several drives, in real InfluxDBs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from labctl.record import RunRecord
from labctl.service.shipping import ship
from tests.servers.dashboard_viewer import Database, Viewer
from tests.servers.influx_sending import sink_of
from tests.servers.influx_server import InfluxServer
from tests.unit.test_several_drives import several


async def test_several_drives_are_shown_one_at_a_time_and_all_together_first(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    """All of them and each of them lie in the same run: shown together they would count twice."""
    run = several(tmp_path)
    async with asyncio.timeout(60):
        await ship(run.path, [sink_of(run.path, influx, bucket, [])])
    now_ms = RunRecord(run.path).events[-1].t_ns // 1_000_000
    database = Database(influx.url, influx.token, bucket, now_ms)
    shown = Viewer(database, "labctl-power-per-qd")
    assert shown.options["drive"] == ["(S-left + S-right)", "S-left", "S-right"]
    one = Viewer(database, "labctl-power-per-qd", drive=["S-right"])
    for viewer, iops in ((shown, [5000, 10000]), (one, [4000, 8000])):
        rows = viewer.rows("IOPS against watts")
        assert sorted(row["iops"] for row in rows) == iops
