"""fio works on what the safety rules looked at, and on nothing else: with the real fio, on loop
devices and files, while names are made to lead elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.capture.drive.check_target import check_target
from labctl.capture.drive.control import DriveControl
from labctl.capture.host.machine import LocalMachine
from labctl.capture.identity.files_fio_opened import difference, read_open_files
from labctl.capture.identity.node import find_place
from labctl.capture.identity.opened_target import NOT_WHAT_WAS_CHECKED, OpenedTarget, given, opening
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.sequence import PhaseSequence
from labctl.capture.phases.stopping import StopRequest
from labctl.config.rig_file import Drive
from labctl.errors import ConfigurationError, Refused, RunFailed
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.timebase import Timebase
from tests.bench.test_fio_phases import fios_below
from tests.bench.test_sequence import RecordingListener, Starter
from tests.faults.test_runs import run
from tests.loop_device import loop_device, mounted
from tests.unit.capture.drive.test_safety import rig

pytestmark = pytest.mark.bench

MACHINE = LocalMachine()
MIB = 1 << 20
BYTES = 4 * MIB
READ = Phase(0, Role.MEASURE, "s", Pattern.RANDREAD, 1.0, 4096, 2, 1)
WRITE = Phase(0, Role.MEASURE, "s", Pattern.RANDWRITE, 1.0, 4096, 2, 1, read_pct=0)


@dataclass(frozen=True)
class Scene:
    """A folder, and a device with something on it that nobody may lose."""

    folder: Path
    device: str
    image: Path
    work: Path

    @property
    def untouched(self) -> bool:
        with self.image.open("rb") as file:
            return file.read(BYTES) == PRECIOUS

    def drive(self, name: str = "scratch", engine: str = "libaio", **more: object) -> Drive:
        target = name if name.startswith("/") else str(self.folder / name)
        return Drive.model_validate(
            {"target": target, "engine": engine, "size_bytes": BYTES, **more}
        )

    async def start(self, drive: Drive, phase: Phase = WRITE) -> FioProcess:
        """As a run does it: what is there is looked at, and fio is started for that."""
        place = await asyncio.to_thread(find_place, drive.target, MACHINE)
        return await self.start_at(drive, place, phase)

    async def start_at(self, drive: Drive, place: object, phase: Phase = WRITE) -> FioProcess:
        return await FioProcess.start(
            phase, {"": drive}, self.work, Timebase(), lambda *_: None, None, {"": place}
        )  # type: ignore[arg-type]


PRECIOUS = b"nobody may lose this\n" * (BYTES // 21 + 1)
PRECIOUS = PRECIOUS[:BYTES]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with loop_device(tmp_path) as (device, image):
        with open(device, "r+b") as file:  # noqa: PTH123
            file.write(PRECIOUS)
        os.sync()
        (tmp_path / "x").mkdir()
        one = Scene(tmp_path / "x", device, image, tmp_path / "work")
        yield one
        os.sync()
        assert one.untouched


async def worked(fio: FioProcess) -> None:
    """Let it do its phase; it ends well."""
    await fio.wait_held()
    fio.release()
    await fio.wait_done()
    assert await fio.finish() == ""


async def stopped(fio: FioProcess) -> None:
    async with asyncio.timeout(30):
        await fio.stop()
    await asyncio.sleep(0.05)  # the loop lets go of its pipes


# What the rules compare


def spellings(scene: Scene) -> Iterator[str]:
    """The device by other names, without any mark that is refused when the rig is read."""
    name = Path(scene.device).name
    yield scene.device
    yield f"/{scene.device}"
    yield f"/dev/../dev/{name}"
    yield f"{scene.folder}/../../../../../../../../../../dev/{name}"
    for link, leads_to in (
        ("link", scene.device),
        ("link:with a blank", scene.device),
        ("relative", os.path.relpath(scene.device, scene.folder)),
        ("twice", "link"),
    ):
        (scene.folder / link).symlink_to(leads_to)
        yield str(scene.folder / link)
    (scene.folder / "dev").symlink_to("/dev")
    yield f"{scene.folder}/dev/{name}"
    os.mknod(scene.folder / "node", 0o600 | stat.S_IFBLK, Path(scene.device).stat().st_rdev)
    yield str(scene.folder / "node")


def test_a_device_is_one_whatever_it_is_called(scene: Scene, tmp_path: Path) -> None:
    for target in spellings(scene):
        meant = rig(target, more="size_bytes = 1000000")
        with pytest.raises(Refused, match="destructive = true"):
            check_target(meant, [WRITE], Path("/dev/shm/runs"))
        place = check_target(meant, [READ], Path("/dev/shm/runs"))
        assert place is not None and place.node is not None and place.is_device, target


@pytest.mark.parametrize(
    "spelling", ["/dev/{}", "//dev/{}", "/tmp/../dev/{}", "{folder}/dev/{}", "{folder}/{}"]
)
def test_a_missing_device_is_never_made_as_a_file(scene: Scene, spelling: str) -> None:
    (scene.folder / "dev").symlink_to("/dev")
    (scene.folder / "loop77").symlink_to("/dev/loop77x")
    target = spelling.format("loop77", folder=scene.folder)
    with pytest.raises(ConfigurationError, match=r"is the drive connected|leads to nothing"):
        check_target(rig(target, more="size_bytes = 4096"), [WRITE], None)


def test_a_file_is_where_its_link_leads_to(scene: Scene, tmp_path: Path) -> None:
    """The journal may not lie beside it, whatever folder the link is in."""
    (tmp_path / "file").write_bytes(bytes(8192))
    with_link = Path("/dev/shm") / f"labctl-test-{os.getpid()}"
    with_link.symlink_to(tmp_path / "file")
    try:
        with pytest.raises(Refused, match="same filesystem"):
            check_target(rig(str(with_link)), [READ], tmp_path / "runs")
    finally:
        with_link.unlink()


@pytest.mark.parametrize("name", ["a\nb", "a;b", "a "])
def test_a_link_leads_to_no_name_that_would_be_refused_itself(scene: Scene, name: str) -> None:
    (scene.folder / name).write_bytes(bytes(8192))
    (scene.folder / "link").symlink_to(name)
    with pytest.raises(ConfigurationError, match=r"leads to .*must be an absolute path without"):
        check_target(rig(str(scene.folder / "link")), [READ], None)


def test_a_file_that_would_be_filled_up_is_written_to_by_a_plan_that_reads(scene: Scene) -> None:
    file = scene.folder / "guest.qcow2"
    file.write_bytes(b"x" * 8192)
    with pytest.raises(Refused, match="is there already, with 8192 bytes"):
        check_target(rig(str(file), more="size_bytes = '1m'"), [READ], None)
    check_target(rig(str(file), more="size_bytes = 4096"), [READ], None)


# Between the check and the release


Swap = Callable[[Scene, Path], None]


def link_to_device(scene: Scene, file: Path) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to(scene.device)


def link_to_image(scene: Scene, file: Path) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to(scene.image)


def another_file(scene: Scene, file: Path) -> None:
    file.unlink(missing_ok=True)
    os.link(scene.image, file)


def node_of_device(scene: Scene, file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mknod(file, 0o600 | stat.S_IFBLK, Path(scene.device).stat().st_rdev)


def folder_elsewhere(scene: Scene, file: Path) -> None:
    elsewhere = file.parent.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / file.name).symlink_to(scene.device)
    file.parent.rename(file.parent.with_name("before"))
    file.parent.symlink_to(elsewhere)


SWAPS = [link_to_device, link_to_image, another_file, node_of_device, folder_elsewhere]


@pytest.mark.parametrize("swap", SWAPS)
async def test_what_is_something_else_when_fio_is_started_is_not_opened(
    scene: Scene, swap: Swap
) -> None:
    file = scene.folder / "scratch"
    file.write_bytes(bytes(BYTES))
    place = find_place(str(file), MACHINE)
    swap(scene, file)
    fio = await scene.start_at(scene.drive(), place)
    with pytest.raises(Refused, match="scratch is not what was checked any more"):
        await fio.wait_held()
    await stopped(fio)


@pytest.mark.parametrize("swap", SWAPS)
async def test_nothing_is_taken_for_a_scratch_file_that_is_to_be_made(
    scene: Scene, swap: Swap
) -> None:
    file = scene.folder / "scratch"
    place = find_place(str(file), MACHINE)
    swap(scene, file)
    with pytest.raises(RunFailed, match="scratch cannot be made"):
        await scene.start_at(scene.drive(), place)


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("engine", ["libaio", "io_uring", "psync"])
async def test_what_is_swapped_while_fio_is_held_makes_no_difference(
    scene: Scene, swap: Swap, engine: str
) -> None:
    file = scene.folder / "scratch"
    phase = Phase(0, Role.MEASURE, "s", Pattern.WRITE, 0.0, 4096, 1, 1, 0, fill_bytes=BYTES)
    fio = await scene.start(scene.drive(engine=engine), phase)
    await fio.wait_held()
    with file.open("rb") as opened:
        swap(scene, file)
        with pytest.raises(Refused, match=r"scratch leads to .* now"):
            fio.refuse_others({"": find_place(str(file), MACHINE)})
        fio.release()
        await fio.wait_done()
        assert await fio.finish() == ""
        assert opened.read().count(0) < BYTES // 8


async def test_the_device_stays_the_one_that_was_checked(scene: Scene, tmp_path: Path) -> None:
    """By a link that udev or somebody else turns to another device meanwhile."""
    (tmp_path / "other").mkdir()
    with loop_device(tmp_path / "other") as (other, image):
        link = scene.folder / "by-id"
        link.symlink_to(other)
        fio = await scene.start(scene.drive(str(link)))
        link_to_device(scene, link)
        await worked(fio)
        os.sync()
        assert any(image.read_bytes()[:BYTES])


async def test_a_plan_that_goes_on_is_let_go_on(scene: Scene) -> None:
    fio = await scene.start(scene.drive())
    await fio.wait_held()
    fio.refuse_others({"": find_place(str(scene.folder / "scratch"), MACHINE)})
    await stopped(fio)


# Names and files


@pytest.mark.parametrize("engine", ["libaio", "io_uring", "posixaio", "psync", "pvsync2", "sync"])
@pytest.mark.parametrize("name", [pytest.param("a b:c", marks=pytest.mark.long), "été 'x' (1) & *"])
async def test_every_engine_works_on_a_file_of_any_name(
    scene: Scene, engine: str, name: str
) -> None:
    depth = 2 if engine in ("libaio", "io_uring", "posixaio") else 1
    phase = Phase(0, Role.MEASURE, "s", Pattern.RANDRW, 1.0, 4096, depth, 2, read_pct=50)
    fio = await scene.start(scene.drive(name, engine), phase)
    await worked(fio)
    assert fio.output.last_status is not None
    assert all(fio.output.last_status.totals[side].ios for side in ("read", "write"))
    assert [file.name for file in scene.folder.iterdir()] == [name]
    assert "filename=/proc/self/fd/3\n" in (scene.work / "job.fio").read_text()


async def test_a_scratch_file_is_filled_where_it_will_be_read(scene: Scene) -> None:
    file = scene.folder / "scratch"
    await worked(await scene.start(scene.drive(), WRITE))
    assert file.stat().st_size == BYTES and stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    await worked(await scene.start(scene.drive(size_bytes=BYTES + 700), READ))
    data = file.read_bytes()
    assert len(data) == BYTES + 700 and max(map(data.count, range(256))) < len(data) // 128


async def test_an_empty_file_is_filled_as_one_that_is_made(scene: Scene) -> None:
    file = scene.folder / "scratch"
    file.touch()
    await worked(await scene.start(scene.drive(), READ))
    assert file.read_bytes().count(0) < BYTES // 128


async def test_a_disk_without_room_is_reported_before_any_io(scene: Scene) -> None:
    fio = await scene.start(scene.drive(size_bytes=1 << 62), WRITE)
    with pytest.raises(RunFailed, match="scratch"):
        await fio.wait_held()
    await stopped(fio)


async def test_more_drives_than_a_posix_shell_has_open_files(scene: Scene) -> None:
    drives = {f"d{n}": scene.drive(f"scratch-{n}", size_bytes=MIB) for n in range(9)}
    fio = await FioProcess.start(READ, drives, scene.work, Timebase(), lambda *_: None)
    await worked(fio)
    assert fio.output.last_status is not None and len(fio.output.last_status.drives) == 9
    assert all(sides["read"].ios for sides in fio.output.last_status.drives.values())


# A fio that takes something else


def stranger(scene: Scene, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A fio on PATH before the real one."""
    folder = scene.work.parent / "bin"
    folder.mkdir()
    real = next(
        path for one in os.environ["PATH"].split(":") if (path := Path(one, "fio")).is_file()
    )
    text = script.format(real=real, device=scene.device, python=sys.executable)
    (folder / "fio").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "fio").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    "script",
    [
        'exec 5< {device}; exec {real} "$@"',
        '{real} "$@" 5<> {device}',
        'sleep 60 9<> {device} & exec {real} "$@"',
        'exec 5>> ../foreign; exec {real} "$@"',
        'exec 3<&-; exec {real} "$@"',
        'exec 3<&- 3< {device}; exec {real} "$@"',
        "{python} -c \"import os, time; os.setsid(); f = open('{device}'); time.sleep(20)\" & "
        'exec {real} "$@"',
    ],
)
async def test_a_fio_that_holds_something_else_is_never_released(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    stranger(scene, monkeypatch, script)
    (scene.folder / "scratch").write_bytes(bytes(BYTES))
    fio = await scene.start(scene.drive())
    with pytest.raises((Refused, RunFailed), match=r"nobody checked|does not have|not permitted"):
        await fio.wait_held()
    await stopped(fio)
    assert fios_below(scene.work) == []
    assert not any((scene.folder / "scratch").read_bytes())


@pytest.mark.parametrize("phase", [READ, WRITE])
async def test_a_fio_that_works_on_something_else_is_killed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, phase: Phase, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with loop_device(tmp_path / "other") as (other, _):
        script = f'sed -i s,^filename=.*,filename={other}, job.fio; exec {{real}} "$@"'
        stranger(scene, monkeypatch, script)
        fio = await scene.start(scene.drive(), replace(phase, duration_s=60.0))
        await fio.wait_held()
        fio.release()
        async with asyncio.timeout(30):
            with pytest.raises(Refused, match=f"it has {other} .*open, which nobody checked"):
                await fio.wait_done()
        await stopped(fio)
    assert not any((scene.folder / "scratch").read_bytes()) or phase is READ


async def test_a_difference_ends_the_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the second of three phases, at work."""
    (tmp_path / "other").mkdir()
    with loop_device(tmp_path / "other") as (other, _):
        strange = f"sed -i s,^filename=.*,filename={other}, job.fio"
        stranger(scene, monkeypatch, f'case $PWD in *001_*) {strange} ;; esac; exec {{real}} "$@"')
        listener, timebase = RecordingListener(), Timebase()
        starter = Starter(scene.drive(), scene.work, timebase)
        planned = [replace(WRITE, index=index, duration_s=4.0) for index in range(3)]
        with pytest.raises(Refused, match=f"it has {other} .*which nobody checked"):
            await PhaseSequence(planned, starter, listener, timebase.now_ns).carry_out(
                StopRequest()
            )
    assert listener.outcomes == {0: "completed", 1: "failed"} and listener.began == [0, 1]
    assert fios_below(scene.work) == []


async def test_shared_memory_is_no_difference(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As libraries have it that are loaded before every program."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as shared:
        stranger(scene, monkeypatch, f'exec 5<> {shared.name}; exec {{real}} "$@"')
        await worked(await scene.start(scene.drive()))


# Purges


def purge_phase() -> Phase:
    return Phase(0, Role.PREPARE, "purge", Pattern.PURGE, 60.0, purge_method="discard")


def test_a_purge_takes_what_was_checked(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with loop_device(tmp_path / "other") as (other, image):
        with open(other, "r+b") as file:  # noqa: PTH123
            file.write(PRECIOUS)
        os.sync()
        link = scene.folder / "by-id"
        link.symlink_to(other)
        drive = scene.drive(str(link))
        place = find_place(drive.target, MACHINE)
        link_to_device(scene, link)
        assert DriveControl(MACHINE, drive).purge(purge_phase(), place) == "discard"
        assert not any(image.read_bytes()[:BYTES])


@pytest.mark.parametrize("swap", SWAPS)
def test_a_purge_of_what_is_something_else_by_then_is_refused(scene: Scene, swap: Swap) -> None:
    file = scene.folder / "scratch"
    file.write_bytes(bytes(BYTES))
    place = find_place(str(file), MACHINE)
    swap(scene, file)
    with pytest.raises(Refused, match="is not what was checked any more"):
        DriveControl(MACHINE, scene.drive()).purge(purge_phase(), place)


def test_a_scratch_file_is_discarded_and_one_that_is_not_there_is_fresh(scene: Scene) -> None:
    file = scene.folder / "scratch"
    drive, control = scene.drive(), DriveControl(MACHINE, scene.drive())
    assert control.purge(purge_phase(), find_place(drive.target, MACHINE)) == "discard"
    assert not file.exists()
    file.write_bytes(b"x" * BYTES)
    assert control.purge(purge_phase(), find_place(drive.target, MACHINE)) == "discard"
    assert not any(file.read_bytes()) and file.stat().st_size == BYTES


# Any shell of a drive's host


BUSYBOX = ("sh", "stat", "grep", "awk", "cat", "head", "dd", "ls", "truncate", "readlink")


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_the_scripts_of_the_host_run_in_any_posix_shell(
    scene: Scene, shell: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With its own programs alone where it brings them along (busybox)."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here (Debian: apt install {shell})")
    folder = tmp_path / "bin"
    folder.mkdir()
    if shell == "busybox":
        for name in BUSYBOX:
            (folder / name).symlink_to(program)
        monkeypatch.setenv("PATH", str(folder))
    else:
        (folder / "sh").symlink_to(program)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    machine = LocalMachine()
    file = scene.folder / "a b:c"
    (opened,) = given({"": scene.drive(file.name)}, None, machine).values()
    device = find_place(scene.device, machine)
    assert device.node is not None
    both = [opened, OpenedTarget(4, device, device.node)]
    with subprocess.Popen(
        opening(both, ["cat"], "data"),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.read(1) == b"x"
        found = read_open_files(str(tmp_path), process.pid, machine)
        assert found is not None and found.pid == process.pid
        assert difference(found, both) == ""
        assert "does not have" in difference(found, [replace(opened, number=5)])
        assert f"it has {scene.device} " in difference(found, [opened])
    assert len(set(file.read_bytes())) == 256 and file.stat().st_size == BYTES
    another_file(scene, file)
    done = machine.run(opening(both, ["true"]))
    assert done.exit_code == NOT_WHAT_WAS_CHECKED and "a b:c is not what" in done.stderr
    assert read_open_files(str(tmp_path), process.pid, machine) is None


# Whole runs


PLAN = """
name = "short"
idle_before_s = 0
idle_after_s = 0
[[sweeps]]
pattern = ["randread", "randwrite"]
queue_depth = [1, 4]
duration_s = 2
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("opens") / "bench") as running:
        yield running


