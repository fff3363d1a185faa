"""Charts: valid, drawn offline, with every unit and every point."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.throttle_result import Cause
from labctl.config.sweeps import Sweep
from labctl.report.charts.run_charts import run_charts
from labctl.report.charts.static_svg import png_of_svg, static_svg
from labctl.report.charts.sweeps import sweep_charts
from labctl.report.charts.theme import CELL_INK, CELL_RED, dark_css
from tests.unit.report_sample import DEPTHS, plan, qd_sweep, record_of, summary_of, throttled
from tests.unit.vega_lite import assert_valid

MIXED = Sweep(name="mixed", pattern=["randrw"], queue_depth=[3], read_pct=[100, 0], duration_s=5)
SIZES = Sweep(name="sizes", pattern=["read"], block_size=["512", "1m"], duration_s=5)


def failed(item: PhaseResult) -> PhaseResult:
    return replace(
        item,
        outcome="failed",
        rails={},
        watts=None,
        watts_series=None,
        joules=None,
        marginal_watts=None,
        read=None,
        write=None,
        iops=None,
        bytes_per_s=None,
        iops_per_watt=None,
        bytes_per_joule=None,
        joules_per_io=None,
        temperatures={},
        alignment_ms=None,
        gap_before_ms=None,
    )


def with_failures(summary: RunSummary) -> RunSummary:
    phases = [failed(item) if number % 2 else item for number, item in enumerate(summary.phases)]
    return replace(summary, phases=tuple(phases), outcome="failed", reason="fio exited with 1")


RUNS = {
    "two rails": summary_of(plan(qd_sweep(), qd_sweep("write", "128k"))),
    "one rail": summary_of(plan(qd_sweep()), rails=("12V",)),
    "three rails": summary_of(plan(qd_sweep()), rails=("12V", "5V", "3.3V")),
    "no watts": summary_of(plan(qd_sweep()), rails=()),
    "mixed": summary_of(plan(MIXED)),
    "sizes": summary_of(plan(SIZES)),
    "one phase": summary_of(plan(SIZES.model_copy(update={"block_size": [4096]}), idle_s=0)),
    "failures": with_failures(summary_of(plan(qd_sweep(), MIXED))),
    "throttled": throttled(summary_of(plan(qd_sweep())), 4, 5),
}


@pytest.mark.parametrize("name", RUNS)
def test_charts_are_valid_and_have_their_units(name: str, tmp_path: Path) -> None:
    summary = RUNS[name]
    charts = run_charts(record_of(tmp_path, summary), summary)
    expected = ["watts", "work", "latency", "run"]
    if name == "no watts":
        expected.remove("watts")
    assert [chart.name for chart in charts] == expected
    titles = {
        "watts": "mean power (W)",
        "work": "MB/s" if name == "sizes" else "IOPS",
        "latency": "latency",
        "run": "temperature (°C)",
    }
    for chart in charts:
        assert_valid(chart.spec)
        assert titles[chart.name] in json.dumps(chart.spec, ensure_ascii=False)


def test_they_are_drawn_without_a_browser_and_without_a_network(tmp_path: Path) -> None:
    summary = throttled(summary_of(plan(qd_sweep())), 5)
    for chart in run_charts(record_of(tmp_path, summary), summary):
        svg = static_svg(chart.spec)
        assert "queue depth" in svg or "time since" in svg
        assert "http" not in svg.replace("http://www.w3.org/", "")
        assert png_of_svg(svg).startswith(b"\x89PNG")


def test_the_watts_chart_shows_every_total_and_the_axis_in_order() -> None:
    summary = summary_of(plan(qd_sweep()))
    svg = static_svg(sweep_charts(summary)[0].spec)
    for label in ("4.631", "5.196", "6.153", "7.533", "8.986", "9.829"):
        assert f">{label}<" in svg
    places = [svg.index(f">{depth}<") for depth in DEPTHS]
    assert places == sorted(places)


@pytest.mark.long
def test_a_large_run_has_all_its_phases_in_small_charts() -> None:
    sweep = Sweep(
        name="all",
        pattern=["randread", "randwrite"],
        block_size=["4k", "8k", "64k", "128k"],
        queue_depth=[1, 2, 4, 8, 16, 32, 64, 128],
        jobs=[1, 4, 8],
        duration_s=30,
    )
    summary = summary_of(plan(sweep))
    for chart in sweep_charts(summary):
        assert len(chart.spec["concat"]) == 24


def test_the_sweeps_of_a_run_share_one_scale_of_watts() -> None:
    watts = sweep_charts(RUNS["two rails"])[0]
    text = json.dumps(watts.spec)
    domains = {part.split("]")[0] for part in text.split('"scale": {"domain": [0, ')[1:]}
    assert len(domains) == 1


def rows_of(spec: dict[str, Any], column: str) -> list[dict[str, Any]]:
    return [row for rows in spec["datasets"].values() for row in rows if column in row]


def test_queue_depths_are_placed_by_their_logarithm_at_the_same_place_in_every_panel() -> None:
    few = Sweep(name="few", pattern=["write"], queue_depth=[4, 32], duration_s=5)
    summary = summary_of(plan(qd_sweep(), few))
    for chart in sweep_charts(summary):
        places = {row["x"] for row in rows_of(chart.spec, "x")}
        assert places == {0, 1, 2, 3, 4, 5}
        domains = re.findall(r'"domain": (\[-0.6, [\d.]+\])', json.dumps(chart.spec))
        assert set(domains) == {"[-0.6, 5.6]"}
        assert re.search(r">4<.*>32<", static_svg(chart.spec), re.DOTALL)


def test_bars_have_one_width_however_few() -> None:
    alone = Sweep(name="alone", pattern=["write"], queue_depth=[32], duration_s=5)
    for sweeps in ((qd_sweep(), alone), (alone,)):
        watts = sweep_charts(summary_of(plan(*sweeps)))[0]
        widths = {round(row["right"] - row["left"], 3) for row in rows_of(watts.spec, "left")}
        assert len(widths) == 1
    part = watts.spec["concat"][0]
    assert widths.pop() / 1.2 * part["width"] <= 61


def test_the_ends_of_error_bars_lie_across_them() -> None:
    watts, work, _ = sweep_charts(summary_of(plan(qd_sweep())))
    for chart in (watts, work):
        ends = re.findall(r'"type": "tick"[^}]*', json.dumps(chart.spec))
        assert ends and all('"orient": "horizontal"' in one for one in ends)


def test_work_in_one_unit_has_one_scale() -> None:
    work = sweep_charts(summary_of(plan(qd_sweep(), qd_sweep("randwrite"))))[1]
    text = json.dumps(work.spec)
    domains = set(re.findall(r'"scale": {"domain": \[0, ([\d.]+)\]', text))
    assert len(domains) == 2  # of the work, and of the work per energy


def test_a_chart_alone_says_what_it_is_and_what_its_marks_are(tmp_path: Path) -> None:
    summary = throttled(summary_of(plan(qd_sweep())), 5)
    charts = {chart.name: chart for chart in run_charts(record_of(tmp_path, summary), summary)}
    for chart in charts.values():
        svg = static_svg(chart.spec)
        assert chart.title in svg
        assert f"{summary.drive_model} {summary.drive_serial} · bench · 2025-10-09" in svg
    for name in ("watts", "work", "latency"):
        assert ">throttled<" in static_svg(charts[name].spec)
    assert re.search(r">idle \d\.\d\d W<", static_svg(charts["watts"].spec))


def test_latencies_have_their_unit_on_the_axis() -> None:
    charts = sweep_charts(summary_of(plan(qd_sweep())))
    svg = static_svg(next(chart for chart in charts if chart.name == "latency").spec)
    assert re.search(r">\d+ µs<", svg) and re.search(r">\d ms<", svg)


def test_depths_and_jobs_stand_in_a_table_where_both_vary(tmp_path: Path) -> None:
    both = Sweep(pattern=["randread"], queue_depth=[1, 8], jobs=[1, 4], duration_s=5)
    summary = summary_of(plan(both, qd_sweep("randwrite")))
    charts = {chart.name: chart for chart in run_charts(record_of(tmp_path, summary), summary)}
    assert_valid(charts["jobs"].spec)
    svg = static_svg(charts["jobs"].spec)
    for words in ("randread 4k: IOPS", "randread 4k: mean power (W)", "randread 4k: IOPS/W"):
        assert words in svg
    fields = rows_of(charts["jobs"].spec, "shade")
    assert {(row["x"], row["y"]) for row in fields} == {(q, j) for q in "18" for j in "14"}
    assert len(fields) == 12 and "randwrite" not in svg


def test_sweeps_are_named_by_what_they_do_where_there_is_no_room(tmp_path: Path) -> None:
    short = [
        Sweep(name=f"128 KiB sequential {word}", pattern=[word], block_size=["128k"], duration_s=12)
        for word in ("read", "write")
    ]
    summary = summary_of(plan(*short, qd_sweep()))
    run = run_charts(record_of(tmp_path, summary), summary)[-1]
    svg = static_svg(run.spec)
    assert ">read 128k<" in svg and ">write 128k<" in svg and "128 KiB seq" not in svg


CELLS = {CELL_INK, CELL_RED, "#ffffff"}


@pytest.mark.long
def test_every_colour_of_a_chart_has_one_for_dark_screens(tmp_path: Path) -> None:
    for name, summary in RUNS.items():
        (tmp_path / name).mkdir()
        for chart in run_charts(record_of(tmp_path / name, summary), summary):
            used = set(re.findall(r'(?:fill|stroke)="(#\w+|white|black)"', static_svg(chart.spec)))
            rules = dark_css()
            causes = {"#d6616b", "#ff9896", "#3182bd", "#756bb1", "#8c6d31", "#9a9a9a"}
            left = [one for one in used - CELLS - causes if f'[fill="{one}"]' not in rules]
            assert not left, (chart.name, left)


def test_a_throttled_phase_is_marked_and_said() -> None:
    watts = sweep_charts(RUNS["throttled"])[0]
    assert "red triangle" in watts.caption
    assert "triangle-down" in json.dumps(watts.spec)
    assert "triangle-down" not in json.dumps(sweep_charts(RUNS["two rails"])[0].spec)


def test_the_run_shows_causes_silences_and_the_limit(tmp_path: Path) -> None:
    summary = throttled(summary_of(plan(qd_sweep())), 5)
    summary = throttled(summary, 2, cause=Cause.WRITE_CACHE)
    run = run_charts(record_of(tmp_path, summary), summary)[-1]
    svg = static_svg(run.spec)
    for words in ("thermal throttling", "write cache full", "no readings", "warning 70 °C"):
        assert words in svg
    assert "time since 2025-10-09 08:53:20 UTC (s)" in svg


def test_nothing_measured_gives_no_charts(tmp_path: Path) -> None:
    summary = replace(RUNS["two rails"], phases=())
    assert sweep_charts(summary) == ()
    empty = replace(summary, end_ns=summary.begin_ns)
    assert run_charts(record_of(tmp_path, summary), empty) == ()


def test_the_phases_of_a_sweep_are_named_in_one_way(tmp_path: Path) -> None:
    """One of them is long enough for its whole name, the others are not."""
    summary = summary_of(plan(qd_sweep()))
    measured = summary.measured
    last = replace(measured[-1], end_ns=measured[-1].end_ns + 60 * 10**9)
    phases = tuple(last if item is measured[-1] else item for item in summary.phases)
    summary = replace(summary, phases=phases, end_ns=last.end_ns)
    charts = run_charts(record_of(tmp_path, summary), summary)
    spec = next(chart for chart in charts if chart.name == "run").spec
    rows = [row for rows in spec["datasets"].values() for row in rows if "phase" in row]
    labels = [row["label"] for row in rows if row["phase"].startswith("randread")]
    assert len(labels) == len(measured)
    depths = [str(item.phase.queue_depth) for item in measured]
    shown = [(label, depth) for label, depth in zip(labels, depths, strict=True) if label]
    assert shown and {label.removesuffix(depth) for label, depth in shown} in ({"QD "}, {""})
