"""What each core did in a phase, against made-up counters with a known answer."""

from __future__ import annotations

import asyncio
import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from labctl.analysis.phase_result import CpuUse
from labctl.analysis.readings.cpu_use import cpu_samples, cpu_use, mean_cpu_use
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.analysis.run.summary import summarise
from labctl.capture.host.cpu import parse_cpu_times, watching_cpu
from labctl.capture.host.machine import LocalMachine
from labctl.record.events import Event, EventKind
from labctl.record.phase import Pattern, Phase, Role
from labctl.report.charts.cpu_use import cpu_chart
from labctl.report.data.result_files import cpu_csv, phase_rows
from tests.fio_result import final_result
from tests.unit import synthetic_run
from tests.unit.machine_of_files import MachineOfFiles
from tests.unit.report_sample import plan, qd_sweep, summary_of

STAT = """cpu  200 4 60 1000 20 3 5 8 0 0
cpu0 100 2 30 500 10 1 2 4 0 0
cpu1 100 2 30 500 10 2 3 4 0 0
intr 114930548 113199788 3 0 5 263 0 4
ctxt 1990473
"""
S = 1_000_000_000


def look(t_s: float, **cores: tuple[int, ...]) -> Event:
    return Event(
        round(t_s * S), EventKind.CPU_TIMES, {"cores": {k[1:]: [*v] for k, v in cores.items()}}
    )


def span(begin_s: float, end_s: float) -> PhaseSpan:
    phase = Phase(0, Role.MEASURE, "s", Pattern.RANDREAD, end_s - begin_s)
    return PhaseSpan(phase, "completed", round(begin_s * S), round(end_s * S))


ZERO = (0, 0, 0, 0, 0, 0, 0, 0)
# user and nice 400, system, irq and softirq 200, idle and iowait 300, steal 100
BUSY = (300, 100, 150, 200, 100, 20, 30, 100)
IDLE = (0, 0, 0, 1000, 0, 0, 0, 0)


def test_the_lines_of_each_core_are_read_and_no_other() -> None:
    assert parse_cpu_times(STAT) == {
        "0": [100, 2, 30, 500, 10, 1, 2, 4],
        "1": [100, 2, 30, 500, 10, 2, 3, 4],
    }
    assert parse_cpu_times("") == {}


def test_a_core_is_busy_unless_it_idles_or_waits_for_io() -> None:
    looks = cpu_samples([look(0, c0=ZERO, c1=ZERO), look(10, c0=BUSY, c1=IDLE)])
    use = cpu_use(looks, span(0, 10), None)
    assert use is not None
    assert use.cores_pct == pytest.approx({"0": 70.0, "1": 0.0})
    assert (use.user_pct, use.system_pct) == pytest.approx((20.0, 10.0))
    assert use.busy_cores == pytest.approx(0.7)
    assert use.busiest == ("0", pytest.approx(70.0))


def test_the_looks_nearest_to_the_edges_count() -> None:
    half = (50, 0, 0, 50, 0, 0, 0, 0)
    full = (150, 0, 0, 50, 0, 0, 0, 0)
    looks = cpu_samples([look(9.0, c0=ZERO), look(10.01, c0=half), look(11.02, c0=full)])
    use = cpu_use(looks, span(10, 11), None)
    assert use is not None and use.cores_pct == {"0": 100.0}


@pytest.mark.parametrize(
    "events",
    [
        [],
        [look(0, c0=ZERO)],
        [look(0.6, c0=ZERO), look(9.5, c0=BUSY)],
        [look(0, c0=ZERO), look(10, c0=ZERO)],
        [look(0, c0=ZERO), look(10, c1=BUSY)],
        [Event(0, EventKind.CPU_TIMES, {"cores": "none"}), Event(10 * S, EventKind.CPU_TIMES, {})],
        [look(0, c0=(1, 2)), look(10, c0=(5, 6))],
    ],
    ids=["none", "one", "too far off", "stood still", "other core", "no looks", "too few columns"],
)
def test_what_cannot_be_told_is_not(events: list[Event]) -> None:
    assert cpu_use(cpu_samples(events), span(0, 10), None) is None


def test_idle_that_counts_backwards_is_nothing() -> None:
    before, after = (0, 0, 0, 500, 0, 0, 0, 0), (100, 0, 0, 490, 0, 0, 0, 0)
    use = cpu_use(cpu_samples([look(0, c0=before), look(10, c0=after)]), span(0, 10), None)
    assert use is not None and use.cores_pct == {"0": 100.0}


