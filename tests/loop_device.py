"""A real block device with discard: a loop device over a sparse file, in which it punches holes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

DEVICE_BYTES = 96 << 20


def _run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def loop_device(folder: Path) -> Iterator[tuple[str, Path]]:
    """The device and its image. Skips where loop devices cannot be made."""
    if os.getuid() != 0 or shutil.which("losetup") is None:
        pytest.skip("a loop device needs root and losetup")
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(DEVICE_BYTES)
    try:
        device = _run("losetup", "--find", "--show", str(image))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop device to be had here: {error.stderr.strip()}")
    try:
        yield device, image
    finally:
        _run("losetup", "--detach", device)


@contextlib.contextmanager
def mounted(device: str, folder: Path) -> Iterator[Path]:
    """An ext4 on the device, mounted."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4 here (Debian: apt install e2fsprogs)")
    _run("mkfs.ext4", "-q", device)
    with _mount(folder / "mounted", device) as point:
        yield point


@contextlib.contextmanager
def ram_filesystem(folder: Path) -> Iterator[Path]:
    """A filesystem whose files have no holes. Skips where nothing may be mounted."""
    with _mount(folder / "ram", "-t", "ramfs", "none") as point:
        yield point


@contextlib.contextmanager
def _mount(point: Path, *what: str) -> Iterator[Path]:
    point.mkdir()
    try:
        _run("mount", *what, str(point))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"nothing may be mounted here: {error.stderr.strip()}")
    try:
        yield point
    finally:
        _run("umount", str(point))


class FailingDisk:
    """A disk of its own that turns read-only as the kernel does it to a disk with an error."""

    def __init__(self, device: str, point: Path) -> None:
        self.point = point
        self._device = device

    def fail(self) -> None:
        """Have its filesystem find an error (``errors=remount-ro`` of ext4(5))."""
        trigger = Path("/sys/fs/ext4") / Path(self._device).name / "trigger_fs_error"
        try:
            trigger.write_text("1")
        except OSError as error:
            pytest.skip(f"no filesystem can be made to fail here: {error}")

    def mount(self) -> None:
        """Make it usable."""
        try:
            _run("mount", "-o", "errors=remount-ro", self._device, str(self.point))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"nothing may be mounted here: {error.stderr.strip()}")

    def repair(self) -> None:
        """As a person does it: unmount, check, mount."""
        _run("umount", str(self.point))
        checked = subprocess.run(
            ["e2fsck", "-f", "-y", self._device], capture_output=True, text=True, check=False
        )
        assert checked.returncode < 4, checked.stdout  # e2fsck(8): 1 and 2 are corrected errors
        self.mount()


@contextlib.contextmanager
def failing_disk(folder: Path) -> Iterator[FailingDisk]:
    """A mounted ext4 that can fail. Skips where there can be none."""
    with loop_device(folder) as (device, _):
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("no mkfs.ext4 here (Debian: apt install e2fsprogs)")
        _run("mkfs.ext4", "-q", device)
        point = folder / "failing"
        point.mkdir()
        disk = FailingDisk(device, point)
        disk.mount()
        try:
            yield disk
        finally:
            _run("umount", str(point))
