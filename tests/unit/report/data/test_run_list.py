"""The list of runs: what is kept of a run never stands in for what the run says now."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from labctl.errors import JournalError
from labctl.record.journal import holding
from labctl.record.reader import RunRecord
from labctl.report.data import run_list
from labctl.report.data.run_index import UNUSED_DAYS
from labctl.report.data.run_list import list_of_runs
from tests.unit.synthetic_run import WORK, Bench, build


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("original"), Bench(loads=WORK[:2], cut_off=True)).path


@pytest.fixture
def runs(tmp_path: Path, original: Path) -> Path:
    for name in ("a", "b", "c"):
        shutil.copytree(original, tmp_path / "runs" / name)
    return tmp_path / "runs"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs whose records are read."""
    names: list[str] = []

    def counted(path: Path) -> RunRecord:
        names.append(path.name)
        return RunRecord(path)

    monkeypatch.setattr(run_list, "RunRecord", counted)
    return names


def outcomes(runs: Path, cache: Path | None) -> dict[str, str]:
    return {row["run"]: row["outcome"] for row in list_of_runs(runs, cache)}


def end(run: Path, outcome: str) -> None:
    with (run / "journal.jsonl").open("a") as file:
        file.write(json.dumps({"t": 1, "kind": "run_ended", "outcome": outcome}) + "\n")


def test_only_a_run_that_changed_is_read_again(runs: Path, cache: Path, read: list[str]) -> None:
    first = list_of_runs(runs, cache)
    assert first == list_of_runs(runs, None)
    read.clear()
    assert list_of_runs(runs, cache) == first and not read
    end(runs / "b", "failed")
    assert outcomes(runs, cache) == {"a": "interrupted", "b": "failed", "c": "interrupted"}
    assert read == ["b"]
    header = json.loads((runs / "a" / "run.json").read_text())
    (runs / "a" / "run.json").write_text(json.dumps({**header, "rig_name": "other"}))
    assert list_of_runs(runs, cache)[0]["rig"] == "other"


def test_whether_a_run_is_on_is_asked_each_time(runs: Path, cache: Path, read: list[str]) -> None:
    outcomes(runs, cache)
    read.clear()
    with holding(runs / "c"):
        assert outcomes(runs, cache)["c"] == "running"
    assert outcomes(runs, cache)["c"] == "interrupted" and not read


def test_runs_that_went_and_came(runs: Path, cache: Path) -> None:
    list_of_runs(runs, cache)
    shutil.rmtree(runs / "a")
    (runs / "b").rename(runs / "d")
    rows = list_of_runs(runs, cache)
    assert [(row["run"], row["path"]) for row in rows] == [
        (name, str(runs / name)) for name in ("c", "d")
    ]


def test_a_run_that_cannot_be_read_is_tried_again(runs: Path, cache: Path) -> None:
    whole = (runs / "a" / "run.json").read_bytes()
    (runs / "a" / "run.json").write_text("{")
    assert outcomes(runs, cache)["a"].startswith("unreadable")
    (runs / "a" / "run.json").write_bytes(whole)
    assert outcomes(runs, cache)["a"] == "interrupted"


@pytest.mark.parametrize("harm", ["torn", "directory", "others may write", "no room for a folder"])
def test_a_cache_that_is_of_no_use_changes_no_answer(runs: Path, cache: Path, harm: str) -> None:
    expected = list_of_runs(runs, cache)
    (index,) = cache.glob("*/index.sqlite")
    if harm == "torn":
        index.write_bytes(b"SQLite format 3\0" + os.urandom(4000))
    elif harm == "directory":
        index.unlink()
        index.mkdir()
    elif harm == "others may write":
        cache.chmod(0o777)
        index.unlink()
    else:
        shutil.rmtree(cache)
        cache.write_text("")
    assert list_of_runs(runs, cache) == expected == list_of_runs(runs, cache)
    assert (harm == "others may write") == (not index.exists() and cache.is_dir())


def test_many_at_once_answer_the_same(runs: Path, cache: Path) -> None:
    answers: list[dict[str, str]] = []

    def ask() -> None:
        answers.extend(outcomes(runs, cache) for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 40 and all(answer == answers[0] for answer in answers)


def test_what_nobody_used_for_long_is_forgotten(tmp_path: Path, runs: Path, cache: Path) -> None:
    list_of_runs(runs, cache)
    (old,) = cache.iterdir()
    past = old.stat().st_mtime - (UNUSED_DAYS + 1) * 86_400
    for path in (*old.iterdir(), old):
        os.utime(path, (past, past))
    shutil.copytree(runs, tmp_path / "others")
    list_of_runs(tmp_path / "others", cache)
    assert not old.exists() and len(list(cache.iterdir())) == 1


def test_a_link_in_a_run_is_still_refused(runs: Path, cache: Path) -> None:
    list_of_runs(runs, cache)
    (runs / "a" / "channels" / "more").symlink_to("/dev/zero")
    with pytest.raises(JournalError):
        RunRecord(runs / "a")
    assert "is a link" in outcomes(runs, cache)["a"]
