"""Replays: service time, disk-busy time, and the second replay against the first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from labctl.analysis.methods.replays import BOUND, KERNEL, replay_results
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run.problems import REAPED_LATE
from labctl.analysis.run_summary import RunSummary
from labctl.config.plan import parse_plan
from labctl.fio.results import Direction
from labctl.record.events import Event
from labctl.record.layout import READING
from labctl.record.phase import Pattern, Phase, Replay, Role
from labctl.record.reader import RunRecord
from labctl.report.review_charts.replays import replay_figure
from tests.unit.report_sample import summary_of

PLAN = """
name = "p"
idle_before_s = 0
idle_after_s = 0
[[sweeps]]
name = "fresh"
pattern = "randread"
duration_s = 10
[[sweeps]]
name = "full"
pattern = "randread"
duration_s = 10
"""


@dataclass
class Recorded:
    """What of a record the analysis of replays reads."""

    events: list[Event] = field(default_factory=list)
    channels: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    def readings(self, name: str) -> np.ndarray[Any, Any]:
        return self.channels.get(name, np.empty(0, READING))

    def fio_dir(self, phase: Phase) -> Path:
        return Path("/nowhere")


def direction(mean_us: float) -> Direction:
    return Direction(1000.0, 4.096e6, 10_000, mean_us, 9000.0, {"99.9": 2000.0})


@pytest.fixture
def summary() -> RunSummary:
    """The same trace twice, the second time with twice the service time."""
    whole = summary_of(parse_plan(PLAN, "p"))
    made: list[PhaseResult] = []
    for item, mean_us in zip(whole.phases, (100.0, 200.0), strict=True):
        phase = replace(
            item.phase, pattern=Pattern.REPLAY, role=Role.MEASURE, replay=Replay("/x/mail.csv")
        )
        made.append(
            replace(
                item, phase=phase, read=direction(mean_us), write=None, iops=1000.0,
                bytes_per_s=4.096e6, end_ns=item.begin_ns + 10**10, outcome="completed",
            )
        )  # fmt: skip
    return replace(whole, phases=tuple(made))


def ended(index: int, busy_s: float) -> Event:
    return Event(0, "phase_ended", {"index": index, "disk_busy_s": busy_s})


def test_the_kernels_count_is_a_part_of_the_time(summary: RunSummary) -> None:
    record = cast(RunRecord, Recorded([ended(0, 2.5), ended(1, 99.0)]))
    fresh, full = replay_results(record, summary)
    assert fresh.busy is not None and (fresh.busy.part, fresh.busy.source) == (0.25, KERNEL)
    assert full.busy is not None and full.busy.part == 1.0, "never more than all of the time"
    assert (fresh.service_part, full.service_part) == (None, pytest.approx(2.0))
    assert full.rate_part == pytest.approx(1.0)
    assert fresh.total_bytes == pytest.approx(4.096e7)
    assert (fresh.service_mean_us, fresh.service_p999_us) == (100.0, 2000.0)


def test_service_times_that_fio_saw_late_are_not_told(summary: RunSummary) -> None:
    """They are those of the trace's pauses, and so would be their shares and the busy time."""
    fresh, full = summary.phases
    late = replace(fresh, notes=(REAPED_LATE,))
    record = cast(RunRecord, Recorded())
    known = replay_results(record, replace(summary, phases=(fresh, full)))[0]
    unknown = replay_results(record, replace(summary, phases=(late, full)))[0]
    assert known.service_mean_us == 100.0
    assert (unknown.service_mean_us, unknown.service_p999_us, unknown.slow) == (None, None, ())
    assert (unknown.busy, unknown.mb_per_s) == (None, known.mb_per_s)
    figure = replay_figure([unknown, replay_results(record, summary)[1]])
    assert figure is not None
    assert "Of fresh service times are not known" in figure.chart.caption
    both = replay_results(record, replace(summary, phases=(late, replace(full, notes=late.notes))))
    assert both[1].service_part is None and both[1].rate_part == pytest.approx(1.0)


def test_a_replay_that_fell_behind_its_trace_or_ran_ahead_says_so(summary: RunSummary) -> None:
    fresh = summary.phases[0]
    record = cast(RunRecord, Recorded())
    known = ((10.0, False), (9.8, False), (8.0, True), (10.2, False), (12.5, True), (0.0, False))
    for trace_s, off_pace in known:
        paced = replace(fresh, phase=replace(fresh.phase, duration_s=trace_s))
        (one,) = replay_results(record, replace(summary, phases=(paced,)))
        assert one.is_off_pace is off_pace
        figure = replay_figure([one])
        assert figure is not None
        assert (f"took 10.0 s, its trace {trace_s:.1f} s" in figure.chart.caption) is off_pace
    flat_out = replace(fresh.phase, replay=Replay("/x/mail.csv", stalls=False), duration_s=1.0)
    (one,) = replay_results(record, replace(summary, phases=(replace(fresh, phase=flat_out),)))
    assert one.trace_s is None


def test_without_it_what_is_in_flight_is_a_bound(summary: RunSummary) -> None:
    """1000 IOPS of 100 µs: a tenth in flight. 30,000 of them: three, the drive is busy at most."""
    begin_ns = summary.phases[0].begin_ns
    t = np.array([begin_ns + 10**9, begin_ns + 2 * 10**9], np.int64)

    def channel(values: tuple[float, float]) -> np.ndarray[Any, Any]:
        made = np.empty(2, READING)
        made["t"], made["v"] = t, values
        return made

    channels = {
        "fio.read.iops": channel((1000.0, 30_000.0)),
        "fio.read.latency_mean_us": channel((100.0, 100.0)),
    }
    (first, _) = replay_results(cast(RunRecord, Recorded(channels=channels)), summary)
    assert first.busy is not None and first.busy.source == BOUND
    assert first.busy.part == pytest.approx((0.1 + 1.0) / 2)


def test_the_figure_says_when_busy_is_only_a_bound(summary: RunSummary) -> None:
    record = cast(RunRecord, Recorded([ended(0, 2.5), ended(1, 5.0)]))
    figure = replay_figure(replay_results(record, summary))
    assert figure is not None
    rows = figure.csv().splitlines()
    assert rows[0].startswith("figure,trace,gb,seconds,trace_seconds,mb_per_s,iops,service_mean_us")
    assert [row.split(",")[0] for row in rows[1:]] == ["fresh", "full"]
    assert "disk busy (%)" in str(figure.chart.spec)
    assert replay_figure(()) is None
