"""Runs into a store in a folder, and out of it: nothing lost, nothing overwritten."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from labctl.capture.run.run_end import RunOutcome
from labctl.cli.run.run import reported
from labctl.config.site import SITE_VARIABLE
from labctl.errors import ConfigurationError, LabctlError, StoreError
from labctl.record.events import Outcome
from labctl.record.journal import holding
from labctl.record.own_words import OwnWords, keep_own_words
from labctl.record.record_digest import record_sha256
from labctl.report.data.runs_at import rows_at
from labctl.service.runs.pull import PullState, pull
from labctl.service.runs.push import PushState, push
from labctl.service.runs.retention import Decision, Rule, Step, carry_out, decide
from labctl.store.address import StoreAddress
from labctl.store.entries import BUNDLE, entry_from, newest_entry, read_entries
from labctl.store.folder_place import FolderPlace
from labctl.store.marker import MARKER, make_store
from tests.servers.influx_run import MadeRun

RUN = "20260101T000000Z_bench_made-up"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its report, made once."""
    runs = tmp_path_factory.mktemp("made")
    place = place_at(runs / "store")
    run = MadeRun(runs, run_id=RUN).whole().path
    push(run, place)
    return run


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "here" / RUN))


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    return place_at(tmp_path / "store")


def place_at(folder: Path) -> FolderPlace:
    folder.mkdir()
    return FolderPlace(StoreAddress(folder=folder), folder)


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "site.toml"
    empty.write_text("")
    monkeypatch.setenv(SITE_VARIABLE, str(empty))


def objects(place: FolderPlace) -> dict[str, str]:
    return {one.key: one.etag for one in place.list()}


def go_on(run: Path) -> None:
    """Write the run's journal on, as a resumed run does."""
    with (run / "journal.jsonl").open("a") as journal:
        journal.write('{"t": 1700000100000000000, "kind": "mark", "text": "later"}\n')


def test_a_run_comes_back_as_it_was(run: Path, place: FolderPlace, tmp_path: Path) -> None:
    pushed = push(run, place)
    assert pushed.state is PushState.PUSHED
    assert pushed.sent_bytes == sum(file.size for file in pushed.entry.files.values())
    entries = read_entries(place)
    assert entries.left_out == () and list(entries.runs) == [RUN]
    (row,) = rows_at(place.address, None)[0]
    assert row["rig"] == "bench" and row["path"] == f"{place.address}/{RUN}"
    pulled = pull(entries.runs[RUN], place, tmp_path / "back")
    assert pulled.state is PullState.PULLED
    assert record_sha256(pulled.run) == record_sha256(run)
    assert not list(pulled.run.glob("*.html"))  # a page runs scripts: labctl report makes its own
    assert [one.name for one in (tmp_path / "back").iterdir()] == [RUN]
    assert pull(entries.runs[RUN], place, tmp_path / "back").state is PullState.HERE


def test_the_same_again_sends_nothing(run: Path, place: FolderPlace) -> None:
    push(run, place)
    before = objects(place)
    again = push(run, place)
    assert (again.state, again.sent_bytes) == (PushState.THERE, 0)
    assert objects(place) == before


def test_what_broke_off_is_gone_on_with(run: Path, place: FolderPlace, tmp_path: Path) -> None:
    """Without its entry a run is none of the store; the next push sends what is missing."""
    whole = push(run, place)
    (tmp_path / "store" / whole.entry.key).unlink()
    (tmp_path / "store" / whole.entry.folder / "report.html").unlink()
    assert read_entries(place).runs == {}
    again = push(run, place)
    assert again.state is PushState.PUSHED
    assert again.sent_bytes == whole.entry.files["report.html"].size


