"""Rigs by path and by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.config.find_rig import example_rigs, find_rig, rig_files, rig_of
from labctl.errors import ConfigurationError
from labctl.record.reader import RunRecord
from tests.forked_labctl import labctl
from tests.servers.influx_run import MadeRun
from tests.unit.config.test_rig import RIG


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABCTL_RIGS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_examples_are_no_rigs_of_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon without names takes every rig of ``./rigs``, and nobody has those meters."""
    monkeypatch.chdir(Path(__file__).parents[3])
    assert "nvme-adapter" in example_rigs()
    assert not {path.stem for path in rig_files()} & set(example_rigs())


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


def test_the_rig_of_a_record_is_found_by_its_name_alone(here: Path) -> None:
    """Not as a path; of several the one whose file is called so, else it must be said which."""
    record = RunRecord(MadeRun(here / "runs", rig="bench", rig_text=RIG).path)
    assert rig_of(record) is None
    (here / "bench.toml").write_text(RIG)
    assert rig_of(record) is None
    rigs = here / "rigs"
    rigs.mkdir()
    (rigs / "left.toml").write_text(RIG)
    (rigs / "link.toml").symlink_to(rigs / "left.toml")
    found = rig_of(record)
    assert found is not None and found.name == "bench"
    (rigs / "right.toml").write_text(RIG)
    with pytest.raises(ConfigurationError, match=r"link\.toml, rigs/right\.toml"):
        rig_of(record)
    own = here / "config" / "labctl" / "rigs" / "bench.toml"
    own.parent.mkdir(parents=True)
    for file in (rigs / "bench.toml", own):
        file.write_text(RIG)
    found = rig_of(record)
    assert found is not None and found.path == str(own)


def test_an_example_is_copied_under_a_name_of_ones_own(here: Path) -> None:
    done = labctl("rigs", "--copy", "nvme-adapter", "--as", "mine", cwd=here)
    assert done.returncode == 0 and "labctl check rigs/mine.toml" in done.stdout, done.stderr
    assert find_rig("mine").name == "mine"
    again = labctl("rigs", "--copy", "nvme-adapter", "--as", "mine", cwd=here)
    assert again.returncode == 2 and "is there already" in again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--copy", "nvme-adaptor"), "is 'nvme-adapter' meant?"),
        (("--copy", "nvme-adapter", "--as", "my rig"), "made of letters, digits"),
        (("--copy", "nvme-adapter", "--as", "../x"), "made of letters, digits"),
        (("--as", "mine"), "needs --copy"),
    ],
)
def test_what_cannot_be_copied_is_reported(
    here: Path, words: tuple[str, ...], message: str
) -> None:
    done = labctl("rigs", *words, cwd=here)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not (here / "rigs").exists()


def test_an_unknown_rig_leads_to_the_one_that_was_meant_or_to_an_example(here: Path) -> None:
    (here / "rigs").mkdir()
    (here / "rigs" / "mine.toml").write_text(RIG)
    for name, message in (
        ("mein", "is 'mine' meant"),
        ("two-drives", "labctl rigs --copy two-drives"),
        ("zzz", "labctl init makes one"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            find_rig(name)
