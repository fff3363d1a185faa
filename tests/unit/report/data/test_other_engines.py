"""The compacted tables give another engine the same answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from labctl.report.data.compact import compact_place
from labctl.report.data.query import query
from tests.unit.synthetic_run import WORK, Bench, build

pytest.importorskip("duckdb", reason="DuckDB is not installed")

QUESTION = (
    "SELECT pattern, queue_depth, count(*) AS n, avg(watts) AS w, max(iops) AS most "
    "FROM phases GROUP BY pattern, queue_depth ORDER BY pattern, queue_depth"
)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder of runs, some with other columns, and the files of their phases."""
    root = tmp_path_factory.mktemp("runs")
    plain = build(root, Bench(seed=1)).path
    build(root, Bench(seed=2, loads=WORK[:3], celsius=lambda t: 40 + t / 10))
    shutil.copytree(plain, root / "copied")
    parts = compact_place(root).manifest.parts
    return root, [f"{root}/{part.files['phases'].key}" for part in parts]


def test_pyarrow_gives_the_same_answer(compacted: tuple[Path, list[str]]) -> None:
    dataset = pytest.importorskip("pyarrow.dataset", reason="pyarrow is not installed")
    root, files = compacted
    table = dataset.dataset(files).to_table(columns=["folder", "watts"])
    means = table.group_by("folder").aggregate([("watts", "mean"), ("watts", "count")])
    own = query("SELECT folder, avg(watts), count(watts) FROM phases GROUP BY ALL", [root]).rows
    theirs = {row["folder"]: row for row in means.to_pylist()}
    assert {row[0]: row[2] for row in own} == {k: v["watts_count"] for k, v in theirs.items()}
    for folder, mean, _ in own:
        assert theirs[folder]["watts_mean"] == pytest.approx(mean, rel=1e-12)


@pytest.mark.long
def test_chdb_gives_the_same_answer(compacted: tuple[Path, list[str]]) -> None:
    """ClickHouse in the process: 500 MB, so it is no part of the group ``test``."""
    chdb = pytest.importorskip("chdb", reason="chDB is not installed: pip install chdb")
    root, files = compacted
    rows = " UNION ALL ".join(f"SELECT * FROM file('{file}')" for file in files)
    answer = chdb.query(QUESTION.replace("FROM phases", f"FROM ({rows})"), "JSONCompactEachRow")
    theirs = [json.loads(line) for line in str(answer).splitlines()]
    own = query(QUESTION, [root]).rows
    assert len(theirs) == len(own) > 3
    for their, row in zip(theirs, own, strict=True):
        assert their[:1] == [row[0]] and int(their[2]) == row[2]
        for value, expected in zip(their[3:], row[3:], strict=True):
            assert value == (None if expected is None else pytest.approx(expected, rel=1e-12))
