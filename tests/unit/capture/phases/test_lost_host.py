"""A phase that the way to the drive's host cut off comes again, as the plan wants it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from labctl.capture.host.ssh import HostAway, HostUnreachable
from labctl.capture.identity.node import DrivePlace
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.sequence import ATTEMPTS, PhaseSequence
from labctl.capture.phases.stopping import StopRequest
from labctl.config.sweeps import Resume
from labctl.errors import NOT_NOW, RunFailed
from labctl.record.phase import Pattern, Phase, Role

PHASES = (
    Phase(0, Role.PREPARE, "purge", Pattern.PURGE, 1.0),
    Phase(1, Role.PREPARE, "rest", Pattern.IDLE, 0.01),
    Phase(2, Role.PREPARE, "purge", Pattern.PURGE, 1.0),
    Phase(3, Role.MEASURE, "s", Pattern.IDLE, 0.01),
)


@dataclass
class Drive:
    """A drive whose host is lost during some of its purges, by the count of purges, and that
    refuses one."""

    lost: tuple[int, ...]
    fails_at: int = 0
    gone_for_good: bool = False
    stop: StopRequest | None = None
    purges: int = 0
    ended: list[tuple[int, str]] = field(default_factory=list)

    async def start_fio(self, phase: Phase) -> FioProcess:
        raise RunFailed("no phase here needs one")

    async def check_again(self, phase: Phase) -> dict[str, DrivePlace]:
        raise RunFailed("no phase here needs one")

    async def set_power(self, state: int | None, limit_watts: float | None) -> None:
        assert state is None is limit_watts, "no phase here has one"

    async def settings_found(self) -> list[dict[str, Any]]:
        return []

    def celsius(self) -> float | None:
        return None

    async def purge(self, phase: Phase) -> None:
        self.purges += 1
        if self.stop is not None:
            self.stop.ask("aborted", "enough", 130)
        if self.gone_for_good:
            raise HostAway("not back within 600 s")
        if self.purges in self.lost:
            raise HostUnreachable("host box: the connection was lost")
        if self.purges == self.fails_at:
            raise RunFailed("the drive refuses to be sanitized")

    def phase_began(self, phase: Phase, t_ns: int) -> None:
        """Of no interest here."""

    def event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        if kind == "phase_ended":
            self.ended.append((data["index"], data["outcome"]))


async def carried_out(drive: Drive, resume: Resume) -> PhaseSequence:
    sequence = PhaseSequence(PHASES, drive, drive, time.monotonic_ns, resume=resume)
    await sequence.carry_out(drive.stop or StopRequest())
    return sequence


@pytest.mark.parametrize(
    ("resume", "expected"),
    [
        ("repeat", [(2, "interrupted"), (2, "completed"), (3, "completed")]),
        (
            "prepare",
            [(2, "interrupted"), *((index, "completed") for index in (0, 1, 2, 3))],
        ),
    ],
)
async def test_it_comes_again_with_what_the_plan_wants_before_it(
    resume: Resume, expected: list[tuple[int, str]]
) -> None:
    drive = Drive(lost=(2,))
    sequence = await carried_out(drive, resume)
    assert drive.ended == [(0, "completed"), (1, "completed"), *expected]
    assert sequence.failed == []


async def test_a_run_that_must_be_in_one_piece_has_it_failed() -> None:
    drive = Drive(lost=(2,))
    sequence = await carried_out(drive, "forbid")
    assert drive.ended[2:] == [(2, "failed"), (3, "completed")]
    assert sequence.failed == ["host box: the connection was lost"]


async def test_a_host_that_is_lost_each_time_is_given_up_and_the_next_phase_follows() -> None:
    drive = Drive(lost=tuple(range(2, 20)))
    sequence = await carried_out(drive, "repeat")
    assert [outcome for index, outcome in drive.ended if index == 2] == [
        *["interrupted"] * (ATTEMPTS - 1),
        "failed",
    ]
    assert drive.ended[-1] == (3, "completed")
    assert len(sequence.failed) == 1 and "the connection was lost" in sequence.failed[0]
    assert sequence.failed_code == NOT_NOW


async def test_a_host_that_does_not_come_back_is_for_a_later_try() -> None:
    drive = Drive(lost=(), gone_for_good=True)
    sequence = await carried_out(drive, "repeat")
    assert [outcome for _, outcome in drive.ended].count("failed") == len(sequence.failed) == 2
    assert sequence.failed_code == NOT_NOW


async def test_a_phase_that_fails_of_itself_is_not_for_a_later_try() -> None:
    """Also where the host was lost in another one: the same would fail again."""
    drive = Drive(lost=tuple(range(1, ATTEMPTS + 1)), fails_at=ATTEMPTS + 1)
    sequence = await carried_out(drive, "repeat")
    assert len(sequence.failed) == 2
    assert sequence.failed_code == RunFailed.exit_code


async def test_after_a_stop_nothing_comes_again() -> None:
    drive = Drive(lost=(1,), stop=StopRequest())
    sequence = await carried_out(drive, "repeat")
    assert drive.ended == [(0, "interrupted")]
    assert sequence.failed == []
