"""Shipping to the real InfluxDB, 2.x and 1.x, while everything goes wrong. After each trouble the
database holds what the journal says, point by point."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from labctl.record.header import DriveInfo, RailInfo
from labctl.record.reader import RunRecord
from labctl.service.runs.shipping import ship
from labctl.sinks.cursor import Cursor
from labctl.sinks.influxdb.line_protocol import line
from labctl.sinks.influxdb.settings import InfluxSettings
from labctl.sinks.influxdb.sink import InfluxSink
from labctl.sinks.influxdb.writer import InfluxWriter, WritePace
from labctl.sinks.schema import LONGEST_TEXT_BYTES, Point, PointSeries
from labctl.sinks.sink import Slice
from tests.servers.influx_fake import FakeInflux, serving
from tests.servers.influx_lines import Stored, stored_by
from tests.servers.influx_run import MadeRun, S, points_of
from tests.servers.influx_sending import QUICK, assert_same, busy_run, sent_slowly, sink_of
from tests.servers.influx_server import ORG, InfluxServer, InfluxServer1, influxd, influxd1
from tests.unit import synthetic_run


async def test_a_run_and_everything_twice(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    run = synthetic_run.build(tmp_path, synthetic_run.Bench(celsius=lambda t: 40 + 0.1 * t))
    (shipped,) = await ship(run.path, [sink_of(run.path, influx, bucket, [])])
    expected = points_of(run.path)
    assert_same(influx.points(bucket), expected)
    assert {key[0] for key in expected} == {
        *("power", "temperature", "io", "phase", "point", "event")
    }
    await ship(run.path, [sink_of(run.path, influx, bucket, [], from_start=True)])
    assert_same(influx.points(bucket), expected)
    assert shipped.report.rejected == 0


async def test_what_the_whole_run_withdrew_is_no_longer_stored(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    """A phase is sent when it ends; what comes later may show that a number of it does not hold."""
    run = synthetic_run.build(tmp_path, synthetic_run.Bench())
    expected = points_of(run.path)
    (name, tags, t_ns), fields = next(item for item in expected.items() if item[0][0] == "phase")
    while_it_was_on = Point(name, dict(tags), t_ns, {**fields, "watts_5V": 7.0, "watts_5V_u": 0.1})
    of_another_run = Point(name, {**dict(tags), "run": "another"}, t_ns, {"watts_5V": 7.0})
    reported: list[str] = []
    settings = InfluxSettings(url=influx.url, org=ORG, bucket=bucket)
    async with InfluxWriter(settings, tmp_path / "rejects", reported.append, QUICK) as writer:
        await writer.store([str(line(point)) for point in (while_it_was_on, of_another_run)])
    await ship(run.path, [sink_of(run.path, influx, bucket, reported)])
    stored = influx.points(bucket)
    (kept,) = (key for key in stored if ("run", "another") in key[1])
    assert stored.pop(kept) == of_another_run.fields
    assert_same(stored, expected)
    assert reported == []


async def test_a_phase_of_an_older_schema_is_replaced(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    """Its axes were tags: beside the same phase as it is now it would count twice."""
    run = synthetic_run.build(tmp_path, synthetic_run.Bench())
    expected = points_of(run.path)
    (name, tags, t_ns), _ = next(item for item in expected.items() if item[0][0] == "phase")
    old_tags = {**dict(tags), "pattern": "randread", "queue_depth": "8", "jobs": "1"}
    old = Point(name, old_tags, t_ns, {"watts": 7.0})
    settings = InfluxSettings(url=influx.url, org=ORG, bucket=bucket)
    async with InfluxWriter(settings, tmp_path / "rejects", print, QUICK) as writer:
        await writer.store([str(line(old))])
    await ship(run.path, [sink_of(run.path, influx, bucket, [])])
    assert_same(influx.points(bucket), expected)


async def test_a_bin_that_comes_again_is_never_overtaken_by_what_it_was(tmp_path: Path) -> None:
    """The server is slow with the first of two batches of a run that is on."""
    run = synthetic_run.build(tmp_path, synthetic_run.Bench())
    (tmp_path / "token").write_text("me:secret")

    def of(n: int, live: bool) -> Slice:
        power = PointSeries("power", {"rail": "12V"}, np.array([5]), {"n": np.array([float(n)])})
        return Slice((), (power,), Cursor(), live=live)

    for last_is_live in (True, False):
        async with serving(FakeInflux(held=asyncio.Event())) as fake:
            held = fake.held
            assert held is not None
            settings = InfluxSettings(
                url=fake.url, bucket="lab", token_file=str(tmp_path / "token")
            )
            async with InfluxSink(run.path, "influxdb", settings, print, from_start=True) as sink:
                await sink.put(of(42, live=True))
                await sink.flush()
                await sink.put(of(48, live=last_is_live))
                flushed = asyncio.create_task(sink.flush())
                while not fake.requests:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.2)
                held.set()
                await flushed
                await sink.drain()
        assert fake.requests == 2
        assert [fields["n"] for fields in fake.stored.values()] == [48]


@pytest.mark.parametrize("answers_queries", [False, True])
async def test_a_database_that_removes_nothing_gets_the_run_all_the_same(
    tmp_path: Path, answers_queries: bool
) -> None:
    run = synthetic_run.build(tmp_path, synthetic_run.Bench())
    reported: list[str] = []
    async with serving(FakeInflux(removes=False, answers_queries=answers_queries)) as fake:
        settings = InfluxSettings(url=fake.url, bucket="lab", token_file=str(tmp_path / "token"))
        (tmp_path / "token").write_text(fake.token)
        await ship(
            run.path, [InfluxSink(run.path, "influxdb", settings, reported.append, pace=QUICK)]
        )
    assert_same(fake.stored, points_of(run.path))
    (line_about_it,) = reported
    assert "removes nothing" in line_about_it and run.path.name in line_about_it


async def test_full_rate_holds_every_reading(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    run = busy_run(tmp_path, 15.0)
    await ship(run.path, [sink_of(run.path, influx, bucket, [], full_rate=True)])
    assert_same(influx.points(bucket), points_of(run.path, bin_ns=0))
    for rail, volts, amps in (
        ("12V", "v12.voltage", "i12.voltage"),
        ("3V3", "v3.voltage", "i3.current"),
    ):
        query = f"SELECT count(volts) AS v, count(amps) AS a FROM power WHERE rail = '{rail}'"
        (series,) = influx.influxql(query, bucket)
        record = RunRecord(run.path)
        assert series["values"][0][1:] == [len(record.readings(n)) for n in (volts, amps)]


async def test_killed_and_started_again_in_the_middle(influx: InfluxServer, tmp_path: Path) -> None:
    server = type(influx)(tmp_path)
    server.start()
    run = busy_run(tmp_path / "runs")
    reported: list[str] = []

    def restart() -> None:
        server.kill()
        threading.Timer(0.7, server.start).start()

    try:
        async with asyncio.timeout(60):
            sink = sink_of(run.path, server, "main", reported, full_rate=True)
            await sent_slowly(sink, run.path, restart)
        assert_same(server.points(), points_of(run.path, bin_ns=0))
        assert len(reported) == 2
    finally:
        server.kill()


@pytest.mark.long
async def test_stopped_for_seconds(influx: InfluxServer, bucket: str, tmp_path: Path) -> None:
    """Longer than the writer waits for an answer, so that batches arrive twice."""
    run = busy_run(tmp_path, 20.0)
    reported: list[str] = []

    def stop() -> None:
        influx.send(signal.SIGSTOP)
        threading.Timer(4.0, influx.send, [signal.SIGCONT]).start()

    async with asyncio.timeout(60):
        await sent_slowly(
            sink_of(run.path, influx, bucket, reported, full_rate=True), run.path, stop
        )
    assert_same(influx.points(bucket), points_of(run.path, bin_ns=0))
    assert "no answer within" in reported[0]


@pytest.mark.long
async def test_stopped_for_a_minute(tmp_path: Path) -> None:
    """Each kind of server at the same time, at the pace of every day."""
    kinds = [InfluxServer] * (influxd() is not None) + [InfluxServer1] * (influxd1() is not None)
    if not kinds:
        pytest.skip("no InfluxDB: put influxd on PATH or name it in $INFLUXD or $INFLUXD1")
    await asyncio.gather(*(_stopped_for_a_minute(tmp_path / kind.__name__, kind) for kind in kinds))


async def _stopped_for_a_minute(folder: Path, kind: type[InfluxServer]) -> None:
    folder.mkdir()
    server = kind(folder)
    await asyncio.to_thread(server.start)
    try:
        run = busy_run(folder / "runs", 20.0)
        (folder / "token").write_text(server.token)
        reported: list[str] = []

        def stop() -> None:
            server.send(signal.SIGSTOP)
            threading.Timer(60.0, server.send, [signal.SIGCONT]).start()

        sink = sink_of(
            run.path, server, "main", reported,
            full_rate=True, token_file=str(folder / "token"), pace=WritePace(),
        )  # fmt: skip
        await sent_slowly(sink, run.path, stop)
        assert_same(await asyncio.to_thread(server.points), points_of(run.path, bin_ns=0))
        assert len(reported) == 2, "told when it began and when it ended"
    finally:
        server.kill()


async def until_reported(reported: list[str]) -> None:
    async with asyncio.timeout(60):
        while not reported:
            await asyncio.sleep(0.02)


async def test_a_bucket_made_later(influx: InfluxServer, tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    reported: list[str] = []
    shipping = asyncio.create_task(ship(run.path, [sink_of(run.path, influx, "later", reported)]))
    await until_reported(reported)
    assert len(reported) == 1 and "'later'" in reported[0]
    await asyncio.to_thread(influx.make_bucket, "later")
    async with asyncio.timeout(60):
        await shipping
    assert_same(influx.points("later"), points_of(run.path))


async def test_a_wrong_token_put_right_later(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    run = MadeRun(tmp_path).whole()
    file = tmp_path / "token"
    file.write_text("wrong")
    reported: list[str] = []
    sink = sink_of(run.path, influx, bucket, reported, token_file=str(file))
    shipping = asyncio.create_task(ship(run.path, [sink]))
    await until_reported(reported)
    assert len(reported) == 1 and "is the token right?" in reported[0]
    file.write_text(influx.token)
    async with asyncio.timeout(60):
        await shipping
    assert_same(influx.points(bucket), points_of(run.path))


async def test_one_poisoned_line_in_five_thousand(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    lines = [f"power,rail=12V watts={number}.25 {number + S}" for number in range(5_000)]
    lines[3_210] = "power,rail=12V watts=NaN 3210"
    settings = InfluxSettings(url=influx.url, org=ORG, bucket=bucket)
    rejects = tmp_path / "rejected.lp"
    async with InfluxWriter(settings, rejects, [].append, QUICK) as writer:
        await writer.store(lines)
    assert (writer.stored, writer.rejected) == (4_999, 1)
    del lines[3_210]
    assert_same(influx.points(bucket), stored_by(lines))
    reason, culprit = rejects.read_text().splitlines()
    assert culprit == "power,rail=12V watts=NaN 3210"
    assert "invalid number" in reason


async def test_a_field_of_another_type_is_rejected_alone(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    good = [f"power,rail=12V watts={number}.5 {number + S}" for number in range(50)]
    settings = InfluxSettings(url=influx.url, org=ORG, bucket=bucket)
    async with InfluxWriter(settings, tmp_path / "rejected.lp", [].append, QUICK) as writer:
        await writer.store(good)
        await writer.store([*good[:20], f"power,rail=3V3 watts=5i {S}", *good[20:]])
    assert writer.rejected == 1
    assert_same(influx.points(bucket), stored_by(good))


async def test_older_than_the_bucket_keeps(influx: InfluxServer, tmp_path: Path) -> None:
    """Not a retry for ever, and not a request a line."""
    influx.make_bucket("short", keep_s=3_600)
    run = busy_run(tmp_path, 10.0)
    reported: list[str] = []
    async with asyncio.timeout(60):
        (shipped,) = await ship(
            run.path, [sink_of(run.path, influx, "short", reported, full_rate=True)]
        )
    assert shipped.report.sent == 0
    assert shipped.report.rejected > 10_000
    assert "retention" in reported[0].lower()


async def test_two_runs_of_the_same_second(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    runs = [MadeRun(tmp_path, seed=seed).whole() for seed in (1, 2)]
    assert runs[0].path.name + "-2" == runs[1].path.name
    for run in runs:
        await ship(run.path, [sink_of(run.path, influx, bucket, [])])
    assert_same(influx.points(bucket), {**points_of(runs[0].path), **points_of(runs[1].path)})


NASTY = (
    "rig, with = everything \"'\\",
    "two\nlines\r\nand a tab\t",
    "ünï 漢字 🙂",
    "ends in a backslash\\",
    "100 % #1",
    " ",
    "{a}=b,c d",
)


async def test_names_of_any_kind(influx: InfluxServer, bucket: str, tmp_path: Path) -> None:
    expected: Stored = {}
    for number, name in enumerate(NASTY):
        events = (
            (1.0, name, {"text": name, "instrument": name}),
            (2.0, "instrument_lost", {"instrument": name, "reason": name}),
        )
        run = MadeRun(
            tmp_path,
            seconds=4.0,
            rig=name,
            run_id=f"run{number}",
            drive=DriveInfo(model=name, serial="" if number % 2 else name),
            rails=(RailInfo(name, 12.0, "v12.voltage", "i12.voltage", shunt_ohm=0.1),),
            sensor=name,
            more_events=events,
        ).whole()
        (shipped,) = await ship(run.path, [sink_of(run.path, influx, bucket, [])])
        assert shipped.report.rejected == 0
        expected |= points_of(run.path)
    assert_same(influx.points(bucket), expected)


async def test_no_serial_and_no_model(influx: InfluxServer, bucket: str, tmp_path: Path) -> None:
    run = MadeRun(tmp_path, drive=DriveInfo()).whole()
    await ship(run.path, [sink_of(run.path, influx, bucket, [])])
    stored = influx.points(bucket)
    assert_same(stored, points_of(run.path))
    assert not any("drive" in dict(key[1]) for key in stored)


async def test_a_text_of_twenty_thousand_characters_and_numbers_that_are_none(
    influx: InfluxServer, bucket: str, tmp_path: Path
) -> None:
    text = 'fio: io_u error on file: Input/output error: "write" offset=1\\2\n' * 320
    events = ((3.0, "fio_error", {"text": text}), (3.0, "fio_error", {"text": text[1:]}))
    run = MadeRun(tmp_path, more_events=events)
    for name in ("v12.voltage", "drive.composite", "fio.read.iops"):
        values = run.data[name]["readings"]["v"]
        values[2], values[3], values[4] = float("nan"), float("inf"), float("-inf")
    run.whole()
    (shipped,) = await ship(run.path, [sink_of(run.path, influx, bucket, [])])
    assert shipped.report.rejected == 0
    assert_same(influx.points(bucket), points_of(run.path))
    texts = [p["text"] for k, p in influx.points(bucket).items() if ("kind", "fio_error") in k[1]]
    assert len(texts) == 2
    assert all(len(str(found).encode()) <= LONGEST_TEXT_BYTES for found in texts)


@pytest.mark.parametrize("years", [-30, -3, 12])
async def test_the_clocks_of_server_and_lab_disagree(
    influx: InfluxServer, tmp_path: Path, years: int
) -> None:
    """Seen from the server, the lab's clock is wrong: every point keeps the lab's time. (A Go
    server takes no faked clock, so it is the lab that is moved.)"""
    name = f"years{years}"
    influx.make_bucket(name)
    moved = round(time.time() + years * 365.25 * 86_400) * S
    run = MadeRun(tmp_path, epoch_ns=moved).whole()
    await ship(run.path, [sink_of(run.path, influx, name, [])])
    assert_same(influx.points(name), points_of(run.path))


@pytest.mark.long
@pytest.mark.fault
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
async def test_the_disk_of_the_server_is_full_for_a_while(
    influx: InfluxServer, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    server = type(influx)(tmp_path, engine=small / "engine")
    try:
        server.start()
        run = busy_run(tmp_path / "runs")
        reported: list[str] = []

        def fill() -> None:
            ballast = (small / "ballast").open("wb", buffering=0)
            with ballast as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * 65_536)

        def make_room() -> None:
            (small / "ballast").unlink()
            subprocess.run(["mount", "-o", "remount,size=200m", str(small)], check=True)
            # 2.7 goes on answering 500 "no space left" until it is started again
            server.kill()
            server.start()

        def half() -> None:
            fill()
            threading.Timer(1.5, make_room).start()

        async with asyncio.timeout(60):
            sink = sink_of(run.path, server, "main", reported, full_rate=True)
            await sent_slowly(sink, run.path, half)
        assert_same(server.points(), points_of(run.path, bin_ns=0))
        assert any("space" in text for text in reported), reported
    finally:
        server.kill()
        subprocess.run(["umount", str(small)], check=False)


def test_texts_come_back_as_they_were(influx: InfluxServer, bucket: str, tmp_path: Path) -> None:
    async def store(lines: list[str]) -> InfluxWriter:
        settings = InfluxSettings(url=influx.url, org=ORG, bucket=bucket)
        async with InfluxWriter(settings, tmp_path / "rejected.lp", [].append, QUICK) as writer:
            await writer.store(lines)
        return writer

    texts = [*NASTY, 'say "hi"', "a\\nb", "\\", '"', "", '\\\\"', "x" * 4_000]
    points = [
        Point("event", {"kind": f"k{number}"}, S + number, {"title": text})
        for number, text in enumerate(texts)
    ]
    writer = asyncio.run(store([str(line(point)) for point in points]))
    assert writer.rejected == 0
    stored = influx.points(bucket)
    for point, text in zip(points, texts, strict=True):
        found = stored[("event", (("kind", point.tags["kind"]),), point.t_ns)]
        assert found["title"] == text.replace("\r\n", "\n").replace("\t", " ")
