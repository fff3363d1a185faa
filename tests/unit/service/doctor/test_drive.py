"""What ``labctl doctor`` says of a drive that answers so."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.capture.host.machine import Completed
from labctl.config.rig import parse_rig
from labctl.record.drive_state import DriveState, PowerThreshold, SmartLog
from labctl.record.phase import Pattern, Phase, Role
from labctl.service.doctor.checks import Level
from labctl.service.doctor.drive import check_health, check_power_state
from tests.unit.config.test_rig import RIG
from tests.unit.machine_of_files import MachineOfFiles


@pytest.mark.parametrize("level", [None, 0, 1, 3])
def test_a_drive_that_says_that_it_throttles_now_is_a_warning(level: int | None) -> None:
    smart = SmartLog(composite_celsius=40.0, thermal_throttling_level=level)
    state = DriveState("/dev/nvme0n1", smart=smart, warning_celsius=80.0)
    found = [
        check
        for check in check_health(parse_rig(RIG, "rig.toml"), state, ())
        if "throttles now" in check.text
    ]
    words = [(Level.WARNING, f"it says that it throttles now (level {level})")] if level else []
    assert [(check.level, check.text) for check in found] == words


@pytest.mark.parametrize("kind", ["nvme", ""])
@pytest.mark.parametrize(
    ("limit_watts", "threshold", "words"),
    [
        (0, None, "power state 0, power limit none"),
        (0, PowerThreshold(), "power state 0, power limit none, power threshold none"),
        (
            0,
            PowerThreshold(25.0),
            "power state 0, power limit none, power threshold 25 W, not enabled",
        ),
        (15, None, "it has a power limit of 15 W, and holds back for it"),
    ],
)
def test_power_limit_and_threshold_are_said_with_the_power_state(
    tmp_path: Path, kind: str, limit_watts: int, threshold: PowerThreshold | None, words: str
) -> None:
    rig, machine = parse_rig(RIG, "rig.toml"), MachineOfFiles(tmp_path)
    for feature, value in (("2", 0), ("0x23", limit_watts and 2 << 16 | 100 * limit_watts)):
        command = f"nvme get-feature /dev/nvme9 --feature-id={feature}"
        said = f"get-feature:{feature} (Feature), Current value:{value:#010x}"
        machine.programs[command] = Completed(0, said, "")
    state = DriveState(rig.drive.target, kind=kind, has_power_limit=True, power_threshold=threshold)
    (check,) = check_power_state(rig, state, (), machine)
    assert check.text == words
    assert check.level is (Level.WARNING if limit_watts else Level.OK)
    phase = Phase(0, Role.MEASURE, "s", Pattern.RANDREAD, 1.0, power_limit_watts=15.0)
    (check,) = check_power_state(rig, state, (phase,), machine)
    assert check.level is Level.OK, "the plan sets its own"


@pytest.mark.parametrize("kind", ["nvme", "sata", ""])
def test_a_plan_with_power_limits_is_held_against_a_drive_of_any_kind(
    tmp_path: Path, kind: str
) -> None:
    rig, machine = parse_rig(RIG, "rig.toml"), MachineOfFiles(tmp_path)
    command = "nvme get-feature /dev/nvme9 --feature-id=2"
    machine.programs[command] = Completed(0, "get-feature:2 (Feature), Current value:0x0", "")
    state = DriveState(rig.drive.target, kind=kind)
    phase = Phase(0, Role.MEASURE, "s", Pattern.RANDREAD, 1.0, power_limit_watts=15.0)
    (check, *_) = check_power_state(rig, state, (phase,), machine)
    assert check.level is Level.TROUBLE and "takes no power limit" in check.text
