"""``labctl trend`` over a folder of records, as it is asked on a command line."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from typer.testing import CliRunner, Result

from labctl.analysis.stats import series_changes
from labctl.cli.main import app
from labctl.errors import JournalError
from tests.json_schemas import validate
from tests.judge import clocks, disk
from tests.judge.benches import pair, twelve
from tests.judge.clocks import quartz
from tests.judge.disk import Scene, Work
from tests.judge.loads import level, restless

DAY_NS = 86_400 * 10**9
RUNS, NEW, POINTS = 9, 5, 2
STEP = 1.08


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of runs, five days apart; from the sixth on another firmware, and watts higher."""
    folder = tmp_path_factory.mktemp("lab")
    rng = np.random.default_rng(11)
    rail = twelve(rng)
    meters = pair(rng, rail)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series_changes, "ORDERS", 399)
        for run in range(RUNS):
            began = clocks.BEGAN_NS + (5 * DAY_NS if run else 0)
            patch.setattr(clocks, "BEGAN_NS", began)
            patch.setattr(disk, "BEGAN_NS", began)
            works = [Work(level(3.0, 1.0) * restless(rng, 3.0, 0.02), 0.0, "idle_before")]
            for point in range(POINTS):
                watts = (3.0 + point) * (STEP if run >= NEW else 1.0) * (1 + 0.003 * rng.normal())
                works.append(Work(restless(rng, 4.0, 0.03) * watts, 40_000.0 * (1 + point)))
            fresh = [replace(one, clock=quartz(rng)) for one in meters]
            scene = Scene(works, [rail], fresh, gap_s=0.1, run=f"run-{run:02d}")
            path, _ = disk.write(folder, scene, rng)
            header = json.loads((path / "run.json").read_text())
            header["identities"] = {one.channel.partition(".")[0]: "maker,DMM,1" for one in meters}
            header["drive_state"] = {"target": "", "firmware": "1.3" if run >= NEW else "1.2"}
            (path / "run.json").write_text(json.dumps(header))
        yield folder


def asked(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["trend", *map(str, words)], catch_exceptions=False)


def answer(*words: str | Path) -> Any:
    result = asked(*words, "--json")
    assert result.exit_code in (0, 1), result.output
    validate("trend", json.loads(result.stdout))
    return json.loads(result.stdout)


def test_it_says_what_moved_when_how_far_and_at_which_firmware(lab: Path) -> None:
    result = asked("--runs", lab)
    text = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert f"{RUNS} runs, " in text
    assert f"step at run {NEW + 1} of {RUNS}" in text
    assert f"run-{NEW:02d}" in text
    assert "firmware 1.2 → 1.3" in text
    assert f"total watts {POINTS}/{POINTS + 1} +" in text
    assert f"IOPS per watt {POINTS}/{POINTS} −" in text
    assert all(cell_len(line) <= 80 for line in result.stdout.splitlines())


def test_the_numbers_are_those_of_the_truth(lab: Path) -> None:
    (series,) = answer("--runs", lab)["series"]
    (change,) = series["changes"]
    assert series["verdict"] == "moved"
    assert change["run"] == NEW + 1
    for one in change["moved"]:
        true = STEP - 1 if one["quantity"] == "watts" else 1 / STEP - 1
        assert abs(one["change"]["value"] - true) <= one["change"]["u"]
        assert one["p"] <= 0.05
    assert "gate" not in series


def test_the_gate_fails_with_exit_code_1_and_says_where(lab: Path, tmp_path: Path) -> None:
    passed = asked("--runs", lab, "--allow", "watts=20")
    assert passed.exit_code == 0
    assert passed.stdout.splitlines()[-1] == "gate: passed"
    assert answer("--runs", lab, "--allow", "watts=2")["gate"]["passed"] is False
    gate = tmp_path / "gate.toml"
    gate.write_text('[[limits]]\nquantity = "watts"\npoints = "randread*"\nworse_pct = 2\n')
    failed = asked("--runs", lab, "--gate", gate)
    assert failed.exit_code == 1
    assert "broken" in failed.stdout
    assert asked("--runs", lab, "--allow", "iops=0", "--strict").exit_code == 1


