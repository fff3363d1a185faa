"""The drive's own watts against the meters', on synthetic runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labctl.analysis.run.summary import summarise
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import RunRecord
from tests.unit import synthetic_run


def told_by_the_drive(tmp_path: Path, share: float) -> RunRecord:
    """A run whose drive says ``share`` of its true watts in the middle of each phase."""
    made = synthetic_run.build(tmp_path, synthetic_run.Bench())
    lines = []
    for result in summarise(RunRecord(made.path)).phases:
        middle_ns = (result.begin_ns + result.end_ns) // 2 + 500_000_000
        assert result.watts is not None
        watts = share * result.watts.value
        lines.append(json.dumps({"t": middle_ns, "kind": "drive_power", "watts": watts}) + "\n")
    with (made.path / EVENTS_FILE).open("a") as file:
        file.writelines(lines)
    return RunRecord(made.path)


@pytest.mark.parametrize(("share", "told"), [(0.97, False), (1.05, False), (0.7, True)])
def test_drive_and_meters_are_compared_over_the_same_seconds(
    tmp_path: Path, share: float, told: bool
) -> None:
    summary = summarise(told_by_the_drive(tmp_path, share))
    found = summary.own_power
    assert found is not None and found.looks == len(summary.phases)
    assert found.difference == pytest.approx(share - 1, abs=0.02)
    assert any("the drive itself reports" in line for line in summary.problems) is told


def test_a_drive_that_does_not_measure_itself_is_not_compared(tmp_path: Path) -> None:
    made = synthetic_run.build(tmp_path, synthetic_run.Bench())
    assert summarise(RunRecord(made.path)).own_power is None
