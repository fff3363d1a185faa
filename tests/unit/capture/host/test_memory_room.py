"""Queues that the drive's host has no room for are mistakes before anything is begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.capture.host.machine import LocalMachine
from labctl.capture.host.memory_room import (
    AIO_MOST,
    AIO_TAKEN,
    IO_URING_OFF,
    MEMORY,
    mistakes_with_host,
)
from labctl.config.rig import Rig, parse_rig
from labctl.record.phase import Pattern, Phase, Role
from tests.unit.config.test_rig import RIG
from tests.unit.machine_of_files import MachineOfFiles


def rig(engine: str) -> Rig:
    return parse_rig(RIG.replace('engine = "libaio"', f'engine = "{engine}"'), "rig.toml")


def work(*points: tuple[int, int, int]) -> tuple[Phase, ...]:
    """Phases of queue depth, jobs and block size; with an idle one before them."""
    idle = Phase(0, Role.IDLE_BEFORE, "", Pattern.IDLE, 1.0)
    return (
        idle,
        *(
            Phase(1 + i, Role.MEASURE, "s", Pattern.RANDREAD, 1.0, block, depth, jobs)
            for i, (depth, jobs, block) in enumerate(points)
        ),
    )


@pytest.fixture
def machine(tmp_path: Path) -> MachineOfFiles:
    machine = MachineOfFiles(tmp_path)
    machine.write(AIO_MOST, "65536\n")
    machine.write(AIO_TAKEN, "1024\n")
    machine.write(IO_URING_OFF, "0\n")
    machine.write(MEMORY, "MemTotal: 16000000 kB\nMemAvailable:    8388608 kB\n")
    return machine


def reported(engine: str, phases: tuple[Phase, ...], machine: MachineOfFiles) -> list[str]:
    return [str(one) for one in mistakes_with_host(rig(engine), phases, "plan", machine)]


def test_two_fios_are_ready_at_a_time_and_libaio_keeps_requests_for_both(
    machine: MachineOfFiles,
) -> None:
    fitting = work((1024, 32, 512), (1024, 31, 512), (1, 1, 512))
    assert reported("libaio", fitting, machine) == []
    (mistake,) = reported("libaio", work((1024, 32, 512), (1024, 32, 512)), machine)
    assert "plan: queue_depth = 1024" in mistake and "64512" in mistake
    assert "sudo sysctl -w fs.aio-max-nr=66560" in mistake
    machine.write(AIO_TAKEN, "1025\n")
    (mistake,) = reported("libaio", fitting, machine)
    assert "randread 512 QD1024 ×32 jobs: 32768" in mistake
    assert reported("io_uring", fitting, machine) == []


def test_one_phase_alone_is_held_against_what_there_is(machine: MachineOfFiles) -> None:
    assert reported("libaio", work((1024, 63, 512)), machine) == []
    assert len(reported("libaio", work((1024, 64, 512)), machine)) == 1
    assert reported("libaio", (), machine) == []


@pytest.mark.parametrize("engine", ["libaio", "io_uring"])
def test_buffers_that_do_not_fit_into_memory(engine: str, machine: MachineOfFiles) -> None:
    assert reported(engine, work((1024, 1, 4 << 20), (1024, 1, 4 << 20)), machine) == []
    (mistake,) = reported(engine, work((1024, 1, 4 << 20), (1025, 1, 4 << 20)), machine)
    assert "8.6 GB" in mistake and "QD1025" in mistake


def test_io_uring_that_is_switched_off(machine: MachineOfFiles) -> None:
    machine.write(IO_URING_OFF, "2\n")
    assert reported("libaio", work((1, 1, 512)), machine) == []
    (mistake,) = reported("io_uring", work((1, 1, 512)), machine)
    assert "rig.toml" in mistake and "kernel.io_uring_disabled=0" in mistake


def test_a_host_that_tells_nothing_is_believed_and_this_one_is_asked(tmp_path: Path) -> None:
    assert reported("libaio", work((1024, 1024, 4 << 20)), MachineOfFiles(tmp_path)) == []
    assert mistakes_with_host(rig("libaio"), work((1, 1, 512)), "plan", LocalMachine()) == ()