def test_runs_are_chosen_by_name_rig_plan_drive_and_day(lab: Path) -> None:
    def count(*words: str | Path) -> int:
        return sum(len(one["runs"]) for one in answer(*words)["series"])

    assert count(lab / "run-00", lab / "run-03") == 2
    assert count("--runs", lab, "--rig", "judge", "--plan", "judged", "--drive", "S1") == RUNS
    for wrong in (("--rig", "none"), ("--plan", "none"), ("--drive", "S2")):
        assert count("--runs", lab, *wrong) == 0
    day = answer("--runs", lab)["series"][0]["runs"][4]["begin_ns"] // 10**9
    moment = np.datetime64(day, "s").astype(str)
    assert count("--runs", lab, "--since", moment) == RUNS - 4
    assert count("--runs", lab, "--since", f"{moment}+05:00") == RUNS - 4
    assert asked("--runs", lab, "--rig", "none").stdout.startswith("no runs like that")


def test_too_few_runs_say_what_to_do(lab: Path) -> None:
    result = asked(lab / "run-00")
    assert result.exit_code == 0
    assert "undecided: too few runs, 8 of one drive" in result.stdout
    assert "labctl compare A1 A2 A3 --against" in " ".join(result.stdout.split())
    assert asked(lab / "run-00", "--allow", "watts=2", "--strict").exit_code == 1


def test_a_run_that_cannot_be_read_is_named_and_left_out(lab: Path, tmp_path: Path) -> None:
    for name in ("run-00", "run-01"):
        shutil.copytree(lab / name, tmp_path / name)
    (tmp_path / "run-01" / "run.json").write_text("{")
    result = asked("--runs", tmp_path)
    assert result.exit_code == 0
    assert "labctl: left out: " in result.stderr
    assert "run-01" in result.stderr
    assert "1 run, " in result.stdout


def test_csv_has_every_value_and_its_level(lab: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(asked("--runs", lab, "--csv").stdout)))
    assert len(rows) == RUNS * (1 + 3 * POINTS)
    moved = [row for row in rows if row["moved"] == "True" and row["quantity"] == "watts"]
    assert len(moved) == RUNS * POINTS
    for row in moved:
        assert float(row["value"]) == pytest.approx(float(row["level"]), rel=0.03)


def test_the_page_has_the_charts_and_loads_nothing(lab: Path, tmp_path: Path) -> None:
    page = tmp_path / "trend.html"
    result = asked("--runs", lab, "--html", page, "--allow", "watts=2")
    assert f"page: {page}" in result.stdout
    html = page.read_text()
    for words in ("What moved", "All points through the runs", "firmware 1.2", "Gate failed"):
        assert words in html
    gate = html.partition('<section id="gate">')[2]
    assert f'<td class="text">run-{RUNS - 1:02d}</td>' in gate, "whose newest run a check is of"
    assert 'src="http' not in html
    with pytest.raises(JournalError, match="cannot write"):
        asked("--runs", lab, "--html", tmp_path / "no" / "page.html")


def test_the_runs_of_a_store_are_those_of_a_folder(lab: Path, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    store = (tmp_path / "store").as_uri()
    pushed = CliRunner().invoke(app, ["push", *map(str, sorted(lab.glob("run-0[01]"))), store])
    assert pushed.exit_code == 0, pushed.output
    (series,) = answer("--runs", store, "--rig", "judge")["series"]
    assert [run["run_id"] for run in series["runs"]] == ["run-00", "run-01"]
    assert answer("--runs", store, "--plan", "none")["series"] == []


@pytest.mark.parametrize("fault", ["damaged", "missing"])
def test_a_run_of_a_store_that_is_not_whole_is_named_and_left_out(
    lab: Path, tmp_path: Path, fault: str
) -> None:
    (tmp_path / "store").mkdir()
    store = (tmp_path / "store").as_uri()
    pushed = CliRunner().invoke(app, ["push", *map(str, sorted(lab.glob("run-0[01]"))), store])
    assert pushed.exit_code == 0, pushed.output
    bundle = next((tmp_path / "store" / "runs" / "run-00").glob("*/bundle.labctl.zip"))
    bundle.unlink()
    if fault == "damaged":
        bundle.write_bytes(b"PK")
    result = asked("--runs", store)
    assert result.exit_code == 0, result.stderr
    assert f"labctl: left out: {store}/runs/run-00/" in result.stderr
    assert "1 run, " in result.stdout