def test_a_large_file_is_several_objects(
    run: Path, place: FolderPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labctl.service.runs.push.PART_BYTES", 4096)
    entry = push(run, place).entry
    file = entry.files["bundle.labctl.zip"]
    keys = entry.keys_of("bundle.labctl.zip")
    assert len(keys) == -(-file.size // 4096) == len(file.parts)
    back = pull(entry, place, tmp_path / "back").run
    assert record_sha256(back) == record_sha256(run)


def test_a_run_that_went_on_gets_a_revision(run: Path, place: FolderPlace, tmp_path: Path) -> None:
    first = push(run, place).entry
    before = objects(place)
    go_on(run)
    second = push(run, place)
    assert (second.state, second.entry.revision) == (PushState.PUSHED, 2)
    assert before.items() <= objects(place).items()
    assert newest_entry(place, RUN) == read_entries(place).runs[RUN] == second.entry
    older = pull(first, place, tmp_path / "older").run
    with pytest.raises(StoreError, match="more of this run"):
        push(older, place)
    keep_own_words(run, OwnWords("a title", ""))
    assert push(run, place).entry.revision == 3


def test_another_run_of_the_name_stays(run: Path, place: FolderPlace, tmp_path: Path) -> None:
    push(run, place)
    before = objects(place)
    other = MadeRun(tmp_path / "other", run_id=RUN, epoch_ns=10**18).whole().path
    with pytest.raises(StoreError, match="nothing is overwritten"):
        push(other, place)
    assert objects(place) == before
    with pytest.raises(StoreError, match="nothing is overwritten"):
        pull(read_entries(place).runs[RUN], place, tmp_path / "other")
    assert record_sha256(other) != record_sha256(run)


def test_a_run_that_is_on_is_not_pushed(run: Path, place: FolderPlace) -> None:
    with holding(run), pytest.raises(LabctlError, match="it is on"):
        push(run, place)
    assert read_entries(place).runs == {}


def test_a_foreign_object_stays_and_is_named(run: Path, place: FolderPlace, tmp_path: Path) -> None:
    whole = push(run, place).entry
    (tmp_path / "store" / whole.key).unlink()
    report = tmp_path / "store" / whole.folder / "report.html"
    report.write_text("mine")
    with pytest.raises(StoreError, match="another object is there"):
        push(run, place)
    assert report.read_text() == "mine"
    (tmp_path / "store" / "index" / "notes.txt").write_text("mine")
    (tmp_path / "store" / "index" / f"{RUN}.0007.json").write_text("{}")
    entries = read_entries(place)
    assert entries.runs == {}
    assert len(entries.left_out) == 2 and "notes.txt" in entries.left_out[0]


def test_what_a_newer_labctl_wrote_is_not_touched(
    run: Path, place: FolderPlace, tmp_path: Path
) -> None:
    entry = push(run, place).entry
    newer = json.loads(entry.to_json()) | {"format": 2, "revision": 2}
    (tmp_path / "store" / "index" / f"{RUN}.0002.json").write_text(json.dumps(newer))
    assert "update labctl" in read_entries(place).left_out[0]
    with pytest.raises(StoreError, match="update labctl"):
        push(run, place)
    (tmp_path / "store" / MARKER).write_text('{"store": "labctl", "format": 2}')
    for asked in (lambda: push(run, place), lambda: read_entries(place)):
        with pytest.raises(StoreError, match="update labctl"):
            asked()


def test_a_damaged_object_is_no_run(run: Path, place: FolderPlace, tmp_path: Path) -> None:
    entry = push(run, place).entry
    bundle = tmp_path / "store" / entry.folder / "bundle.labctl.zip"
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)
    with pytest.raises(StoreError, match="is damaged"):
        pull(entry, place, tmp_path / "back")
    assert not (tmp_path / "back" / RUN).exists()
    bundle.unlink()
    assert push(run, place).entry.revision == 2  # what is missing is put there again
    assert pull(entry, place, tmp_path / "back").state is PullState.PULLED


@pytest.mark.parametrize(
    "change",
    [
        {"folder": "runs/../../x"},
        {"folder": f"runs/{RUN}/.."},
        {"files": {"../x": {"size": 1, "sha256": "x"}}},
        {"run": "other"},
        {"files": 1},
        {"part_bytes": 0},
    ],
)
def test_an_entry_cannot_lead_elsewhere(
    run: Path, place: FolderPlace, change: dict[str, object]
) -> None:
    entry = push(run, place).entry
    data = json.dumps(json.loads(entry.to_json()) | change).encode()
    with pytest.raises(StoreError, match="is no entry"):
        entry_from(data, entry.key)


def tidied(run: Path, place: FolderPlace) -> Decision:
    """What a rule that deletes everything does, with the store as archive."""
    rule = Rule(budget_bytes=0, store=place)
    (decision,) = decide(run.parent, rule, time.time(), frozenset())
    carry_out(decision, rule)
    return decision


def test_tidying_deletes_what_is_in_the_store_and_nothing_else(
    run: Path, place: FolderPlace, tmp_path: Path
) -> None:
    make_store(place)
    decision = tidied(run, place)
    assert decision.step is Step.KEEP and "labctl push" in decision.reason
    push(run, place)
    go_on(run)
    decision = tidied(run, place)
    assert decision.step is Step.KEEP and "another record" in decision.reason
    entry = push(run, place).entry
    bundle = tmp_path / "store" / entry.folder / "bundle.labctl.zip"
    data = bundle.read_bytes()
    bundle.write_bytes(bytes(len(data)))
    with pytest.raises(StoreError, match="damaged"):
        tidied(run, place)
    assert record_sha256(run) == entry.record_sha256
    bundle.write_bytes(data)
    without = {name: file for name, file in entry.files.items() if name != BUNDLE}
    index = tmp_path / "store" / entry.key
    index.write_bytes(replace(entry, files=without).to_json())
    decision = tidied(run, place)
    assert decision.step is Step.KEEP and f"has no {BUNDLE}" in decision.reason
    index.write_bytes(entry.to_json())
    assert tidied(run, place).step is Step.DELETE
    assert not run.exists()
    assert record_sha256(pull(entry, place, tmp_path / "back").run) == entry.record_sha256


def test_a_run_is_pushed_at_its_end_where_the_site_says_so(
    run: Path, place: FolderPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What ``labctl run`` does at its end, also in a job of a scheduler and under the daemon."""
    outcome = RunOutcome(run, Outcome.COMPLETED, "", 0)
    assert reported(lambda: outcome, json_output=True) == 0
    assert capsys.readouterr().err == ""
    site = tmp_path / "site.toml"
    site.write_text(f'[store]\naddress = "{place.address}"\n')
    assert reported(lambda: outcome, json_output=True) == 0
    assert "verified" in capsys.readouterr().err
    assert list(read_entries(place).runs) == [RUN]
    site.write_text(f'[store]\naddress = "{place.address}/not-mounted"\n')
    assert reported(lambda: outcome, json_output=True) == 0  # the run is what it was
    assert f"labctl push {run} {place.address}/not-mounted" in capsys.readouterr().err
    for text in ('address = "lab"', 'address = "s3://k:s@lab"', "address = 1", "place = 1"):
        site.write_text(f"[store]\n{text}\n")
        with pytest.raises(ConfigurationError):
            reported(lambda: pytest.fail("it began"), json_output=True)
