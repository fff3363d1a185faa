"""The systemd unit is one that systemd takes, and starts a command that exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import labctl.service.daemon
from labctl.errors import Refused
from labctl.service.daemon import unit
from labctl.service.daemon.unit import (
    ServiceOf,
    Surroundings,
    changeable,
    install,
    problems_of,
    unit_text,
)

UNIT = Path(labctl.service.daemon.__file__).parent / "labctl.service"


PLACES = {
    "as it is": Surroundings(Path("/bin/true"), ("disk", "dialout")),
    "a home with a space, a meter on USB, no groups": Surroundings(
        Path("/home/a b/true"), (), usb=True
    ),
}
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze here"
)


@needs_systemd
@pytest.mark.parametrize("of", ServiceOf)
def test_systemd_accepts_the_unit_that_is_made_for_this_place(of: ServiceOf) -> None:
    text = unit_text(of, Surroundings(Path("/bin/true"), ("disk",), usb=True))
    assert problems_of(of, text) == ""
    assert "kill mode" in problems_of(of, text.replace("KillMode=mixed", "KillMode=nonsense"))


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_service_of_the_system_has_what_its_place_needs_and_no_more(place: Surroundings) -> None:
    text = unit_text(ServiceOf.SYSTEM, place)
    at_home = place.command.is_relative_to("/home")
    assert ('ExecStart="/home/a b/true" daemon' in text) == at_home
    assert ("ProtectHome=read-only" in text) == at_home
    assert ("\nDeviceAllow=char-usb_device rw\n" in text) == place.usb
    assert f"SupplementaryGroups={' '.join(place.groups)}\n" in text
    original = UNIT.read_text().splitlines()
    changed = set(text.splitlines()) - set(original)
    keys = {line.partition("=")[0] for line in changed}
    assert keys <= {"ExecStart", "ProtectHome", "SupplementaryGroups", "DeviceAllow"}


def test_a_users_service_asks_for_no_right_that_a_user_has_not() -> None:
    text = unit_text(ServiceOf.USER, PLACES["as it is"])
    for setting in ("User=", "Capabilit", "Device", "ProtectSystem", "/etc/labctl", "/var/lib"):
        assert setting not in text
    assert "WantedBy=default.target" in text


def test_a_users_unit_is_written_again_and_another_one_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for _ in range(2):
        file, steps = install(ServiceOf.USER, Surroundings(Path("/bin/true")))
    assert file == tmp_path / "systemd" / "user" / "labctl.service"
    assert any("enable --now labctl" in step for step in steps)
    file.write_text("[Service]\nExecStart=/bin/false\n")
    with pytest.raises(Refused, match="not labctl's"):
        install(ServiceOf.USER, Surroundings(Path("/bin/true")))
    assert "/bin/false" in file.read_text()


def test_only_root_installs_a_service_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Refused, match="sudo /bin/true daemon --install-service system"):
        install(ServiceOf.SYSTEM, Surroundings(Path("/bin/true")))
    with pytest.raises(Refused, match=re.escape("sudo '/opt/a $b%/labctl' daemon")):
        install(ServiceOf.SYSTEM, Surroundings(Path("/opt/a $b%/labctl")))


def test_root_is_told_who_else_can_change_the_program_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(unit, "SYSTEM_FOLDER", tmp_path / "system")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(unit, "problems_of", lambda _of, _text: "")
    monkeypatch.setattr(sys, "executable", "/bin/true")
    monkeypatch.setattr(unit, "__file__", "/bin/true")
    folder = tmp_path / "bin"
    folder.mkdir()
    program, link = folder / "labctl", tmp_path / "labctl"
    program.write_text("#!/bin/true")
    link.symlink_to(program)
    folder.chmod(0o777)
    for command in (program, link):
        _, steps = install(ServiceOf.SYSTEM, Surroundings(command))
        told = [step for step in steps if "can be changed by others than root" in step]
        assert len(told) == 1 and told[0].startswith("# ")
        _, steps = install(ServiceOf.USER, Surroundings(command))
        assert not [step for step in steps if "others than root" in step]
    _, steps = install(ServiceOf.SYSTEM, Surroundings(Path("/bin/true")))
    assert not [step for step in steps if "others than root" in step]


def test_a_program_is_roots_alone_if_all_folders_above_it_are(tmp_path: Path) -> None:
    assert changeable(Path("/bin/true")) is None
    program = tmp_path / "labctl"
    program.write_text("#!/bin/true")
    program.chmod(0o757)
    assert changeable(program) == program
    if os.geteuid() != 0:
        return
    program.chmod(0o755)
    assert changeable(program) is None, "in a sticky folder"
    os.chown(tmp_path, 1000, 1000)
    assert changeable(program) == tmp_path


@pytest.mark.skipif(os.geteuid() != 0, reason="asks for folders of root and of another")
@pytest.mark.parametrize("link", ["bin", "bin/labctl"])
def test_a_program_is_roots_alone_if_each_link_on_the_way_to_it_is(
    link: str, tmp_path: Path
) -> None:
    """As of /usr/local/bin/labctl → ~/tools/labctl → /opt/labctl/bin/labctl."""
    for name in ("first", "last/bin", "between/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "last/bin/labctl").write_text("#!/bin/true")
    (tmp_path / "between" / link).parent.mkdir(exist_ok=True)
    if link == "bin":
        (tmp_path / "between/bin").rmdir()
    (tmp_path / "between" / link).symlink_to(tmp_path / "last" / link)
    (tmp_path / "first/labctl").symlink_to("../between/bin/labctl")
    program = tmp_path / "first/labctl"
    assert changeable(program) is None
    os.chown(tmp_path / "between", 1000, 1000)
    assert changeable(program) == tmp_path / "between"
    os.chown(tmp_path / "between", 0, 0)
    os.chown(tmp_path / "last", 1000, 1000)
    assert changeable(program) == tmp_path / "last"


def test_a_link_to_itself_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "labctl").symlink_to("labctl")
    changeable(tmp_path / "labctl")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_the_unit_and_calls_its_exposure_low(tmp_path: Path) -> None:
    """The program itself is replaced: it is not installed where the unit expects it."""
    unit = tmp_path / "labctl.service"
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/labctl", "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0 and "labctl.service:" not in verified.stderr, verified.stderr
    printed = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=30", str(unit)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert printed.returncode == 0, printed.stdout[-500:]


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
