"""A run of the real fio whose output is cut, altered or deleted afterwards: no wrong number is
reported, whatever is missing, and whether or not the journal says how much there was."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from instruments.simulated.bench import Bench
from labctl.analysis.methods.method_results import methods_of
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.phase_spans import RecordedOutput
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.fio.documents import DocumentStream, documents
from labctl.fio.results import last_document
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import RunRecord, find_runs
from labctl.report.data.run_data import open_run
from tests.forked_labctl import labctl

pytestmark = [pytest.mark.bench, pytest.mark.fault]

PLAN = """
name = "p"
idle_before_s = 1
idle_after_s = 0
[[sweeps]]
pattern = "randrw"
read_pct = 60
queue_depth = [1, 64]
jobs = 2
duration_s = 3
[[sweeps]]
replay = "trace.log"
queue_depth = 32
"""
REPORTED = "fio's output is not whole"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    ios = [f"{250_000 * i // 100} d read {4096 * i} 4096" for i in range(1000)]
    header = ["fio version 3 iolog", "0 d add", "0 d open"]
    (folder / "trace.log").write_text("\n".join([*header, *ios, "3000000 d close", ""]))
    plan = folder / "plan.toml"
    plan.write_text(PLAN)
    with Bench(folder / "bench") as bench:
        subprocess.run(
            [sys.executable, "-m", "labctl.cli.main", "run", str(bench.rig), str(plan),
             "--runs", str(folder / "runs")],
            check=True, capture_output=True,
        )  # fmt: skip
    (path,) = find_runs(folder / "runs")
    return path


@pytest.fixture(scope="module")
def whole(ran: Path) -> RunSummary:
    return summarise(RunRecord(ran))


def without_what_was_printed(run: Path) -> None:
    """As an older labctl wrote it."""
    events = []
    for line in (run / EVENTS_FILE).read_text().splitlines():
        event = json.loads(line)
        for name in RecordedOutput.__slots__:
            event.pop(name, None)
        events.append(json.dumps(event) + "\n")
    (run / EVENTS_FILE).write_text("".join(events))


@pytest.fixture(params=["as it is", pytest.param("of an older labctl", marks=pytest.mark.long)])
def copied(request: pytest.FixtureRequest, ran: Path, tmp_path: Path) -> Path:
    copy = tmp_path / ran.name
    shutil.copytree(ran, copy)
    if request.param == "of an older labctl":
        without_what_was_printed(copy)
    return copy


def outputs(run: Path) -> dict[int, Path]:
    record = RunRecord(run)
    phases = [phase for phase in record.header.phases if phase.pattern.io]
    return {phase.index: record.fio_dir(phase) / "stdout" for phase in phases}


def figures(result: PhaseResult) -> list[Any]:
    """All but histograms, which only the last document has, printed a second time for them."""
    sides = [side and replace(side, latency_histogram={}) for side in (result.read, result.write)]
    return [result.iops, result.bytes_per_s, *sides, result.iops_per_watt]


def runtime_ms(output: bytes) -> int:
    """Of the last document."""
    found = last_document(output.decode())
    assert found is not None
    return int(max(job["job_runtime"] for job in found["jobs"]))


def work(job: dict[str, Any]) -> list[Any]:
    return [job["job_runtime"], *(job[side]["total_ios"] for side in ("read", "write"))]


def assert_reported(summary: RunSummary, index: int, whole: RunSummary) -> None:
    """Nothing of fio's is left, and there are watts if there are with its output."""
    result = summary.phases[index]
    assert figures(result) == [None] * 5
    # a busy machine's meter may have too few readings of a replay of three seconds
    measured = whole.phases[index].watts is not None
    assert result.outcome == "failed" and (result.watts is not None) == measured
    assert any(REPORTED in note for note in result.notes)
    assert [p for p in summary.problems if REPORTED in p and p.startswith(f"phase {index + 1} (")]


