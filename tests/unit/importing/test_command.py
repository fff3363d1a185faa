"""The command, as a person calls it, and its page of the docs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from pathlib import Path

import pytest

from labctl.service.runs.shipping import ship
from tests.forked_labctl import labctl
from tests.json_schemas import validate
from tests.servers.influx_lines import stored_by
from tests.servers.influx_run import points_of
from tests.unit.importing.exported import (
    Bench,
    Clock,
    write_sample,
)
from tests.unit.importing.made_runs import (
    PLAN,
    imported,
    said,
)
from tests.unit.service.runs.test_shipping import Collected
from tests.unit.test_docs import ROOT, blocks


def test_the_command_shows_its_guess_and_what_it_made(sweep: Bench, tmp_path: Path) -> None:
    sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=5), rows=lambda r: [*r[:50], *r[49:]])
    sweep.write_fio(tmp_path / "fio")
    words = ("import", "psu.csv", "--fio", "fio")
    shown = said(tmp_path, *words, "--dry-run", "--save-mapping", "psu.toml")
    assert "12V amps: 12V current (A) in A" in shown and "line 2: +0.000000 s" in shown
    assert "randread 4k QD16" in shown and "job_start" in shown
    assert not (tmp_path / "runs").exists()
    wrong = said(tmp_path, *words, "--amps", "Amperes", code=2)
    assert "'Amperes'" in wrong and "12V current (A)" in wrong
    text = said(tmp_path, *words, "--mapping", "psu.toml")
    assert "note: psu.csv line 52: the same time as the line before" in " ".join(text.split())
    assert "clock of psu.csv: -5.0" in text and "QD 16" in text
    assert max(map(len, text.partition("\nrun: ")[0].splitlines())) <= 80


def test_a_swapped_pair_is_named(sweep: Bench, tmp_path: Path) -> None:
    sweep.write_csv(tmp_path / "psu.csv")
    sweep.write_fio(tmp_path / "fio")
    text = said(tmp_path, "import", "fio/0.json", "--fio", "psu.csv", code=2)
    assert "fio/0.json: file: is what fio printed: name it with --fio" in text


@pytest.mark.parametrize("option", ["--time", "--volts", "--amps", "--watts"])
@pytest.mark.parametrize("column", ["0", "²", "99"])
def test_a_column_that_is_not_there_is_refused(
    sweep: Bench, tmp_path: Path, option: str, column: str
) -> None:
    sweep.write_csv(tmp_path / "psu.csv")
    sweep.write_fio(tmp_path / "fio")
    text = said(tmp_path, "import", "psu.csv", "--fio", "fio", option, column, "--yes", code=2)
    assert column in text and "psu.csv: " in text


@pytest.mark.parametrize("option", [("--accuracy-pct", "0.1"), ("--zone", "UTC")])
def test_an_option_that_a_mapping_would_hide_is_refused(
    tmp_path: Path, option: tuple[str, str]
) -> None:
    words = ("import", "psu.csv", "--fio", "fio", "--mapping", "psu.toml", *option)
    assert "no option beside it" in said(tmp_path, *words, code=2)


SILENT = {
    "--clock-u without an offset": (("--clock-u", "0.1"), "--clock-u"),
    "--search beside an offset": (("--offset", "-5", "--search", "9"), "--search"),
    "--search beside trusted stamps": (("--trust-stamps", "--search", "9"), "--search"),
    "volts that were measured": (
        ("--stated-volts", "12", "--stated-tolerance-pct", "5"), "volts were measured",
    ),
    "--json of nothing": (("--json", "--dry-run"), "--dry-run makes none"),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_an_option_that_would_say_nothing_is_refused(
    sweep: Bench, tmp_path: Path, name: str
) -> None:
    options, words = SILENT[name]
    sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=5))
    sweep.write_fio(tmp_path / "fio")
    shown = said(tmp_path, "import", "psu.csv", "--fio", "fio", *options, code=2)
    assert words in shown


@pytest.mark.parametrize("option", ["--dry-run", "--yes", "--json"])
def test_a_unit_of_something_else_is_refused(sweep: Bench, tmp_path: Path, option: str) -> None:
    sweep.write_csv(tmp_path / "psu.csv")
    sweep.write_fio(tmp_path / "fio")
    columns = ("--volts", "12V current (A)", "--amps", "12V current (A)")
    wrong = said(tmp_path, "import", "psu.csv", "--fio", "fio", *columns, option, code=2)
    assert "rails.drive.volts" in wrong and "is in A, which is no unit of volts" in wrong
    assert not list((tmp_path / "runs").glob("*"))


def test_the_command_takes_a_plan_and_idle_times(sweep: Bench, tmp_path: Path) -> None:
    sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=5))
    sweep.write_fio(tmp_path / "fio")
    (tmp_path / "plan.toml").write_text(PLAN)
    text = said(
        tmp_path, "import", "psu.csv", "--fio", "fio", "--plan", "plan.toml", "--idle-before", "1.5"
    )  # fmt: skip
    assert re.search(r"^idle \d", text, re.MULTILINE) and "_import_my-sweep" in text


def test_what_it_prints_for_a_program_is_what_its_schema_says(sweep: Bench, tmp_path: Path) -> None:
    sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=5))
    sweep.write_fio(tmp_path / "fio")
    made = json.loads(said(tmp_path, "import", "psu.csv", "--fio", "fio", "--json"))
    validate("import", made)
    (clock,) = made["clocks"]
    assert min(clock["searched"], key=lambda point: point[1])[0] == pytest.approx(-5, abs=0.5)


@pytest.mark.long
def test_everything_that_works_on_a_run_works_on_it(sweep: Bench, tmp_path: Path) -> None:
    sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=5))
    sweep.write_fio(tmp_path / "fio")
    made = json.loads(said(tmp_path, "import", "psu.csv", "--fio", "fio", "--json"))
    again = json.loads(said(tmp_path, "import", "psu.csv", "--fio", "fio", "--json"))
    assert again["run"].endswith("-2")
    assert again["clocks"] == made["clocks"]
    run = made["run"]
    for words in (
        ("report", run), ("analyse", run), ("review", run), ("bundle", run, "-o", "one.zip"),
        ("verify", "one.zip"), ("compare", run, again["run"]), ("runs",),
        ("analyse", run, "--from", "1", "--to", "5"), ("judge", run, "--limits", "ocp-2.5"),
        ("trend", "--rig", "import"),
    ):  # fmt: skip
        assert said(tmp_path, *words)
    asked = "SELECT watts FROM phases WHERE queue_depth = 16"
    assert said(tmp_path, "query", asked).count("\n") >= 2


PAGE = ROOT / "docs" / "import.md"


@pytest.mark.long
def test_every_command_of_the_page_works_on_its_files(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "examples").symlink_to(ROOT / "docs" / "examples")
    environment = {**os.environ, "LABCTL_RUNS": str(tmp_path / "runs")}
    lines = [line for text in blocks(PAGE, "sh") for line in text.splitlines()]
    assert len(lines) >= 6
    printed = {}
    for line in lines:
        done = labctl(*shlex.split(line)[1:], cwd=tmp_path, env=environment)
        assert done.returncode == 0, (line, done.stderr)
        printed[line] = done.stdout
    shown = "".join(printed[lines[0]].split())
    sample = re.findall(r"```\n(clock of.*?)```", PAGE.read_text(), re.DOTALL)
    for line in sample[0].splitlines():
        assert "".join(line.split()) in shown, line


@pytest.mark.long
def test_the_sample_files_are_those_of_the_simulated_rig(tmp_path: Path) -> None:
    write_sample(tmp_path)
    shipped = ROOT / "docs" / "examples" / "import"
    for file in sorted(tmp_path.rglob("*")):
        if file.is_file():
            assert (shipped / file.relative_to(tmp_path)).read_bytes() == file.read_bytes()


def test_it_is_shipped_as_any_run(sweep: Bench, tmp_path: Path) -> None:
    file, fio = sweep.write_csv(tmp_path / "psu.csv"), sweep.write_fio(tmp_path / "fio")
    found, _ = imported(file, fio, tmp_path / "runs")
    sink = Collected()
    (shipped,) = asyncio.run(ship(found.path, [sink]))
    assert shipped.complete and not shipped.problem
    assert stored_by(sink.lines) == points_of(found.path)
    assert any("imported" in line for line in sink.lines)
