"""Histograms of latency: a row a point, as wide and as tall as what fio counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from labctl.analysis.methods.method_results import methods_of
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run.problems import REAPED_LATE
from labctl.analysis.run_summary import RunSummary
from labctl.config.sweeps import Sweep
from labctl.fio.histogram import histogram
from labctl.fio.results import Direction
from labctl.report.charts.latency_histograms import latency_histograms
from labctl.report.charts.run_charts import run_charts
from labctl.report.charts.static_svg import static_svg
from labctl.report.pages.report_files import REVIEW_FILE
from labctl.report.pages.review import write_review
from tests.unit.fio.test_histogram import bins_around
from tests.unit.report_sample import plan, qd_sweep, record_of, summary_of
from tests.unit.vega_lite import assert_valid

MIXED = Sweep(name="mixed", pattern=["randrw"], queue_depth=[4], read_pct=[70], duration_s=5)


def with_histogram(side: Direction | None) -> Direction | None:
    bins = bins_around(side.latency_mean_us) if side else {}
    return side and replace(side, latency_histogram=histogram([bins]))


def with_histograms(summary: RunSummary) -> RunSummary:
    def one(item: PhaseResult) -> PhaseResult:
        return replace(item, read=with_histogram(item.read), write=with_histogram(item.write))

    return replace(summary, phases=tuple(map(one, summary.phases)))


def test_each_point_has_a_row_and_one_latency_one_place_in_all_charts(tmp_path: Path) -> None:
    summary = with_histograms(summary_of(plan(qd_sweep(), qd_sweep("write", "128k"), MIXED)))
    chart = latency_histograms(summary)
    assert chart is not None
    assert_valid(chart.spec)
    assert [one.name for one in run_charts(record_of(tmp_path, summary), summary)][3] == chart.name
    parts = chart.spec["concat"]
    assert [part["title"]["text"] for part in parts] == [
        "randread 4k",
        "write 128k",
        "randrw 4k 70% read",
    ]
    spans = {str(layer["encoding"]["x"]["scale"]) for part in parts for layer in part["layer"]}
    assert len(spans) == 1
    rows = [row for data in chart.spec["datasets"].values() for row in data if "text" in row]
    assert {row["at"] for row in rows} == {"1", "2", "4", "8", "16", "32", "4 read", "4 write"}
    assert {row["op"] for row in rows} == {"read", "write"}
    assert all(row["foot"] - 1 <= row["top"] <= row["foot"] for row in rows)
    svg = static_svg(chart.spec)
    assert "100 µs" in svg and "10 ms" in svg and "99.9 %" in svg


def test_the_review_has_them_along_the_sweeps(tmp_path: Path) -> None:
    summary = with_histograms(summary_of(plan(qd_sweep())))
    record = record_of(tmp_path, summary)
    write_review(record, summary, methods_of(record, summary))
    assert (record.path / "review" / "latency-histograms.pdf").is_file()
    assert "Latency histograms" in (record.path / REVIEW_FILE).read_text()


def test_four_are_two_by_two_as_in_the_other_charts() -> None:
    sweeps = [qd_sweep(pattern, size) for pattern in ("read", "write") for size in ("4k", "128k")]
    chart = latency_histograms(with_histograms(summary_of(plan(*sweeps))))
    assert chart is not None
    assert (len(chart.spec["concat"]), chart.spec["columns"]) == (4, 2)


def test_without_bins_there_is_no_chart() -> None:
    assert latency_histograms(summary_of(plan(qd_sweep()))) is None


def test_latencies_that_fio_saw_late_are_not_drawn() -> None:
    summary = with_histograms(summary_of(plan(qd_sweep())))

    def late_up_to(queue_depth: int) -> RunSummary:
        phases = [
            replace(one, notes=(REAPED_LATE,)) if one.phase.queue_depth <= queue_depth else one
            for one in summary.phases
        ]
        return replace(summary, phases=tuple(phases))

    chart = latency_histograms(late_up_to(1))
    assert chart is not None
    rows = [row for data in chart.spec["datasets"].values() for row in data if "text" in row]
    assert {row["at"] for row in rows} == {"2", "4", "8", "16", "32"}
    assert latency_histograms(late_up_to(32)) is None
