"""A host that is short of processors is told from a drive that is hot."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.run.summary import summarise
from labctl.analysis.throttle_result import ThrottleInterval
from labctl.analysis.throttling.detection import find_throttling
from labctl.analysis.throttling.host_load import HostLoad
from labctl.analysis.throttling.signals import PhaseSignals
from labctl.analysis.throttling.smart_counters import Counters
from labctl.analysis.throttling.verdict import verdict
from labctl.capture.host.drive_host import LocalHost
from labctl.capture.host.load import LoadSample, watching_load
from labctl.config.rig import parse_rig
from labctl.record import journal as journals
from labctl.record.events import Event
from labctl.record.journal import Journal
from labctl.record.layout import CHANNELS_DIR, HOST_STOLEN, HOST_WAITING, READING
from labctl.record.reader import RunRecord
from labctl.record.timebase import Timebase
from labctl.service.doctor.host import check_host
from tests.unit.analysis.throttling.test_detection import WARNING, S, signals, square
from tests.unit.config.test_calibration_file import RIG
from tests.unit.machine_of_files import MachineOfFiles
from tests.unit.record.test_journal import header
from tests.unit.synthetic_run import Bench, Load, build, to_ns

PRESSURE = """some avg10=0.01 avg60=0.10 avg300=0.31 total=8145116
full avg10=0.00 avg60=0.00 avg300=0.00 total=77
"""
STAT = "cpu  200 4 60 1000 20 3 5 8 1 2\ncpu0 100 2 30 500 10 1 2 4 0 0\n"
SLOW = (60.0, 75.0)


def look(t_s: float, waiting_us: int | None, stolen: int | None, ticks: int) -> LoadSample:
    return LoadSample(round(t_s * S), waiting_us, stolen, ticks)


def test_both_counters_are_read_from_their_first_lines() -> None:
    assert LoadSample.parse(5, PRESSURE, STAT) == LoadSample(5, 8145116, 8, 1300)
    answer = LoadSample.parse(5, "total=8145116", "200 4 60 1000 20 3 5 8 1 2")
    assert answer == LoadSample(5, 8145116, 8, 1300), "as a host behind ssh answers"


@pytest.mark.parametrize("stat", ["", "-", "cpu  1 2 3\n", "cpu  a b c d e f g h\n"])
def test_a_host_without_these_counters_tells_nothing(stat: str) -> None:
    assert not LoadSample.parse(5, "", stat).has_counter
    assert LoadSample.parse(5, PRESSURE, stat) == LoadSample(5, 8145116, None, 0)


@pytest.mark.parametrize(
    ("pressure", "level", "words"),
    [
        (PRESSURE, "ok", "something waited for a processor 0% of the last 10 s"),
        (PRESSURE.replace("avg10=0.01", "avg10=83.50", 1), "warning", "a processor 84% of"),
        ("", "warning", "does not tell when processors are short"),
        ("some nonsense\n", "warning", "does not tell when processors are short"),
    ],
)
def test_the_doctor_tells_of_a_host_that_is_busy_now(
    pressure: str, level: str, words: str, tmp_path: Path
) -> None:
    machine = MachineOfFiles(tmp_path)
    if pressure:
        machine.write("/proc/pressure/cpu", pressure)
    *_, check = check_host(parse_rig(RIG, "rig"), machine, None, ())
    assert check.level == level
    assert words in check.text


def test_shares_are_of_the_time_between_two_looks() -> None:
    shares = look(2.5, 1_300_000, 28, 2200).since(look(2.0, 1_000_000, 8, 2000))
    assert shares == {HOST_WAITING: pytest.approx(0.6), HOST_STOLEN: pytest.approx(0.1)}
    fast = look(2.5, 1_501_000, None, 2200).since(look(2.0, 1_000_000, 8, 2000))
    assert fast == {HOST_WAITING: 1.0}, "the counter was some way on in the look"


def test_a_host_that_was_started_anew_gives_no_share() -> None:
    assert look(2.5, 100, 0, 100).since(look(2.0, 1_000_000, 8, 2000)) == {}


async def test_the_shares_of_this_machine_are_recorded(tmp_path: Path) -> None:
    timebase = Timebase()
    journal = Journal(journals.create(tmp_path, header()), timebase.now_ns)
    before = await LocalHost(timebase).sample_load()
    await asyncio.sleep(0.5)
    if not (await LocalHost(timebase).sample_load()).since(before):
        pytest.skip("neither counter runs on this machine")
    begin_ns = timebase.now_ns()

    def recorded() -> list[np.ndarray]:
        journal.flush()
        record = RunRecord(journal.path)
        found = [np.asarray(record.readings(name)) for name in (HOST_WAITING, HOST_STOLEN)]
        return [readings for readings in found if len(readings) > 1]

    async with watching_load(LocalHost(timebase).sample_load, journal), asyncio.timeout(60):
        while not recorded():
            await asyncio.sleep(0.1)
    for readings in recorded():
        assert (np.diff(readings["t"], prepend=begin_ns) > 0).all()
        assert readings["t"][-1] < timebase.now_ns()
        assert ((readings["v"] >= 0) & (readings["v"] <= 1)).all()
    journal.close()


class Silent:
    """A host that was asked, is away for a while, and then has no counter."""

    def __init__(self) -> None:
        self.answers = [LoadSample(1, 5, 1, 100), None, LoadSample(2, None, None, 0)]

    async def sample_load(self) -> LoadSample | None:
        return self.answers.pop(0)


async def test_a_host_that_goes_away_or_has_no_counters_costs_only_them(tmp_path: Path) -> None:
    journal, host = Journal(journals.create(tmp_path, header()), Timebase().now_ns), Silent()
    async with watching_load(host.sample_load, journal), asyncio.timeout(60):
        while host.answers:
            await asyncio.sleep(0.1)
    journal.close()
    assert not list((journal.path / CHANNELS_DIR).iterdir())


def hot(factor: float = 0.6) -> PhaseSignals:
    """It falls for a while where it meets its warning temperature."""
    return signals(
        lambda t: square(t, [SLOW], factor),
        celsius=lambda t: np.interp(t, [-30, *SLOW], [60, WARNING, WARNING - 6]),
    )


def shares(before: float, inside: float) -> tuple[np.ndarray, np.ndarray]:
    t = np.arange(-30.0, 210.0, 0.5)
    busy = (t >= SLOW[0]) & (t < SLOW[1])
    return (t * S).astype(np.int64), np.where(busy, inside, before)


def found_with(phase: PhaseSignals, host: HostLoad) -> tuple[ThrottleInterval, str]:
    judged = replace(phase, host=host)
    (found,) = find_throttling([judged])
    assert abs(found.begin_ns / S - SLOW[0]) < 1 and abs(found.end_ns / S - SLOW[1]) < 1
    return found, verdict(judged, [found]).verdict


def test_a_hot_drive_throttles_where_its_host_was_idle_or_is_not_known() -> None:
    for host in (HostLoad(), HostLoad(shares(0.1, 0.1), shares(0.0, 0.0))):
        found, judged = found_with(hot(), host)
        assert (found.cause, judged) == ("thermal", "throttled")


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (
            HostLoad(waiting=shares(0.1, 0.85)),
            "something waited for a processor 85% (beside it 10%) of the time",
        ),
        (
            HostLoad(stolen=shares(0.02, 0.2)),
            "other virtual machines took 20% (beside it 2%) of the processors",
        ),
    ],
    ids=["waiting", "stolen"],
)
def test_a_host_that_got_busy_is_why_io_fell(host: HostLoad, words: str) -> None:
    """Heat may hide behind that, so it is not excluded."""
    found, judged = found_with(hot(), host)
    assert (found.cause, judged) == ("host_stall", "cannot be excluded")
    assert f"the drive's host was busy: {words}" in found.evidence


@pytest.mark.parametrize(
    "host",
    [
        HostLoad(waiting=shares(0.1, 0.35)),
        HostLoad(waiting=shares(0.45, 0.45)),
        HostLoad(waiting=shares(0.95, 0.5)),
        HostLoad(stolen=shares(0.1, 0.12)),
    ],
    ids=["hardly busy", "half busy", "relieved by the drive", "a little stolen, as before"],
)
def test_a_host_that_is_as_it_was_does_not_excuse_a_drive(host: HostLoad) -> None:
    assert found_with(hot(), host)[0].cause == "thermal"


def test_on_a_host_that_was_busy_all_the_time_a_fall_tells_nothing() -> None:
    found, judged = found_with(hot(), HostLoad(waiting=shares(0.85, 0.8)))
    assert (found.cause, judged) == ("host_stall", "cannot be excluded")
    assert "waited for a processor 80% of the time, in it and beside it" in found.evidence


def test_a_blip_when_a_busy_host_gets_free_is_no_heat() -> None:
    phase = signals(
        lambda t: square(t, [(60.0, 61.0)], 0.6),
        celsius=lambda t: np.interp(t, [-30, 60, 61], [60, WARNING, WARNING - 2]),
    )
    (found,) = find_throttling([phase])
    assert found.cause == "thermal"
    t = np.arange(-30.0, 210.0, 0.5)
    waiting = (t * S).astype(np.int64), np.where((t > 50) & (t < 60), 0.8, 0.1)
    assert find_throttling([replace(phase, host=HostLoad(waiting))]) == ()


def test_a_little_load_does_not_account_for_a_deep_fall() -> None:
    host = HostLoad(waiting=shares(0.1, 0.5), stolen=shares(0.0, 0.1))
    assert found_with(hot(0.8), host)[0].cause == "host_stall"
    assert found_with(hot(0.3), host)[0].cause == "thermal"


def test_what_the_drive_itself_counted_stands() -> None:
    looks = ((0, 4), (58, 4), (62, 5), (180, 5))
    counted = Counters.of(
        Event(t * S, "drive_state", {"when": "in", "smart": {"thm_temp1_trans_count": count}})
        for t, count in looks
    )
    phase = replace(hot(), counters=counted)
    assert found_with(phase, HostLoad(waiting=shares(0.1, 0.9)))[0].cause == "thermal"


def test_a_run_is_judged_by_what_it_recorded_of_its_host(tmp_path: Path) -> None:
    load = Load(2.0, 0.5, 60.0, 50_000.0, shape=lambda t: np.where((t > 20) & (t < 30), 0.5, 1.0))
    made = build(tmp_path, Bench([load], celsius=lambda t: 40 + 40 * (t > 20)))
    (before,) = summarise(RunRecord(made.path)).throttling
    assert before.cause == "thermal"
    t = np.arange(0.0, 70.0, 0.5)
    recorded = np.zeros(len(t), READING)
    recorded["t"] = to_ns(t)
    recorded["v"] = np.where((t > 22) & (t < 32), 0.9, 0.1)
    recorded.tofile(made.path / CHANNELS_DIR / HOST_WAITING)
    (after,) = summarise(RunRecord(made.path)).throttling
    assert after.cause == "host_stall"
