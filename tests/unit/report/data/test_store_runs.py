"""Questions to a store: as to a folder of runs, and each object is read once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from labctl.errors import StoreError
from labctl.report.data import parts, query_tables
from labctl.report.data.compact import compact_place
from labctl.report.data.query import query
from labctl.report.data.runs_at import rows_at
from labctl.store.address import parse_address
from labctl.store.folder_place import FolderPlace
from labctl.store.place import Place
from tests.forked_labctl import labctl
from tests.stored_runs import put_entry, put_tables
from tests.unit.synthetic_run import WORK, Bench, build

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")

BY_RUN = "SELECT folder, count(*) FROM phases GROUP BY ALL ORDER BY ALL"
THREE = (("a", 2), ("b", 2), ("c", 2))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("original"), Bench(loads=WORK[:2])).path


@pytest.fixture
def place(tmp_path: Path, run: Path) -> FolderPlace:
    folder = tmp_path / "store"
    folder.mkdir()
    place = FolderPlace(parse_address(folder.as_uri()), folder)
    for name in ("a", "b", "c"):
        put_tables(place, run, name)
    return place


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def gets(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many objects are read, by the first part of their keys."""
    found: Counter[str] = Counter()
    real = FolderPlace.get

    def counted(self: FolderPlace, key: str, begin: int = 0, end: int | None = None) -> bytes:
        if self.address.folder is not None and "store" in self.address.folder.parts:
            found[key.partition("/")[0]] += 1
        return real(self, key, begin, end)

    monkeypatch.setattr(FolderPlace, "get", counted)
    return found


def test_what_was_read_once_is_not_read_again(
    place: FolderPlace, run: Path, cache: Path, gets: Counter[str]
) -> None:
    for _ in range(2):
        assert query(BY_RUN, [place.address], cache).rows == THREE
        rows, left_out = rows_at(place.address, cache)
        assert [row["run"] for row in rows] == ["a", "b", "c"] and not left_out
        assert rows[0]["path"] == f"{place.address}/a" and rows[0]["outcome"] == "completed"
    assert gets["runs"] == 9 and gets["index"] == 6
    put_tables(place, run, "d")
    put_tables(place, run, "a", revision=2)
    assert query(BY_RUN, [place.address], cache).rows == (*THREE, ("d", 2))
    assert gets["runs"] == 15


def test_a_compacted_store_answers_who_was_never_there(
    place: FolderPlace, run: Path, cache: Path, gets: Counter[str]
) -> None:
    assert compact_place(place.address, cache).written == 1
    assert compact_place(place.address, cache).written == 0
    gets.clear()
    assert query(BY_RUN, [place.address]).rows == THREE
    assert [row["run"] for row in rows_at(place.address, None)[0]] == ["a", "b", "c"]
    assert not gets["runs"] and not gets["index"]
    put_tables(place, run, "d")
    assert query(BY_RUN, [place.address]).rows == (*THREE, ("d", 2))
    assert len(rows_at(place.address, None)[0]) == 4
    assert gets["runs"] == 3 and gets["index"] == 2
    put_tables(place, run, "d", revision=2)
    assert query(BY_RUN, [place.address]).rows == (*THREE, ("d", 2))


def test_what_is_not_as_it_should_be_is_left_out_and_named(
    place: FolderPlace, run: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_entry(place, run, "bare", "runs/bare/1", {})
    place.put_if_absent("index/foreign.txt", b"hello")
    place.put_if_absent("index/e.0001.json", json.dumps({"format": 99}).encode())
    damaged = place.address.folder / "runs" / "b" / f"{1:016d}" / "phases.parquet"  # type: ignore[operator]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    put_tables(place, run, "cut")
    next((place.address.folder / "runs" / "cut").glob("*/run.parquet")).unlink()  # type: ignore[operator]
    for _ in range(2):
        found = query(BY_RUN, [place.address], cache)
        assert found.rows == (("a", 2), ("c", 2))
        text = "\n".join(found.left_out)
        names = ("bare", "foreign.txt")
        faults = ("newer labctl", "phases.parquet is damaged", "run.parquet is missing")
        for word in (*names, *faults):
            assert word in text
    monkeypatch.setattr(query_tables, "LAYOUT", 99)
    put_tables(place, run, "later", labctl_version="9.9")
    monkeypatch.undo()
    found = query(BY_RUN, [place.address], cache)
    assert found.rows == (("a", 2), ("c", 2)) and "labctl 9.9" in "\n".join(found.left_out)


def test_what_is_left_out_is_named_once_by_who_compacts_while_others_do(
    place: FolderPlace, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_tables(place, run, "0")  # the first that is fetched, each time
    damaged = next((place.address.folder / "runs" / "0").glob("*/drives.parquet"))  # type: ignore[operator]
    damaged.write_bytes(b"")
    place.put_if_absent("index/e.0001.json", b"{}")
    real = parts.commit
    others = iter(range(1))

    def other_first(where: Place, before: parts.Manifest, *more: Any) -> parts.Manifest | None:
        for _ in others:
            compact_place(place.address)
        return real(where, before, *more)

    monkeypatch.setattr("labctl.report.data.compact.commit", other_first)
    left_out = compact_place(place.address).left_out
    assert len(left_out) == 2 and "runs/0/" in left_out[0] + left_out[1]
    assert query(BY_RUN, [place.address]).rows == THREE


def test_a_folder_that_is_no_store_is_told(tmp_path: Path) -> None:
    for ask in (lambda where: query("SELECT 1", [where]), compact_place):
        with pytest.raises(StoreError, match="no store of labctl"):
            ask(parse_address(tmp_path.as_uri()))


def test_the_commands_take_an_address_and_know_a_store_in_a_folder(place: FolderPlace) -> None:
    for where in (str(place.address), str(place.address.folder)):
        done = labctl("query", BY_RUN, "--runs", where, "--csv")
        assert done.stdout == "folder,count_star()\na,2\nb,2\nc,2\n", done.stderr
        done = labctl("runs", "--runs", where, "--json")
        assert [row["run"] for row in json.loads(done.stdout)] == ["a", "b", "c"]
        assert "3 runs in 1 part, " in labctl("compact", where).stdout
    done = labctl("tidy", "--delete-after", "1", "--runs", "s3://lab/runs")
    assert done.returncode == 2 and "labctl push" in done.stderr
