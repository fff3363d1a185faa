"""A real NVMe drive asked by somebody without root, and on a host without its tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.capture.drive.check_target import check_target
from labctl.capture.host.ssh import SshMachine
from labctl.capture.identity.identify import identify
from labctl.config.rig import parse_rig
from labctl.errors import Refused
from labctl.record.drive_state import DriveState
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.reader import RunRecord, find_runs
from tests.dut_vm.conftest import rig_text
from tests.dut_vm.test_drive_over_ssh import begin
from tests.dut_vm.vm import DRIVE, HOST, SERIAL, USER, USERS_HOST, DutVm

pytestmark = pytest.mark.timeout(1800)

READ, WRITE = (
    Phase(0, Role.MEASURE, "s", pattern, 1.0, 4096, 1, 1, read_pct=read_pct)
    for pattern, read_pct in ((Pattern.RANDREAD, 100), (Pattern.RANDWRITE, 0))
)
SHORT = """
name = "short"
idle_before_s = 3
idle_after_s = 3
[[sweeps]]
pattern = "randread"
queue_depth = 4
duration_s = 10
"""


def known_by_the_kernel(state: DriveState) -> None:
    assert (state.model, state.serial) == ("QEMU NVMe Ctrl", SERIAL)
    assert state.link is not None and state.link.width == 1
    assert [sensor.celsius for sensor in state.temperature_sensors] == [49.85]
    assert state.warning_celsius is not None
    assert state.smart is None and state.power_states == ()


def test_a_user_without_root_measures_what_his_group_may_read(
    vm: DutVm, bench: Bench, tmp_path: Path
) -> None:
    vm.add_user()
    somebody = SshMachine(USERS_HOST)
    text = rig_text(bench).replace(f'host = "{HOST}"', f'host = "{USERS_HOST}"')
    rig = parse_rig(text, "rig.toml")
    for phase, reason in (
        (READ, "have the user join its group (disk)"),
        (WRITE, "cannot be seen; run labctl there as root"),
    ):
        with pytest.raises(Refused) as refused:
            check_target(rig, [phase], tmp_path / "runs", somebody)
        assert reason in str(refused.value)
    vm.run(f"usermod -aG disk {USER}")
    check_target(rig, [READ], tmp_path / "runs", somebody)
    (tmp_path / "rig.toml").write_text(text)
    process = begin(tmp_path / "rig.toml", SHORT, tmp_path)
    output, errors = process.communicate(timeout=1500)
    assert process.returncode == 0, output + errors
    (path,) = find_runs(tmp_path / "runs")
    record = RunRecord(path)
    assert len(record.readings("drive_temp.composite")) > 5
    state = record.header.drive_state
    assert state is not None
    known_by_the_kernel(state)
    assert len(state.problems) == 2, state.problems
    assert all("run labctl as root there" in line for line in state.problems), state.problems


def test_a_host_without_the_tools_still_identifies_the_drive(vm: DutVm) -> None:
    tools = "nvme smartctl"
    vm.run(f"cd /usr/sbin && for one in {tools}; do mv $one /root/; done")
    try:
        state = identify(SshMachine(HOST), DRIVE)
    finally:
        vm.run(f"cd /root && for one in {tools}; do mv $one /usr/sbin/; done")
    known_by_the_kernel(state)
    nvme, smart = state.problems
    assert nvme.endswith("install nvme-cli") and smart.endswith("install smartmontools")
