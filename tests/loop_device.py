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
