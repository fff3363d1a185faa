"""fio on a host behind ssh works on what was checked, and on nothing else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from instruments.transports.ssh import CONFIG_VARIABLE
from labctl.capture.host.remote_host import RemoteHost
from labctl.capture.identity.node import find_place
from labctl.capture.phases.fio_process import FioProcess
from labctl.config.rig_file import Drive
from labctl.errors import Refused, RunFailed
from labctl.record.timebase import Timebase
from tests.bench.test_what_fio_opens import (
    BYTES,
    SWAPS,
    WRITE,
    Scene,
    Swap,
    fios_below,
    scene,
    stopped,
)
from tests.ssh.sshd import HOST, Sshd

pytestmark = pytest.mark.bench
__all__ = ["scene"]


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """What comes first on PATH over there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


@pytest.fixture
def hosted(tmp_path: Path, bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the host keeps temporary files."""
    folder = tmp_path / "tmp-of-host"
    folder.mkdir()
    environment = {"TMPDIR": str(folder), "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    with Sshd(tmp_path / "sshd", environment) as server:
        monkeypatch.setenv(CONFIG_VARIABLE, str(server.config))
        yield folder


@pytest.fixture
async def host(hosted: Path) -> AsyncIterator[RemoteHost]:
    there = RemoteHost(HOST, Timebase().now_ns)
    await there.connect()
    yield there
    await there.close()
    for _ in range(300):  # a busy host takes its time to end them
        if not fios_below(hosted) and not list(hosted.iterdir()):
            break
        await asyncio.sleep(0.1)
    assert fios_below(hosted) == [] and list(hosted.iterdir()) == []


async def start(scene: Scene, host: RemoteHost, drive: Drive, swap: Swap | None) -> FioProcess:
    """As a run does it: what is there is checked, and fio is started for that."""
    place = await asyncio.to_thread(find_place, drive.target, host.machine)
    if swap is not None:
        swap(scene, Path(drive.target))
    return await FioProcess.start(
        WRITE, {"": drive}, scene.work, Timebase(), lambda *_: None, host, {"": place}
    )


@pytest.mark.long
async def test_what_is_something_else_when_fio_is_started_is_not_opened(
    scene: Scene, host: RemoteHost
) -> None:
    for number, swap in enumerate(SWAPS):
        file = scene.folder / str(number) / "scratch"
        file.parent.mkdir()
        file.write_bytes(bytes(BYTES))
        fio = await start(scene, host, scene.drive(str(file)), swap)
        with pytest.raises(Refused, match="scratch is not what was checked any more"):
            await fio.wait_held()
        await stopped(fio)


async def test_nothing_is_taken_for_a_scratch_file_that_is_to_be_made(
    scene: Scene, host: RemoteHost
) -> None:
    for number, swap in enumerate(SWAPS):
        file = scene.folder / str(number) / "scratch"
        file.parent.mkdir()
        with pytest.raises(RunFailed, match="scratch cannot be made"):
            await start(scene, host, scene.drive(str(file)), swap)


@pytest.mark.long
async def test_what_is_swapped_while_fio_is_held_makes_no_difference(
    scene: Scene, host: RemoteHost
) -> None:
    for number, swap in enumerate(SWAPS):
        file = scene.folder / str(number) / "a b:c"
        file.parent.mkdir()
        fio = await start(scene, host, scene.drive(str(file)), None)
        await fio.wait_held()
        with file.open("rb") as opened:
            swap(scene, file)
            fio.release()
            await fio.wait_done()
            assert await fio.finish() == ""
            assert any(opened.read())


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('exec 5<> {device}; exec {real} "$@"', "it has {device} "),
        ('{real} "$@" 5<> {device}', "it has {device} "),
        ('exec 3<&- 3< {device}; exec {real} "$@"', "it does not have .*scratch"),
    ],
)
async def test_a_fio_that_holds_something_else_is_never_released(
    scene: Scene, host: RemoteHost, bin_folder: Path, script: str, message: str
) -> None:
    words = {"real": "/usr/bin/fio", "device": scene.device}
    (bin_folder / "fio").write_text(f"#!/bin/sh\n{script.format(**words)}\n")
    (bin_folder / "fio").chmod(0o755)
    (scene.folder / "scratch").write_bytes(bytes(BYTES))
    fio = await start(scene, host, scene.drive(), None)
    with pytest.raises(Refused, match=message.format(**words)):
        await fio.wait_held()
    await stopped(fio)
    assert not any((scene.folder / "scratch").read_bytes())
