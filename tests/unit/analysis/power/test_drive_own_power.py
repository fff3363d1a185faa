"""The drive's own watts against the meters', on synthetic runs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from labctl.analysis.phase_result import Kept
from labctl.analysis.run.drives import own_measured
from labctl.analysis.run.summary import summarise
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import RunRecord
from labctl.report.data.result_files import phases_csv
from labctl.report.pages.report import report_page
from tests.unit import synthetic_run
from tests.unit.several_drives import several


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


@pytest.mark.parametrize(
    ("gain", "percent_error", "kept"),
    [
        (1.02, 5, Kept.YES),
        (0.97, 5, Kept.YES),
        (1.08, 5, Kept.NO),
        (1.05, 5, Kept.UNDECIDED),
        (1.3, None, Kept.NOTHING_STATED),
    ],
)
def test_what_a_drive_measured_in_a_phase_is_set_against_the_meters(
    tmp_path: Path, gain: float, percent_error: int | None, kept: Kept
) -> None:
    loads = [synthetic_run.Load(0.6, 0.65, iops=110_000, duration_s=20.0)] * 3
    made = synthetic_run.build(tmp_path, synthetic_run.Bench(loads))
    lines = []
    for result in summarise(RunRecord(made.path)).phases:
        begin_ns, read_ns = result.begin_ns + 50_000_000, result.end_ns - 100_000_000
        event = {
            "t": read_ns, "kind": "drive_measurement", "since_ns": begin_ns, "u_ns": 1000,
            "intervals": (read_ns - begin_ns) // 1_000_000_000,
            "average_watts": gain * made.mean_watts[result.phase.index],
            "maximum_watts": 30.0, "percent_error": percent_error, "is_estimated": True,
            "bins": [[9.0, 12], [9.25, 7], "damaged", [1]], "beyond_last_bin": 0,
        }  # fmt: skip
        lines.append(json.dumps(event) + "\n")
    lines.append('{"t": 1, "kind": "drive_measurement", "since_ns": "soon", "intervals": 1}\n')
    lines.append('{"t": 2, "kind": "drive_measurement", "reason": "63 bytes came of 64"}\n')
    with (made.path / EVENTS_FILE).open("a") as file:
        file.writelines(lines)
    record = RunRecord(made.path)
    summary = summarise(record)
    assert "63 bytes came of 64" in summary.problems
    for result in summary.phases:
        own = result.own_measurement
        assert own is not None and result.watts is not None
        assert own.seconds == 19
        assert own.difference_pct == pytest.approx(100 * (gain - 1), abs=1.0)
        assert own.meter_watts.u >= 0.9 * result.watts.u
        assert own.kept == kept
        assert own.is_estimated and own.bins == ((9.0, 12), (9.25, 7))
    (row, *_) = csv.DictReader(phases_csv(summary).splitlines())
    assert row["drive_watts_error"] == kept.value
    assert float(row["drive_watts_max"]) == 30.0
    page = report_page(record, summary, ())
    assert "What the drive measured of itself" in page and "estimated" in page
    assert "<td>30.00</td>" in page, "the largest second"
    assert "9.00: 12, 9.25: 7" in page, "the histogram"


def test_a_measurement_of_many_phases_stands_for_none(tmp_path: Path) -> None:
    made = synthetic_run.build(tmp_path, synthetic_run.Bench())
    before = summarise(RunRecord(made.path)).phases
    event = {
        "t": before[-1].end_ns, "kind": "drive_measurement", "since_ns": before[0].begin_ns,
        "intervals": 12, "average_watts": 9.0,
    }  # fmt: skip
    with (made.path / EVENTS_FILE).open("a") as file:
        file.write(json.dumps(event) + "\n")
    assert all(one.own_measurement is None for one in summarise(RunRecord(made.path)).phases)


@pytest.mark.parametrize("has_gaps", [False, True])
def test_a_measurement_with_gaps_is_not_set_against_the_meters(
    tmp_path: Path, has_gaps: bool
) -> None:
    """Which seconds the drive has averaged is not known then."""
    loads = [synthetic_run.Load(0.6, 0.65, iops=110_000, duration_s=10.0)]
    made = synthetic_run.build(tmp_path, synthetic_run.Bench(loads))
    (phase,) = summarise(RunRecord(made.path)).phases
    event = {
        "t": phase.end_ns, "kind": "drive_measurement", "since_ns": phase.begin_ns,
        "intervals": 7, "average_watts": 30.0, "percent_error": 5, "has_gaps": has_gaps,
    }  # fmt: skip
    with (made.path / EVENTS_FILE).open("a") as file:
        file.write(json.dumps(event) + "\n")
    summary = summarise(RunRecord(made.path))
    assert (summary.phases[0].own_measurement is None) is has_gaps
    assert any("not contiguous" in line for line in summary.problems) is has_gaps


def test_each_of_several_drives_is_set_against_its_own_meters(tmp_path: Path) -> None:
    made = several(tmp_path)
    phase = summarise(made.record).phases[1]
    lines = []
    for name, watts in (("left", 7.0), ("right", 3.0)):
        event = {
            "t": phase.end_ns, "kind": "drive_measurement", "since_ns": phase.begin_ns,
            "intervals": 8, "average_watts": watts, "percent_error": 5, "drive": name,
        }  # fmt: skip
        lines.append(json.dumps(event) + "\n")
    with (made.path / EVENTS_FILE).open("a") as file:
        file.writelines(lines)
    record = RunRecord(made.path)
    summary = summarise(record)
    assert [name for name, _ in own_measured(summary)] == ["left", "right"]
    page = report_page(record, summary, ())
    table = page[page.index("What the drive measured of itself") :]
    assert "left</td><td>" in table and "right</td><td>" in table
