"""What is made of a program's open files while it ends: it closes them one after another."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from labctl.capture.host.machine import Completed, LocalMachine
from labctl.capture.identity.files_fio_opened import ComparedFiles
from labctl.capture.identity.node import find_place
from labctl.capture.identity.opened_target import OpenedTarget


class LooksAgain(LocalMachine):
    """Leaves the file ``number`` out at first; later tells what there is after ``then``."""

    def __init__(self, number: int, then: Callable[[], object]) -> None:
        super().__init__()
        self._closed = f"/fd/{number}"
        self._then = then
        self.looks = 0

    def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
        self.looks += 1
        if self.looks > 1:
            self._then()
            return super().run(argv, timeout_s)
        done = super().run(argv, timeout_s)
        lines = done.stdout.splitlines(keepends=True)
        return Completed(
            done.exit_code, "".join(line for line in lines if self._closed not in line), ""
        )


class Program:
    """A process with one file open, as fio has its target."""

    def __init__(self, folder: Path) -> None:
        target = folder / "target"
        target.write_bytes(bytes(4096))
        place = find_place(str(target), LocalMachine())
        assert place.node is not None
        file = os.open(target, os.O_RDWR)
        self.opened = OpenedTarget(file, place, place.node)
        null = subprocess.DEVNULL
        self.process = subprocess.Popen(
            ["sleep", "1000"], cwd=folder, pass_fds=[file], stdout=null, stderr=null
        )
        os.close(file)
        self.directory, self.pid = str(folder), self.process.pid
        self.killed = False

    def kill(self) -> None:
        self.killed = True

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def program(tmp_path: Path) -> Any:
    program = Program(tmp_path)
    yield program
    program.end()


def compared(program: Program, machine: LocalMachine) -> ComparedFiles:
    return ComparedFiles(program, {"": program.opened}, machine)  # type: ignore[arg-type]


async def test_a_program_that_ends_meanwhile_has_nothing_else_open(program: Program) -> None:
    machine = LooksAgain(program.opened.number, program.end)
    assert await compared(program, machine).compare(must_be_there=False) == ""
    assert machine.looks == 2 and not program.killed


async def test_one_that_goes_on_without_its_target_is_killed(program: Program) -> None:
    files = compared(program, LooksAgain(program.opened.number, lambda: None))
    assert await files.compare(must_be_there=False) == "", "it has it all the same"
    assert not program.killed
    other = OpenedTarget(program.opened.number + 1, program.opened.place, program.opened.node)
    files = ComparedFiles(program, {"": other}, LocalMachine())  # type: ignore[arg-type]
    assert "does not have" in await files.compare(must_be_there=False)
    assert program.killed


async def test_before_the_release_one_look_decides(program: Program) -> None:
    machine = LooksAgain(program.opened.number, lambda: None)
    assert "does not have" in await compared(program, machine).compare(must_be_there=True)
    assert machine.looks == 1 and program.killed
