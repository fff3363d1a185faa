"""The systemd unit is one that systemd takes, and starts a command that exists."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import labctl.service.daemon

UNIT = Path(labctl.service.daemon.__file__).parent / "labctl.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_the_unit_and_calls_its_exposure_low(tmp_path: Path) -> None:
    """The program itself is replaced: it is not installed where the unit expects it."""
    unit = tmp_path / "labctl.service"
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/labctl", "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0 and "labctl.service:" not in verified.stderr, verified.stderr
    said = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=30", str(unit)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout[-500:]


def test_its_time_to_stop_is_longer_than_a_run_may_take_to_end() -> None:
    from labctl.service.daemon.run_process import KILL_WITHIN_S, STOP_WITHIN_S

    values = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line[:40])
    assert float(values["TimeoutStopSec"]) > STOP_WITHIN_S + KILL_WITHIN_S
    assert values["ExecStart"].endswith("labctl daemon")
    assert values["KillMode"] == "mixed"  # else runs get SIGTERM beside the daemon's


def test_it_has_the_rights_to_see_who_uses_a_drive_and_no_others() -> None:
    from labctl.capture.identity.all_processes import REMEDY

    values = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line[:40])
    rights = {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}
    for key in ("CapabilityBoundingSet", "AmbientCapabilities"):
        assert set(values[key].split()) == rights
    assert all(right in REMEDY for right in rights)
    page = Path(__file__).parents[4] / "docs" / "overnight.md"
    assert "### What works without root\n" in page.read_text()