def test_a_whole_output_is_believed(copied: Path) -> None:
    summary = summarise(RunRecord(copied))
    assert len(outputs(copied)) == 3
    assert not [problem for problem in summary.problems if REPORTED in problem]
    for index in outputs(copied):
        result = summary.phases[index]
        assert result.outcome == "completed" and result.iops
        assert (result.iops_per_watt is None) == (result.watts is None)
    assert any(summary.phases[index].iops_per_watt for index in outputs(copied))
    assert methods_of(RunRecord(copied), summary).replays


@pytest.mark.long
def test_wherever_it_is_cut_no_other_number_is_reported(copied: Path) -> None:
    record = RunRecord(copied)
    whole = summarise(record)
    places = random.Random(7)
    reports_it = any("stdout_bytes" in event.data for event in record.events)
    for index, file in outputs(copied).items():
        phase_is_replay = record.header.phases[index].replay is not None
        output = file.read_bytes()
        ends, worked = [], []  # behind each document, and what it says of the I/O
        stream = DocumentStream()
        for at in range(len(output)):
            for document in stream.feed(output[at : at + 1].decode()):
                ends.append(at + 1)
                worked.append([work(job) for job in document["jobs"]])
        over = ends[worked.index(worked[-1])]
        cuts = [0, *ends[:-1], *places.sample(range(1, ends[-1]), 12)]
        for cut in cuts:
            file.write_bytes(output[:cut])
            summary = summarise(RunRecord(copied))
            if figures(summary.phases[index]) == figures(whole.phases[index]):
                # what fio prints from its last I/O to its last document is the same
                assert cut >= over
            elif phase_is_replay and summary.phases[index].iops is not None:
                # its last document counts I/Os in flight, too: a cut of the last half second, in
                # which a busy machine may have printed more than one
                assert not reports_it and runtime_ms(output[:cut]) > runtime_ms(output) - 1000
            else:
                assert_reported(summary, index, whole)
        file.write_bytes(output)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda output: output.replace(b'"total_ios" : ', b'"total_ios" : 1', 99),
        lambda output: output + output[:4000],
        lambda output: output[len(output) // 2 :],
        lambda output: bytes(len(output)),
    ],
    ids=["altered", "longer", "begin lost", "zeros"],
)
def test_one_that_is_not_what_fio_printed_is_not_believed(
    ran: Path, whole: RunSummary, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ran, copy)
    for index, file in outputs(copy).items():
        file.write_bytes(spoil(file.read_bytes()))
        assert_reported(summarise(RunRecord(copy)), index, whole)


@pytest.mark.long
def test_one_that_is_missing_is_reported_everywhere(copied: Path, whole: RunSummary) -> None:
    index, file = next(iter(outputs(copied).items()))
    file.unlink()
    done = labctl("report", copied)
    assert done.returncode == 0, done.stderr
    assert f"{REPORTED}: stdout is missing" in " ".join(done.stdout.split())
    assert_reported(summarise(RunRecord(copied)), index, whole)
    reported = [
        (copied / name).read_text() for name in ("summary.json", "phases.csv", "report.html")
    ]
    assert all("stdout is missing" in text for text in reported)
    row = {name: column[index] for name, column in open_run(copied).table().items()}
    assert row["outcome"] == "failed" and row["iops"] is None and "missing" in str(row["notes"])
    found = methods_of(RunRecord(copied), summarise(RunRecord(copied)))
    assert index not in {one.phase_index for one in found.replays}


def test_the_last_document_of_a_phase_is_in_its_last_event(ran: Path) -> None:
    record = RunRecord(ran)
    ends = {
        event.data["index"]: event.data for event in record.events if event.kind == "phase_ended"
    }
    for index, file in outputs(ran).items():
        (*_, last) = documents(file.read_text())
        ios = sum(job[side]["total_ios"] for job in last["jobs"] for side in ("read", "write"))
        assert ends[index]["stdout_bytes"] == file.stat().st_size
        assert ends[index]["total_ios"] == ios
        runtimes = [job[side]["runtime"] for job in last["jobs"] for side in ("read", "write")]
        assert ends[index]["runtime_ms"] == max(runtimes) > 0
