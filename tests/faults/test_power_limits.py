"""Power limits that a run sets are put back to what each drive had, however the run ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.simulated.bench import DEFAULT_METERS, BenchConfig
from labctl.capture.identity.nvme_pages import power
from labctl.config.rig import load_rig
from labctl.record.events import EventKind
from labctl.record.reader import RunRecord
from labctl.service.runs.killed_runs import end_leftovers
from tests.bench.several_benches import SeveralBenches
from tests.faults.conftest import SLOW
from tests.faults.daemon_run import DaemonProcess, labctl
from tests.faults.resumed_run import Interruptible

pytestmark = [pytest.mark.bench, pytest.mark.fault, pytest.mark.timeout(600)]

HUNDREDTHS = 2 << 16
"""Feature 23h of NVMe 2.3 in units of 10 mW."""
BEFORE = {"left": HUNDREDTHS | 2000, "right": 0}
"""20 W, and no limit."""
PLAN = """
name = "limited"
idle_before_s = 1
idle_after_s = 1
[[sweeps]]
pattern = "randread"
queue_depth = 4
power_limit_watts = 9
duration_s = 1
[[sweeps]]
pattern = "randread"
queue_depth = 4
power_limit_watts = 6
duration_s = {seconds}
"""
METERS = tuple(meter for meter in DEFAULT_METERS if meter.name in ("v12", "i12", "v33", "i33"))
Limits = dict[str, int]


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBenches]:
    serial = {"identity.serial": "SIM0000000000002"}
    configs = {
        "left": BenchConfig(seed=51, meters=METERS, overrides=SLOW),
        "right": BenchConfig(seed=52, meters=METERS, overrides={**SLOW, **serial}),
    }
    with SeveralBenches(tmp_path_factory.mktemp("limits") / "benches", configs) as running:
        yield running


def nvme(benches: SeveralBenches, drive: str, *words: str) -> bytes:
    """What nvme-cli answers on a bench, without labctl."""
    one = load_rig(benches.rig).drives[drive]
    command, *options = words
    call = [f"{one.tools}/nvme", command, str(one.smart_device), *options]
    return subprocess.run(call, check=True, capture_output=True).stdout


def limits(benches: SeveralBenches) -> Limits:
    """Feature 23h of each drive."""
    found = {}
    for drive in BEFORE:
        answer = nvme(benches, drive, "get-feature", "--feature-id=0x23")
        found[drive] = int(answer.rpartition(b"value:")[2], 16)
    return found


def set_limits_of_before(benches: SeveralBenches) -> None:
    for drive, value in BEFORE.items():
        fields = ("--opcode=0x09", "--cdw10=0x23", f"--cdw13={value}")
        nvme(benches, drive, "admin-passthru", *fields)
    assert limits(benches) == BEFORE


def begun(benches: SeveralBenches, folder: Path, seconds: int) -> Interruptible:
    """A run in the phase with the lower limit, which lasts ``seconds``."""
    set_limits_of_before(benches)
    (folder / "plan.toml").write_text(PLAN.format(seconds=seconds))
    run = Interruptible(benches.rig, folder / "plan.toml", folder / "runs")
    run.go_on()
    run.until(EventKind.PHASE_STARTED, index=2)
    assert [power(value) for value in limits(benches).values()] == [6.0, 6.0]
    return run


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_stopped_gives_each_drive_its_limit_back(
    benches: SeveralBenches, tmp_path: Path, number: signal.Signals
) -> None:
    run = begun(benches, tmp_path, seconds=60)
    run.kill(number)
    assert limits(benches) == BEFORE
    end = RunRecord(run.path).end
    assert end is not None and end.data["outcome"] == "aborted"


def test_who_comes_after_a_killed_run_gives_each_drive_its_limit_back(
    benches: SeveralBenches, tmp_path: Path
) -> None:
    run = begun(benches, tmp_path, seconds=60)
    run.kill()
    assert limits(benches) != BEFORE
    lines = end_leftovers(run.path, load_rig(benches.rig))
    assert sum("power limit" in line and line.endswith("put back") for line in lines) == 2, lines
    assert limits(benches) == BEFORE


@pytest.mark.long
def test_a_killed_run_that_goes_on_sets_its_limits_again_and_gives_them_back(
    benches: SeveralBenches, tmp_path: Path
) -> None:
    run = begun(benches, tmp_path, seconds=8)
    run.kill()
    summary = run.finish()
    assert limits(benches) == BEFORE
    assert [phase.outcome for phase in summary.measured] == ["completed", "completed"]


@pytest.mark.long
@pytest.mark.parametrize("end", ["done", "cancelled", "killed"])
def test_a_job_of_the_daemon_gives_each_drive_its_limit_back(
    benches: SeveralBenches, tmp_path: Path, end: str
) -> None:
    set_limits_of_before(benches)
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.format(seconds=4 if end == "done" else 60))
    with DaemonProcess(tmp_path / "home", benches.rig) as daemon:
        labctl(tmp_path / "home", "queue", "add", str(benches.rig), str(plan))
        daemon.until(lambda: set(limits(benches).values()) == {HUNDREDTHS | 600})
        if end == "killed":
            daemon.end(signal.SIGKILL)
            daemon.start()
        if end != "done":
            labctl(tmp_path / "home", "queue", "cancel", "1")
        daemon.until(lambda: limits(benches) == BEFORE)
