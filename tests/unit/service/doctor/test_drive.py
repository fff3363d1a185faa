"""What ``labctl doctor`` says of a drive that answers so."""

from __future__ import annotations

import pytest

from labctl.config.rig import parse_rig
from labctl.record.drive_state import DriveState, SmartLog
from labctl.service.doctor.checks import Level
from labctl.service.doctor.drive import check_health
from tests.unit.config.test_rig import RIG


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
