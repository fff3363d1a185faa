"""A phase that ended because of a number shows that number, wherever it is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labctl.analysis.compare.points import measured_points
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.record.layout import HEADER_FILE
from labctl.record.point_end import PointEnd, PointEnding, PointNumber, PointState
from labctl.record.reader import RunRecord
from labctl.report.data.result_files import phase_rows
from labctl.report.pages.report import report_page
from tests.unit.synthetic_run import WORK, Bench, Load, build

WATTS, IOPS = PointNumber(0.49, 0.15, 0.44, 0.5), PointNumber(0.9, 0.0, 0.9, 1.0)
STATE = PointState(WATTS, IOPS)


def ended(path: Path, end: object, only_rail: str = "", loads: Sequence[Load] = WORK) -> RunRecord:
    """A run whose phase 3 ended so; ``only_rail``: the others are no rails of the rig."""
    run = build(path, Bench(loads=loads))
    journal = run.path / "journal.jsonl"
    lines: list[dict[str, Any]] = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "phase_ended" and line["index"] == 3:
            line["point"] = end.to_json() if isinstance(end, PointEnd) else end
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if only_rail:
        file = run.path / HEADER_FILE
        header = json.loads(file.read_text())
        header["rails"] = [rail for rail in header["rails"] if rail["name"] == only_rail]
        file.write_text(json.dumps(header))
    return run.record


def shares(summary: RunSummary) -> dict[str, float | None]:
    """The repeatability of what the phase says, as shares."""
    item = summary.phases[3]
    estimates = {
        "watts": item.watts,
        "joules": item.joules,
        "watts without throttling": item.watts_unthrottled,
        "IOPS": item.iops_unthrottled,
    }
    return {
        name: None
        if one is None or one.repeatability is None
        else round(one.repeatability / one.value, 9)
        for name, one in estimates.items()
    }


@pytest.mark.parametrize("how", [PointEnding.TARGET, PointEnding.SETTLED])
def test_results_have_the_repeatability_that_the_phase_ended_with(
    tmp_path: Path, how: PointEnding
) -> None:
    record = ended(tmp_path, PointEnd(how, STATE))
    summary = summarise(record)
    assert shares(summary) == {
        "watts": 0.0044,
        "joules": 0.0044,
        "watts without throttling": 0.0044,
        "IOPS": 0.009,
    }
    item = summary.phases[3]
    assert item.iops_per_watt is not None and item.iops_per_watt.repeatability is not None
    both = (0.0044**2 + 0.009**2) ** 0.5
    assert item.iops_per_watt.repeatability == pytest.approx(both * item.iops_per_watt.value)
    page = report_page(record, summary, ())
    assert "watts ±0.49 → 0.5 %   IOPS ±0.9 → 1 %" in page
    assert "more rarely than once in 3" in page
    row = phase_rows(summary)[3]
    assert row["watts_repeatability"] == pytest.approx(0.0044 * float(row["watts"] or 0))
    assert (row["point_watts_u_pct"], row["point_iops_u_pct"]) == (0.49, 0.9)
    (compared,) = (
        one for one in measured_points(record, summary, ()).values() if one.result is item
    )
    assert compared.iops is not None and compared.iops.repeatability is not None
    assert compared.iops.repeatability == pytest.approx(0.009 * compared.iops.value)


def test_the_only_rail_has_the_repeatability_of_all(tmp_path: Path) -> None:
    end = PointEnd(PointEnding.TARGET, STATE)
    item = summarise(ended(tmp_path, end, "12V")).phases[3]
    (rail,) = item.rails.values()
    assert item.watts is not None and rail.watts == item.watts
    assert item.joules is not None and rail.joules == item.joules


def test_a_number_that_was_not_asked_for_is_estimated_from_its_readings(tmp_path: Path) -> None:
    estimated = shares(summarise(ended(tmp_path / "a", None)))
    end = PointEnd(PointEnding.TARGET, PointState(None, IOPS))
    found = shares(summarise(ended(tmp_path / "b", end)))
    assert found["watts"] == estimated["watts"] and found["IOPS"] == 0.009


@pytest.mark.parametrize("share", [-1.0, "0.4", None, [0.4]])
def test_a_number_that_is_none_is_not_believed(tmp_path: Path, share: object) -> None:
    estimated = shares(summarise(ended(tmp_path / "a", None)))
    data = PointEnd(PointEnding.TARGET, STATE).to_json()
    data["watts"]["repeats_pct"] = share
    assert shares(summarise(ended(tmp_path / "b", data)))["watts"] == estimated["watts"]


def test_none_is_stated_of_what_was_slower_than_its_longest_time(tmp_path: Path) -> None:
    """Half of the phase at one level, half at another: the readings give none."""
    loads = list(WORK)
    loads[3] = replace(WORK[3], shape=lambda t: np.where(t < 5, 1.0, 3.0))
    found = {
        how: shares(summarise(ended(tmp_path / how.value, PointEnd(how, STATE), loads=loads)))
        for how in PointEnding
    }
    assert found[PointEnding.LONGEST]["watts"] is None
    assert found[PointEnding.TARGET]["watts"] == 0.0044
