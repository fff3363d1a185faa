"""The wall clock is stepped while a run is on: by an hour, there and back, and at the end of summer
time. Nothing that was measured moves, and nothing is sent with a wrong time. The run is sent with a
token, which stands nowhere."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psutil
import pytest

from instruments.simulated.bench import Bench
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S
from tests.faults.resumed_run import (
    WITHIN_S,
    Interruptible,
    assert_completed_once,
    assert_times_ascend,
    assert_true,
    labctl,
    plan_file,
)
from tests.faults.stepped_clock import SteppedClock
from tests.servers.influx_fake import FakeInflux, serving
from tests.servers.influx_run import points_of
from tests.servers.influx_sending import assert_same

pytestmark = [pytest.mark.bench, pytest.mark.fault]

SUMMER_TIME_ENDS = datetime(2026, 10, 25, 1, tzinfo=UTC)
"""In Berlin: at 3:00 it is 2:00 again."""
HOUR_S = 3600.0


@pytest.fixture
def influx() -> Iterator[FakeInflux]:
    """A server in a thread of its own, on the true clock."""
    fake, ready, over = FakeInflux(token="sEcReT-0123456789"), threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(fake):
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    yield fake
    over.set()
    thread.join()


@pytest.mark.long
def test_a_stepped_wall_clock_moves_nothing_that_is_measured_or_sent(
    bench: Bench, tmp_path: Path, influx: FakeInflux
) -> None:
    clock = SteppedClock(tmp_path)
    clock.variables |= {"TZ": "Europe/Berlin", "LABCTL_INFLUX_TOKEN": influx.token}
    sink = f'\n[sinks.influxdb]\nurl = "{influx.url}"\norg = "lab"\nbucket = "lab"\n'
    rig = tmp_path / "rig.toml"
    rig.write_text(bench.rig.read_text() + sink)
    run = Interruptible(rig, plan_file(tmp_path, 3, "[1, 8, 32]"), tmp_path / "runs")
    begin = SUMMER_TIME_ENDS - timedelta(seconds=8)  # the first phases begin before
    clock.begin_at(begin)
    words = ["run", str(rig), str(run.plan), "--runs", str(run.runs)]
    run.process = subprocess.Popen(
        labctl(*words), env=clock.variables,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    run.until("phase_started", index=1)
    clock.step(-HOUR_S)
    run.until("wall_clock_step", 1)
    run.until("phase_started", index=3)
    clock.step(2 * HOUR_S)
    assert influx.token not in arguments_below(run.process.pid)
    output, _ = run.process.communicate(timeout=WITHIN_S)
    assert run.process.returncode == 0, output
    assert_completed_once(run.path)
    assert_times_ascend(run.path)
    assert_true(RunRecord(run.path), run.summary(), bench.directory)
    record = RunRecord(run.path)
    assert abs(record.header.anchor.wall_ns / NS_PER_S - begin.timestamp()) < 60
    steps = [event.data["seconds"] for event in record.events if event.kind == "wall_clock_step"]
    assert steps == pytest.approx([-HOUR_S, 2 * HOUR_S], abs=0.1)
    assert_same(
        {key: fields for key, fields in influx.stored.items() if key[0] != "rig"},
        points_of(run.path),
    )
    assert_nowhere(influx.token, tmp_path / "runs", output)
    for name in {key[1] for key in influx.stored if key[0] == "power"}:
        times = sorted(key[2] for key in influx.stored if key[:2] == ("power", name))
        assert len(times) > 10 and set(np.diff(times).tolist()) == {NS_PER_S}, name


def arguments_below(pid: int) -> str:
    """The command lines of a process and of those that it started."""
    lines = []
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            lines += process.cmdline()
    assert "labctl.cli.main" in lines
    return " ".join(lines)


def assert_nowhere(secret: str, folder: Path, output: str) -> None:
    """It was sent to the server, and stands in no file and nothing that was printed."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 20
    assert not [file for file in files if secret.encode() in file.read_bytes()]
    assert secret not in output
