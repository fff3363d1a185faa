"""The charts' library: bundled once for a user, never taken from a damaged or a foreign file."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from labctl.report.pages.chart_library import _kept_chart_library, chart_library


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chart_library.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def files(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "labctl").iterdir())


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def other_text(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"script", b"scripT"))


def no_text(file: Path) -> None:
    file.write_bytes(os.urandom(1000))


def a_link(file: Path) -> None:
    file.replace(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def open_to_others(file: Path) -> None:
    file.chmod(0o622)


def of_somebody_else(file: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(file, 1, 1)


@pytest.mark.long
def test_it_is_made_once_kept_private_and_made_anew_when_damaged(tmp_path: Path) -> None:
    made = chart_library()
    assert "vegaEmbed" in made
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    before = file.stat().st_mtime_ns, file.stat().st_ino
    chart_library.cache_clear()
    assert chart_library() == made
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before
    truncated(file)
    chart_library.cache_clear()
    assert chart_library() == made
    assert files(tmp_path) == [file] and _kept_chart_library(file) == made


@pytest.mark.parametrize(
    "damage",
    [truncated, other_text, no_text, a_link, a_pipe, open_to_others, of_somebody_else, Path.unlink],
)
def test_what_cannot_be_trusted_is_not_taken(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    file = tmp_path / "kept.js"
    file.touch(mode=0o600)
    file.write_bytes(hashlib.sha256(b"a script").hexdigest().encode() + b"\na script")
    assert _kept_chart_library(file) == "a script"
    damage(file)
    assert _kept_chart_library(file) is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert "vegaEmbed" in chart_library()
    assert (tmp_path / "cache").is_file()
