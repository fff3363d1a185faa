"""A plan or mapping that is given, and what the report says of it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from labctl.config.plan import parse_plan
from labctl.importing.given_plan import as_planned
from labctl.importing.guess import guess
from labctl.importing.mapping import Mapping, mapping_text, parse_mapping
from labctl.importing.phases import phases_of
from labctl.importing.workload import read_workload
from labctl.record.reader import RunRecord
from labctl.report.pages.report import report_page
from tests.unit.importing.exported import (
    Bench,
)
from tests.unit.importing.made_runs import (
    ACCURACY,
    PLAN,
    imported,
    mistake,
)
from tests.unit.importing.test_guess import DIALECTS


def test_a_given_plan_names_the_phases(sweep: Bench, tmp_path: Path) -> None:
    plan = parse_plan(PLAN, "plan.toml")
    works = read_workload([sweep.write_fio(tmp_path / "fio")])
    phases = phases_of(as_planned(works, plan, "plan.toml"))
    assert {phase.sweep for phase in phases} == {"small reads"}
    other = parse_plan(PLAN.replace("16", "32"), "plan.toml")
    text = mistake(lambda: as_planned(works, other, "plan.toml"))
    assert "2.json: plan: phase 3 is randread 4k QD32, and fio's output has QD16" in text
    text = mistake(lambda: as_planned(works[:2], plan, "plan.toml"))
    assert "plan.toml: sweeps: has 3 measured phases, and fio's output 2" in text


def test_a_given_plan_says_what_fio_did_not_print(sweep: Bench, tmp_path: Path) -> None:
    """A job without its options: of its depth nothing is known."""
    for index in range(3):
        document = sweep.document([index], start=True)
        del document["jobs"][0]["job options"]
        (tmp_path / f"{index}.json").write_text(json.dumps(document))
    works = read_workload([tmp_path])
    assert not any(work.stated for work in works)
    phases = phases_of(as_planned(works, parse_plan(PLAN, "plan.toml"), "plan.toml"))
    assert [phase.label for phase in phases] == [
        "randread 4k QD1", "randread 4k QD4", "randread 4k QD16",
    ]  # fmt: skip


def test_a_mapping_is_read_back_as_it_was_kept(sweep: Bench, tmp_path: Path) -> None:
    for number, dialect in enumerate(DIALECTS.values()):
        file = sweep.write_csv(tmp_path / f"{number}.csv", dialect=dialect)
        mapping = Mapping(meters=[guess(file, ACCURACY).meter])
        assert parse_mapping(mapping_text(mapping), "kept") == mapping


def test_the_report_says_how_the_clock_was_found_and_nothing_of_a_measured_run(
    sweep: Bench, tmp_path: Path
) -> None:
    file, fio = sweep.write_csv(tmp_path / "psu.csv"), sweep.write_fio(tmp_path / "fio")
    found, summary = imported(file, fio, tmp_path / "runs")
    page = report_page(RunRecord(found.path), summary, ())
    text = html.unescape(re.sub("<[^>]*>", "", page))
    assert f"psu: {found.clocks[0].text()}" in text
    assert "no check of it" in text
    for wrong in ("started early and held", "this machine's", "clock of the host", "doctor"):
        assert wrong not in text, wrong
    assert "(aperture not known)" in text and "--aperture-s" in text
