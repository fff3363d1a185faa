"""What fio printed becomes phases: jobs that wait, statuses, ramps, its own clock, idle beside."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labctl.analysis.readings.imported import UNCONFIRMED
from labctl.analysis.run.summary import summarise
from labctl.importing.clock import ClockRules
from labctl.importing.make_run import import_run
from labctl.importing.meter_channels import MeterFile
from labctl.importing.phases import Idle
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from tests.unit.importing.exported import (
    Bench,
    Clock,
    bench,
    meter_of,
)
from tests.unit.importing.made_runs import (
    LABELS,
    imported,
    inside,
    mistake,
)
from tests.unit.virtual_bench import Work


@pytest.mark.parametrize("start", [True, False])
def test_jobs_that_waited_for_each_other_are_phases_and_no_sum(
    sweep: Bench, tmp_path: Path, start: bool
) -> None:
    file = sweep.write_csv(tmp_path / "psu.csv")
    fio = sweep.write_stonewalled(tmp_path / "all.json", start=start)
    works = read_workload([fio])
    for work, at in zip(works, sweep.io, strict=True):
        began_s = work.begin_ns / 1e9 - 1_700_000_000
        assert abs(began_s - sweep.driven.begins_s[at]) * 1e9 <= work.boundary_u_ns
    _, summary = imported(file, fio, tmp_path / "runs")
    rates = [result.iops for result in summary.phases]
    whole = [job["read"]["iops"] for job in json.loads(fio.read_text())["jobs"]]
    assert rates == pytest.approx(whole, rel=2e-3)
    assert all(inside(sweep, summary))


def test_statuses_give_the_begin_and_iops_over_time(sweep: Bench, tmp_path: Path) -> None:
    fio = tmp_path / "fio"
    fio.mkdir()
    for index, at in enumerate(sweep.io):
        last = sweep.document([index], start=False, late_ms=90)
        texts = []
        for t_s, reads, _ in sweep.driven.statuses[at]:
            document = json.loads(json.dumps(last))
            side = document["jobs"][0]["read"]
            side["runtime"] = round((t_s - sweep.driven.begins_s[at]) * 1000)
            side["total_ios"], side["io_bytes"] = reads, reads * 4096
            document["timestamp_ms"] = round(1_700_000_000_000 + t_s * 1000)
            texts.append(json.dumps(document, indent=1))
        texts[-1] = json.dumps(last, indent=1)
        (fio / f"{index}.json").write_text("\n".join(texts) + "\n")
    works = read_workload([fio])
    assert {work.timed_by for work in works} == {"the times of its statuses"}
    assert max(work.boundary_u_ns for work in works) < 10_000_000
    found, summary = imported(sweep.write_csv(tmp_path / "psu.csv"), fio, tmp_path / "runs")
    assert all(inside(sweep, summary))
    live = RunRecord(found.path).readings("fio.read.iops")
    assert len(live) > 3 * len(works)
    assert np.median(live["v"][-4:]) == pytest.approx(summary.phases[-1].iops, rel=0.1)


def test_the_files_are_kept_as_they_are(sweep: Bench, tmp_path: Path) -> None:
    file, fio = sweep.write_csv(tmp_path / "psu.csv"), sweep.write_fio(tmp_path / "fio")
    found, _ = imported(file, fio, tmp_path / "runs")
    (event,) = [one for one in RunRecord(found.path).events if one.kind == "imported"]
    kept = {one["file"]: one for one in event.data["files"]}
    assert set(kept) == {"import/meters/psu.csv", *(f"import/fio/{n}.json" for n in range(3))}
    for name, one in kept.items():
        data = (found.path / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == one["sha256"]
    assert (found.path / "import/meters/psu.csv").read_bytes() == file.read_bytes()
    assert [one.name for one in (tmp_path / "runs").iterdir()] == [found.path.name]


def test_two_fios_at_the_same_time_are_refused(sweep: Bench, tmp_path: Path) -> None:
    fio = sweep.write_fio(tmp_path / "fio")
    document = sweep.document([1], start=True)
    document["jobs"][0]["job_start"] -= 2000
    (fio / "1.json").write_text(json.dumps(document))
    text = mistake(lambda: read_workload([fio]))
    assert "1.json" in text and "0.json ended" in text


def test_job_start_is_behind_the_ramp(sweep: Bench, tmp_path: Path) -> None:
    """fio 3.42 begins to count anew there, and takes the time of its job again."""
    document = sweep.document([0], start=True)
    (tmp_path / "plain.json").write_text(json.dumps(document))
    document["jobs"][0]["job options"]["ramp_time"] = "2"
    (tmp_path / "ramp.json").write_text(json.dumps(document))
    plain, ramp = (read_workload([tmp_path / f"{one}.json"])[0] for one in ("plain", "ramp"))
    assert (ramp.begin_ns, ramp.end_ns) == (plain.begin_ns, plain.end_ns)


def test_fios_own_clock_is_compared(sweep: Bench, tmp_path: Path) -> None:
    """A fio that counts 3.2 s in 3 s, by its own stamps: the phase is as long as the stamps say."""
    fio = sweep.write_fio(tmp_path / "fio")
    document = sweep.document([2], start=True)
    for side in ("read", "write"):
        document["jobs"][0][side]["runtime"] = round(document["jobs"][0][side]["runtime"] * 1.2)
    (fio / "2.json").write_text(json.dumps(document))
    _, summary = imported(sweep.write_csv(tmp_path / "psu.csv"), fio, tmp_path / "runs")
    assert any("fio's clock runs" in one for one in summary.problems)
    true = document["jobs"][0]["read"]["total_ios"] / 3.0
    assert summary.phases[2].iops == pytest.approx(true, rel=0.06)


def test_a_fast_clock_of_a_fio_that_says_no_begin(tmp_path: Path) -> None:
    """It counts 8.64 s in 8 s: by their ends less their runtimes the phases would overlap."""
    made = bench(tuple(Work(Pattern.RANDREAD, 8.0, 4096, depth) for depth in (1, 8, 32)))
    fio = tmp_path / "fio"
    fio.mkdir()
    for index in range(3):
        document = made.document([index], start=False, late_ms=100)
        job = document["jobs"][0]
        job["read"]["runtime"] = job["job_runtime"] = round(job["read"]["runtime"] * 1.08)
        (fio / f"{index}.json").write_text(json.dumps(document))
    works = read_workload([fio])
    for work, at in zip(works, made.io, strict=True):
        began_s = work.begin_ns / 1e9 - 1_700_000_000
        assert abs(began_s - made.driven.begins_s[at]) * 1e9 <= work.boundary_u_ns
        assert work.duration_s == pytest.approx(8.0, rel=0.03)
    _, summary = imported(made.write_csv(tmp_path / "psu.csv"), fio, tmp_path / "runs")
    assert all(inside(made, summary))
    assert any("fio's clock runs" in one for one in summary.problems)


def test_a_fast_clock_is_seen_in_statuses(sweep: Bench, tmp_path: Path) -> None:
    fio = tmp_path / "all.json"
    last = sweep.document([2], start=False, late_ms=90)
    begin_s = sweep.driven.begins_s[sweep.io[2]]
    texts = []
    for t_s, reads, _ in sweep.driven.statuses[sweep.io[2]]:
        document = json.loads(json.dumps(last))
        side = document["jobs"][0]["read"]
        side["runtime"] = round((t_s - begin_s) * 1080)
        side["total_ios"], side["io_bytes"] = reads, reads * 4096
        document["timestamp_ms"] = round(1_700_000_000_000 + t_s * 1000)
        texts.append(json.dumps(document, indent=1))
    fio.write_text("\n".join(texts) + "\n")
    (work,) = read_workload([fio])
    assert work.duration_s == pytest.approx(3.0, abs=0.02)
    assert abs(work.begin_ns / 1e9 - 1_700_000_000 - begin_s) * 1e9 <= work.boundary_u_ns


def test_idle_before_and_after_the_work_stands_beside_the_depths(
    sweep: Bench, tmp_path: Path
) -> None:
    file, fio = sweep.write_csv(tmp_path / "psu.csv", Clock(9.0)), sweep.write_fio(tmp_path / "fio")
    plain = imported(file, fio, tmp_path / "plain")[1]
    idle = Idle(2.0, 1.5)
    works, sources = read_workload([fio]), [MeterFile(file, meter_of(file))]
    found = import_run(works, sources, tmp_path / "runs", LABELS, ClockRules(), idle=idle)
    first, *between, last = summarise(RunRecord(found.path)).phases
    assert (first.phase.label, last.phase.label) == ("idle before", "idle after")
    begin_s = sweep.driven.begins_s[sweep.io[0]]
    ticks = sweep.driven.ticks
    joules = ticks["joules_12V"] + ticks["joules_3V3"]
    spent = np.diff(np.interp((begin_s - 2.4, begin_s - 0.4), ticks["t_ns"] * 1e-9, joules))[0]
    assert first.watts is not None and abs(first.watts.value - spent / 2) <= first.watts.u
    for one, other in zip(between, plain.phases, strict=True):
        assert one.watts is not None and other.watts is not None
        assert one.watts.value == pytest.approx(other.watts.value)
        assert UNCONFIRMED not in one.notes


def test_idle_beyond_the_recording_is_refused(sweep: Bench, tmp_path: Path) -> None:
    file, fio = sweep.write_csv(tmp_path / "psu.csv"), sweep.write_fio(tmp_path / "fio")
    works, sources = read_workload([fio]), [MeterFile(file, meter_of(file))]

    def call() -> Any:
        idle = Idle(before_s=20.0)
        return import_run(works, sources, tmp_path / "runs", LABELS, ClockRules(), idle=idle)

    text = mistake(call)
    assert "--idle-before" in text and "s before the first phase, of which" in text
