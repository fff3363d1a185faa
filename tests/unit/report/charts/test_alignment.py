"""The picture of an imported recording over fio's phases."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from labctl.analysis.readings.imported import imported_clocks
from labctl.analysis.run.summary import summarise
from labctl.analysis.run.timeline import timeline
from labctl.importing.clock import ClockRules
from labctl.importing.make_run import Labels, import_run
from labctl.importing.meter_channels import MeterFile
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from labctl.report.charts.alignment import alignment_chart
from labctl.report.charts.run_charts import run_charts
from labctl.report.charts.static_svg import static_svg
from labctl.report.charts.theme import Chart
from labctl.report.charts.time_axis import WIDTH
from tests.unit.importing.exported import Clock as Shown
from tests.unit.importing.exported import bench, meter_of
from tests.unit.virtual_bench import Work

AHEAD_S = 7.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = bench(tuple(Work(Pattern.RANDREAD, 3.0, 4096, depth) for depth in (1, 4, 16)))
    folder = tmp_path_factory.mktemp("files")
    made.write_csv(folder / "meter.csv", Shown(ahead_s=AHEAD_S))
    made.write_fio(folder / "fio")
    return folder


def drawn(folder: Path, root: Path, rules: ClockRules) -> tuple[RunRecord, Chart]:
    file = folder / "meter.csv"
    works = read_workload([folder / "fio"])
    made = import_run(works, [MeterFile(file, meter_of(file))], root, Labels("a", "b"), rules)
    record = RunRecord(made.path)
    summary = summarise(record)
    line = timeline(record, summary.begin_ns, summary.end_ns)
    chart = alignment_chart(summary, line, imported_clocks(record))
    assert chart is not None
    return record, chart


def test_names_of_phases_do_not_run_into_each_other_on_a_narrow_screen(
    folder: Path, tmp_path: Path
) -> None:
    """They were chosen for a width, and the page made the chart of 400 px as narrow as that."""
    record, _ = drawn(folder, tmp_path, ClockRules())
    summary = summarise(record)
    charts = run_charts(record, summary)
    named = [
        chart
        for chart in charts
        if any(rows and "phase" in rows[0] and "label" in rows[0] for rows in rows_of(chart))
    ]
    assert {chart.name for chart in named} == {"run", "alignment"}
    assert {chart.spec["usermeta"]["narrowest_px"] for chart in named} == {WIDTH}


def rows_of(chart: Chart) -> list[list[dict[str, object]]]:
    return list(chart.spec["datasets"].values())


def test_the_watts_step_at_the_dashed_edges(folder: Path, tmp_path: Path) -> None:
    record, chart = drawn(folder, tmp_path, ClockRules())
    rows = list(chart.spec["datasets"].values())
    watts = next(one for one in rows if "watts" in one[0])
    edges = [row["t"] for one in rows if one and set(one[0]) == {"t"} for row in one]
    steps = [
        (abs(after["watts"] - before["watts"]), after["t"])
        for before, after in itertools.pairwise(watts)
    ]
    largest = sorted(steps, reverse=True)[:3]
    assert all(min(abs(edge - t) for edge in edges) < 0.2 for _, t in largest)
    assert "alignment" in {one.name for one in run_charts(record, summarise(record))}


def test_the_offset_that_was_taken_is_the_lowest_of_those_searched(
    folder: Path, tmp_path: Path
) -> None:
    record, chart = drawn(folder, tmp_path, ClockRules())
    (clock,) = imported_clocks(record)
    assert clock.best is not None and clock.second is not None
    assert clock.best[0] == pytest.approx(-AHEAD_S, abs=0.1)
    lowest = min(clock.searched, key=lambda point: point[1])
    assert lowest[0] == pytest.approx(clock.best[0], abs=0.1)
    assert len({round(left, 3) for _, left in clock.searched}) > 20
    svg = static_svg(chart.spec)
    assert "taken: " in svg and "next best: " in svg and "variance left" in svg


def test_an_offset_that_was_given_is_drawn_without_a_search(folder: Path, tmp_path: Path) -> None:
    _, chart = drawn(folder, tmp_path, ClockRules(offset_s=-AHEAD_S, u_s=0.1))
    svg = static_svg(chart.spec)
    assert "power (W)" in svg and "variance left" not in svg