def test_rounds_are_averaged_and_an_unknown_one_makes_the_mean_unknown() -> None:
    one = CpuUse({"0": 20.0, "1": 40.0}, 10.0, 20.0, 5.0, 6.0)
    two = CpuUse({"0": 40.0}, 20.0, 40.0, 7.0, None)
    assert mean_cpu_use([one, two]) == CpuUse({"0": 30.0}, 15.0, 30.0, 6.0, None)
    assert mean_cpu_use([one, None]) is None
    assert mean_cpu_use([]) is None


def test_a_run_has_it_in_its_phases_tables_and_chart(tmp_path: Path) -> None:
    bench = synthetic_run.Bench()
    begin = synthetic_run.build(tmp_path / "first", bench).begins_s[1]
    steps = [(begin, ZERO, ZERO), (begin + 10, BUSY, IDLE)]
    events = [(EventKind.CPU_TIMES, t, {"cores": {"0": [*a], "1": [*b]}}) for t, a, b in steps]
    run = synthetic_run.build(tmp_path / "second", replace(bench, events=events))
    summary = summarise(run.record)
    use = summary.phases[1].cpu
    assert use is not None and use.cores_pct == pytest.approx({"0": 70.0, "1": 0.0})
    assert [item.cpu for item in summary.phases[2:]] == [None] * (len(summary.phases) - 2)
    row = phase_rows(summary)[1]
    assert row["cpu_busy_cores"] == pytest.approx(0.7)
    assert row["fio_user_pct"] is None  # this fio said nothing of it
    told = list(csv.DictReader(io.StringIO(cpu_csv(summary))))
    assert [(one["core"], float(one["busy_pct"])) for one in told] == [
        ("0", pytest.approx(70.0)),
        ("1", 0.0),
    ]
    chart = cpu_chart(summary)
    assert chart is not None
    (data,) = chart.spec["datasets"].values()
    assert [(one["core"], one["x"]) for one in data] == [("0", 1.0), ("1", 1.0)]  # log2 of QD 2


def test_a_run_without_looks_has_no_chart() -> None:
    assert cpu_chart(summary_of(plan(qd_sweep()))) is None


def test_fio_says_what_its_workers_used() -> None:
    jobs = [
        '{"read": {"total_ios": 5}, "usr_cpu": 10.0, "sys_cpu": 30.0, "job_runtime": 1000}',
        '{"read": {"total_ios": 5}, "usr_cpu": 40.0, "sys_cpu": 60.0, "job_runtime": 3000}',
    ]
    result = final_result('{"fio version": "fio-3.33", "jobs": [' + ", ".join(jobs) + "]}")
    assert result is not None
    assert (result.user_cpu_pct, result.system_cpu_pct) == (32.5, 52.5)


async def test_each_boundary_is_a_look_and_the_end_one_more(tmp_path: Path) -> None:
    machine = MachineOfFiles(tmp_path)
    machine.write("/proc/stat", STAT)
    told: list[tuple[str, int, dict[str, object]]] = []
    times = iter(range(100, 10_000, 100))
    looked = asyncio.Event()

    def on_event(kind: str, t_ns: int, data: dict[str, object]) -> None:
        told.append((kind, t_ns, data))
        looked.set()

    async with watching_cpu(machine, lambda: next(times), on_event) as watch:
        watch.phase_boundary()
        async with asyncio.timeout(30):
            await looked.wait()
    assert [(kind, t_ns) for kind, t_ns, _ in told] == [
        (EventKind.CPU_TIMES, 150),
        (EventKind.CPU_TIMES, 350),
    ]
    assert told[0][2] == {"cores": parse_cpu_times(STAT), "u_ns": 50}


async def test_a_machine_without_counters_is_no_trouble(tmp_path: Path) -> None:
    told: list[str] = []
    async with watching_cpu(MachineOfFiles(tmp_path), lambda: 0, lambda k, t, d: told.append(k)):
        pass
    assert told == []


def test_this_machine_has_counters() -> None:
    text = LocalMachine().read_texts(["/proc/stat"]).get("/proc/stat", "")
    cores = parse_cpu_times(text)
    assert cores and all(len(ticks) == 8 for ticks in cores.values())
