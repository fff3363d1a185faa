"""Old runs: exported without loss, deleted by rule, and never what is on, needed or not shipped."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labctl.cli.overnight.tidy import tidy
from labctl.config.site import SITE_VARIABLE
from labctl.errors import ConfigurationError, JournalError, LabctlError
from labctl.record.journal import Journal, holding, reopen
from labctl.record.layout import CLOCK_PAIR, HOST_CLOCK
from labctl.record.reader import RunRecord, find_runs
from labctl.record.timebase import DAY_S
from labctl.service.data_dir import Home
from labctl.service.queue.job import Attempt, AttemptOutcome, Job, JobState
from labctl.service.queue.store import Queue
from labctl.service.runs import retention
from labctl.service.runs.parquet import export
from labctl.service.runs.retention import (
    Rule,
    Step,
    carry_out,
    decide,
    sweep_deleted,
    why_it_must_stay,
)
from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.cursor_file import CursorFile
from labctl.sinks.influxdb.settings import influx_settings
from labctl.sinks.schema import SCHEMA_VERSION
from tests.servers.influx_run import MadeRun

SINK = '[sinks.influxdb]\nurl = "http://127.0.0.1:9"\nbucket = "b"\n'
JOB = Job(id=1, rig="bench", plan="p", plan_text="", drive_target="x", added_s=1.0, retries=1)
OLD = Rule(delete_after_s=30 * DAY_S)


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "site.toml"
    empty.write_text("")
    monkeypatch.setenv(SITE_VARIABLE, str(empty))


def made(tmp_path: Path, number: int = 1, days: float = 40, **values: object) -> Path:
    run = MadeRun(
        tmp_path / "runs",
        run_id=f"2026010{number}T000000Z_bench_made-up",
        **values,  # type: ignore[arg-type]
    ).whole()
    then = time.time() - days * DAY_S
    for file in run.path.rglob("*"):
        os.utime(file, (then, then))
    return run.path


def steps(tmp_path: Path, rule: Rule, needed: frozenset[str] = frozenset()) -> list[Step]:
    return [one.step for one in decide(tmp_path / "runs", rule, time.time(), needed)]


def shipped(run: Path, text: str, events: int | None = None, schema: int = SCHEMA_VERSION) -> None:
    settings = influx_settings(text, "rig")
    assert settings is not None
    size = (run / "journal.jsonl").stat().st_size if events is None else events
    file = CursorFile(run, "influxdb", lambda _: None)
    cursor = Cursor(settings.destination, settings.bin_ns, events=size, summarised=size)
    file.keep(replace(cursor, schema=schema))
    file.close()


def test_old_runs_go_and_new_ones_stay(tmp_path: Path) -> None:
    old, new = made(tmp_path, 1), made(tmp_path, 2, days=1)
    assert steps(tmp_path, OLD) == [Step.DELETE, Step.KEEP]
    for decision in decide(tmp_path / "runs", OLD, time.time(), frozenset()):
        carry_out(decision, OLD)
    assert not old.exists() and find_runs(tmp_path / "runs") == [new]


def test_the_oldest_go_until_the_rest_fits_the_budget(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        made(tmp_path, number, days=1)
    sizes = [one.bytes for one in decide(tmp_path / "runs", Rule(), time.time(), frozenset())]
    rule = Rule(budget_bytes=sizes[1] + sizes[2])
    assert steps(tmp_path, rule) == [Step.DELETE, Step.KEEP, Step.KEEP]


def test_a_run_that_a_job_goes_on_with_stays(tmp_path: Path) -> None:
    run = made(tmp_path)
    assert steps(tmp_path, OLD, frozenset({run.name})) == [Step.KEEP]


@pytest.mark.parametrize("days", [-1, 0, 40])
@pytest.mark.parametrize("ends", [True, False])
def test_a_run_that_a_process_records_stays_whatever_its_files_times(
    tmp_path: Path, days: float, ends: bool
) -> None:
    """A machine may be suspended for days in the middle of a run, and a clock be set."""
    run = made(tmp_path, ends=ends, days=days)
    rule = Rule(budget_bytes=0)
    (decision,) = decide(tmp_path / "runs", rule, time.time(), frozenset())
    assert decision.step is Step.DELETE
    with holding(run) as is_ours:
        assert is_ours
        assert steps(tmp_path, rule) == [Step.KEEP]
        assert why_it_must_stay(run) == "it is on"
        with pytest.raises(LabctlError, match="it is on"):
            carry_out(decision, rule)
    assert steps(tmp_path, rule) == [Step.DELETE]
    carry_out(decision, rule)
    assert not run.exists()


def test_a_run_that_is_being_deleted_cannot_be_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, ends=False)
    (decision,) = decide(tmp_path / "runs", OLD, time.time(), frozenset())
    refused: list[str] = []

    def deleting(path: Path) -> None:
        for attempt in (lambda: reopen(path), lambda: Journal(path, lambda: 0)):
            with pytest.raises(JournalError) as error:
                attempt()
            refused.append(str(error.value))

    monkeypatch.setattr(retention, "delete", deleting)
    carry_out(decision, OLD)
    assert len(refused) == 2 and all("being recorded" in words for words in refused)


def test_what_a_sink_does_not_have_whole_stays(tmp_path: Path) -> None:
    run = made(tmp_path, rig_text=SINK)
    assert "has nothing of it yet" in why_it_must_stay(run)
    shipped(run, SINK, events=10)
    assert "does not have all of it" in why_it_must_stay(run)
    shipped(run, SINK)
    assert why_it_must_stay(run) == ""
    elsewhere = SINK.replace(":9", ":10")
    shipped(run, elsewhere)
    assert "does not have all of it" in why_it_must_stay(run)
    shipped(run, SINK, schema=SCHEMA_VERSION - 1)
    assert "does not have all of it" in why_it_must_stay(run)
    holding = CursorFile(run, "influxdb", lambda _: None)
    assert "being sent" in why_it_must_stay(run)
    holding.close()


def test_the_site_files_sink_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(tmp_path)
    site = tmp_path / "with-sink.toml"
    site.write_text(SINK)
    monkeypatch.setenv(SITE_VARIABLE, str(site))
    assert "labctl ship" in why_it_must_stay(run)
    monkeypatch.setenv(SITE_VARIABLE, str(tmp_path / "missing.toml"))
    assert "not known" in why_it_must_stay(run)


def test_what_changed_since_the_decision_is_not_touched(tmp_path: Path) -> None:
    run = made(tmp_path)
    (decision,) = decide(tmp_path / "runs", OLD, time.time(), frozenset())
    header = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**header, "rig_text": SINK}))
    with pytest.raises(Exception, match="has nothing of it yet"):
        carry_out(decision, OLD)
    assert run.exists()


def test_parquet_holds_every_reading_bit_for_bit(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    run = made(tmp_path)
    samples = np.zeros(3, CLOCK_PAIR)
    samples["round_trip_ns"] = [1, 2, 3]
    samples.tofile(run / "channels" / f"{HOST_CLOCK}.clock")
    export(run, run / "parquet")
    kept = parquet.read_table(run / "parquet" / f"{HOST_CLOCK}.clock.parquet")
    assert kept["round_trip_ns"].to_pylist() == [1, 2, 3], "of the drive's host"
    record = RunRecord(run)
    seen = 0
    for name in record.channel_names:
        readings = record.readings(name)
        if not len(readings):
            continue
        table = parquet.read_table(run / "parquet" / f"{name}.parquet")
        assert np.array_equal(table["t"].to_numpy(), readings["t"])
        assert table["v"].to_numpy().tobytes() == readings["v"].tobytes()
        assert table.schema.metadata[b"labctl.unit"].decode() == record.channel(name).unit
        seen += 1
    assert seen >= 5
    assert (run / "parquet" / "journal.jsonl").read_bytes() == (run / "journal.jsonl").read_bytes()


def test_with_an_archive_nothing_is_deleted_before_it_lies_there(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    run = made(tmp_path)
    archive = tmp_path / "archive"
    rule = Rule(delete_after_s=30 * DAY_S, archive=archive)
    (decision,) = decide(tmp_path / "runs", rule, time.time(), frozenset())
    carry_out(decision, rule)
    assert not run.exists() and (archive / run.name / "v12.voltage.parquet").is_file()


def test_an_archive_that_lacks_what_came_later_is_made_anew_before_anything_is_deleted(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyarrow")
    run, archive = made(tmp_path), tmp_path / "archive"
    rule = Rule(delete_after_s=30 * DAY_S, archive=archive)
    export(run, rule.parquet_of(run))
    with (run / "journal.jsonl").open("a") as file:  # it went on
        file.write('{"t": 1, "kind": "run_resumed"}\n')
    os.utime(run / "journal.jsonl", (1.0, 1.0))
    (decision,) = decide(tmp_path / "runs", rule, time.time(), frozenset())
    carry_out(decision, rule)
    assert not run.exists()
    assert "run_resumed" in (archive / run.name / "journal.jsonl").read_text()


def test_parquet_is_on_the_disk_before_it_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may be deleted right after that."""
    pytest.importorskip("pyarrow")
    run, target, synced = made(tmp_path), tmp_path / "archive" / "run", list[int]()

    def sync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", sync)
    export(run, target)
    there = [target.parent, target, *target.iterdir()]
    assert len(there) > 5 and {path.stat().st_ino for path in there} <= set(synced)


def test_tidying_keeps_the_run_of_an_earlier_attempt_and_takes_no_archive_among_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that failed before it wrote anything goes on with the run of the one before."""
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "home"))
    run, runs = made(tmp_path), tmp_path / "runs"
    queue = Queue(Home(tmp_path / "home"))
    queue.add(lambda number: JOB.model_copy(update={"id": number}))
    for name, outcome in ((run.name, AttemptOutcome.INTERRUPTED), (None, AttemptOutcome.FAILED)):
        queue.claim("bench", Attempt(begun_s=0.0, run=name))
        queue.end(1, outcome, "cut off")
    assert queue.job(1).state is JobState.QUEUED
    with pytest.raises(ConfigurationError, match="another folder"):
        tidy(delete_after_days=30.0, archive=str(runs), runs=runs)
    tidy(delete_after_days=30.0, runs=runs)
    assert run.exists()


def test_a_deletion_that_was_cut_off_is_finished_by_the_next(tmp_path: Path) -> None:
    run = made(tmp_path)
    gone = run.rename(run.with_name(f".deleted-{run.name}"))
    assert steps(tmp_path, OLD) == []
    sweep_deleted(tmp_path / "runs")
    assert not gone.exists()
