"""What may be done to a target is decided in one place, before anything is touched."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labctl.capture.drive.check_target import check_target
from labctl.config.rig import Rig, parse_rig
from labctl.errors import ConfigurationError, Refused
from labctl.record.phase import Pattern, Phase, Role

READ = Phase(0, Role.MEASURE, "s", Pattern.RANDREAD, 1.0, 4096, 1, 1)
WRITE = Phase(0, Role.MEASURE, "s", Pattern.RANDWRITE, 1.0, 4096, 1, 1, read_pct=0)


def rig(target: str, engine: str = "libaio", more: str = "") -> Rig:
    return parse_rig(
        f"""
name = "r"
[drive]
target = "{target}"
engine = "{engine}"
{more}
[rails.12V]
nominal_volts = 12
voltage = "v.voltage"
current = {{ channel = "i.voltage", shunt_ohm = 0.05 }}
[instruments.v]
driver = "scpi_dmm"
resource = "TCPIP0::127.0.0.1::1::SOCKET"
model = "34401A"
function = "voltage"
range = 100
interval_s = 0.1
nplc = 1
[instruments.i]
driver = "scpi_dmm"
resource = "TCPIP0::127.0.0.1::2::SOCKET"
model = "34401A"
function = "voltage"
range = 0.1
interval_s = 0.1
nplc = 1
""",
        "rig.toml",
    )


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another filesystem than the tests' own."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_a_scratch_file_needs_no_permission(tmp_path: Path, elsewhere: Path) -> None:
    target = rig(str(elsewhere / "scratch"), more="size_bytes = '1m'")
    if tmp_path.stat().st_dev == elsewhere.stat().st_dev:
        pytest.skip("there is only one filesystem here")
    check_target(target, [WRITE], tmp_path)


def test_the_journal_never_lies_beside_the_scratch_file(tmp_path: Path) -> None:
    target = rig(str(tmp_path / "scratch"), more="size_bytes = '1m'")
    with pytest.raises(Refused, match="same filesystem"):
        check_target(target, [READ], tmp_path / "runs")


def test_a_missing_target_says_what_to_do(tmp_path: Path) -> None:
    for more in ("", "size_bytes = '1g'"):  # never made as a file in the folder of devices
        with pytest.raises(ConfigurationError, match="is the drive connected"):
            check_target(rig("/dev/no-such-device", more=more), [WRITE], tmp_path)
    with pytest.raises(ConfigurationError, match=r"drive\.size_bytes"):
        check_target(rig("/dev/shm/no-such-file"), [READ], tmp_path)
    with pytest.raises(ConfigurationError, match="there is no directory"):
        check_target(rig("/no/where/x", more="size_bytes = 4096"), [READ], tmp_path)


def test_a_directory_is_no_target(tmp_path: Path, elsewhere: Path) -> None:
    with pytest.raises(ConfigurationError, match="must be a block device"):
        check_target(rig(str(elsewhere)), [READ], tmp_path)


def test_nothing_behind_an_nbd_address_is_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is the drive on"):
        check_target(rig(f"nbd+unix:///?socket={tmp_path}/no", "nbd"), [READ], tmp_path)
    with pytest.raises(ConfigurationError, match="must look like"):
        check_target(rig("nonsense", "nbd"), [READ], tmp_path)


def test_writing_to_an_nbd_drive_needs_destructive(tmp_path: Path) -> None:
    address = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        uri = f"nbd+unix:///?socket={address}"
        check_target(rig(uri, "nbd"), [READ], tmp_path)
        with pytest.raises(Refused, match="destructive = true"):
            check_target(rig(uri, "nbd"), [WRITE], tmp_path)
        check_target(rig(uri, "nbd", "destructive = true"), [WRITE], tmp_path)


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[Path]:
    """A real block device."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make a loop device")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    made = subprocess.run(
        ["losetup", "--show", "-f", str(image)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no loop devices here: {made.stderr.strip()}")
    device = Path(made.stdout.strip())
    yield device
    subprocess.run(["losetup", "-d", str(device)], check=False)


def test_a_block_device_is_written_only_with_flag_and_right_serial(
    loop_device: Path, elsewhere: Path
) -> None:
    device = str(loop_device)
    check_target(rig(device), [READ], elsewhere)
    with pytest.raises(Refused, match="destructive = true"):
        check_target(rig(device), [WRITE], elsewhere)
    with pytest.raises(Refused, match=r"needs drive\.serial"):
        check_target(rig(device, more="destructive = true"), [WRITE], elsewhere)
    with pytest.raises(Refused, match="another drive"):
        wrong = rig(device, more="destructive = true\nserial = 'S123'")
        check_target(wrong, [WRITE], elsewhere)


def test_the_disk_that_holds_the_journal_is_refused(tmp_path: Path, elsewhere: Path) -> None:
    number = tmp_path.stat().st_dev
    entry = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not entry.exists():
        pytest.skip("the tests' filesystem is on no block device")
    device = Path("/dev") / entry.resolve().name
    if not device.exists():
        pytest.skip("the tests' disk has no device node")
    with pytest.raises(Refused, match="drive under test"):
        check_target(rig(str(device)), [READ], tmp_path)
    if b" / " in Path("/proc/self/mountinfo").read_bytes():
        meant = rig(str(device), more="destructive = true\nserial = ''")
        with pytest.raises(Refused):
            check_target(meant, [WRITE], elsewhere)


def test_a_file_that_somebody_else_made_is_not_written_over(
    tmp_path: Path, elsewhere: Path
) -> None:
    file = elsewhere / "guest.qcow2"
    file.write_bytes(b"x" * 8192)
    check_target(rig(str(file)), [READ], tmp_path)
    for more in ("", "size_bytes = '1m'"):
        with pytest.raises(Refused, match=r"is there already, with 8192 bytes.*size_bytes = 8192"):
            check_target(rig(str(file), more=more), [WRITE], tmp_path)
    for more in ("size_bytes = 8192", "destructive = true"):
        check_target(rig(str(file), more=more), [WRITE], tmp_path)
    file.write_bytes(b"")
    check_target(rig(str(file), more="size_bytes = '1m'"), [WRITE], tmp_path)


def test_the_image_of_a_loop_device_is_not_written_over(
    loop_device: Path, tmp_path: Path, elsewhere: Path
) -> None:
    image = rig(str(tmp_path / "image"), more="size_bytes = '16m'\ndestructive = true")
    with pytest.raises(Refused, match=f"is the image of {loop_device}"):
        check_target(image, [WRITE], elsewhere)
