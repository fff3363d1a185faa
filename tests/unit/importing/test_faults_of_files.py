"""Faults of files are named with their lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from labctl.importing.guess import guess, mapped_table
from labctl.importing.rails import Given
from labctl.importing.workload import read_workload
from tests.unit.importing.exported import Bench, Dialect, iso
from tests.unit.importing.made_runs import HEADING, imported, inside, mistake, said

FAULTS: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "text in a number": (lambda r: [*r[:40], r[40][:-4] + "junk", *r[41:]], "line 42"),
    "no time": (lambda r: [*r[:40], "yesterday" + r[40][17:], *r[41:]], "line 42"),
    "a field too many": (lambda r: [*r[:40], r[40] + ",1", *r[41:]], "line 42"),
    "a clock that was set": (lambda r: [*r[:200], *r[:100]], "line 202"),
    "nothing but headings": (lambda _: [], "line 1"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_file_is_named_with_its_line(sweep: Bench, tmp_path: Path, name: str) -> None:
    rows, where = FAULTS[name]
    file = sweep.write_csv(tmp_path / "psu.csv", rows=rows)
    text = mistake(lambda: imported(file, sweep.write_fio(tmp_path / "fio"), tmp_path / "runs"))
    assert str(file) in text and where in text, text


def test_what_is_odd_but_no_fault_is_noted_with_its_line(sweep: Bench, tmp_path: Path) -> None:
    def odd(rows: list[str]) -> list[str]:
        head, _ = rows[50].rsplit(",", 1)
        return [*rows[:50], f"{head},OL", *rows[51:60], rows[59], *rows[60:-30], rows[-1][:30]]

    file = sweep.write_csv(tmp_path / "psu.csv", rows=odd)
    _, summary = imported(file, sweep.write_fio(tmp_path / "fio"), tmp_path / "runs")
    noted = [one for one in summary.problems if one.startswith("psu.csv")]
    assert any("line 52: no reading" in one for one in noted)
    assert any("line 62: the same time" in one for one in noted)
    assert any("cut off" in one for one in noted)
    assert all(inside(sweep, summary))


def test_a_gap_is_named_and_its_phase_has_no_watts(sweep: Bench, tmp_path: Path) -> None:
    begin_s = sweep.driven.begins_s[1]
    gap = slice(int((begin_s + 0.5) * 20), int((begin_s + 2.5) * 20))

    def cut(rows: list[str]) -> list[str]:
        del rows[gap]
        return rows

    file = sweep.write_csv(tmp_path / "psu.csv", rows=cut)
    _, summary = imported(file, sweep.write_fio(tmp_path / "fio"), tmp_path / "runs")
    assert any("nothing for 2.05 s" in one for one in summary.problems)
    assert summary.phases[1].watts is None
    assert summary.phases[0].watts is not None


def test_empty_and_swapped_files(sweep: Bench, tmp_path: Path) -> None:
    fio = sweep.write_fio(tmp_path / "fio")
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    assert "empty.csv: line 1: the file is empty" in mistake(lambda: guess(empty, Given()))
    assert "0.json: line " in mistake(lambda: guess(fio / "0.json", Given()))
    csv = sweep.write_csv(tmp_path / "psu.csv")
    assert "psu.csv: fio: has no document of fio" in mistake(lambda: read_workload([csv]))
    assert "is empty" in mistake(lambda: read_workload([empty]))


@pytest.mark.parametrize(("suffix", "shown"), [("", "13:20'"), ("Z", "13:20 UTC'")])
def test_a_clock_that_was_set_is_said_in_the_zone_of_the_file(
    sweep: Bench, tmp_path: Path, suffix: str, shown: str
) -> None:
    """One that nobody names is not called UTC."""
    dialect = Dialect(header="Timestamp," + HEADING, time=iso(2, suffix))
    rows = FAULTS["a clock that was set"][0]
    file = sweep.write_csv(tmp_path / "psu.csv", dialect=dialect, rows=rows)
    fio = sweep.write_fio(tmp_path / "fio")
    assert shown in mistake(lambda: imported(file, fio, tmp_path / "runs"))


def test_a_folder_in_the_place_of_a_recording_is_called_one(sweep: Bench, tmp_path: Path) -> None:
    sweep.write_fio(tmp_path / "fio")
    text = said(tmp_path, "import", "fio", "--fio", "fio", code=2)
    assert "fio: file: is a folder: name the files of meters" in text


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (("Date", "Tiem"), "column = 'Tiem': there is no such heading: 'Date', 'Time'"),
        (("1", "9"), "column = 9: is not there: a line has 4 fields"),
        (("Tiem",), "column = 'Tiem': there is no such heading"),
    ],
)
def test_a_time_that_no_column_has_is_named(
    tmp_path: Path, time: tuple[str, ...], words: str
) -> None:
    file = tmp_path / "psu.csv"
    rows = [f"2025-01-01,10:00:0{i},12.0,0.5" for i in range(9)]
    file.write_text("\n".join(["Date,Time,Volts,Amps", *rows]) + "\n")
    given = Given(time=time, time_format="iso")
    text = mistake(lambda: list(mapped_table(file, guess(file, given).meter).parts()))
    assert words in text
