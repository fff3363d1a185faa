"""Questions to runs in a real S3 server, and the same tables in another engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import labctl as labctl_package
from labctl.report.data.compact import compact_place
from labctl.report.data.query import query
from labctl.report.data.runs_at import rows_at
from labctl.store.address import parse_address
from labctl.store.open_place import open_place
from labctl.store.place import Place
from tests.forked_labctl import labctl
from tests.servers.s3_server import BUCKET, running
from tests.stored_runs import put_tables
from tests.unit.synthetic_run import WORK, Bench, build

pytest.importorskip("duckdb", reason="DuckDB is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

MEANS = (
    "SELECT rig, pattern, count(*), avg(watts), max(iops) FROM phases JOIN runs USING (folder) "
    "GROUP BY ALL ORDER BY ALL"
)
RUNS = 5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("original"), Bench(loads=WORK[:3])).path


@pytest.fixture
def place(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    with running(tmp_path / "s3") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        place = open_place(parse_address(f"s3://{BUCKET}/runs of/{tmp_path.name}"))
        for number in range(RUNS):
            put_tables(place, run, f"run-{number}")
        yield place


def test_a_bucket_answers_before_and_after_it_is_compacted(
    place: Place, run: Path, tmp_path: Path
) -> None:
    before = query(MEANS, [place.address])
    assert sum(row[2] for row in before.rows) == 3 * RUNS and not before.left_out
    first = compact_place(place.address, tmp_path / "cache")
    assert first.written == 1 and compact_place(place.address).written == 0
    for cache in (None, tmp_path / "other"):
        assert query(MEANS, [place.address], cache) == before
    assert [row["run"] for row in rows_at(place.address, None)[0]] == [
        f"run-{number}" for number in range(RUNS)
    ]
    put_tables(place, run, "run-x")
    put_tables(place, run, "run-0", revision=2)
    assert query("SELECT count(*) FROM phases", [place.address]).rows == ((3 * RUNS + 3,),)
    assert compact_place(place.address).written == 1
    assert query("SELECT count(*) FROM runs", [place.address]).rows == ((RUNS + 1,),)
    place.remove(first.manifest.parts[0].files["phases"].key)
    assert query("SELECT count(*) FROM phases", [place.address]).rows == ((3 * RUNS + 3,),)


def test_a_run_of_a_bucket_is_opened_and_compared(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "s3") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        store = f"s3://{BUCKET}/lab"
        assert labctl("push", run, store).returncode == 0
        opened = labctl_package.open_run(f"{store}/{run.name}")
        assert opened.table() == labctl_package.open_run(run).table()
        done = labctl("compare", run, f"{store}/{run.name}", "--json")
        assert done.returncode == 0 and json.loads(done.stdout), done.stderr
        done = labctl("report", f"{store}/no-such-run")
        assert done.returncode and "no-such-run" in done.stderr
