"""The writer against answers of every kind. The server is a fake that answers as 1.8 does; the
real 2.7 is in tests/servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from labctl.errors import LabctlError
from labctl.service.runs.shipping import ship
from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.cursor_file import CursorFile, SinkBusy
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE, InfluxSettings
from labctl.sinks.influxdb.sink import BATCH_LINES, IN_FLIGHT, InfluxSink
from labctl.sinks.influxdb.writer import LONGEST_REASON, InfluxWriter, WritePace
from labctl.sinks.schema import SCHEMA_VERSION, Point, rig_point
from labctl.sinks.sink import Slice
from tests.servers.influx_fake import Canned, FakeInflux, serving
from tests.servers.influx_lines import parsed
from tests.servers.influx_run import MadeRun, points_of

QUICK = WritePace(first_s=0.01, most_s=0.03, refused_s=0.05, answer_s=2.0, connect_s=1.0)
SECRET = "me:secret"


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(TOKEN_VARIABLE, SECRET)
    yield


@pytest.fixture
async def fake() -> AsyncIterator[FakeInflux]:
    async with serving(FakeInflux()) as server:
        yield server


def rows(count: int) -> list[str]:
    return [f"power,rail=12V watts={number}.5 {number + 1}" for number in range(count)]


async def stored_with(
    fake: FakeInflux, lines: list[str], folder: Path, reported: list[str], bucket: str = "lab"
) -> InfluxWriter:
    settings = InfluxSettings(url=fake.url, bucket=bucket)
    async with InfluxWriter(settings, folder / "rejects.lp", reported.append, QUICK) as writer:
        async with asyncio.timeout(20):
            await writer.store(lines)
    return writer


async def test_lines_are_stored(fake: FakeInflux, tmp_path: Path) -> None:
    reported: list[str] = []
    writer = await stored_with(fake, rows(100), tmp_path, reported)
    assert len(fake.stored) == 100
    assert (writer.stored, writer.rejected, reported) == (100, 0, [])


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_passing_trouble_is_waited_for(
    fake: FakeInflux, tmp_path: Path, status: int
) -> None:
    fake.canned.extend([Canned(status, headers={"Retry-After": "0"})] * 3)
    reported: list[str] = []
    await stored_with(fake, rows(10), tmp_path, reported)
    assert len(fake.stored) == 10
    assert fake.requests == 4
    assert len(reported) == 2, "told once when it began and once when it ended"


@pytest.mark.parametrize("status", [401, 403, 404, 302, 200])
async def test_a_refusal_is_reported_once_and_everything_is_kept(
    fake: FakeInflux, tmp_path: Path, status: int
) -> None:
    fake.canned.extend([Canned(status, '{"error": "no"}', {"Location": "/"})] * 4)
    reported: list[str] = []
    writer = await stored_with(fake, rows(10), tmp_path, reported)
    assert (writer.stored, writer.rejected) == (10, 0)
    assert len(fake.stored) == 10
    assert len(reported) == 2
    assert "nothing is lost" in reported[0]


async def test_a_server_before_1_8_is_named(fake: FakeInflux, tmp_path: Path) -> None:
    """What 1.6 says to the address that it does not have."""
    fake.canned.append(Canned(404, "404 page not found\n"))
    reported: list[str] = []
    await stored_with(fake, rows(1), tmp_path, reported)
    assert "1.8 or newer" in reported[0]


async def test_a_400_that_is_not_about_lines_rejects_none(fake: FakeInflux, tmp_path: Path) -> None:
    fake.canned.extend([Canned(400, '{"message": "Please provide either orgID or org"}')] * 3)
    reported: list[str] = []
    writer = await stored_with(fake, rows(10), tmp_path, reported)
    assert (writer.stored, writer.rejected) == (10, 0)
    assert "say org" in reported[0]


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("text", ["", "Bad Request", '{"message": "upstream hiccup"}'])
async def test_a_server_that_refuses_everything_for_a_while_costs_no_line(
    fake: FakeInflux, tmp_path: Path, status: int, text: str
) -> None:
    """Also in the middle, after it has stored some."""
    reported: list[str] = []
    settings = InfluxSettings(url=fake.url, bucket="lab")
    async with InfluxWriter(settings, tmp_path / "rejects.lp", reported.append, QUICK) as writer:
        async with asyncio.timeout(20):
            await writer.store(rows(5))
            fake.canned.extend([Canned(status, text)] * 4)
            await writer.store(rows(40))
    assert (writer.stored, writer.rejected, len(fake.stored)) == (45, 0, 40)
    assert not (tmp_path / "rejects.lp").exists()
    assert len(reported) == 2 and "nothing is lost" in reported[0]


@pytest.mark.parametrize("after", ["²", "-1", "1e999", "soon", "9" * 400])
async def test_an_odd_retry_after_stops_nothing(
    fake: FakeInflux, tmp_path: Path, after: str
) -> None:
    fake.canned.extend([Canned(429, headers={"Retry-After": after})] * 2)
    writer = await stored_with(fake, rows(10), tmp_path, [])
    assert (writer.stored, fake.requests) == (10, 3)


async def test_only_the_culprits_of_a_partial_write_are_rejected(
    fake: FakeInflux, tmp_path: Path
) -> None:
    lines = rows(500)
    lines[77] = "power,rail=12V watts=NaN 78"
    lines[300] = "power,rail= watts=1.0 301"
    reported: list[str] = []
    writer = await stored_with(fake, lines, tmp_path, reported)
    assert (writer.stored, writer.rejected) == (498, 2)
    assert len(fake.stored) == 498
    kept = (tmp_path / "rejects.lp").read_text()
    assert lines[77] in kept and lines[300] in kept
    assert "unable to parse" in kept
    assert len(reported) == 1


async def test_a_type_conflict_is_rejected_alone(fake: FakeInflux, tmp_path: Path) -> None:
    lines = [*rows(50), "power,rail=3V3 watts=5i 7"]
    writer = await stored_with(fake, lines, tmp_path, [])
    assert (writer.stored, writer.rejected) == (50, 1)


async def test_what_a_bucket_no_longer_keeps_is_not_asked_line_by_line(
    fake: FakeInflux, tmp_path: Path
) -> None:
    message = "partial write: dropped 400 points outside retention policy dropped=400"
    fake.canned.append(Canned(422, f'{{"message": "{message}"}}'))
    writer = await stored_with(fake, rows(400), tmp_path, [])
    assert (writer.rejected, fake.requests) == (400, 1)


async def test_a_batch_that_is_too_large_is_halved(fake: FakeInflux, tmp_path: Path) -> None:
    fake.body_limit = 1_000
    writer = await stored_with(fake, rows(200), tmp_path, [])
    assert (writer.stored, writer.rejected) == (200, 0)
    assert len(fake.stored) == 200


async def test_a_line_that_is_too_large_is_rejected(fake: FakeInflux, tmp_path: Path) -> None:
    fake.body_limit = 100
    long = f'event,kind=a text="{"x" * 200}" 1'
    writer = await stored_with(fake, [*rows(3), long], tmp_path, [])
    assert (writer.stored, writer.rejected) == (3, 1)


async def test_an_endless_answer_is_not_read_to_its_end(fake: FakeInflux, tmp_path: Path) -> None:
    fake.canned.append(Canned(404, "x" * 20_000_000))
    reported: list[str] = []
    await stored_with(fake, rows(3), tmp_path, reported)
    assert len(fake.stored) == 3
    assert len(reported[0]) < LONGEST_REASON + 300


async def test_a_token_put_right_in_its_file_is_used(fake: FakeInflux, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("me:wrong")
    settings = InfluxSettings(url=fake.url, bucket="lab", token_file=str(file))
    reported: list[str] = []
    async with InfluxWriter(settings, tmp_path / "r", reported.append, QUICK) as writer:
        storing = asyncio.create_task(writer.store(rows(3)))
        while not reported:
            await asyncio.sleep(0.01)
        file.write_text(f"{SECRET}\n")
        async with asyncio.timeout(10):
            await storing
    assert len(fake.stored) == 3
    assert not any("secret" in text or "wrong" in text for text in reported)


async def test_a_server_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    fake = FakeInflux()
    async with serving(fake):
        pass
    reported: list[str] = []
    settings = InfluxSettings(url=fake.url, bucket="lab")
    async with InfluxWriter(settings, tmp_path / "r", reported.append, QUICK) as writer:
        storing = asyncio.create_task(writer.store(rows(3)))
        await asyncio.sleep(0.3)
        assert not storing.done()
        storing.cancel()
    assert len(reported) == 1
    assert SECRET not in "".join(reported)


def sink_of(run: Path, fake: FakeInflux, reported: list[str], bucket: str = "lab") -> InfluxSink:
    settings = InfluxSettings(url=fake.url, bucket=bucket)
    return InfluxSink(run, "influxdb", settings, reported.append, pace=QUICK)


async def test_a_run_is_stored_as_its_journal_says(fake: FakeInflux, tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    (shipped,) = await ship(run.path, [sink_of(run.path, fake, [])])
    assert fake.stored == points_of(run.path)
    assert shipped.complete
    (again,) = await ship(run.path, [sink_of(run.path, fake, [])])
    assert again.report.sent < 10, "the second time only unfinished ends"
    assert fake.stored == points_of(run.path)


def slice_of(number: int, count: int) -> Slice:
    points = tuple(
        Point("power", {}, number * 1_000_000 + place, {"watts": 1.0}) for place in range(count)
    )
    return Slice(points, (), Cursor("x", events=number))


async def test_the_cursor_waits_for_every_batch_before_it(fake: FakeInflux, tmp_path: Path) -> None:
    """The first batch fails and comes back, later ones are stored at once."""
    fake.canned.append(Canned(503))
    sink = sink_of(tmp_path, fake, [])
    saved: list[int] = []
    async with sink:
        assert sink._file is not None
        keep = sink._file.keep

        def noted(cursor: Cursor) -> None:
            saved.append(cursor.events)
            first = min(key[2] for key in fake.stored)
            assert first == 1_000_000, "a cursor was kept before the first batch was stored"
            keep(cursor)

        sink._file.keep = noted  # type: ignore[method-assign]
        for number in (1, 2, 3):
            await sink.put(slice_of(number, BATCH_LINES))
        await sink.put(slice_of(4, 10))
        await sink.drain()
    assert saved[-1] == 4
    assert len(fake.stored) == 3 * BATCH_LINES + 10


async def test_a_heartbeat_is_dropped_while_the_server_is_away_but_not_the_last(
    fake: FakeInflux, tmp_path: Path
) -> None:
    """Or a rig that ended in order would be silent when the server is back."""
    fake.databases.clear()
    sink = sink_of(tmp_path, fake, [])
    async with sink:
        await sink.put(slice_of(1, 1))
        await sink.flush()
        async with asyncio.timeout(30):
            while not sink.report().trouble:
                await asyncio.sleep(0.01)
        await sink.heartbeat(rig_point("bench", 5, "running"))
        await sink.heartbeat(rig_point("bench", 6, "idle", alive=False))
        fake.databases.add("lab")
        await sink.drain()
    assert [t_ns for name, _, t_ns in fake.stored if name == "rig"] == [6]


async def test_no_more_is_taken_than_may_be_under_way(tmp_path: Path) -> None:
    fake = FakeInflux()
    async with serving(fake):
        pass
    sink = sink_of(tmp_path, fake, [])
    taken = 0

    async def feed() -> None:
        nonlocal taken
        for number in range(100):
            await sink.put(slice_of(number, BATCH_LINES))
            taken += 1

    async with sink:
        feeding = asyncio.create_task(feed())
        async with asyncio.timeout(60):
            while taken < IN_FLIGHT:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert taken == IN_FLIGHT
        feeding.cancel()


async def test_stopped_in_the_middle_it_goes_on_from_what_was_stored(
    fake: FakeInflux, tmp_path: Path
) -> None:
    run = MadeRun(tmp_path).whole()
    fake.databases.clear()
    reported: list[str] = []
    shipping = asyncio.create_task(ship(run.path, [sink_of(run.path, fake, reported)]))
    async with asyncio.timeout(30):
        while not reported:
            await asyncio.sleep(0.01)
    shipping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await shipping
    assert "is there a bucket 'lab'?" in reported[0]
    fake.databases.add("lab")
    await ship(run.path, [sink_of(run.path, fake, reported)])
    assert fake.stored == points_of(run.path)


async def test_two_at_once_are_one_too_many(fake: FakeInflux, tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    async with sink_of(run.path, fake, []):
        with pytest.raises(SinkBusy):
            await ship(run.path, [sink_of(run.path, fake, [])])


async def test_another_server_gets_everything(fake: FakeInflux, tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    await ship(run.path, [sink_of(run.path, fake, [])])
    fake.databases.add("other")
    fake.stored.clear()
    reported: list[str] = []
    await ship(run.path, [sink_of(run.path, fake, reported, bucket="other")])
    assert fake.stored == points_of(run.path)
    assert "starting from the beginning" in reported[0]


async def test_what_was_sent_in_another_schema_is_sent_again(
    fake: FakeInflux, tmp_path: Path
) -> None:
    run = MadeRun(tmp_path).whole()
    await ship(run.path, [sink_of(run.path, fake, [])])
    file = run.path / "sinks" / "influxdb.json"
    cursor = json.loads(file.read_text())
    assert cursor.pop("schema") == SCHEMA_VERSION
    file.write_text(json.dumps(cursor))  # as before there was a version
    fake.stored.clear()
    reported: list[str] = []
    await ship(run.path, [sink_of(run.path, fake, reported)])
    assert fake.stored == points_of(run.path)
    assert "in another schema" in reported[0]
    await ship(run.path, [sink_of(run.path, fake, reported)])
    assert len(reported) == 1


async def test_a_damaged_cursor_means_from_the_beginning(fake: FakeInflux, tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    await ship(run.path, [sink_of(run.path, fake, [])])
    (run.path / "sinks" / "influxdb.json").write_text('{"format": 1')
    fake.stored.clear()
    reported: list[str] = []
    await ship(run.path, [sink_of(run.path, fake, reported)])
    assert fake.stored == points_of(run.path)
    assert "cannot be read" in reported[0]


async def test_the_cursor_holds_no_secret(fake: FakeInflux, tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    await ship(run.path, [sink_of(run.path, fake, [])])
    for file in (run.path / "sinks").iterdir():
        assert "secret" not in file.read_text()


def test_a_run_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "sinks").write_text("in the way")
    with pytest.raises(LabctlError, match="make it writable"):
        CursorFile(tmp_path, "influxdb", print)


def test_the_lines_of_these_tests_are_lines() -> None:
    assert parsed(rows(1)[0]) == (("power", (("rail", "12V"),), 1), {"watts": 0.5})
