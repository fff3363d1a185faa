"""A host on which labctl may not do everything, or lacks a tool: that costs only what it gives.

The workload, the watts and the temperature of hwmon need neither root nor a tool.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.config.plan import parse_plan
from labctl.config.rig import load_rig
from labctl.record.reader import RunRecord, find_runs
from labctl.service.doctor.checks import Level
from labctl.service.doctor.examination import examine
from tests.faults.test_runs import kinds, run
from tests.ssh.sshd import Sshd, rig_on_host

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else, or hide a tool"),
]

READS = """
name = "reads"
idle_before_s = 2
idle_after_s = 1
[[sweeps]]
pattern = "randread"
queue_depth = [1, 8]
duration_s = 4
"""
SOMEBODY = 'exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "$SSH_ORIGINAL_COMMAND"'
WITHOUT_TOOLS = (
    "exec unshare --mount sh -c "
    "'mount -t tmpfs none /usr/sbin && exec sh -c \"$SSH_ORIGINAL_COMMAND\"'"
)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """Its drive may be used by everybody; what the drive tells only root may read."""
    with tempfile.TemporaryDirectory(prefix="labctl-host-") as folder:
        Path(folder).chmod(0o755)
        with Bench(Path(folder) / "bench") as running:
            (running.directory / "drive.sock").chmod(0o666)
            (running.directory / "nvme-state").chmod(0o700)
            yield running


@pytest.fixture
def rig(bench: Bench, tmp_path: Path) -> Path:
    return rig_on_host(bench, tmp_path)


def examined_and_measured(
    rig: Path, login: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], RunRecord]:
    """Warnings of the doctor, and what a run recorded that came to its end all the same."""
    folder = rig.parent
    (folder / "reads.toml").write_text(READS)
    with Sshd(folder / "sshd", login=login) as server:
        monkeypatch.setenv("LABCTL_SSH_CONFIG", str(server.config))
        found = examine(load_rig(rig), parse_plan(READS, "reads.toml"), folder / "runs")
        done = run(rig, folder / "reads.toml", folder / "runs")
    assert found.exit_code == 0, found.checks
    assert done.returncode == 0, done.stderr
    (path,) = find_runs(folder / "runs")
    summary = json.loads((path / "summary.json").read_text())
    assert {item["outcome"] for item in summary["phases"]} == {"completed"}
    for item in (one for one in summary["phases"] if one["phase"]["role"] == "measure"):
        assert item["watts"] is not None, item
        assert item["read"]["total_ios"] > 0 and item["watts"]["value"] > 0
        assert item["temperatures"]["composite"]["start"] > 0
    assert kinds(path, "drive_counters") == kinds(path, "drive_state") == []
    warnings = [
        f"{check.text}; {check.todo}"
        for check in found.checks
        if check.subject in ("host", "drive") and check.level is Level.WARNING
    ]
    return warnings, RunRecord(path)


@pytest.mark.long
def test_without_root_the_drives_own_log_is_lost_and_nothing_else(
    rig: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings, record = examined_and_measured(rig, SOMEBODY, monkeypatch)
    assert [line for line in warnings if "run labctl as root there" in line], warnings
    state = record.header.drive_state
    assert state is not None and state.smart is None
    assert [line for line in state.problems if "not permitted" in line], state.problems


@pytest.mark.long
def test_without_its_tools_the_drives_own_log_is_lost_and_nothing_else(
    rig: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("no mounts of one's own here (in a container?)")
    tools = f'tools = "{bench.directory}"\n'
    assert tools in rig.read_text()
    rig.write_text(rig.read_text().replace(tools, ""))
    warnings, record = examined_and_measured(rig, WITHOUT_TOOLS, monkeypatch)
    assert [line for line in warnings if "install nvme-cli" in line], warnings
    assert [line for line in warnings if "install smartmontools" in line], warnings
    state = record.header.drive_state
    assert state is not None and state.smart is None
    assert len(state.problems) == 2
