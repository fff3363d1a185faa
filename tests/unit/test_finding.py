"""Rigs by path and by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.cli.finding import find_rig
from labctl.errors import ConfigurationError
from tests.unit.test_rig import RIG


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABCTL_RIGS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.mark.parametrize("file", ["rigs/mine.toml", "config/labctl/rigs/mine.toml", "mine.toml"])
def test_a_rig_is_found_by_its_files_name(here: Path, file: str) -> None:
    (here / file).parent.mkdir(parents=True, exist_ok=True)
    (here / file).write_text(RIG)
    assert find_rig("mine").name == "bench"
    assert find_rig(file).name == "bench"


def test_a_rig_that_is_nowhere_is_named_with_those_that_there_are(here: Path) -> None:
    (here / "rigs").mkdir()
    (here / "rigs" / "mine.toml").write_text(RIG)
    with pytest.raises(ConfigurationError, match=r"'thine'.*\(mine\)"):
        find_rig("thine")
