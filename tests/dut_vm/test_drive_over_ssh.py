"""Whole runs on an NVMe drive in another machine, and with that machine going away."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from labctl.record.phase import Role
from labctl.record.reader import RunRecord, find_runs
from tests.dut_vm.vm import DRIVE_BYTES, SERIAL, DutVm

pytestmark = pytest.mark.timeout(3600)

PREPARED = """
name = "prepared"
idle_before_s = 3
idle_after_s = 3

[[prepare]]
step = "purge"
[[prepare]]
step = "fill"
[[prepare]]
step = "precondition"
round_s = 4
rounds = 5

[[sweeps]]
pattern = "randread"
queue_depth = [1, 4, 16]
power_state = 0
duration_s = 12
"""
READS = """
name = "reads"
idle_before_s = 3
idle_after_s = 3
[[sweeps]]
pattern = "randread"
queue_depth = [1, 4, 8]
duration_s = 20
"""
# Twice a second: is the line up, and which fio are there? Looked at when the line is back.
WATCH = """
while :; do
    echo "$(cat /sys/class/net/eth0/carrier)" $(pgrep -x fio)
    sleep 0.5
done > /root/watch
"""


def begin(rig: Path, plan: str, folder: Path) -> subprocess.Popen[str]:
    file = folder / "plan.toml"
    file.write_text(plan)
    command = [sys.executable, "-m", "labctl.cli.main", "run", str(rig), str(file)]
    return subprocess.Popen(
        [*command, "--runs", str(folder / "runs")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def data_of(path: Path, kind: str) -> list[dict[str, Any]]:
    return [event.data for event in RunRecord(path).events if event.kind == kind]


def measuring(process: subprocess.Popen[str], folder: Path, role: str, count: int) -> Path:
    """The run, once the ``count``-th phase of this role is on."""
    deadline = time.monotonic() + 1500
    while time.monotonic() < deadline and process.poll() is None:
        for path in find_runs(folder / "runs"):
            phases = RunRecord(path).header.phases
            begun = [phases[data["index"]].role for data in data_of(path, "phase_started")]
            if begun.count(Role(role)) >= count:
                return path
        time.sleep(0.5)
    process.kill()
    raise AssertionError(process.communicate())


def finished(process: subprocess.Popen[str], path: Path) -> tuple[int, str, dict[str, Any]]:
    """Exit code, messages and summary of a run that came to its end."""
    output, errors = process.communicate(timeout=1500)
    assert "Traceback" not in errors
    return process.returncode, output + errors, json.loads((path / "summary.json").read_text())


def test_a_prepared_sweep_records_the_drives_identity_and_that_it_got_too_hot(
    vm: DutVm, rig: Path, tmp_path: Path
) -> None:
    process = begin(rig, PREPARED, tmp_path)
    path = measuring(process, tmp_path, "measure", 3)
    vm.set_critical_warning(0x02)
    try:
        code, messages, summary = finished(process, path)
    finally:
        vm.set_critical_warning(0)
    assert code == 0, messages
    assert [data["method"] for data in data_of(path, "purged")] == ["format"]
    assert [item["outcome"] for item in summary["phases"]] == ["completed"] * len(summary["phases"])
    fill = next(item for item in summary["phases"] if item["phase"]["sweep"] == "fill")
    assert fill["write"]["total_ios"] * 128 * 1024 == DRIVE_BYTES
    record = RunRecord(path)
    state = record.header.drive_state
    assert state is not None
    assert (state.model, state.serial, state.kind) == ("QEMU NVMe Ctrl", SERIAL, "nvme")
    assert (state.namespace, state.size_bytes, state.transport) == (1, DRIVE_BYTES, "pcie")
    assert [item.max_watts for item in state.power_states] == [25.0]
    assert {item.data_bytes for item in state.lba_formats} == {512, 4096}
    assert [item.data_bytes for item in state.lba_formats if item.in_use] == [512]
    assert state.link is not None and state.link.width == 1
    assert state.host.name == "dut" and state.problems == ()
    readings = record.readings("drive_temp.composite")
    assert len(readings) > 10
    assert set(readings["v"].tolist()) == {49.85}
    moved = [data["moved"] for data in data_of(path, "drive_counters")]
    assert {"critical_warning": [0, 2]} in moved


def test_a_line_that_goes_dead_ends_fio_in_the_machine_and_the_phase_comes_again(
    vm: DutVm, rig: Path, tmp_path: Path
) -> None:
    vm.run(f"systemd-run -q --unit=watch sh -c {shlex.quote(WATCH)}")
    process = begin(rig, READS, tmp_path)
    path = measuring(process, tmp_path, "measure", 1)
    with vm.network_unplugged():  # at once: one sample over ssh may take as long as the phase
        time.sleep(20)
    code, messages, summary = finished(process, path)
    seen = vm.run("systemctl stop watch; cat /root/watch").splitlines()
    dead = [line.split()[1:] for line in seen if line.startswith("0")]
    assert dead[0] != []  # at work when the line went dead
    assert dead[-1] == []  # ended by the machine itself, while nothing could reach it
    assert code == 0, messages
    assert len(data_of(path, "host_lost")) == 1, messages
    assert [data["rebooted"] for data in data_of(path, "host_back")] == [False]
    assert_one_phase_came_again(path, summary)
    assert vm.fios() == set()


def assert_one_phase_came_again(path: Path, summary: dict[str, Any]) -> None:
    cut_off = [item for item in data_of(path, "phase_ended") if item["outcome"] == "interrupted"]
    assert len(cut_off) == 1, cut_off
    started = [item["index"] for item in data_of(path, "phase_started")]
    assert started.count(cut_off[0]["index"]) == 2
    assert {item["outcome"] for item in summary["phases"]} == {"completed"}


def test_a_host_that_loses_power_is_waited_for_and_the_phase_comes_again(
    vm: DutVm, rig: Path, tmp_path: Path
) -> None:
    process = begin(rig, READS, tmp_path)
    path = measuring(process, tmp_path, "measure", 1)
    vm.kill()
    vm.start()
    code, messages, summary = finished(process, path)
    assert code == 0, messages
    assert len(data_of(path, "host_lost")) == 1, messages
    assert [data["rebooted"] for data in data_of(path, "host_back")] == [True]
    assert_one_phase_came_again(path, summary)
    assert vm.fios() == set()


def test_a_drive_that_is_pulled_ends_the_run_and_what_was_measured_stays(
    vm: DutVm, rig: Path, tmp_path: Path
) -> None:
    process = begin(rig, READS, tmp_path)
    path = measuring(process, tmp_path, "measure", 2)
    try:
        vm.run("echo 1 > /sys/class/nvme/nvme0/device/remove")
        code, messages, summary = finished(process, path)
    finally:
        vm.run("echo 1 > /sys/bus/pci/rescan; udevadm settle")
    assert code == 1, messages
    assert "is the drive connected?" in messages
    outcomes = [item["outcome"] for item in summary["phases"]]
    assert outcomes == ["completed", "completed", "failed"], outcomes
    assert data_of(path, "drive_silent") and vm.fios() == set()
