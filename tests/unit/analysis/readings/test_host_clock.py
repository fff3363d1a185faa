"""Phases of a host behind ssh, mapped by the looks at its clock that were recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instruments.reading import ClockPair
from labctl.analysis.readings.host_clock import host_clock_result, host_problems
from labctl.analysis.readings.phase_spans import phase_spans
from labctl.analysis.run.summary import summarise
from labctl.record import journal as journals
from labctl.record.journal import Journal
from labctl.record.reader import RunRecord
from labctl.record.timebase import Timebase
from tests.unit.record.test_journal import header

MS = 1_000_000
S = 1000 * MS
DRIFT = 60e-6
BEGIN_S = 500
RUNTIME_NS = 5 * S


def recorded(root: Path, slack_ns: int, looks: int = 500) -> tuple[RunRecord, int]:
    """A run whose host's clock is 37 s ahead and drifts; and when its phase really began.

    The phase's live mapping was 80 ms off. Our signals leave ``slack_ns`` for its begin.
    """
    journal = Journal(journals.create(root, header()), Timebase().now_ns)
    start_ns = Timebase().now_ns()
    rng = np.random.default_rng(3)

    def device_ns(t_ns: int) -> int:
        return 10**14 + (t_ns - start_ns) + round((t_ns - start_ns) * DRIFT)

    journal.event("run_started", start_ns)
    journal.event("host_clock", start_ns, epoch=0, offset_ns=37 * S, tick_s=1e-9)
    pairs = []
    for number in range(looks):
        there, back = (round(delay) for delay in rng.exponential(0.4 * MS, 2) + 0.2 * MS)
        t_ns = start_ns + 2 * number * S
        pairs.append(ClockPair("wall", device_ns(t_ns), t_ns + back, there + back))
    journal.clock_pairs("host", pairs)
    began_ns = start_ns + BEGIN_S * S
    journal.event("phase_started", began_ns - slack_ns // 2, index=0)
    journal.event(
        "phase_ended",
        began_ns + RUNTIME_NS,
        index=0,
        outcome="completed",
        begin_ns=began_ns + 80 * MS,
        end_ns=began_ns + 80 * MS + RUNTIME_NS,
        boundary_u_ns=100 * MS,
        clock_begin_ns=device_ns(began_ns),
        runtime_ns=RUNTIME_NS,
        begin_not_before_ns=began_ns - slack_ns // 2,
        begin_not_after_ns=began_ns + slack_ns // 2,
    )
    journal.event("host_lost", host="box", reason="it does not answer any more")
    journal.close()
    return RunRecord(journal.path), began_ns


@pytest.mark.parametrize(("slack_ns", "doubt_ns"), [(400 * MS, 4 * MS), (1 * MS, 3 * MS)])
def test_a_phase_is_where_all_looks_and_both_signals_say(
    tmp_path: Path, slack_ns: int, doubt_ns: int
) -> None:
    record, began_ns = recorded(tmp_path, slack_ns)
    (span,) = phase_spans(record, 0)
    assert abs(span.begin_ns - began_ns) < min(slack_ns, MS)
    assert abs(span.begin_ns - began_ns) <= span.boundary_u_ns <= doubt_ns
    assert span.duration_ns == RUNTIME_NS


def test_the_summary_states_offset_drift_and_doubt(tmp_path: Path) -> None:
    record, _ = recorded(tmp_path, MS)
    clock = host_clock_result(record)
    assert clock is not None
    assert clock.offset_ms == 37_000
    assert clock.drift_ppm == pytest.approx(-60, abs=2)
    assert clock.u_ms < 1 and clock.pairs == 500
    assert clock in summarise(record).clocks
    assert host_problems(record) == ("the drive's host was lost: it does not answer any more",)


def test_a_run_of_this_machine_has_no_host_clock(tmp_path: Path) -> None:
    journal = Journal(journals.create(tmp_path, header()), Timebase().now_ns)
    journal.event("phase_ended", 10, index=0, begin_ns=3, end_ns=9, boundary_u_ns=1)
    journal.close()
    record = RunRecord(journal.path)
    assert host_clock_result(record) is None
    (span,) = phase_spans(record, 10)
    assert (span.begin_ns, span.end_ns, span.boundary_u_ns) == (3, 9, 1)
