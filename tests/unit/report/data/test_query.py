"""SQL over all runs, on Parquet that is never stale."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from labctl.analysis.run.summary import summarise
from labctl.cli.results.query import run_query
from labctl.errors import ConfigurationError
from labctl.record.reader import RunRecord
from labctl.report.data.query import answer_csv, answer_json, query
from labctl.report.data.query_tables import PHASES_FILE, fingerprint
from tests.unit.synthetic_run import WORK, Bench, build

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    first = build(root, Bench(seed=1)).path
    first.rename(root / "first")
    second = build(root, Bench(seed=2, loads=WORK[:3], celsius=lambda t: 40 + t / 10)).path
    second.rename(root / "second")
    return root


def test_the_numbers_are_those_of_the_summary(runs: Path) -> None:
    found = query(
        "SELECT \"index\", watts, watts_u, iops FROM phases WHERE role = 'measure' "
        'ORDER BY watts_12V, "index"',
        [runs / "first"],
    )
    summary = summarise(RunRecord(runs / "first"))
    assert found.columns == ("index", "watts", "watts_u", "iops")
    expected = [
        (item.phase.index, item.watts.value, item.watts.u, item.iops)
        for item in summary.measured
        if item.watts
    ]
    assert list(found.rows) == expected, "Parquet holds every digit"


def test_runs_with_other_columns_stand_in_one_table(runs: Path) -> None:
    """Only the second run has a temperature sensor: the first has NULL there, not 0."""
    found = query("SELECT count(*), count(celsius_max_composite), count(watts) FROM phases", [runs])
    assert found.rows == ((9, 3, 9),)
    both = query("SELECT count(*), sum(phases), min(outcome) FROM runs", [runs])
    assert both.rows == ((2, 9, "completed"),)


def test_parquet_is_kept_and_made_again_when_the_record_changes(runs: Path) -> None:
    query("SELECT 1", [runs])
    kept = runs / "first" / PHASES_FILE
    before = kept.stat().st_mtime_ns
    query("SELECT 1", [runs])
    assert kept.stat().st_mtime_ns == before
    sql = 'SELECT watts FROM phases WHERE "index" = 4'
    ((old,),) = query(sql, [runs / "first"]).rows
    channel = runs / "first" / "channels" / "i12.current"
    data = channel.read_bytes()
    channel.write_bytes(data[: len(data) // 2 // 16 * 16])
    assert old > 0
    assert query(sql, [runs / "first"]).rows == ((None,),), "its readings are cut off"
    assert kept.stat().st_mtime_ns > before


def test_a_torn_parquet_file_is_made_again(runs: Path) -> None:
    query("SELECT 1", [runs])
    kept = runs / "first" / PHASES_FILE
    kept.write_bytes(kept.read_bytes()[:100])
    assert query("SELECT count(*) FROM phases", [runs]).rows == ((9,),)


def test_any_other_engine_reads_the_parquet(runs: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    query("SELECT 1", [runs])
    table = parquet.read_table(runs / "first" / PHASES_FILE)
    assert table.num_rows == 6
    types = {name: str(table.schema.field(name).type) for name in ("label", "index", "watts")}
    assert types == {"label": "string", "index": "int64", "watts": "double"}


def test_a_run_that_cannot_be_written_to_is_read_all_the_same(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write anywhere, so the one call that makes the file is refused instead."""
    real = os.open

    def refuse(path: Path | str, flags: int, mode: int = 0o777, **more: int) -> int:
        if flags & os.O_CREAT and runs in Path(path).parents:
            raise PermissionError(30, "Read-only file system", str(path))
        return real(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert query("SELECT count(*) FROM phases", [runs]).rows == ((9,),)
    assert not (runs / "first" / PHASES_FILE).exists()


def test_wrong_sql_names_what_there_is(runs: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)wats.*DESCRIBE phases") as caught:
        query("SELECT wats FROM phases", [runs])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("sql", ["", " ;\n"])
def test_no_question_and_no_directory_are_told(sql: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a question"):
        query(sql, [tmp_path])
    with pytest.raises(ConfigurationError, match="no such directory"):
        query("SELECT 1", [tmp_path / "nowhere"])


def test_many_columns_are_shown_one_below_the_other(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run_query("SELECT * FROM phases LIMIT 2", runs, False, False)
    lines = capsys.readouterr().out.splitlines()
    wide = lines[0].index("2026")
    assert sum(line[:wide].rstrip() == "label" for line in lines) == 2
    run_query("SELECT '[red]:x:' AS name, 1 AS one", runs, False, False)
    assert "[red]:x:" in capsys.readouterr().out, "a name is no markup"
    run_query("DESCRIBE phases", runs, False, False)
    assert "watts_12V" in capsys.readouterr().out


def test_a_run_that_cannot_be_read_is_left_out_and_named(runs: Path) -> None:
    (runs / "broken").mkdir()
    (runs / "broken" / "run.json").write_text("{")
    found = query("SELECT count(*) FROM runs", [runs])
    assert found.rows == ((2,),)
    assert len(found.left_out) == 1 and "broken" in found.left_out[0]


def test_no_runs_are_no_rows(tmp_path: Path) -> None:
    assert query("SELECT count(*) FROM phases", [tmp_path]).rows == ((0,),)


def test_csv_json_and_table(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT label, notes IS NULL AS quiet, NULL AS nothing FROM phases LIMIT 1"
    found = query(sql, [runs])
    assert answer_csv(found) == f"label,quiet,nothing\nidle before,{found.rows[0][1]},\n"
    assert json.loads(answer_json(found))[0]["nothing"] is None
    run_query(sql, runs, False, False)
    shown = capsys.readouterr().out
    assert "idle before" in shown and "–" in shown


def test_quotes_and_commas_in_names_come_back(tmp_path: Path) -> None:
    path = build(tmp_path, Bench()).path
    header = json.loads((path / "run.json").read_text())
    header["drive"]["model"] = 'it\'s "6,4 TB", new\nline'
    (path / "run.json").write_text(json.dumps(header))
    assert query("SELECT drive_model FROM runs", [tmp_path]).rows == (
        ('it\'s "6,4 TB", new line',),  # a record's names are on one line
    )


def test_a_copied_run_answers_the_same(runs: Path, tmp_path: Path) -> None:
    sql = "SELECT label, watts FROM phases"
    one = query(sql, [runs / "first"]).rows
    shutil.copytree(runs / "first", tmp_path / "copy")
    os.utime(tmp_path / "copy" / "run.json", (1, 1))
    assert fingerprint(tmp_path / "copy").text != fingerprint(runs / "first").text
    assert query(sql, [tmp_path / "copy"]).rows == one
