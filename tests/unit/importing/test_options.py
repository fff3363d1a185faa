"""What the options of ``labctl import`` say of several files, and the plan that it keeps."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from labctl.analysis.run.summary import summarise
from labctl.config.plan import parse_plan
from labctl.importing.given_plan import as_planned
from labctl.importing.guess import guess
from labctl.importing.mapping import Column
from labctl.importing.phases import phases_of, plan_text
from labctl.importing.rails import Given
from labctl.importing.work import Work as Worked
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from tests.unit.importing.exported import BEGAN_MS, Bench, Dialect, bench
from tests.unit.importing.made_runs import inside, said
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


def _two_pairs(sweep: Bench, file: Path) -> Path:
    """A data logger's file: first all volts, then all amps, by the numbers of its channels."""
    t, found = sweep.readings()
    order = ("12V volts", "3V3 volts", "12V amps", "3V3 amps")
    lines = ["Sweep #,Time,Chan 101 (VDC),Chan 102 (VDC),Chan 121 (ADC),Chan 122 (ADC)"]
    for number, at in enumerate(t):
        moment = datetime.fromtimestamp(BEGAN_MS / 1000, UTC) + timedelta(seconds=float(at))
        stamp = f"{moment:%m/%d/%Y %H:%M:%S}:{moment.microsecond // 1000:03}"
        values = [f"{found[name][number]:.8f}" for name in order]
        lines.append(",".join([str(number + 1), stamp, *values]))
    file.write_text("\n".join(lines) + "\n")
    return file


PAIRS = (
    "--volts", "12V=Chan 101 (VDC)", "--amps", "12V=Chan 121 (ADC)",
    "--volts", "3V3=Chan 102 (VDC)", "--amps", "3V3=6",
)  # fmt: skip


def test_several_pairs_of_one_file_are_named_on_the_command_line(
    sweep: Bench, tmp_path: Path
) -> None:
    _two_pairs(sweep, tmp_path / "daq.csv")
    sweep.write_fio(tmp_path / "fio")
    words = ("import", "daq.csv", "--fio", "fio", "--zone", "UTC", "--trust-stamps",
             "--clock-u", "0.05")  # fmt: skip
    shown = said(tmp_path, *words, *PAIRS, "--dry-run", "--save-mapping", "kept.toml")
    assert "12V amps: Chan 121 (ADC) in A" in shown and "3V3 amps: 6 in A" in shown
    said(tmp_path, *words, *PAIRS)
    (run,) = (tmp_path / "runs").glob("*_fio")
    assert all(inside(sweep, summarise(RunRecord(run))))
    again = said(tmp_path, "import", "daq.csv", "--fio", "fio", "--mapping", "kept.toml",
                 "--trust-stamps", "--dry-run")  # fmt: skip
    assert "3V3 volts: Chan 102 (VDC) in V" in again


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--volts NAME=COLUMN --amps NAME=COLUMN"),
        ((*PAIRS, "--volts", "12V=3"), "12V has 'Chan 101 (VDC)' already"),
        (("--volts", "3", "--volts", "4"), "say whose each is, NAME=COLUMN"),
        ((*PAIRS, "--rail", "12V"), "the options name several: 12V, 3V3"),
        ((*PAIRS[:4], "--amps", "a b=6"), "letters"),
        (("--volts", "12V=Volts", "--amps", "12V=5"), "there is no such heading"),
        (PAIRS[:6], "rails.3V3: has no amps"),
        ((*PAIRS[:2], "--amps", "12V="), "--amps = '12V=': names no column"),
    ],
)
@pytest.mark.parametrize("way", ["--dry-run", "--yes"])
def test_pairs_that_say_too_little_or_too_much_are_refused(
    sweep: Bench, tmp_path: Path, options: tuple[str, ...], words: str, way: str
) -> None:
    _two_pairs(sweep, tmp_path / "daq.csv")
    sweep.write_fio(tmp_path / "fio")
    shown = said(tmp_path, "import", "daq.csv", "--fio", "fio", *options, way, code=2)
    assert words in shown
    assert not list((tmp_path / "runs").glob("*"))


def test_a_heading_with_an_equals_sign_is_a_heading(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    rows = [f"{i},12.0,0.{i}" for i in range(1, 9)]
    file.write_text("time (s),U=V,I=A\n" + "\n".join(rows) + "\n")
    found = guess(file, Given(volts=("U=V",), amps=("12V=I=A",), rail="")).meter
    assert {name: dict(rail.columns()) for name, rail in found.rails.items()} == {
        "drive": {"volts": Column(column="U=V")},
        "12V": {"amps": Column(column="I=A")},
    }
