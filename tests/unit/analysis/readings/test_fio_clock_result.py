"""fio's clock in the analysis: rates are by labctl's own time, and the drift is stated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.record import journal as journals
from labctl.record.journal import Journal
from labctl.record.reader import RunRecord
from labctl.record.timebase import Timebase
from tests.unit.record.test_journal import header

MS = 1_000_000
IOS = 10_000


def recorded(root: Path, lasted_ms: int, runtime_ms: int, **data: Any) -> RunSummary:
    """The summary of a run with one phase that took ``lasted_ms`` here and ``runtime_ms`` of
    fio's; ``data`` of its ``phase_ended``."""
    journal = Journal(journals.create(root, header()), Timebase().now_ns)
    begin_ns = Timebase().now_ns()
    side = {"total_ios": IOS, "io_bytes": IOS * 4096, "io_kbytes": IOS * 4}
    latency = {"mean": 1e5, "N": IOS, "max": 2e5, "percentile": {"99.000000": 150_000}}
    side |= {"runtime": runtime_ms, "lat_ns": latency}  # type: ignore[dict-item]
    job = {"jobname": "phase", "error": 0, "job_runtime": runtime_ms, "read": side}
    text = json.dumps({"fio version": "fio-3.33", "jobs": [job]})
    record = RunRecord(journal.path)
    folder = record.fio_dir(record.header.phases[0])
    folder.mkdir(parents=True)
    (folder / "stdout").write_text(text)
    journal.event("phase_started", begin_ns, index=0)
    ended = {
        "index": 0,
        "outcome": "completed",
        "begin_ns": begin_ns,
        "end_ns": begin_ns + lasted_ms * MS,
        "boundary_u_ns": 5 * MS,
        "stdout_bytes": len(text),
        "runtime_ms": runtime_ms,
        "total_ios": IOS,
    }
    journal.event("phase_ended", begin_ns + lasted_ms * MS, **(ended | data))
    journal.close()
    return summarise(RunRecord(journal.path))


def told(summary: RunSummary) -> list[str]:
    return [line for line in (*summary.problems, *summary.phases[0].notes) if "fio's clock" in line]


@pytest.mark.parametrize(("runtime_ms", "words"), [(10_793, "7.9 % fast"), (9_300, "7 % slow")])
@pytest.mark.parametrize("printed", [True, False])
def test_rates_are_over_labctls_own_time(
    tmp_path: Path, runtime_ms: int, words: str, printed: bool
) -> None:
    rate = runtime_ms / 10_000
    data: dict[str, Any] = {"fio_clock": {"rate": rate, "u": 4e-4, "statuses": 18}}
    if not printed:
        data = {"stdout_bytes": None}
    summary = recorded(tmp_path, 10_000, runtime_ms, **data)
    (phase,) = summary.phases
    assert phase.iops == pytest.approx(IOS / 10)
    assert phase.bytes_per_s == pytest.approx(4096 * IOS / 10)
    assert phase.read is not None and phase.read.iops == pytest.approx(IOS / 10)
    assert phase.read.latency_percentiles_us["99"] == 150.0, "latencies stay what fio measured"
    assert phase.fio_clock is not None and phase.fio_clock.value == pytest.approx(rate)
    assert phase.fio_clock.u == pytest.approx(4e-4 if printed else 1e-3 * rate)
    problem, note = told(summary)
    assert f"fio's clock runs {words}" in problem and "fio's clock runs" in note
    assert f"it counted {runtime_ms / 1000:.2f} s in 10.00 s, in phase 1" in problem
    clock = summary.clocks[-1]
    assert clock.channel == "fio" and clock.drift_u_ppm is not None
    assert clock.drift_ppm == pytest.approx((1 / rate - 1) * 1e6)
    assert clock.pairs == (18 if printed else 0)


def test_a_good_clock_changes_nothing_and_is_stated(tmp_path: Path) -> None:
    measured = {"rate": 1.00002, "u": 3e-5, "statuses": 18}
    summary = recorded(tmp_path, 10_000, 10_000, fio_clock=measured)
    (phase,) = summary.phases
    assert phase.iops == IOS / 10
    assert told(summary) == []
    (clock,) = summary.clocks
    assert clock.drift_ppm == pytest.approx(-20, abs=0.1)
    assert clock.drift_u_ppm == pytest.approx(30, abs=0.1)


def test_an_older_record_without_a_difference_says_nothing_of_it(tmp_path: Path) -> None:
    summary = recorded(tmp_path, 10_000, 10_000)
    assert summary.phases[0].iops == IOS / 10 and summary.phases[0].fio_clock is None
    assert summary.clocks == () and told(summary) == []


def test_what_the_edges_leave_open_is_no_drift(tmp_path: Path) -> None:
    summary = recorded(tmp_path, 10_000, 9_700, boundary_u_ns=300 * MS)
    assert summary.phases[0].iops == pytest.approx(IOS / 10)
    assert summary.phases[0].fio_clock is None and told(summary) == []


@pytest.mark.parametrize(
    "clock", [5, [], {"rate": 0, "u": 1, "statuses": 1}, {"rate": "1", "u": 0}, {"rate": 1.1}]
)
def test_a_clock_that_is_none_is_left_out(tmp_path: Path, clock: object) -> None:
    assert recorded(tmp_path, 10_000, 10_000, fio_clock=clock).phases[0].fio_clock is None


def test_without_a_recorded_end_the_rate_is_fios_own(tmp_path: Path) -> None:
    summary = recorded(tmp_path, 5_000, 10_000, end_ns=None)
    assert summary.phases[0].iops == IOS / 10
