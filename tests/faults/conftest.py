"""One bench for the tests of this folder: what goes wrong with a run seldom depends on IOPS."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench, configure

SLOW = {"speed_divisor": 60.0}
"""Of the simulated drive: 150 IOPS at queue depth 1, and the watts of the fast one. Serving a fast
one keeps a core busy."""


@pytest.fixture(scope="package")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Running, and shared: a test leaves its drive and its meters as they were."""
    with Bench(tmp_path_factory.mktemp("faults") / "bench", configure(overrides=SLOW)) as running:
        yield running


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A mounted disk of 320 KiB; skips where none can be mounted."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"cannot mount a small tmpfs here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)
