"""The review charts: valid, with every number beside them, and a page that loads nothing."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.methods.conditioned import Conditioned
from labctl.analysis.methods.consistency import consistency
from labctl.analysis.methods.method_results import methods_of
from labctl.analysis.phase_result import TemperatureResult
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.steady_state.rounds import tracked_report
from labctl.cli.results.report import make_report
from labctl.config.sweeps import Sweep
from labctl.record.reader import RunRecord
from labctl.report.charts.static_svg import static_svg
from labctl.report.pages.report_files import wants_review
from labctl.report.pages.review import review_figures, write_review
from labctl.report.review_charts.conditioned import conditioned_figure
from labctl.report.review_charts.consistency import WattsPerSecond, consistency_figure
from labctl.report.review_charts.drives_together import drives_together
from labctl.report.review_charts.efficiency import efficiency_figure
from labctl.report.review_charts.headline import headline_figure
from labctl.report.review_charts.matrix import matrix_figures
from labctl.report.review_charts.mixed import mixed_figure
from labctl.report.review_charts.review_chart import Figure
from labctl.report.review_charts.saturation import saturation_figures
from labctl.report.review_charts.steady_state import steady_figure
from labctl.report.review_charts.transfer_sizes import transfer_figure
from tests.unit.report_sample import HOSTILE, estimate, plan, qd_sweep, record_of, summary_of
from tests.unit.vega_lite import assert_valid

SIZES = Sweep(
    name="transfer", pattern=["read", "write"], queue_depth=[4], duration_s=5,
    block_size=["512", "1k", "2k", "4k", "8k", "16k", "64k", "256k", "1m", "4m"],
)  # fmt: skip
MIXES = Sweep(
    name="mixed", pattern=["randrw"], queue_depth=[3], read_pct=[100, 80, 60, 40, 20, 0],
    duration_s=5,
)  # fmt: skip
ROUNDS = Sweep(name="wsat", pattern=["randwrite"], queue_depth=[32] * 9, duration_s=5)
STEADY = (90e3, 61e3, 40e3, 24.0e3, 24.3e3, 23.8e3, 24.1e3, 23.9e3, 24.0e3)
LONG = Sweep(name="consistency", pattern=["randwrite"], queue_depth=[16], duration_s=600)


def reviewed(root: Path) -> tuple[RunRecord, RunSummary]:
    """A made-up run with everything that a review shows."""
    summary = summary_of(plan(qd_sweep(), MIXES, SIZES, ROUNDS, LONG))
    phases, number = [], 0
    for item in summary.phases:
        if item.phase.sweep == "wsat" and item.write is not None:
            iops = STEADY[number]
            item = replace(
                item,
                iops=iops,
                watts=estimate(20 - number / 10),
                temperatures={
                    "drive": TemperatureResult(40, 55 + min(number, 4), 55 + min(number, 4))
                },
            )
            number += 1
        phases.append(item)
    summary = replace(summary, phases=tuple(phases), drive_model=f"DC P3600 {HOSTILE}")
    return record_of(root, summary, silent=False), summary


def check(figure: Figure | None) -> list[dict[str, str]]:
    """The chart is valid Vega-Lite and can be drawn; its CSV as rows."""
    assert figure is not None
    assert_valid(figure.chart.spec)
    assert static_svg(figure.chart.spec).startswith("<svg")
    json.dumps(figure.chart.spec, allow_nan=False)
    return list(csv.DictReader(io.StringIO(figure.csv())))


def test_headline_bars_have_the_averages(tmp_path: Path) -> None:
    record, summary = reviewed(tmp_path)
    found = methods_of(record, summary).averages
    rows = check(headline_figure(found))
    assert [row["figure"] for row in rows] == [
        "randread 4k, mean of QD 1, 2, 4",
        "randrw 4k QD3, mean of six mixes",
    ]
    assert float(rows[0]["iops"]) == found[0].iops
    assert found[0].watts is not None
    assert float(rows[0]["watts_u"]) == found[0].watts.u
    assert headline_figure(()) is None


def test_efficiency_has_a_bar_for_each_workload_and_each_idling(tmp_path: Path) -> None:
    active = [
        Sweep(name=name, pattern=[name], block_size=[size], queue_depth=[32], duration_s=5)
        for name, size in (("randread", "8k"), ("randwrite", "8k"), ("read", "256k"))
    ]
    summary = summary_of(plan(*active))
    record = record_of(tmp_path, summary, silent=False)
    idle = methods_of(record, summary).idle
    figure = efficiency_figure(summary.points, idle)
    rows = check(figure)
    assert [row["figure"] for row in rows] == [
        *("randread 8k QD32", "randwrite 8k QD32", "read 256k QD32"),
        *(one.label for one in idle),
    ]
    last = summary.points[-1]
    assert last.bytes_per_joule is not None
    assert float(rows[2]["mb_per_s_per_watt"]) == pytest.approx(last.bytes_per_joule.value / 1e6)
    size_bytes = record.header.drive.size_bytes
    assert size_bytes is not None and idle[0].watts is not None
    assert idle[0].gb_per_watt is not None
    assert idle[0].gb_per_watt.value == pytest.approx(size_bytes / 1e9 / idle[0].watts.value)
    share = idle[0].watts.u / idle[0].watts.value
    assert idle[0].gb_per_watt.u == pytest.approx(share * idle[0].gb_per_watt.value)
    assert efficiency_figure(summary.points, []) is None
    assert efficiency_figure(summary.points[:2], idle) is None


def test_fresh_and_conditioned_stand_side_by_side() -> None:
    fresh, worn = summary_of(plan(qd_sweep(), qd_sweep())).measured[:2]
    one = Conditioned(
        "randread 4k QD1", 7, 9, 2.0e6, 1.8e6, -0.1, fresh.watts, worn.watts, estimate(1.0)
    )
    phases = [
        replace(item, iops=iops, phase=replace(item.phase, index=index))
        for item, iops, index in ((fresh, 2.0e6, 7), (worn, 1.8e6, 9))
    ]
    figure = conditioned_figure([one], phases)
    rows = check(figure)
    assert [(row["figure"], float(row["iops"])) for row in rows] == [
        ("randread 4k QD1, fresh", 2.0e6),
        ("randread 4k QD1, conditioned", 1.8e6),
    ]
    assert fresh.watts is not None and float(rows[0]["watts_u"]) == fresh.watts.u
    assert figure is not None and "randread 4k QD1 -10.0%" in figure.chart.caption
    assert conditioned_figure([], phases) is None


def test_large_blocks_have_their_headline_in_mb_per_s_and_on_a_scale_of_their_own(
    tmp_path: Path,
) -> None:
    large = qd_sweep().model_copy(update={"name": "sequential", "block_size": (131072,)})
    record, summary = drive_of_rounds(tmp_path, qd_sweep(), large)
    figure = headline_figure(methods_of(record, summary).averages)
    check(figure)
    assert figure is not None
    titles = re.findall(r'"title": "(IOPS|MB/s|mean power \(W\))"', json.dumps(figure.chart.spec))
    assert list(dict.fromkeys(titles)) == ["IOPS", "mean power (W)", "MB/s"]


def test_mixed_and_transfer_curves_have_every_point(tmp_path: Path) -> None:
    _, summary = reviewed(tmp_path)
    mixed = check(mixed_figure(summary.measured))
    assert [row["read_pct"] for row in mixed] == ["100", "80", "60", "40", "20", "0"]
    sizes = check(transfer_figure(summary.measured))
    assert len(sizes) == 20
    assert {row["workload"] for row in sizes} == {"read QD4", "write QD4"}
    item = next(one for one in summary.measured if one.phase.block_size_bytes == 65536)
    assert item.bytes_per_s is not None
    row = next(row for row in sizes if row["size"] == "64k" and row["workload"] == "read QD4")
    assert float(row["mb_per_s"]) == pytest.approx(item.bytes_per_s / 1e6)
    only_depths = summary_of(plan(qd_sweep())).measured
    assert mixed_figure(only_depths) is None and transfer_figure(only_depths) is None


def test_the_steady_window_has_the_lines_of_the_standard(tmp_path: Path) -> None:
    _, summary = reviewed(tmp_path)
    report = tracked_report(summary.measured, ["randwrite 4k QD32"])
    assert report is not None and report.reached_at == 7, "in the rounds 4 to 8"
    figure = steady_figure(report)
    rows = check(figure)
    assert len(rows) == 3 * 9
    inside = [row for row in rows if row["variable"].endswith("IOPS") and row["average"]]
    assert [row["round"] for row in inside] == ["4", "5", "6", "7", "8"]
    average = np.mean(STEADY[3:8])
    assert float(inside[0]["average"]) == pytest.approx(average)
    assert float(inside[0]["upper"]) == pytest.approx(1.1 * average)
    slope = np.polyfit(np.arange(5), STEADY[3:8], 1)
    assert [float(row["slope_line"]) for row in inside] == pytest.approx(
        np.polyval(slope, np.arange(5))
    )
    never = tracked_report(summary.measured[-10:-6])
    assert never is not None
    assert steady_figure(never) is None, "four rounds are no window"


def test_consistency_is_drawn_in_linear_and_log_whole_and_zoomed() -> None:
    item = summary_of(plan(LONG)).measured[0]
    t = np.arange(0.25, 600, 0.5)
    iops = np.where(t % 150 < 35, 8e3, 24e3) + np.where(t < 100, 200e3, 0)
    found = consistency(t, iops)
    assert found is not None
    figure = consistency_figure(item, t, iops, found)
    rows = check(figure)
    assert len(rows) == 600
    assert sum(row["in_tail"] == "True" for row in rows) == 400
    titles = [part["title"] for part in figure.chart.spec["concat"]]
    assert titles == [
        "whole phase, linear", "whole phase, log", "last 400 s, linear", "last 400 s, log",
    ]  # fmt: skip
    still = consistency_figure(item, t, np.zeros(len(t)), replace(found, mean=0.0))
    check(still)
    assert "log" not in json.dumps([part["title"] for part in still.chart.spec["concat"]])


def test_consistency_has_the_power_of_each_second() -> None:
    item = summary_of(plan(LONG)).measured[0]
    t = np.arange(0.25, 600, 0.5)
    iops = np.full(len(t), 24e3)
    found = consistency(t, iops)
    assert found is not None
    seconds = np.arange(0.5, 600)
    power = WattsPerSecond(seconds[seconds != 300.5], np.full(599, 12.5))
    figure = consistency_figure(item, t, iops, found, power=power)
    rows = check(figure)
    told = {float(row["second"]): row["watts"] for row in rows}
    assert (told[299.5], told[300.5]) == ("12.5", "")
    titles = [part["title"] for part in figure.chart.spec["concat"]]
    assert titles[2::3] == ["whole phase, power", "last 400 s, power"]
    assert "12.5 W ± σ" in figure.chart.caption


def test_a_phase_no_longer_than_its_tail_is_drawn_once() -> None:
    item = summary_of(plan(LONG)).measured[0]
    t = np.arange(0.25, 200, 0.5)
    found = consistency(t, np.full(len(t), 24e3))
    assert found is not None
    figure = consistency_figure(item, t, np.full(len(t), 24e3), found)
    titles = [part["title"] for part in figure.chart.spec["concat"]]
    assert titles == ["whole phase, linear", "whole phase, log"]


def test_the_page_and_its_files(tmp_path: Path) -> None:
    record, summary = reviewed(tmp_path)
    methods = methods_of(record, summary)
    names = [figure.chart.name for figure in review_figures(record, summary, methods)]
    assert names[1].startswith("consistency-"), "of the long phase alone"
    assert [names[0], *names[2:]] == ["headline", "mixed", "transfer", "steady"]
    written = write_review(record, summary, methods)
    page = written[-1].read_text()
    assert HOSTILE not in page
    assert not re.search(r'(src|href)="https?:', page)
    for name in names:
        folder = record.path / "review"
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (folder / f"{name}.csv").read_text().count("\n") > 1
        assert f'href="review/{name}.csv"' in page
    assert not [file for file in record.path.rglob(".*") if file.is_file()]


def test_each_method_has_one_chart_with_all_drives(tmp_path: Path) -> None:
    record, summary = reviewed(tmp_path)
    figures = review_figures(record, summary, methods_of(record, summary))
    charts = {one.name: one for one in drives_together({"A old": figures, "B new": figures})}
    long = next(name for name in charts if "consistency" in name)
    assert set(charts) == {"method-headline", long, "method-mixed", "method-transfer"}
    for chart in charts.values():
        assert_valid(chart.spec)
        svg = static_svg(chart.spec)
        assert ">A old<" in svg and ">B new<" in svg
    assert drives_together({"A old": figures}) == ()


def test_only_figures_of_one_workload_are_drawn_together(tmp_path: Path) -> None:
    """Two runs with different phases: their first consistency figures are of different work."""
    reads = Sweep(name="reads", pattern=["randread"], queue_depth=[16], duration_s=600)
    drawn: dict[str, tuple[Figure, ...]] = {}
    for drive, sweeps in {"A": (LONG, reads), "B": (reads,)}.items():
        summary = summary_of(plan(*sweeps))
        record = record_of(tmp_path / drive, summary, silent=False)
        drawn[drive] = review_figures(record, summary, methods_of(record, summary))
    kinds = {drive: [one.chart.title for one in figures] for drive, figures in drawn.items()}
    assert [len([t for t in titles if "Consistency" in t]) for titles in kinds.values()] == [2, 1]
    together = [one.title for one in drives_together(drawn) if "Consistency" in one.title]
    assert together == ["Consistency, randread 4k QD16"]
    twice = {drive: figures * 2 for drive, figures in drawn.items()}
    names = [one.name for one in drives_together(twice) if "Consistency" in one.title]
    assert names == ["method-consistency", "method-consistency-2"]


def test_a_plan_without_review_charts_has_a_page_all_the_same(tmp_path: Path) -> None:
    summary = summary_of(plan(Sweep(pattern=["randread"], duration_s=5)))
    record = record_of(tmp_path, summary)
    written = write_review(record, summary, methods_of(record, summary))
    assert "has none of the review charts" in written[-1].read_text()


@pytest.mark.parametrize(
    ("plan_text", "wanted"), [('report = "review"', True), ("", False), ("not = = toml", False)]
)
def test_the_review_is_written_where_the_plan_asks_for_it(
    tmp_path: Path, plan_text: str, wanted: bool
) -> None:
    record = record_of(tmp_path, summary_of(plan(qd_sweep())))
    header = json.loads((record.path / "run.json").read_text())
    (record.path / "run.json").write_text(json.dumps({**header, "plan_text": plan_text}))
    again = RunRecord(record.path)
    assert wants_review(again) is wanted
    make_report(again)
    assert (again.path / "review.html").exists() is wanted


def test_block_sizes_and_read_shares_stand_in_tables_with_the_watts_beside() -> None:
    """The matrix of the PTS IOPS test, and that of LATENCY (one I/O at a time)."""
    sizes, shares = ["1m", "64k", "4k", "512"], [100, 65, 0]
    iops = Sweep(
        name="IOPS", pattern=["randrw"], block_size=sizes, read_pct=shares, queue_depth=[16],
        jobs=[2], duration_s=5,
    )  # fmt: skip
    latency = iops.model_copy(update={"name": "latency", "queue_depth": (1,), "jobs": (1,)})
    measured = summary_of(plan(iops, latency, MIXES)).measured
    first, second = matrix_figures(measured)
    rows = check(first)
    assert len(rows) == 12 and {row["size"] for row in rows} == {"512", "4k", "64k", "1m"}
    item = next(i for i in measured if (i.phase.block_size_bytes, i.phase.read_pct) == (65536, 65))
    (row,) = (row for row in rows if (row["size"], row["read_pct"]) == ("64k", "65"))
    assert item.watts is not None
    assert (float(row["iops"]), float(row["watts"])) == (item.iops, item.watts.value)
    assert '"IOPS"' in json.dumps(first.chart.spec), "a table of them"
    check(second)
    assert "mean latency" in json.dumps(second.chart.spec)
    assert second.chart.name == "matrix-2"


def test_what_stands_in_tables_is_not_drawn_as_many_curves_too(tmp_path: Path) -> None:
    iops = Sweep(
        name="IOPS", pattern=["randrw"], block_size=["1m", "64k", "4k"], read_pct=[100, 65, 0],
        queue_depth=[16], duration_s=5,
    )  # fmt: skip
    record, summary = drive_of_rounds(tmp_path, iops, MIXES)
    figures = review_figures(record, summary, methods_of(record, summary))
    named = {one.chart.name: one for one in figures}
    assert "matrix" in named
    assert {row["workload"] for row in check(named["mixed"])} == {"randrw 4k QD3"}


def test_write_saturation_runs_along_what_was_written(tmp_path: Path) -> None:
    rounds = Sweep(
        name="wsat", pattern=["randwrite"], queue_depth=[32], duration_s=60, rounds=7, span="1g"
    )
    record, summary = drive_of_rounds(tmp_path, rounds)
    (figure,) = saturation_figures(record, summary)
    rows = check(figure)
    ios = [item.write.total_ios for item in summary.measured if item.write is not None]
    assert [float(row["drive_writes"]) for row in rows] == pytest.approx(
        [sum(ios[: n + 1]) * 4096 / 2**30 for n in range(7)]
    )
    assert "capacities written" in json.dumps(figure.chart.spec)
    two = replace(record.header, drives={"a": record.header.drive, "b": record.header.drive})
    record.header = two
    (both,) = saturation_figures(record, summary)
    assert float(check(both)[-1]["drive_writes"]) == pytest.approx(
        float(rows[-1]["drive_writes"]) / 2
    ), "each of two drives was written over half as often"


def drive_of_rounds(root: Path, *sweeps: Sweep) -> tuple[RunRecord, RunSummary]:
    summary = summary_of(plan(*sweeps))
    return record_of(root, summary, silent=False), summary


def test_consistency_is_drawn_of_the_test_for_it_and_not_of_every_point_of_a_sweep(
    tmp_path: Path,
) -> None:
    sweep = Sweep(name="QD", pattern=["randread"], queue_depth=[1, 2, 4, 8, 16, 32], duration_s=180)
    scaled = LONG.model_copy(update={"duration_s": 126})
    for long, shown in ((LONG, 1), (scaled, 0)):
        record, summary = drive_of_rounds(tmp_path / str(shown), sweep, long)
        figures = review_figures(record, summary, methods_of(record, summary))
        names = [one.chart.name for one in figures]
        assert names.count("consistency-1") == shown and "consistency-2" not in names
    quick = sweep.model_copy(update={"duration_s": 6})
    record, summary = drive_of_rounds(tmp_path / "quick", quick, scaled)
    figures = review_figures(record, summary, methods_of(record, summary))
    assert "consistency-1" in [one.chart.name for one in figures], "much longer than the others"
