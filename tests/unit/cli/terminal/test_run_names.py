"""RUN on the command line: a path, a name, a part of one, or ``latest``."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest
import typer

from labctl.cli.terminal.run_names import find_run
from labctl.cli.terminal.runs_place import place_of_jobs, place_of_new_runs, runs_place
from tests.forked_labctl import labctl
from tests.unit import synthetic_run

NAMES = {
    "20261120T220000Z_alpha_sweep": "alpha",
    "20261121T220000Z_beta_sweep": "beta",
    "20261121T230000Z_alpha_soak": "alpha",
}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs of two rigs, in ``./runs``, where version 0.1 wrote."""
    made = synthetic_run.build(tmp_path / "made", synthetic_run.Bench()).path
    for name, rig in NAMES.items():
        copy = Path(shutil.copytree(made, tmp_path / "runs" / name))
        header = json.loads((copy / "run.json").read_text())
        (copy / "run.json").write_text(json.dumps({**header, "rig_name": rig}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABCTL_RUNS", raising=False)
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "home"))
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
    assert "2 runs in " in refused.value.message and " and runs have" in refused.value.message
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


@pytest.mark.parametrize("where", ["variable", "site", "default", "older daemon"])
def test_runs_are_found_in_one_place_by_every_command(
    runs: Path, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where older versions put them, too, where nobody said where runs are."""
    elsewhere = tmp_path / {"default": "labctl-runs"}.get(where, ".local/share/labctl/runs")
    elsewhere.parent.mkdir(parents=True, exist_ok=True)
    runs.rename(elsewhere)
    site = tmp_path / "site.toml"
    site.write_text(f'[runs]\ndirectory = "{elsewhere}"\n' if where == "site" else "")
    monkeypatch.setenv("LABCTL_SITE", str(site))
    monkeypatch.setenv("HOME", str(tmp_path if where in ("default", "older daemon") else elsewhere))
    for variable in ("LABCTL_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable)
    if where == "variable":
        monkeypatch.setenv("LABCTL_RUNS", str(elsewhere))
    assert find_run("latest") == elsewhere / "20261121T230000Z_alpha_soak"
    listed = json.loads(labctl("runs", "--json").stdout)
    assert [row["run"] for row in listed] == sorted(NAMES)
    assert labctl("morning").returncode == 0


def test_every_command_writes_to_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LABCTL_SITE", str(tmp_path / "site.toml"))
    for variable in ("LABCTL_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable)
    (tmp_path / "site.toml").write_text("")
    assert runs_place(None) == place_of_jobs(None) == tmp_path / "labctl-runs"
    (tmp_path / "site.toml").write_text('[runs]\ndirectory = "/srv/runs"\n')
    assert runs_place(None) == place_of_jobs(None) == Path("/srv/runs")
    assert runs_place(Path("said")) == place_of_jobs(Path("said")) == Path("said")
    (tmp_path / "site.toml").write_text("")
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "home"))
    assert runs_place(None) == tmp_path / "home" / "runs"
    monkeypatch.delenv("LABCTL_HOME")
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/labctl:/more")
    assert runs_place(None) == Path("/var/lib/labctl/runs")


def test_the_first_new_run_says_where_it_goes_and_makes_the_place_private(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = place_of_new_runs(None)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    said = capsys.readouterr().err
    assert str(place) in said and "those in runs are still found" in said
    assert place_of_new_runs(None) == place and place_of_new_runs(Path("said")) == Path("said")
    assert capsys.readouterr().err == "" and not Path("said").exists()


def test_the_first_new_run_makes_its_data_directory_private_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "new" / "home"))
    monkeypatch.setenv("LABCTL_SITE", str(tmp_path / "site.toml"))
    (tmp_path / "site.toml").write_text("")
    place = place_of_new_runs(None)
    assert place == tmp_path / "new" / "home" / "runs"
    for folder in (place, place.parent, place.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_site_with_a_wrong_directory_of_runs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCTL_SITE", str(tmp_path / "site.toml"))
    for text, said in (('directory = "runs"', "absolute"), ('folder = "/x"', "directory =")):
        (tmp_path / "site.toml").write_text(f"[runs]\n{text}\n")
        done = labctl("runs", cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr, done.stderr
