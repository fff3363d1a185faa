"""A TRIM check where the drive is in another machine: the same, asked over ssh."""

from __future__ import annotations

from pathlib import Path

from labctl.capture.drive.trim_check import MIB, TrimVerdict, check_trim_on_host
from labctl.config.rig import parse_rig
from tests.loop_device import loop_device, mounted
from tests.ssh.sshd import HOST, Sshd
from tests.unit.capture.drive.test_safety import rig


def test_a_filesystem_over_there_is_checked(sshd: Sshd, tmp_path: Path) -> None:
    with loop_device(tmp_path) as (device, _), mounted(device, tmp_path) as point:
        there = parse_rig(f'host = "{HOST}"\n{rig(device).text}', "rig.toml")
        found = check_trim_on_host(there, str(point), 2 * MIB)
        assert [path.name for path in point.iterdir()] == ["lost+found"]
    assert found.verdict is TrimVerdict.WORKS
    assert found.after is not None and found.after.zeros == 2 * MIB
    sshd.wait_for_no_session()
