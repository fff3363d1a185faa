from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from labctl.record import file_lock
from labctl.record.file_lock import is_locked, lock_file, unlock_file


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


def test_a_lock_is_one_holders(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "file"), opened(tmp_path / "file")
    assert lock_file(one)
    assert is_locked(other) and not lock_file(other)
    unlock_file(one)
    assert not is_locked(other) and lock_file(other)
    os.close(one)
    os.close(other)


def test_a_child_that_has_the_open_file_keeps_no_lock_that_was_let_go(tmp_path: Path) -> None:
    """Another thread's child has every open file from its fork to its exec."""
    one, other = opened(tmp_path / "file"), opened(tmp_path / "file")
    assert lock_file(one)
    child = subprocess.Popen(["sleep", "60"], pass_fds=[one])
    unlock_file(one)
    os.close(one)
    assert not is_locked(other)
    child.kill()
    child.wait()
    os.close(other)


def test_a_lock_is_waited_for_where_a_child_has_it_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "LOCK_WITHIN_S", 60.0)
    one, other = opened(tmp_path / "file"), opened(tmp_path / "file")
    assert lock_file(one)
    child = subprocess.Popen(["sleep", "0.1"], pass_fds=[one])
    os.close(one)
    assert lock_file(other)
    child.wait()
    os.close(other)
