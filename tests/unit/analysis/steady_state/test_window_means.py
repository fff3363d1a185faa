"""Sweeps with rounds: what their points are the mean of, with which uncertainty."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import pytest

from labctl.analysis.results import Estimate, PhaseResult, RunSummary
from labctl.analysis.steady_state.window_means import SCATTER, steady_rounds_of, window_means
from labctl.config.plan import parse_plan
from labctl.record.events import Event
from labctl.report.data.result_tables import phases_csv, points_csv
from labctl.report.text.table import table_text
from tests.unit.report_sample import summary_of

ROUNDS = """
name = "rounds"
idle_before_s = 5
[[sweeps]]
name = "writes"
pattern = "randwrite"
queue_depth = [1, 8]
duration_s = 60
rounds = 7
"""
WATTS = (9.0, 9.5, 10.0, 10.2, 9.8, 10.1, 9.9)


def rounds(*, reached: bool = True, done: int = 7) -> tuple[list[PhaseResult], list[Event]]:
    """Seven rounds of two points; those of QD 8 take WATTS."""
    results = []
    for item in summary_of(parse_plan(ROUNDS, "p")).phases:
        number = item.phase.round
        if number > done:
            continue
        if number and item.phase.queue_depth == 8:
            item = replace(item, watts=Estimate(WATTS[number - 1], 0.1), iops=1000.0 * number)
        results.append(item)
    data = {"sweep": "writes", "sweep_number": 1, "round": done, "reached": reached}
    return results, [Event(0, "steady_state", data)]


def summarised(results: list[PhaseResult], events: list[Event]) -> RunSummary:
    steady = steady_rounds_of(events, results)
    return replace(
        summary_of(parse_plan(ROUNDS, "p")), phases=tuple(results), steady_rounds=steady,
        window_means=window_means(results, steady),
    )  # fmt: skip


def test_a_point_is_the_mean_of_the_last_five_rounds() -> None:
    results, events = rounds()
    (ended,) = steady_rounds_of(events, results)
    assert (ended.rounds, ended.reached, ended.window) == (7, True, (3, 7))
    _, deep = window_means(results, [ended])
    assert deep.phase.round == 0 and deep.phase.label == "randwrite 4k QD8"
    assert deep.watts is not None
    assert deep.watts.value == pytest.approx(10.0)
    s = math.sqrt(sum((w - 10.0) ** 2 for w in WATTS[2:]) / 4)
    assert deep.watts.u == pytest.approx(math.hypot(0.1, 2 * s / math.sqrt(5)))
    assert deep.iops == pytest.approx(5000.0)
    assert deep.iops_per_watt is not None and deep.iops_per_watt.value == pytest.approx(500.0)
    assert all(rail.budget[-1].name == SCATTER for rail in deep.rails.values())


def test_latencies_are_of_all_ios_of_the_window_together() -> None:
    results, events = rounds()
    (_, deep) = window_means(results, steady_rounds_of(events, results))
    last = [item.write for item in results if item.phase.queue_depth == 8][2:]
    assert deep.write is not None and all(last)
    assert deep.write.total_ios == sum(one.total_ios for one in last if one)
    assert deep.write.latency_max_us == max(one.latency_max_us for one in last if one)


def test_fewer_rounds_than_a_window_are_all_counted_and_not_steady() -> None:
    results, _ = rounds(done=3)
    (ended,) = steady_rounds_of([], results)
    assert (ended.reached, ended.window) == (False, (1, 3))
    assert "not reached in 3 rounds" in str(ended)


def test_a_failed_round_is_left_out_and_its_outcome_stays() -> None:
    results, events = rounds()
    results[-2] = replace(results[-2], outcome="failed", watts=None, iops=None)
    assert results[-2].phase.queue_depth == 8
    _, deep = window_means(results, steady_rounds_of(events, results))
    assert deep.outcome == "failed"
    assert deep.watts is not None and deep.watts.value == pytest.approx(sum(WATTS[2:6]) / 4)


@pytest.mark.parametrize("reached", [True, False])
def test_table_and_files_show_points_once_and_rounds_all(reached: bool) -> None:
    summary = summarised(*rounds(reached=reached))
    text = table_text(summary)
    assert "#2" not in text and text.count("QD 8") == 1
    said = "steady in round 7" if reached else "not reached in 7"
    assert said in " ".join(text.split())
    table = list(csv.DictReader(io.StringIO(phases_csv(summary))))
    assert [row["round"] for row in table if row["queue_depth"] == "8"] == list("1234567")
    points = list(csv.DictReader(io.StringIO(points_csv(summary))))
    assert [row["label"] for row in points] == ["randwrite 4k QD1", "randwrite 4k QD8"]
    assert {row["steady_reached"] for row in points} == {str(reached)}
