"""Every command that opens a rig's meters or drive is refused while somebody has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labctl.config.rig import load_rig
from labctl.errors import NOT_NOW
from labctl.service.data_dir import Home
from labctl.service.locks.rig_lock import RigLock, holding_meter
from tests.forked_labctl import labctl
from tests.unit.service.locks.test_rig_lock import bench

COMMANDS = (
    "read RIG --seconds 1",
    "record RIG v12 --seconds 1",
    "calibrate RIG v12.voltage --yes",
    "calibrate RIG --against v12.voltage v33.voltage",
    "range RIG",
    "idle RIG",
    "doctor RIG",
    "run RIG demo --yes",
    "daemon RIG",
    "trim-check RIG",
)


@pytest.fixture
def rig(tmp_path: Path) -> Path:
    file = tmp_path / "nvme-adapter.toml"
    file.write_text(bench(tmp_path))
    return file


def said(command: str, rig: Path, home: Path, code: int = 2) -> str:
    words = [str(rig) if word == "RIG" else word for word in command.split()]
    done = labctl(*words, cwd=rig.parent, env={**os.environ, "LABCTL_HOME": str(home)})
    assert done.returncode == code, (command, done.stdout, done.stderr)
    return done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_rig_in_use_is_refused_by_name(command: str, rig: Path, tmp_path: Path) -> None:
    lock = RigLock.take(Home(tmp_path / "home"), load_rig(rig), "labctl run")
    mine, others = (
        said(command, rig, tmp_path / home, code=NOT_NOW) for home in ("home", "another")
    )
    assert f"labctl run (pid {os.getpid()})" in mine
    assert "in use by a labctl of another user" in others
    lock.release()


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_place_for_the_lock_nothing_is_opened(
    command: str, rig: Path, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "rigs").write_text("a file, where the locks would be")
    assert "LABCTL_HOME names another data directory" in said(command, rig, tmp_path / "home")


def test_an_address_that_somebody_has_open_is_not_asked(tmp_path: Path) -> None:
    home, address = Home(tmp_path / "home"), f"TCPIP0::meter.{tmp_path.name}::5025::SOCKET"
    with holding_meter(home, address, "labctl read"):
        environment = {**os.environ, "LABCTL_HOME": str(home.path)}
        done = labctl("instruments", address.lower(), env=environment)
        assert done.returncode == 1 and "is in use by labctl read" in done.stdout, done
