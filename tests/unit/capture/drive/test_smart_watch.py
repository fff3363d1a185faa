"""What the drive counted while a run was on is known to within the samples around it."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from instruments.simulated.drive.drive_host_files import DriveHostFiles
from instruments.simulated.drive.model import DriveModel
from instruments.simulated.drive.parameters import load
from labctl.analysis.power.drive_own_power import own_power_readings
from labctl.analysis.readings.thermal_counters import counters_moved
from labctl.capture.drive import smart_watch as drive_watch
from labctl.capture.drive.smart_watch import DriveWatch, watching_drive
from labctl.capture.host.machine import Completed, LocalMachine
from labctl.capture.identity.smart import SmartReader
from labctl.record.drive_state import DriveState, SmartLog
from labctl.record.events import Event
from tests.unit.capture.identity.nvme_made import printed, smart_page
from tests.unit.capture.identity.test_nvme_pages import extended_page


class Answers:
    """A machine whose nvme-cli prints one answer after the other, the last for ever."""

    def __init__(self, *answers: dict[str, Any] | Completed) -> None:
        self.asked = 0
        self._answers = [
            item if isinstance(item, Completed) else printed(smart_page(**item)) for item in answers
        ]

    def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
        if "nvme" not in argv[0]:
            return Completed(127, "", "not found")
        self.asked += 1
        return self._answers[min(self.asked, len(self._answers)) - 1]

    def read_texts(self, paths_or_globs: Sequence[str]) -> dict[str, str]:
        return {}

    def resolve(self, path: str) -> str | None:
        return None


@pytest.fixture
def reported() -> list[Event]:
    return []


@pytest.fixture
def watch_of(reported: list[Event]) -> Callable[..., DriveWatch]:
    """A watch whose clock goes on by 1 s each time it is read."""
    clock = itertools.count(0, 1_000_000_000)

    def make(*answers: dict[str, Any] | Completed) -> DriveWatch:
        reader = SmartReader(Answers(*answers), "/dev/nvme0n1", "nvme")
        return DriveWatch(
            reader, lambda: next(clock), lambda *event: reported.append(as_event(*event))
        )

    return make


def as_event(kind: str, t_ns: int, data: dict[str, Any]) -> Event:
    return Event.from_line(Event(t_ns, kind, data).to_line())


async def test_a_counter_that_moves_is_an_event_with_the_sample_before(
    watch_of: Callable[..., DriveWatch], reported: list[Event]
) -> None:
    watch = watch_of(
        {}, {}, {"thermal_transitions": [6, 1], "critical_warning": 2, "power_cycles": 78}
    )
    for _ in range(3):
        await watch.sample()
    (event,) = reported
    assert event.kind == "drive_counters"
    assert event.data["moved"] == {"critical_warning": [0, 2], "thm_temp1_trans_count": [4, 6]}
    assert event.data["counters"]["thm_temp2_total_time"] == 9
    assert (event.data["since_ns"], event.t_ns) == (2_500_000_000, 4_500_000_000)
    assert event.data["u_ns"] == 500_000_000


async def test_the_state_is_reported_whole_before_and_after(
    watch_of: Callable[..., DriveWatch], reported: list[Event]
) -> None:
    watch = watch_of({}, {"warning_minutes": 8})
    await watch.sample("before")
    await watch.sample("after")
    assert [event.kind for event in reported] == ["drive_state", "drive_counters", "drive_state"]
    assert reported[0].data["when"] == "before"
    assert reported[0].data["smart"]["composite_celsius"] == 45.0
    assert counters_moved(reported) == {"warning_temp_time": (7, 8)}


async def test_a_warning_that_came_and_went_is_not_forgotten(
    watch_of: Callable[..., DriveWatch], reported: list[Event]
) -> None:
    watch = watch_of({}, {"critical_warning": 2}, {})
    for when in ("before", None, "after"):
        await watch.sample(when)
    assert counters_moved(reported) == {"critical_warning": (0, 2)}


async def test_a_drive_that_falls_silent_is_one_event_and_one_when_it_is_back(
    watch_of: Callable[..., DriveWatch], reported: list[Event]
) -> None:
    gone = Completed(1, "", "/dev/nvme0n1: No such device")
    watch = watch_of({}, gone, gone, gone, {"thermal_transitions": [5, 1]})
    for _ in range(5):
        await watch.sample()
    assert [event.kind for event in reported] == ["drive_silent", "drive_back", "drive_counters"]
    assert "pulled" in reported[0].data["reason"]
    assert reported[1].data["gap_s"] == 6.0
    assert reported[2].data["since_ns"] == 500_000_000  # before it fell silent


async def test_a_sample_that_fails_in_a_way_nobody_foresaw_is_a_silent_drive_and_hangs_nothing(
    watch_of: Callable[..., DriveWatch], reported: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watch_of({})
    monkeypatch.setattr(SmartReader, "read", lambda self: {}["temperature"])
    async with asyncio.timeout(30):
        await watch.sample("before")
    assert [event.kind for event in reported] == ["drive_silent"]
    monkeypatch.setattr(SmartReader, "read", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(30):
            await watch.sample()


async def test_the_drives_own_power_is_recorded_at_every_sample(
    watch_of: Callable[..., DriveWatch], reported: list[Event]
) -> None:
    watch = watch_of(*({"interval_power": 2 << 16 | cw} for cw in (456, 456, 500)))
    for _ in range(3):
        await watch.sample()
    power = own_power_readings(reported)
    assert power["v"] == pytest.approx([4.56, 4.56, 5.0])
    assert power["t"].tolist() == [500_000_000, 2_500_000_000, 4_500_000_000]


NVME = DriveState("/dev/nvme0n1", smart_device="/dev/nvme0n1", smart=SmartLog())


async def test_a_run_is_watched_from_before_to_after_and_at_its_boundaries(
    reported: list[Event],
) -> None:
    machine = Answers({}, {"thermal_transitions": [5, 1]})
    sampled = asyncio.Event()

    def on_event(kind: str, t_ns: int, data: dict[str, Any]) -> None:
        reported.append(as_event(kind, t_ns, data))
        if kind == "drive_counters":
            sampled.set()

    async with watching_drive(machine, NVME, lambda: 0, on_event, every_s=None) as watch:
        assert watch is not None
        assert machine.asked == 1
        watch.phase_boundary()
        async with asyncio.timeout(20):
            await sampled.wait()
    assert [event.data.get("when") for event in reported] == ["before", None, "after"]


async def test_between_boundaries_it_samples_by_itself() -> None:
    machine = Answers({})
    async with watching_drive(machine, NVME, lambda: 0, lambda *_: None, every_s=0.01):
        async with asyncio.timeout(20):
            while machine.asked < 3:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("events", [None, 7])
async def test_the_log_of_ocp_is_read_with_each_sample_of_a_drive_that_has_it(
    events: int | None, reported: list[Event]
) -> None:
    machine = Answers({}, printed(extended_page()), {}, printed(extended_page(level=3)), {})
    state = replace(NVME, smart=SmartLog(thermal_throttling_events=events))

    def on_event(kind: str, t_ns: int, data: dict[str, Any]) -> None:
        reported.append(as_event(kind, t_ns, data))

    if events is None:
        machine = Answers({}, {}, {})
    async with watching_drive(machine, state, lambda: 0, on_event, every_s=None) as watch:
        assert watch is not None
    levels = [
        event.data["smart"]["thermal_throttling_level"]
        for event in reported
        if "smart" in event.data
    ]
    moved = [event.data["moved"] for event in reported if event.kind == "drive_counters"]
    if events is None:
        assert (machine.asked, levels, moved) == (2, [None, None], [])
    else:
        assert (machine.asked, levels) == (4, [2, 3])
        assert moved == [{"thermal_throttling_level": [2, 3]}]


@pytest.mark.parametrize("state", [replace(NVME, smart=None), replace(NVME, smart_device="")])
async def test_a_drive_without_smart_is_left_alone(state: DriveState) -> None:
    machine = Answers({})
    async with watching_drive(machine, state, lambda: 0, lambda *_: None) as watch:
        assert watch is None
    assert machine.asked == 0


async def test_a_drive_that_hangs_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, reported: list[Event]
) -> None:
    release = threading.Event()

    class Hanging(Answers):
        def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
            if self.asked:
                release.wait(30)
            return super().run(argv, timeout_s)

    monkeypatch.setattr(drive_watch, "LAST_SAMPLE_WITHIN_S", 0.05)
    try:
        async with (
            asyncio.timeout(20),
            watching_drive(
                Hanging({}), NVME, lambda: 0, lambda *event: reported.append(as_event(*event))
            ),
        ):
            pass
    finally:
        release.set()
    assert [event.data["when"] for event in reported] == ["before"]


def test_a_real_command_of_the_simulated_drive_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DriveHostFiles(tmp_path, DriveModel(load(), 1, 0))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    log, problem = SmartReader(LocalMachine(), "/dev/nvme0n1", "nvme").read()
    assert problem == ""
    assert log is not None
    assert log.source == "nvme smart-log"
    assert log.composite_celsius is not None and 0 < log.composite_celsius < 60
    assert log.thermal_counters()["thm_temp1_trans_count"] == 0
