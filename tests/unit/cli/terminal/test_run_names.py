"""RUN on the command line: a path, a name, a part of one, or ``latest``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer

from labctl.cli.terminal.run_names import find_run
from tests.forked_labctl import labctl
from tests.unit import synthetic_run

NAMES = {
    "20261120T220000Z_alpha_sweep": "alpha",
    "20261121T220000Z_beta_sweep": "beta",
    "20261121T230000Z_alpha_soak": "alpha",
}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs of two rigs, in ``./runs``."""
    made = synthetic_run.build(tmp_path / "made", synthetic_run.Bench()).path
    for name, rig in NAMES.items():
        copy = Path(shutil.copytree(made, tmp_path / "runs" / name))
        header = json.loads((copy / "run.json").read_text())
        (copy / "run.json").write_text(json.dumps({**header, "rig_name": rig}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABCTL_RUNS", raising=False)
    return Path("runs")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("latest", "20261121T230000Z_alpha_soak"),
        ("latest:beta", "20261121T220000Z_beta_sweep"),
        ("latest:alpha", "20261121T230000Z_alpha_soak"),
        ("soak", "20261121T230000Z_alpha_soak"),
        ("20261120", "20261120T220000Z_alpha_sweep"),
        ("20261121T220000Z_beta_sweep", "20261121T220000Z_beta_sweep"),
        ("beta:DRIVE", "20261121T220000Z_beta_sweep:DRIVE"),
        ("runs/20261120T220000Z_alpha_sweep", "20261120T220000Z_alpha_sweep"),
    ],
)
def test_a_run_is_found_by(runs: Path, text: str, name: str) -> None:
    assert find_run(text) == runs / name


def test_what_several_runs_have_is_refused_with_their_names(runs: Path) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        find_run("sweep")
    assert "2 runs in runs" in refused.value.message
    assert all(name in refused.value.message for name in NAMES if "sweep" in name)


def test_no_newest_run_is_refused(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(typer.BadParameter, match="no run of the rig gamma"):
        find_run("latest:gamma")
    monkeypatch.setenv("LABCTL_RUNS", "elsewhere")
    with pytest.raises(typer.BadParameter, match="no run in elsewhere"):
        find_run("latest")


def test_a_path_wins_over_a_name(runs: Path) -> None:
    Path("latest").mkdir()
    assert find_run("latest") == Path("latest")


def test_a_record_that_cannot_be_read_is_not_the_newest_of_a_rig(runs: Path) -> None:
    (runs / "20261121T230000Z_alpha_soak" / "run.json").write_text("{")
    assert find_run("latest:alpha") == runs / "20261120T220000Z_alpha_sweep"


def test_commands_take_it(runs: Path, tmp_path: Path) -> None:
    done = labctl("report", "latest:beta", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rig_name"] == "beta"
    assert labctl("report", "sweep", cwd=tmp_path).returncode == 2
    assert labctl("report", "-h", cwd=tmp_path).returncode == 0


def test_what_no_run_has_is_a_wrong_call_and_the_one_that_was_meant_is_named(runs: Path) -> None:
    for words in (("report", "nosuch"), ("analyse", "runs/nosuch"), ("run", "--resume", "x")):
        done = labctl(*words)
        assert done.returncode == 2 and "there is no run" in done.stderr, done.stderr
    almost = labctl("report", "20261121T220000Z_beta_sweap")
    assert "20261121T220000Z_beta_sweep" in almost.stderr


@pytest.mark.parametrize("where", ["variable", "site", "daemon"])
def test_runs_are_found_in_one_place_by_every_command(
    runs: Path, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon's, too, where nobody said where runs are."""
    elsewhere = tmp_path / "home" / "runs"
    elsewhere.parent.mkdir()
    runs.rename(elsewhere)
    site = tmp_path / "site.toml"
    site.write_text(f'[runs]\ndirectory = "{elsewhere}"\n' if where == "site" else "")
    monkeypatch.setenv("LABCTL_SITE", str(site))
    home = tmp_path / ("home" if where == "daemon" else "another")
    monkeypatch.setenv("LABCTL_HOME", str(home))
    if where == "variable":
        monkeypatch.setenv("LABCTL_RUNS", str(elsewhere))
    assert find_run("latest") == elsewhere / "20261121T230000Z_alpha_soak"
    listed = json.loads(labctl("runs", "--json").stdout)
    assert [row["run"] for row in listed] == sorted(NAMES)
    assert labctl("morning").returncode == 0


def test_a_site_with_a_wrong_directory_of_runs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCTL_SITE", str(tmp_path / "site.toml"))
    for text, said in (('directory = "runs"', "absolute"), ('folder = "/x"', "directory =")):
        (tmp_path / "site.toml").write_text(f"[runs]\n{text}\n")
        done = labctl("runs", cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr, done.stderr
