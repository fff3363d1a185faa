"""A run as an ordinary user, from end to end: what works without root, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instruments.simulated.bench import Bench
from labctl.record.reader import find_runs
from tests.loop_device import DEVICE_BYTES, loop_device

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
PLAN = """
name = "short"
idle_before_s = 2
idle_after_s = 0
[[sweeps]]
name = "sweep"
pattern = "{pattern}"
queue_depth = 4
duration_s = 3
"""

pytestmark = [
    pytest.mark.bench,
    pytest.mark.long,
    pytest.mark.skipif(os.getuid() != 0, reason="another user is only root's to be"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv (util-linux) here"),
]


@pytest.fixture
def own() -> Iterator[Path]:
    """A folder of the ordinary user's, on another disk than the loop device."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


def labctl(own: Path, *words: object, capability: str = "") -> subprocess.CompletedProcess[str]:
    """As that user, who may read all: the interpreter may be in a folder of root's."""
    capabilities = "+dac_read_search" + (f",+{capability}" if capability else "")
    return subprocess.run(
        [*AS_NOBODY, f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}",
         sys.executable, "-m", "labctl.cli.main", *map(str, words)],
        capture_output=True, text=True, timeout=300, check=False, cwd=own,
        env={"HOME": str(own), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
    )  # fmt: skip


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Path]:
    """A bench whose serial ports and drive he may open."""
    with Bench(tmp_path / "bench") as bench:
        for place in (tmp_path / "bench").iterdir():
            os.chown(place.resolve(), NOBODY, NOBODY)
        yield bench.rig


def phases_of(own: Path) -> list[dict[str, Any]]:
    runs = own / "labctl-runs"
    assert stat.S_IMODE(runs.stat().st_mode) == 0o700
    (run,) = runs.iterdir()
    assert run.stat().st_uid == NOBODY
    phases: list[dict[str, Any]] = json.loads((run / "summary.json").read_text())["phases"]
    return phases


def test_an_ordinary_user_measures_what_he_may_open(own: Path, rig: Path) -> None:
    (own / "plan.toml").write_text(PLAN.format(pattern="randread"))
    done = labctl(own, "run", rig, own / "plan.toml", "--json")
    assert done.returncode == 0, done.stderr
    phases = phases_of(own)
    assert [phase["outcome"] for phase in phases] == ["completed", "completed"]
    assert all(phase["watts"]["value"] > 3 for phase in phases)


def test_an_ordinary_user_writes_over_nothing_that_others_may_have_open(
    own: Path, rig: Path, tmp_path: Path
) -> None:
    """He may write to the drive; with the capability to see who else does, he does."""
    (own / "plan.toml").write_text(PLAN.format(pattern="randwrite"))
    with loop_device(tmp_path) as (device, image):
        Path(device).chmod(0o666)
        _, _, rest = rig.read_text().partition("[rails.12V]")
        (own / "rig.toml").write_text(
            f'name = "loop"\nhost = "local"\n[drive]\ntarget = "{device}"\nserial = "{image}"\n'
            f'engine = "libaio"\ndestructive = true\n[rails.12V]{rest}'
        )
        refused = labctl(own, "run", own / "rig.toml", own / "plan.toml", "--yes")
        assert refused.returncode == 2, refused.stderr
        assert "CAP_SYS_PTRACE" in refused.stderr
        assert find_runs(own / "labctl-runs") == []
        assert image.read_bytes().count(0) == DEVICE_BYTES
        command = ("run", own / "rig.toml", own / "plan.toml", "--yes")
        done = labctl(own, *command, capability="sys_ptrace")
        assert done.returncode == 0, done.stderr
    assert [phase["outcome"] for phase in phases_of(own)] == ["completed", "completed"]
