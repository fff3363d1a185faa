"""What the options of ``labctl import`` say of several files, and the plan that it keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labctl.config.plan import parse_plan
from labctl.importing.given_plan import as_planned
from labctl.importing.phases import phases_of, plan_text
from labctl.importing.work import Work as Worked
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from tests.unit.importing.exported import Bench, Dialect, bench
from tests.unit.importing.made_runs import said
from tests.unit.virtual_bench import Work


@pytest.fixture(scope="module")
def sweep() -> Bench:
    return bench(tuple(Work(Pattern.RANDREAD, 2.0, 4096, depth) for depth in (1, 4, 16)))


def test_files_whose_columns_are_called_alike_are_rails_of_their_own(
    sweep: Bench, tmp_path: Path
) -> None:
    for rail in ("12V", "3V3"):
        dialect = Dialect(header="Time (s),Voltage (V),Current (A)", rails=(rail,))
        sweep.write_csv(tmp_path / f"meter{rail}.csv", dialect=dialect)
    sweep.write_fio(tmp_path / "fio")
    words = ("import", "meter12V.csv", "meter3V3.csv", "--fio", "fio", "--trust-stamps")
    refused = said(tmp_path, *words, code=2)
    assert "call it another rail" in refused
    named = ("--rail", "meter12V.csv=12V", "--rail", "meter3V3=3V3")
    assert "QD 16" in said(tmp_path, *words, *named)
    (run,) = (tmp_path / "runs").glob("*/import")
    assert {rail.name for rail in RunRecord(run.parent).header.rails} == {"12V", "3V3"}
    wrong = said(tmp_path, *words, "--rail", "other.csv=12V", code=2)
    assert "--rail" in wrong and "is of none of the files" in wrong
    twice = said(tmp_path, *words, "--rail", "5V", *named, code=2)
    assert "is of 5V already" in twice


def test_the_inferred_plan_is_kept_and_given_back(sweep: Bench, tmp_path: Path) -> None:
    sweep.write_csv(tmp_path / "psu.csv")
    sweep.write_fio(tmp_path / "fio")
    words = ("import", "psu.csv", "--fio", "fio", "--dry-run")
    first = said(tmp_path, *words, "--save-plan", "kept.toml")
    assert "plan: kept.toml" in first
    again = said(tmp_path, *words, "--plan", "kept.toml")
    assert again.partition("\nfio: ")[2] == first.partition("\nfio: ")[2].replace(
        "plan: kept.toml\n", ""
    )
    plan = parse_plan((tmp_path / "kept.toml").read_text(), "kept.toml")
    assert (
        len(plan.sweeps) == 1 and "queue_depth = [1, 4, 16]" in (tmp_path / "kept.toml").read_text()
    )


def _works(sweep: Bench, folder: Path) -> tuple[Worked, ...]:
    one = read_workload([sweep.write_fio(folder / "fio")])[0]
    kinds = [
        {"pattern": Pattern.RANDRW, "read_pct": 70, "queue_depth": 8},
        {"pattern": Pattern.RANDRW, "read_pct": 30, "queue_depth": 8},
        {"pattern": Pattern.WRITE, "block_size_bytes": 131072, "compress_pct": 50, "read_pct": 0},
        {"pattern": Pattern.RANDREAD, "jobs": 4, "queue_depth": 32},
        {"pattern": Pattern.RANDREAD, "jobs": 4, "queue_depth": 32},
    ]
    second_ns = 10**9
    return tuple(
        replace(
            one,
            begin_ns=one.begin_ns + number * 10 * second_ns,
            end_ns=one.begin_ns + number * 10 * second_ns + round(length_s * second_ns),
            **kind,  # type: ignore[arg-type]
        )
        for number, (kind, length_s) in enumerate(
            zip(kinds, (3.004, 1.5, 0.75, 3.0, 3.001), strict=True)
        )
    )


def test_a_plan_of_any_work_says_the_same_phases(sweep: Bench, tmp_path: Path) -> None:
    works = _works(sweep, tmp_path)
    found = phases_of(works)
    plan = parse_plan(plan_text("any", found), "any.toml")
    again = phases_of(as_planned(works, plan, "any.toml"))
    assert [replace(one, sweep_number=0) for one in again] == [
        replace(one, sweep_number=0) for one in found
    ]
