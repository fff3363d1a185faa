"""Phase after phase with the real fio: what happens when one of them cannot begin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from instruments.simulated.drive import DriveProcess, start_drive
from labctl.capture.fio import FioProcess
from labctl.capture.sequence import PhaseSequence
from labctl.capture.stopping import StopRequest
from labctl.errors import Refused
from labctl.plan import Pattern, Phase, Role
from labctl.rig import Drive
from labctl.timebase import Timebase
from tests.bench.test_fio_phases import fios_below

pytestmark = pytest.mark.bench


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[DriveProcess]:
    with start_drive(tmp_path / "drive") as process:
        yield process


@dataclass
class Heard:
    began: list[int] = field(default_factory=list)
    ended: list[dict[str, Any]] = field(default_factory=list)

    def phase_began(self, phase: Phase, t_ns: int) -> None:
        self.began.append(phase.index)

    def event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        assert kind == "phase_ended"
        self.ended.append(data)

    @property
    def outcomes(self) -> dict[int, str]:
        return {item["index"]: item["outcome"] for item in self.ended}


@dataclass
class Starter:
    """Starts the real fio; phases in ``broken`` get a target that is not there."""

    drive: Drive
    folder: Path
    timebase: Timebase
    broken: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()

    async def __call__(self, phase: Phase) -> FioProcess:
        if phase.index in self.refused:
            raise Refused("the drive is mounted now")
        drive = self.drive
        if phase.index in self.broken:
            drive = drive.model_copy(update={"target": "nbd+unix:///?socket=/nowhere"})
        folder = self.folder / phase.slug
        return await FioProcess.start(phase, drive, folder, self.timebase, lambda *_: None)


def phases(count: int, duration_s: float = 4.0) -> list[Phase]:
    return [
        Phase(index, Role.MEASURE, "s", Pattern.RANDREAD, duration_s, 4096, 4, 1)
        for index in range(count)
    ]


def sequence(
    simulated: DriveProcess, tmp_path: Path, count: int, **kinds: tuple[int, ...]
) -> tuple[PhaseSequence, Heard]:
    heard, timebase = Heard(), Timebase()
    starter = Starter(
        Drive(target=simulated.uri, engine="nbd"), tmp_path / "fio", timebase, **kinds
    )
    return PhaseSequence(phases(count), starter, heard, timebase.now_ns), heard


async def test_a_phase_whose_fio_cannot_start_fails_alone(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    """The one before it is on when that is found out, and the one after it follows."""
    one, heard = sequence(simulated, tmp_path, 3, broken=(1,))
    await one.carry_out(StopRequest())
    assert heard.outcomes == {0: "completed", 1: "failed", 2: "completed"}
    assert heard.began == [0, 2]
    assert len(one.failed) == 1 and "randread 4k QD4" in one.failed[0]
    first = next(item for item in heard.ended if item["index"] == 0)
    assert first["end_ns"] - first["begin_ns"] == pytest.approx(4e9, rel=0.05)


async def test_what_is_forbidden_ends_the_run_after_the_phase_that_is_on(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    one, heard = sequence(simulated, tmp_path, 3, refused=(1,))
    with pytest.raises(Refused, match="mounted now"):
        await one.carry_out(StopRequest())
    assert heard.outcomes == {0: "completed"}
    assert fios_below(tmp_path) == []


async def test_a_stop_while_the_next_fio_gets_ready_leaves_none(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    one, heard = sequence(simulated, tmp_path, 3)
    stop = StopRequest()
    running = asyncio.create_task(one.carry_out(stop))
    while not (tmp_path / "fio" / phases(2)[1].slug).exists():
        await asyncio.sleep(0.002)
    stop.ask("aborted", "enough", 130)
    await asyncio.wait_for(running, 20)
    assert heard.outcomes == {0: "interrupted"}
    assert fios_below(tmp_path) == []
