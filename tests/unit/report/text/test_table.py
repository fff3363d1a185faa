"""The table: whole at 80 columns, right numbers, every mark explained."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from rich.cells import cell_len

from labctl.analysis.estimate import Estimate
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.throttle_result import Cause, ThrottleVerdict
from labctl.config.sweeps import Sweep
from labctl.report.text.table import table_text
from tests.unit.report_sample import HOSTILE, plan, qd_sweep, summary_of, throttled

RAILS = [(), ("12V",), ("12V", "3.3V"), ("12V", "5V", "3.3V")]


def rows(summary: RunSummary, width: int = 80) -> list[list[str]]:
    return [line.split() for line in table_text(summary, width).splitlines()]


@pytest.mark.parametrize("rails", RAILS)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(rails: tuple[str, ...], width: int) -> None:
    long = Sweep(
        name="long",
        pattern=["randrw"],
        block_size=["128k"],
        queue_depth=[128],
        jobs=[32],
        read_pct=[100, 60],
        duration_s=5,
    )
    summary = throttled(summary_of(plan(qd_sweep(), long), rails=rails), 1, 2)
    summary = replace(summary, problems=("x" * 300, "a meter was silent " * 10))
    assert all(cell_len(line) <= width for line in table_text(summary, width).splitlines())


def test_a_row_has_every_number_rounded_to_its_uncertainty() -> None:
    summary = summary_of(plan(qd_sweep()))
    row = next(line for line in rows(summary) if line[:2] == ["QD", "8"])
    watts = ["6.629", "0.9040", "7.533", "±", "0.030"]
    assert row == ["QD", "8", *watts, "191.5k", "25.42k", "41.8", "87.7", "49"]


def test_large_blocks_are_told_in_megabytes() -> None:
    text = table_text(summary_of(plan(qd_sweep("read", "128k"))))
    assert "MB/s" in text and "MB/J" in text and "IOPS" not in text


def test_the_heading_names_rig_plan_drive_and_what_the_numbers_rest_on() -> None:
    text = table_text(summary_of(plan(qd_sweep())))
    for words in ("sample on bench", "completed", "DC P3600", "2025-10-09 08:53:20 UTC"):
        assert words in text
    assert "idle 4.021 ± 0.018 W" in text
    assert "gap between phases 8.40 ms (median), alignment ≤ 1.9 ms" in text


def test_every_mark_is_explained() -> None:
    summary = throttled(summary_of(plan(qd_sweep("randwrite"))), 5)
    summary = throttled(summary, 3, cause=Cause.WRITE_CACHE)
    phases = tuple(
        replace(item, outcome="failed") if item is summary.measured[0] else item
        for item in summary.phases
    )
    text = table_text(replace(summary, phases=phases))
    marks = {line[1]: line[-1] for line in map(str.split, text.splitlines()) if line[:1] == ["QD"]}
    assert (marks["32"], marks["8"], marks["1"]) == ("T", "s", "!")
    for words in ("the drive throttled", "slower for another reason", "did not complete"):
        assert words in text
    assert "thermal throttling, 10 s: IOPS −38 %" in text


def test_what_was_not_measured_is_a_dash_and_no_column_of_a_rail_that_is_not_there() -> None:
    text = table_text(summary_of(plan(qd_sweep()), rails=()))
    assert "idle not measured" in text
    row = next(line.split() for line in text.splitlines() if line.split()[:2] == ["QD", "1"])
    assert row[2:5] == ["–", "30.33k", "–"]
    assert "12V" not in text


def test_columns_for_which_there_is_no_room_are_named() -> None:
    text = table_text(summary_of(plan(qd_sweep())), 60)
    assert "No room for" in text and "phases.csv" in text
    assert "total W ± U" in text


def test_a_run_without_any_phase_has_a_table_too() -> None:
    summary = replace(summary_of(plan(qd_sweep())), phases=(), outcome="aborted", reason="too hot")
    text = table_text(summary)
    assert "aborted (too hot)" in text and "No phase was measured." in text


def test_markup_of_a_terminal_in_a_name_stays_text() -> None:
    summary = replace(summary_of(plan(qd_sweep())), drive_model=f"[red]X[/red] {HOSTILE}")
    assert "[red]X[/red]" in table_text(summary, 200)


def test_an_unknown_uncertainty_is_said() -> None:
    summary = replace(summary_of(plan(qd_sweep())), idle_watts=Estimate(4.0, float("inf")))
    assert "idle 4.000 ± – W" in table_text(summary)


def test_the_table_needs_no_charts() -> None:
    code = (
        "import sys, labctl.report, labctl.report.text.table; "
        "print([name for name in ('altair', 'vl_convert', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_throttled_phases_have_the_numbers_of_their_other_part() -> None:
    summary = throttled(summary_of(plan(qd_sweep())), 5)
    text = table_text(summary, 120)
    assert "randread 4k QD32: the 9.0 s not throttled: 10.100 ± 0.030 W, 400" in text
    nothing = [
        replace(item, watts_unthrottled=None, iops_unthrottled=None) for item in summary.phases
    ]
    text = table_text(replace(summary, phases=tuple(nothing)), 120)
    assert "too little of it was not throttled to give numbers for" in text


def test_what_cannot_be_excluded_is_marked_and_its_reason_told_once() -> None:
    summary = summary_of(plan(qd_sweep()))
    doubt = ThrottleVerdict("cannot be excluded", "no temperature was recorded")
    phases = tuple(replace(item, throttling=doubt) for item in summary.phases)
    text = table_text(replace(summary, phases=phases), 120)
    assert "?  throttling cannot be excluded" in text
    assert text.count("no temperature was recorded") == 1
    assert "and 4 more" in text


def test_many_stretches_of_one_cause_are_one_line() -> None:
    summary = throttled(summary_of(plan(qd_sweep())), 5)
    many = tuple(summary.throttling) * 7
    text = table_text(replace(summary, throttling=many), 120)
    assert text.count("thermal throttling") == 1
    assert "thermal throttling, 1 min 10 s in 7 stretches, the first: IOPS" in text