def ran(
    bench: Bench, target: str, folder: Path, runs: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A run that writes, with what a scratch file needs and no permission for a device."""
    (folder / "short.toml").write_text(PLAN)
    keys = "target|engine|size_bytes|destructive|smart_device|write_bytes_per_s"
    text = re.sub(rf"(?m)^({keys}) = .*$", "", bench.rig.read_text())
    drive = {"target": target, "engine": "libaio", "size_bytes": BYTES, "write_bytes_per_s": MIB}
    lines = [f"{key} = {json.dumps(value)}" for key, value in drive.items()]
    (folder / "rig.toml").write_text(text.replace("[drive]", "\n".join(["[drive]", *lines])))
    return run(folder / "rig.toml", folder / "short.toml", runs or folder / "runs", cwd=folder)


def test_a_run_asks_for_what_a_device_needs_by_whatever_name(
    bench: Bench, scene: Scene, tmp_path: Path
) -> None:
    link = scene.folder / "link"
    link.symlink_to(scene.device)
    name = Path(scene.device).name
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:  # on another disk than the device
        runs = Path(memory) / "runs"
        for target in (str(link), f"/{scene.device}", f"/tmp/../dev/{name}"):
            done = ran(bench, target, tmp_path, runs)
            assert done.returncode == 2 and "destructive = true" in done.stderr, done
            for odd in (";x", " #", "\nexec_prerun=touch EXECUTED"):
                done = ran(bench, target + odd, tmp_path, runs)
                assert done.returncode == 2 and "drive.target" in done.stderr, done
        assert not runs.exists() and not (tmp_path / "EXECUTED").exists()


@pytest.mark.long
def test_a_run_on_a_scratch_file(bench: Bench, tmp_path: Path) -> None:
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
        loop_device(Path(memory)) as (device, _),
        mounted(device, tmp_path) as point,
    ):
        done = ran(bench, f"{point}/a b:c", tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert {file.name for file in point.iterdir()} == {"a b:c", "lost+found"}
