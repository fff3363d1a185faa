"""A file that is written in one step."""

from __future__ import annotations

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


def test_a_link_in_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    path = tmp_path / "summary.json"
    with replacing(tmp_path / "other") as beside:
        beside.write_text("")
    path.with_name(beside.name.replace("other", path.name)).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        write_atomically(path, "ours")
    assert victim.read_text() == "theirs"
