"""A file that is written in one step."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from labctl.record.atomic_write import replacing, write_atomically


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_with_nothing_left_beside_it(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "summary.json"
    write_atomically(path, b"old")
    assert write_atomically(path, "µW", durable=durable, mode=0o600) == path
    assert path.read_text("utf-8") == "µW"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as fresh:
        fresh.write_text("half of the n")
        assert path.read_text() == "old"
        raise KeyboardInterrupt
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("planted", ["link", "dangling link", "file"])
def test_what_is_there_under_the_name_of_the_new_file_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "summary.json"
    monkeypatch.setattr(secrets, "token_hex", lambda _: "foreseen")
    name = tmp_path / ".summary.json.foreseen"
    if planted == "file":
        name.write_text("theirs")
    else:
        name.symlink_to(victim if planted == "link" else tmp_path / "nowhere")
    victim.write_text("theirs")
    with pytest.raises(FileExistsError):
        write_atomically(path, "ours")
    assert victim.read_text() == "theirs"
    assert sorted(file.name for file in tmp_path.iterdir()) == [name.name, "victim"]


def test_the_name_of_the_new_file_cannot_be_foreseen(tmp_path: Path) -> None:
    names = set()
    for _ in range(10):
        with replacing(tmp_path / "summary.json") as fresh:
            names.add(fresh.name)
    assert len(names) == 10
