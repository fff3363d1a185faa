"""The loop around sinks: what goes wrong in one stays there."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from types import TracebackType

import pytest

from labctl.cli.servers.ship import ship_runs
from labctl.config.site import SITE_VARIABLE
from labctl.errors import ConfigurationError, JournalError
from labctl.record.journal import holding
from labctl.record.phase import Pattern, Phase, Role
from labctl.service.runs.shipping import LiveShipping, ship
from labctl.sinks.cursor import Cursor
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE
from labctl.sinks.schema import Point
from labctl.sinks.sink import SinkReport, Slice
from tests.servers.influx_fake import FakeInflux, serving
from tests.servers.influx_lines import stored_by
from tests.servers.influx_run import MadeRun, S, points_of, text_of
from tests.unit.sinks.test_schema import AT_WORK


class Collected:
    """A sink that keeps everything; fails where it is told to."""

    def __init__(self, fails_in: str = "") -> None:
        self.name = "collected"
        self.fails_in = fails_in
        self.lines: list[str] = []
        self.heartbeats: list[Point] = []
        self.cursor = Cursor()

    def _maybe(self, place: str) -> None:
        if place == self.fails_in:
            raise RuntimeError(f"broken in {place}")

    async def __aenter__(self) -> Collected:
        self._maybe("enter")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    async def put(self, part: Slice) -> None:
        self._maybe("put")
        self.lines += text_of(part)

    async def flush(self) -> None:
        return None

    async def drain(self) -> None:
        self._maybe("drain")

    async def heartbeat(self, point: Point) -> None:
        self.heartbeats.append(point)

    def report(self) -> SinkReport:
        return SinkReport(self.name, "memory", len(self.lines), 0, "")


@pytest.mark.parametrize("place", ["enter", "put", "drain"])
def test_a_broken_sink_does_not_reach_the_run(tmp_path: Path, place: str) -> None:
    run = MadeRun(tmp_path).whole()
    reported: list[str] = []
    good = Collected()
    live = LiveShipping(
        [lambda path, report_line: Collected(place), lambda path, report_line: good],
        reported.append,
    )
    live.begin(run.path)
    assert not live.finish(grace_s=5)
    assert any(f"broken in {place}" in text for text in reported)
    assert f"labctl ship {run.path}" in reported[-1]
    assert stored_by(good.lines) == points_of(run.path), "the other sink got everything"


def test_a_sink_that_hangs_is_left_behind(tmp_path: Path) -> None:
    class Hanging(Collected):
        async def drain(self) -> None:
            await asyncio.sleep(3600)

    run = MadeRun(tmp_path).whole()
    reported: list[str] = []
    live = LiveShipping([lambda *_: Hanging()], reported.append)
    live.begin(run.path)
    begin = time.monotonic()
    assert not live.finish(grace_s=0.3)
    assert time.monotonic() - begin < 5


def test_without_sinks_nothing_is_started(tmp_path: Path) -> None:
    live = LiveShipping([], lambda text: None)
    live.begin(tmp_path)
    assert live.finish()


def test_a_run_that_is_on_is_sent_up_to_now(tmp_path: Path) -> None:
    run = MadeRun(tmp_path, ends=False, epoch_ns=time.time_ns() - 12 * 10**9).whole()
    sink = Collected()
    with holding(run.path):
        (shipped,) = asyncio.run(ship(run.path, [sink]))
    assert not shipped.complete
    assert not any(line.startswith("event") and "run_ended" in line for line in sink.lines)


async def test_a_heartbeat_says_what_the_rig_does(tmp_path: Path) -> None:
    """So the last one of each rig is all that a screen of forty rigs has to ask for."""
    began_ns = time.time_ns() - 9 * 10**9
    phases = (
        Phase(0, Role.MEASURE, "s", Pattern.RANDREAD, 5.0, 4096, 4, 1),
        Phase(1, Role.MEASURE, "s", Pattern.RANDREAD, 290.0, 4096, 32, 1),
    )
    span = {"begin_ns": began_ns + S // 2, "end_ns": began_ns + 5 * S, "boundary_u_ns": 1_000_000}
    events = (
        (0.5, "phase_started", {"index": 0}),
        (5.0, "phase_ended", {"index": 0, "outcome": "completed", "reason": "", **span}),
        (8.0, "phase_started", {"index": 1}),
    )
    run = MadeRun(
        *(tmp_path, 600.0),
        ends=False, epoch_ns=began_ns, phases=phases, more_events=events,
    )  # fmt: skip
    run.grow(9.0)
    over = asyncio.Event()

    class UntilItsHeartbeat(Collected):
        async def heartbeat(self, point: Point) -> None:
            await super().heartbeat(point)
            over.set()

    sink = UntilItsHeartbeat()
    with holding(run.path):
        await ship(run.path, [sink], over=over)
    at_work, last = (point.fields for point in sink.heartbeats)
    assert last.keys().isdisjoint(AT_WORK) and last["alive"] == 0
    assert {name: at_work[name] for name in ("run", "drive", "plan", "phase")} == {
        "run": run.path.name,
        "drive": "S1",
        "plan": "made-up",
        "phase": "randread 4k QD32",
    }
    assert [at_work[name] for name in ("phase_number", "phases", "qd", "alive")] == [2, 2, 32, 1]
    assert at_work["watts"] == pytest.approx(12 * 0.5 + 3.3 * 0.7, rel=0.1)
    assert at_work["celsius"] == pytest.approx(50, rel=0.2)
    assert 0 < float(at_work["left_s"]) < 300
    assert at_work.keys() >= AT_WORK
    assert re.fullmatch(r"QD32 \d+\.\d+ W \d\d °C", str(at_work["load_text"]))
    assert re.fullmatch(r"2/2, .* left", str(at_work["progress_text"]))
    assert re.fullmatch(r"QD4 8\.\d+ ± 0\.\d+ W", str(at_work["result_text"]))


async def test_the_last_heartbeat_is_stored_before_results_are_computed(tmp_path: Path) -> None:
    """They take seconds, and until then a rig that ended in order would be silent."""
    did: list[str] = []

    class Noting(Collected):
        async def put(self, part: Slice) -> None:
            await super().put(part)
            if part.points and part.points[-1].measurement in ("phase", "point"):
                did.append("results")

        async def drain(self) -> None:
            did.append("stored")

        async def heartbeat(self, point: Point) -> None:
            if point.fields["alive"] == 0:
                did.append("last heartbeat")

    run = MadeRun(tmp_path).whole()
    over = asyncio.Event()
    over.set()
    await ship(run.path, [Noting()], over=over)
    assert did[:2] == ["last heartbeat", "stored"] and "results" in did


def test_a_run_that_was_cut_off_is_sent_whole(tmp_path: Path) -> None:
    run = MadeRun(tmp_path, ends=False).whole()
    sink = Collected()
    (shipped,) = asyncio.run(ship(run.path, [sink]))
    assert shipped.complete
    assert stored_by(sink.lines) == points_of(run.path)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError):
        asyncio.run(ship(tmp_path, []))


async def test_the_command_sends_and_says_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeInflux(token="t")
    monkeypatch.setenv(TOKEN_VARIABLE, "t")
    run = MadeRun(tmp_path).whole()
    async with serving(fake):

        def command(**more: object) -> int:
            return ship_runs([run.path], [f"{fake.url}?bucket=lab"], **more)  # type: ignore[arg-type]

        assert await asyncio.to_thread(command) == 0
        assert f"lines to {fake.url} (lab)" in capsys.readouterr().out
        assert fake.stored == points_of(run.path)
        assert await asyncio.to_thread(lambda: command(from_start=True, json_output=True)) == 0
        (reported,) = json.loads(capsys.readouterr().out)
        assert (reported["complete"], reported["rejected"], reported["trouble"]) == (True, 0, "")
        assert reported["sent"] > 50


def test_the_command_without_a_destination_says_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SITE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    run = MadeRun(tmp_path).whole()
    with pytest.raises(ConfigurationError, match="url and bucket"):
        ship_runs([run.path])
