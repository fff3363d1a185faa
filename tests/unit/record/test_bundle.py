"""A bundle proves what it says: any byte that was changed is found and named."""

from __future__ import annotations

import hashlib
import json
import random
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labctl.analysis.compare.summary_diff import mismatches
from labctl.cli.results.bundle import bundle, verify
from labctl.errors import ConfigurationError, JournalError
from labctl.record.bundle import MANIFEST, MOST_MANIFEST_BYTES, Manifest, unpack_bundle
from labctl.record.layout import READING
from tests.unit.synthetic_run import Bench, build

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def packed(tmp_path: Path, capsys: Capture) -> Path:
    run = build(tmp_path / "runs", Bench())
    target = tmp_path / "run.labctl.zip"
    bundle(run.path, target, False)
    capsys.readouterr()
    return target


def rewritten(
    source: Path, change: Callable[[dict[str, bytes]], None], *, honest_manifest: bool = False
) -> Path:
    """The bundle again with other members; with a manifest that fits them when asked."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if honest_manifest:
        data = json.loads(members[MANIFEST])
        data["members"] = {
            name: {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
            for name, body in members.items()
            if name != MANIFEST
        }
        members[MANIFEST] = json.dumps(data).encode()
    target = source.with_name("changed.zip")
    with zipfile.ZipFile(target, "w") as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return target


def named(members: dict[str, bytes], end: str) -> str:
    return next(name for name in members if name.endswith(end))


def verdict(file: Path, capsys: Capture) -> tuple[int, dict[str, Any]]:
    code = verify(file, True)
    return code, json.loads(capsys.readouterr().out)


def test_an_untouched_bundle_is_verified(packed: Path, capsys: Capture) -> None:
    assert verify(packed, False) == 0
    assert "every number derived again" in capsys.readouterr().out
    code, data = verdict(packed, capsys)
    assert (code, data["verified"], data["problems"], data["mismatches"]) == (0, True, [], [])
    assert {"labctl", "python", "numpy"} <= data["versions"].keys()


def test_bundling_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    run = build(tmp_path / "runs", Bench())
    for name in ("a.zip", "b.zip"):
        bundle(run.path, tmp_path / name, False)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_it_holds_the_record_byte_for_byte_and_nothing_derived_but_the_summary(
    tmp_path: Path,
) -> None:
    run = build(tmp_path / "runs", Bench())
    (run.path / "report.html").write_text("derived")
    bundle(run.path, tmp_path / "b.zip", False)
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        names = set(archive.namelist())
        for file in run.path.rglob("*"):
            name = f"{run.path.name}/{file.relative_to(run.path)}"
            if file.is_file() and file.name != "report.html":
                assert archive.read(name) == file.read_bytes()
                names.remove(name)
    assert names == {MANIFEST, f"{run.path.name}/summary.json"}


def test_one_changed_reading_is_found_by_checksum_and_by_its_numbers(
    packed: Path, capsys: Capture
) -> None:
    def nudge(members: dict[str, bytes]) -> None:
        name = named(members, "channels/i12.current")
        readings = np.frombuffer(members[name], READING).copy()
        readings["v"][len(readings) // 2] *= 1.001
        members[name] = readings.tobytes()

    code, data = verdict(rewritten(packed, nudge), capsys)
    assert code == 1
    assert [line for line in data["problems"] if "SHA-256" in line] == data["problems"]
    assert "channels/i12.current" in data["problems"][0]
    assert any(
        "rails.12V.watts.value" in one["where"] and "phases[" in one["where"]
        for one in data["mismatches"]
    )
    assert not any("rails.3V3.volts" in one["where"] for one in data["mismatches"])


def test_a_forger_who_also_mends_the_checksums_is_found_by_the_numbers(
    packed: Path, capsys: Capture
) -> None:
    def nudge(members: dict[str, bytes]) -> None:
        name = named(members, "channels/v12.voltage")
        readings = np.frombuffer(members[name], READING).copy()
        readings["v"][100] += 0.01
        members[name] = readings.tobytes()

    code, data = verdict(rewritten(packed, nudge, honest_manifest=True), capsys)
    assert (code, data["problems"]) == (1, [])
    assert data["mismatches"]


def test_a_better_number_in_the_summary_is_named_with_both_values(
    packed: Path, capsys: Capture
) -> None:
    def flatter(members: dict[str, bytes]) -> None:
        name = named(members, "summary.json")
        data = json.loads(members[name])
        data["phases"][3]["watts"]["value"] *= 0.9
        members[name] = json.dumps(data).encode()

    changed = rewritten(packed, flatter, honest_manifest=True)
    code, data = verdict(changed, capsys)
    (one,) = data["mismatches"]
    assert code == 1
    assert one["where"] == "phases[3] randread 4k QD8: watts.value"
    assert one["stated"] == pytest.approx(0.9 * one["derived"])
    assert verify(changed, False) == 1
    message = capsys.readouterr().out.splitlines()
    at = message.index("number: phases[3] randread 4k QD8")
    assert message[at + 1].startswith("  watts.value: stated ") and max(map(len, message)) <= 80


@pytest.mark.parametrize("seed", range(12))
def test_any_flipped_byte_of_the_record_is_found(packed: Path, capsys: Capture, seed: int) -> None:
    """Also where it changes no number: then the checksum names the file."""
    chance = random.Random(seed)

    def flip(members: dict[str, bytes]) -> None:
        name = chance.choice([one for one in sorted(members) if one != MANIFEST])
        body = bytearray(members[name])
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        members[name] = bytes(body)
        chosen.append(name)

    chosen: list[str] = []
    code, data = verdict(rewritten(packed, flip), capsys)
    assert code == 1
    assert any(line.startswith(chosen[0]) for line in data["problems"]), data["problems"]


def test_missing_and_added_files_are_named(packed: Path, capsys: Capture) -> None:
    def swap(members: dict[str, bytes]) -> None:
        del members[named(members, "channels/i3.current")]
        members["extra.txt"] = b"hello"

    code, data = verdict(rewritten(packed, swap), capsys)
    assert code == 1
    assert any(line.endswith("i3.current: is missing") for line in data["problems"])
    assert "extra.txt: is not in the manifest" in data["problems"]


def test_a_torn_archive_or_none_is_refused(packed: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.zip"
    torn.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    with pytest.raises(JournalError, match="torn"):
        verify(torn, False)
    with pytest.raises(ConfigurationError, match="no such file"):
        verify(tmp_path / "none.zip", False)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(JournalError, match="not a bundle"):
        verify(other, False)


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "run/../../evil", "lonely"])
def test_a_name_that_leads_out_of_the_folder_is_refused(
    packed: Path, tmp_path: Path, name: str
) -> None:
    def evil(members: dict[str, bytes]) -> None:
        members[name] = b"evil"

    with pytest.raises(JournalError, match="no file of a run"):
        verify(rewritten(packed, evil, honest_manifest=True), False)
    assert not (tmp_path.parent / "evil").exists()


def test_spoilt_words_of_the_archive_itself_are_found_refused_or_mean_nothing(
    packed: Path, capsys: Capture
) -> None:
    """Also where they say that a file is encrypted, or packed in another way."""
    rng, whole = random.Random(6), packed.read_bytes()
    begins = [place for place in range(len(whole)) if whole[place : place + 4] == b"PK\x01\x02"]
    refused = 0
    for _ in range(25):
        data = bytearray(whole)
        for place in rng.sample(begins, 3):
            data[place + rng.choice((8, 9, 10, 16, 20, 24, 28, 42))] ^= 1 << rng.randrange(8)
        packed.write_bytes(data)
        try:
            verdict(packed, capsys)
        except JournalError as error:
            refused += 1
            assert "bundle" in str(error)
    assert refused


@pytest.mark.parametrize(
    "text", ["[" * 5_000, '{"format": 1, "members": {"a/b": {"size": 1e999}}}']
)
def test_a_manifest_that_is_none(text: str) -> None:
    with pytest.raises(JournalError, match="cannot be read"):
        Manifest.from_json(text)


def test_a_manifest_that_swells_is_not_unpacked(tmp_path: Path) -> None:
    """200 MB are 200 kB in the archive."""
    target = tmp_path / "run.labctl.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, bytes(200_000_000))
    (tmp_path / "into").mkdir()
    tracemalloc.start()
    try:
        with pytest.raises(JournalError, match="larger than"):
            unpack_bundle(target, tmp_path / "into")
        assert tracemalloc.get_traced_memory()[1] < 3 * MOST_MANIFEST_BYTES
    finally:
        tracemalloc.stop()


def test_a_newer_bundle_says_so() -> None:
    with pytest.raises(JournalError, match="update labctl"):
        Manifest.from_json('{"format": 99, "members": {}, "run_id": "x", "versions": {}}')
    with pytest.raises(JournalError, match="cannot be read"):
        Manifest.from_json("[]")


def test_rounding_is_no_difference_and_words_are() -> None:
    assert mismatches({"a": 1.0, "b": [1, 2]}, {"a": 1.0 + 1e-12, "b": [1, 2]}) == ()
    (one,) = mismatches({"a": None}, {"a": 3.0})
    assert str(one) == "a: stated nothing, derived 3"
    found = mismatches({"a": [1.0], "w": "x"}, {"a": [1.1, 2.0], "w": "y"})
    assert [item.where for item in found] == ["a[0]", "a[1]", "w"]
    assert str(found[0]) == "a[0]: stated 1, derived 1.1 (+10 %)"
