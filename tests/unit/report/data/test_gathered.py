"""The tables of many runs: gathered in proportion to what changed, compacted, and never stale."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from labctl.errors import ConfigurationError, StoreError
from labctl.record import run_stamps
from labctl.record.journal import holding
from labctl.report.data import folder_runs, gathered, parts, query_tables
from labctl.report.data.compact import compact_place
from labctl.report.data.query import query
from tests.unit.synthetic_run import WORK, Bench, build

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")

NAMES = ("a", "b", "c", "d")
COUNT = "SELECT count(*), count(watts) FROM phases"
BY_RUN = "SELECT folder, count(*) FROM phases GROUP BY ALL ORDER BY ALL"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("original"), Bench(loads=WORK[:2])).path


@pytest.fixture
def runs(tmp_path: Path, original: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_stamps, "AT_REST_S", -1)  # these runs are a second old
    for name in NAMES:
        shutil.copytree(original, tmp_path / "runs" / name)
    return tmp_path / "runs"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that are analysed."""
    names: list[str] = []
    real = query_tables.tables_of

    def counted(path: Path) -> dict[str, list[dict[str, query_tables.Field]]]:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(query_tables, "tables_of", counted)
    return names


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs of which not only the stamp is looked at."""
    names: list[str] = []
    real = query_tables.fingerprint

    def counted(path: Path) -> query_tables.Fingerprint:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(folder_runs, "fingerprint", counted)
    return names


def cut(run: Path) -> None:
    """Cut off the readings of a rail, in place."""
    channel = run / "channels" / "i12.current"
    channel.write_bytes(channel.read_bytes()[:160])


def append(run: Path) -> None:
    with (run / "journal.jsonl").open("a") as file:
        file.write(json.dumps({"t": 1, "kind": "mark", "text": "later"}) + "\n")


def manifests(place: Path) -> list[Path]:
    return sorted((place / "tables" / "manifest").glob("*.json"))


def cached_place(cache: Path) -> Path:
    (place,) = cache.iterdir()
    return place


def test_only_runs_that_changed_are_looked_at(
    runs: Path, cache: Path, made: list[str], fetched: list[str]
) -> None:
    expected = query(BY_RUN, [runs]).rows
    made.clear(), fetched.clear()
    assert query(BY_RUN, [runs], cache).rows == expected == tuple((name, 2) for name in NAMES)
    assert not made and sorted(fetched) == list(NAMES), "the Parquet beside each run was used"
    fetched.clear()
    assert query(BY_RUN, [runs], cache).rows == expected and not fetched
    append(runs / "b")
    assert query(BY_RUN, [runs], cache).rows == expected
    assert made == ["b"] and fetched == ["b"]
    shutil.rmtree(runs / "a")
    (runs / "b").rename(runs / "e")
    rows = query(BY_RUN, [runs], cache).rows
    assert rows == (("c", 2), ("d", 2), ("e", 2)) and made == ["b"]


def test_a_run_that_is_on_or_was_just_written_is_looked_at_in_whole(
    runs: Path, cache: Path, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(runs / "a"):
        query(COUNT, [runs], cache)
        fetched.clear()
        cut(runs / "a")
        assert query(COUNT, [runs], cache).rows == ((8, 6),) and fetched == ["a"]
    monkeypatch.setattr(run_stamps, "AT_REST_S", 3600)
    shutil.rmtree(cache)
    query(COUNT, [runs], cache)
    cut(runs / "b")
    assert query(COUNT, [runs], cache).rows == ((8, 4),)


def test_a_run_that_is_named_and_a_compaction_look_at_every_file(runs: Path, cache: Path) -> None:
    query(COUNT, [runs], cache)
    cut(runs / "a")
    assert query(COUNT, [runs], cache).rows == ((8, 8),), "its stamp is the same"
    assert query(COUNT, [runs / "a"], cache).rows == ((2, 0),)
    compact_place(runs, cache)
    assert query(COUNT, [runs]).rows == ((8, 6),)


@pytest.mark.long
def test_parts_are_joined_so_that_they_stay_few(runs: Path, cache: Path, original: Path) -> None:
    for number in range(12):
        shutil.copytree(original, runs / f"more-{number:02d}")
        assert query(COUNT, [runs], cache).rows == ((10 + 2 * number, 10 + 2 * number),)
    newest = json.loads(manifests(cached_place(cache))[-1].read_text())
    sizes = [len(part["runs"]) for part in newest["parts"]]
    assert sum(sizes) == 16 and len(sizes) <= 5


@pytest.mark.parametrize("harm", ["torn part", "no part", "torn manifest", "newer", "no tables"])
def test_a_damaged_cache_changes_no_answer(runs: Path, cache: Path, harm: str) -> None:
    expected = query(BY_RUN, [runs], cache).rows
    place = cached_place(cache)
    (part,) = place.glob("tables/phases/*/*.parquet")
    newest = manifests(place)[-1]
    if harm == "torn part":
        part.write_bytes(part.read_bytes()[:100])
    elif harm == "no part":
        part.unlink()
    elif harm == "torn manifest":
        newest.write_bytes(newest.read_bytes()[:100])
    elif harm == "newer":
        newest.write_text(json.dumps({**json.loads(newest.read_text()), "layout": 999}))
    else:
        shutil.rmtree(place / "tables")
        (place / "tables").write_text("")
    for _ in range(2):
        found = query(BY_RUN, [runs], cache)
        assert found.rows == expected and not found.left_out


def test_many_questions_at_once(runs: Path, cache: Path, original: Path) -> None:
    answers: list[int] = []
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            answers.extend(query(COUNT, [runs], cache).rows[0][0] for _ in range(4))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(3):
        shutil.copytree(original, runs / f".new-{number}")  # a run appears when it is whole
    for thread in threads:
        thread.join()
    assert not failures and len(answers) == 12
    assert query(COUNT, [runs], cache).rows == ((14, 14),)


@pytest.mark.long
def test_who_is_killed_leaves_nothing_that_counts_twice(
    runs: Path, cache: Path, original: Path
) -> None:
    for number in range(8):
        shutil.copytree(original, runs / f"more-{number:02d}")
    code = (
        "import sys; from pathlib import Path; from labctl.report.data import gathered;"
        "from labctl.report.data.query import query; gathered.AT_ONCE = 2;"
        "query('SELECT 1', [Path(sys.argv[1])], Path(sys.argv[2]))"
    )
    for wanted in (1, 5):
        asking = subprocess.Popen([sys.executable, "-c", code, str(runs), str(cache)])
        while asking.poll() is None and len(list(cache.glob("*/tables/manifest/*"))) < wanted:
            time.sleep(0.005)
        asking.send_signal(signal.SIGKILL)
        asking.wait()
        assert query(COUNT, [runs]).rows == ((24, 24),)
        assert query(COUNT, [runs], cache).rows == ((24, 24),)
        for name in ("a", "b", "more-00"):
            append(runs / name)


@pytest.mark.parametrize("name", ["[lab]", "what?", "it's 100 % *new*", "month=2026-11"])
def test_any_name_of_a_folder(runs: Path, cache: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    runs.rename(folder)
    (folder / "a").rename(folder / name)
    rows = query(BY_RUN, [folder], cache).rows
    assert dict(rows) == dict.fromkeys((name, "b", "c", "d"), 2)
    compact_place(folder, cache)
    assert query(BY_RUN, [folder]).rows == rows
    assert "month" not in {row[0] for row in query("DESCRIBE phases", [folder]).rows}


def test_compacted_tables_are_used_and_say_the_same(
    runs: Path, cache: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = "SELECT * FROM {} ORDER BY ALL"
    before = {table: query(everything.format(table), [runs]) for table in query_tables.TABLES}
    first = compact_place(runs, cache)
    assert first.written == 1 and not first.left_out
    again = compact_place(runs, cache)
    assert again.written == 0 and again.manifest == first.manifest, "nothing changed"
    for run in runs.iterdir():
        for file in run.glob("*.parquet"):
            file.unlink()
    made.clear()
    for table, expected in before.items():
        assert query(everything.format(table), [runs]) == expected
    assert not made
    shutil.rmtree(runs / "a")
    append(runs / "b")
    assert query(BY_RUN, [runs]).rows == (("b", 2), ("c", 2), ("d", 2)) and made == ["b"]
    assert compact_place(runs, cache).written == 1
    assert query(BY_RUN, [runs]).rows == (("b", 2), ("c", 2), ("d", 2))


def test_parts_are_by_month_and_only_those_that_changed_are_written(
    runs: Path, cache: Path, original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(run: Path, month_s: int) -> None:
        text = (run / "journal.jsonl").read_text()
        (run / "journal.jsonl").write_text(text.replace('": 17', f'": {month_s}'))

    monkeypatch.setattr("labctl.report.data.compact.MOST_RUNS", 2)
    begun(runs / "d", 16)  # 2020
    first = compact_place(runs, cache).manifest
    assert sorted((part.month, len(part.runs)) for part in first.parts) == [
        ("2020-09", 1),
        ("2023-11", 1),
        ("2023-11", 2),
    ]
    shutil.copytree(original, runs / "e")
    second = compact_place(runs, cache)
    assert second.written == 1 and sum(part in first.parts for part in second.manifest.parts) == 2
    assert query(BY_RUN, [runs]).rows == tuple((name, 2) for name in (*NAMES, "e"))


def test_what_no_manifest_names_is_removed_when_nobody_reads_it(
    runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact_place(runs, cache)
    left = runs / "tables" / "phases" / "2023-11" / "0123456789abcdef.parquet"
    left.write_bytes(b"PAR1")  # of a compaction that was killed
    append(runs / "a")
    compact_place(runs, cache)
    assert left.exists() and len(manifests(runs)) == 2, "somebody may still read the last ones"
    monkeypatch.setattr(parts, "UNUSED_S", -1)
    append(runs / "b")
    compact_place(runs, cache)
    assert not left.exists() and len(manifests(runs)) == 1
    assert len(list(runs.glob("tables/phases/*/*"))) == 1
    assert query(COUNT, [runs]).rows == ((8, 8),)


@pytest.mark.long
def test_a_reader_sees_the_old_or_the_new(runs: Path, cache: Path) -> None:
    """Whoever asks while others compact has each run once."""
    stop = threading.Event()
    compact_place(runs, cache)

    def compact() -> None:
        while not stop.is_set():
            append(runs / "a")
            compact_place(runs, None)

    compacting = threading.Thread(target=compact)
    compacting.start()
    try:
        for _ in range(8):
            found = query(BY_RUN, [runs])
            assert found.rows == tuple((name, 2) for name in NAMES), found.left_out
    finally:
        stop.set()
        compacting.join()


def test_who_compacts_at_the_same_time_begins_anew(
    runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = parts.commit
    others = iter(range(1))

    def other_first(place: object, before: parts.Manifest, *more: object) -> object:
        for _ in others:
            append(runs / "b")
            compact_place(runs, cache)
        return real(place, before, *more)  # type: ignore[arg-type]

    monkeypatch.setattr("labctl.report.data.compact.commit", other_first)
    compact_place(runs, cache)
    assert query(BY_RUN, [runs]).rows == tuple((name, 2) for name in NAMES)


def test_who_slept_while_others_compacted_and_tidied_does_not_count(
    runs: Path, cache: Path
) -> None:
    """The number that follows what he read is free again: what had it was removed."""
    place = gathered.folder_place(runs)
    compact_place(runs, cache)
    before = parts.read_manifest(place)
    for name in ("a", "b"):
        append(runs / name)
        compact_place(runs, cache)
    newest = manifests(runs)[-1]
    manifests(runs)[-2].unlink()
    assert parts.commit(place, before, before.parts) is None
    assert parts.read_manifest(place).number == before.number + 2 == int(newest.stem)


def test_tables_of_a_newer_labctl(runs: Path, cache: Path) -> None:
    compact_place(runs, cache)
    newest = manifests(runs)[-1]
    newest.write_text(
        json.dumps({**json.loads(newest.read_text()), "layout": 999, "labctl": "9.9"})
    )
    with pytest.raises(StoreError, match=r"labctl 9\.9.*update labctl"):
        compact_place(runs, cache)
    found = query(COUNT, [runs])
    assert found.rows == ((8, 8),) and "9.9" in found.left_out[0]


def test_a_column_that_came_later_and_one_of_another_type(runs: Path, cache: Path) -> None:
    """Rows that an older labctl wrote lack a column, and have a whole number where there was no
    fraction."""
    compact_place(runs, cache)
    (part,) = runs.glob("tables/phases/*/*.parquet")
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * EXCLUDE (iops), watts::BIGINT AS bytes_per_s FROM '{part}') "
            f"TO '{part}.new' (FORMAT parquet)"
        )
    Path(f"{part}.new").replace(part)
    newest = manifests(runs)[-1]
    known = json.loads(newest.read_text())
    known["parts"][0]["files"]["phases"]["size"] = part.stat().st_size
    newest.write_text(json.dumps(known))
    append(runs / "d")
    counts = "SELECT count(*), count(iops), count(bytes_per_s) FROM phases"
    assert query(counts, [runs]).rows[0][:2] == (8, 1)
    compact_place(runs, cache)
    types = dict(row[:2] for row in query("DESCRIBE phases", [runs]).rows)
    assert types["iops"] == types["bytes_per_s"] == "DOUBLE"


@pytest.mark.parametrize("where", ["nowhere", "a"])
def test_what_cannot_be_compacted_is_told(runs: Path, where: str) -> None:
    with pytest.raises(ConfigurationError, match="compact"):
        compact_place(runs / where)


@pytest.mark.long
def test_every_process_makes_its_share(runs: Path, original: Path, tmp_path: Path) -> None:
    for number in range(2 * folder_runs.EACH_PROCESS):
        shutil.copytree(original, runs / f"more-{number:02d}")
    (runs / "more-05" / "run.json").write_text("{")
    found = query(COUNT, [runs])
    assert found.rows == ((70, 70),)
    assert len(found.left_out) == 1 and "more-05" in found.left_out[0]
    assert gathered.AT_ONCE > 40
