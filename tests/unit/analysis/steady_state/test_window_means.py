"""Sweeps with rounds: what their points are the mean of, with which uncertainty."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import numpy as np
import pytest

from labctl.analysis.compare.comparison import Change, relative_change
from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.stats.uncertainty import expanded_u
from labctl.analysis.steady_state.rounds import steady_rounds_of
from labctl.analysis.steady_state.window_means import (
    SCATTER,
    scatter_u,
    window_means,
)
from labctl.config.plan import parse_plan
from labctl.record.events import Event
from labctl.report.data.result_files import phases_csv, points_csv
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
    again = 2.87 * s / math.sqrt(5)
    assert deep.watts.repeatability == pytest.approx(again)
    lines = [line for rail in deep.rails.values() for line in rail.budget if line.name != SCATTER]
    alone = Component(SCATTER, "A", s / math.sqrt(5), "", 4)
    assert deep.watts.u == pytest.approx(expanded_u([*lines, alone]))
    assert deep.joules is not None and deep.joules.u > deep.joules.value / 10.0 * 0.9 * again
    assert deep.iops == pytest.approx(5000.0)
    assert deep.iops_per_watt is not None and deep.iops_per_watt.value == pytest.approx(500.0)
    assert all(rail.budget[-1].name == SCATTER for rail in deep.rails.values())


def test_the_budget_of_a_mean_gives_its_u() -> None:
    """Errors of meters are the same in every round; what scattered within rounds averages out."""
    results, events = rounds()
    _, deep = window_means(results, steady_rounds_of(events, results))
    single = [item for item in results if item.phase.queue_depth == 8][-1]
    for name, rail in deep.rails.items():
        assert rail.watts.u == pytest.approx(expanded_u(rail.budget))
        lines = {line.name: line.watts for line in rail.budget}
        for line in single.rails[name].budget:
            parts = math.sqrt(5) if line.kind == "A" else 1.0
            assert lines[line.name] == pytest.approx(line.watts / parts, rel=0.05)


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_u_of_rounds_covers_95_percent_however_few_there_are(n: int) -> None:
    """k = 2 would cover 70 % of pairs and 88 % of five rounds."""
    draws = np.random.default_rng(n).standard_normal((4000, n))
    widths = [scatter_u(row) for row in draws.tolist()]
    assert float(np.mean(np.abs(draws.mean(axis=1)) <= widths)) == pytest.approx(0.955, abs=0.012)


def test_one_round_does_not_say_how_far_it_is_from_the_others() -> None:
    assert math.isnan(scatter_u([1000.0]))
    results, _ = rounds(done=1)
    _, deep = window_means(results, steady_rounds_of([], results))
    own = next(item for item in results if item.phase.queue_depth == 8)
    assert deep.watts is not None and own.watts is not None
    assert deep.watts.repeatability is None
    assert deep.iops_per_watt is not None and math.isnan(deep.iops_per_watt.u)
    other = Estimate(deep.iops_per_watt.value * 2, 1.0)
    assert relative_change(deep.iops_per_watt, other)[1] is Change.UNKNOWN


def test_seconds_throttled_are_those_of_a_round() -> None:
    results, events = rounds()
    results = [replace(item, throttled_s=40.0) for item in results]
    means = window_means(results, steady_rounds_of(events, results))
    assert [item.throttled_s for item in means] == [40.0, 40.0]


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
