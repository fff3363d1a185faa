"""TRIM checks on a real block device, and what the blocks that are read back say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from labctl.capture.drive.discard_support import Discard, Promise, read_discard
from labctl.capture.drive.trim_check import (
    MIB,
    Contents,
    Extent,
    TrimVerdict,
    extents_of,
    trim_check,
    trim_verdict,
)
from labctl.capture.host.machine import LocalMachine
from labctl.capture.identity.block_devices import read_block_devices
from labctl.errors import ConfigurationError, Refused
from tests.forked_labctl import labctl
from tests.json_schemas import validate
from tests.loop_device import DEVICE_BYTES, loop_device, mounted, ram_filesystem
from tests.unit.capture.drive.test_safety import rig
from tests.unit.capture.identity.nvme_made import namespace_page, printed
from tests.unit.machine_of_files import MachineOfFiles

LOCAL = LocalMachine()
SIZE = 4 * MIB


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    with loop_device(tmp_path) as made:
        yield made


def meant(image: Path) -> str:
    return f'destructive = true\nserial = "{image}"'


def test_a_raw_device_that_discards_reads_as_zeros(loop: tuple[str, Path]) -> None:
    device, image = loop
    found = trim_check(rig(device, more=meant(image)), LOCAL, size_bytes=SIZE)
    assert found.verdict is TrimVerdict.WORKS, found
    assert found.extents == (Extent((DEVICE_BYTES - SIZE) // 2, SIZE),)
    assert found.before == Contents(0, 0, SIZE, 0)
    assert found.after == Contents(SIZE, 0, 0, 0)
    assert found.discard.max_bytes > 0


def test_only_the_range_that_is_named_is_written(loop: tuple[str, Path]) -> None:
    device, image = loop
    Path(device).write_bytes(b"\xa5" * DEVICE_BYTES)
    found = trim_check(rig(device, more=meant(image)), LOCAL, size_bytes=SIZE)
    (extent,) = found.extents
    left = Path(device).read_bytes()
    assert left[: extent.offset].strip(b"\xa5") == b""
    assert left[extent.offset + extent.length :].strip(b"\xa5") == b""


def test_a_raw_check_asks_the_safety_rules(loop: tuple[str, Path]) -> None:
    device, _ = loop
    with pytest.raises(Refused, match=r"drive\.destructive"):
        trim_check(rig(device), LOCAL)
    with pytest.raises(Refused, match="another drive"):
        trim_check(rig(device, more='destructive = true\nserial = "S1"'), LOCAL)
    assert Path(device).read_bytes().strip(b"\0") == b""


def test_on_a_filesystem_the_file_is_gone_and_its_blocks_are_zeros(
    loop: tuple[str, Path], tmp_path: Path
) -> None:
    device, _ = loop
    with mounted(device, tmp_path) as point:
        (point / "mine").write_text("kept")
        found = trim_check(rig(device), LOCAL, str(point), SIZE)
        assert sorted(path.name for path in point.iterdir()) == ["lost+found", "mine"]
    assert found.verdict is TrimVerdict.WORKS, found
    assert found.before is not None and found.before.pattern == SIZE
    assert found.after is not None and found.after.zeros == SIZE
    assert sum(extent.length for extent in found.extents) == SIZE


def test_a_scratch_file_is_checked_on_its_filesystem(
    loop: tuple[str, Path], tmp_path: Path
) -> None:
    device, _ = loop
    with mounted(device, tmp_path) as point:
        scratch = rig(str(point / "scratch"), more="size_bytes = 1048576")
        found = trim_check(scratch, LOCAL, size_bytes=SIZE)
    assert (found.verdict, found.device, found.folder) == (TrimVerdict.WORKS, device, str(point))


def test_a_folder_of_another_drive_is_named(loop: tuple[str, Path], tmp_path: Path) -> None:
    device, _ = loop
    with pytest.raises(ConfigurationError, match=r"--folder"):
        trim_check(rig(device), LOCAL, str(tmp_path))


def test_a_device_without_discard_is_reported_and_not_written(tmp_path: Path) -> None:
    """The kernel cannot punch holes into a file on a ramfs."""
    with ram_filesystem(tmp_path) as folder, loop_device(folder) as (device, image):
        file = tmp_path / "rig.toml"
        file.write_text(rig(device, more=meant(image)).text)
        done = labctl("trim-check", file)
        assert done.returncode == 1, done.stderr
        assert "TRIM not supported" in done.stdout and "nothing was written" in done.stdout
        assert Path(device).read_bytes().strip(b"\0") == b""


def test_the_command_prints_json_and_its_exit_code(loop: tuple[str, Path], tmp_path: Path) -> None:
    device, image = loop
    file = tmp_path / "rig.toml"
    file.write_text(rig(device, more=meant(image)).text)
    done = labctl("trim-check", file, "--size", "2m", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    validate("trim-check", found)
    assert found["verdict"] == "works" and found["after"]["zeros"] == 2 * MIB


def test_an_nbd_address_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="name a block device"):
        trim_check(rig("nbd://127.0.0.1", "nbd"), LOCAL)


BEFORE = Contents(0, 0, 4096, 0)


@pytest.mark.parametrize(
    ("promise", "after", "verdict"),
    [
        (Promise.NOTHING, Contents(4096, 0, 0, 0), TrimVerdict.WORKS),
        (Promise.ONES, Contents(0, 4096, 0, 0), TrimVerdict.WORKS),
        (Promise.DETERMINISTIC, Contents(0, 0, 0, 4096), TrimVerdict.WORKS),
        (Promise.ZEROS, Contents(3072, 0, 1024, 0), TrimVerdict.PARTLY),
        (Promise.ZEROS, BEFORE, TrimVerdict.FAILS),
        (Promise.NOTHING, BEFORE, TrimVerdict.OPEN),
        (Promise.DETERMINISTIC, BEFORE, TrimVerdict.OPEN),
    ],
)
def test_old_data_are_a_failure_only_where_the_drive_promised_others(
    promise: Promise, after: Contents, verdict: TrimVerdict
) -> None:
    assert trim_verdict(Discard(1 << 30, 512, promise), BEFORE, after)[0] is verdict


def test_a_pattern_that_was_never_at_its_place_proves_nothing() -> None:
    found, why = trim_verdict(
        Discard(1 << 30, 512, Promise.ZEROS), Contents(4096, 0, 0, 0), Contents(4096, 0, 0, 0)
    )
    assert found is TrimVerdict.OPEN and "btrfs" in why


FILEFRAG = """\
Filesystem type is: ef53
File size of f is 8388608 (16384 blocks of 512 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..    8191:      20482..     28673:   8192:
   1:     8192..   16375:      90112..     98295:   8184:      28674:
   2:    16376..   16383:          0..         7:      8:             last,inline,eof
f: 3 extents found
"""


def test_extents_are_in_bytes_and_only_those_with_a_place() -> None:
    assert extents_of(FILEFRAG) == (
        Extent(20482 * 512, 8192 * 512),
        Extent(90112 * 512, 8184 * 512),
    )


@pytest.fixture
def machine(tmp_path: Path) -> MachineOfFiles:
    made = MachineOfFiles(tmp_path / "machine")
    for name, number in (("nvme0n1", "259:0"), ("sda", "8:0")):
        made.add_disk(
            name, number, queue__discard_max_bytes="2147450880", queue__discard_granularity="512",
            device__vendor="ATA     ",
        )  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("name", "tool", "says", "promise"),
    [
        ("nvme0n1", "nvme id-ns", namespace_page(deallocate_features=9), Promise.ZEROS),
        ("nvme0n1", "nvme id-ns", namespace_page(deallocate_features=2), Promise.ONES),
        ("nvme0n1", "nvme id-ns", namespace_page(deallocate_features=0), Promise.NOTHING),
        ("nvme0n1", "nothing", "", Promise.UNKNOWN),
        (
            "sda",
            "smartctl",
            '{"trim": {"supported": true, "deterministic": true, "zeroed": true}}',
            Promise.ZEROS,
        ),
        (
            "sda",
            "smartctl",
            '{"trim": {"supported": true, "deterministic": false, "zeroed": false}}',
            Promise.NOTHING,
        ),
        (
            "sda",
            "hdparm",
            "\t   *\tData Set Management TRIM supported (limit 8 blocks)\n"
            "\t   *\tDeterministic read data after TRIM\n",
            Promise.DETERMINISTIC,
        ),
        (
            "sda",
            "hdparm",
            "\t   *\tData Set Management TRIM supported (limit 8 blocks)\n"
            "\t   *\tDeterministic read ZEROs after TRIM\n",
            Promise.ZEROS,
        ),
    ],
)
def test_the_promise_of_a_drive_is_read_from_its_tools(
    machine: MachineOfFiles, name: str, tool: str, says: str | bytes, promise: Promise
) -> None:
    machine.programs[tool] = printed(says if isinstance(says, bytes) else says.encode())
    found = read_discard(name, read_block_devices(machine), machine)
    assert (found.max_bytes, found.granularity_bytes) == (2147450880, 512)
    assert found.promise is promise


def test_a_page_that_is_too_short_is_why_the_promise_is_not_known(machine: MachineOfFiles) -> None:
    machine.programs["nvme id-ns"] = printed(namespace_page(deallocate_features=9)[:384])
    found = read_discard("nvme0n1", read_block_devices(machine), machine)
    assert found.promise is Promise.UNKNOWN
    assert found.source.endswith("384 bytes came of a page of 4096")
