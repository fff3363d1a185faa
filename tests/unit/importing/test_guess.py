"""Tables of any dialect: headings, units, several files, a reading a row."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from labctl.errors import ConfigurationError
from labctl.importing.guess import guess, mapped_table
from labctl.importing.headings import kind_of, rail_of, unit_of
from labctl.importing.mapping import UNITS, Mapping, mapping_text, parse_mapping
from labctl.importing.rails import Given
from tests.unit.importing.exported import (
    Bench,
    Clock,
    Dialect,
    iso,
    since_start,
)
from tests.unit.importing.made_runs import (
    ACCURACY,
    HEADING,
    imported,
    inside,
    mistake,
)

DIALECTS = {
    "epoch": Dialect(),
    "epoch ms": Dialect(
        header="timestamp_ms," + HEADING,
        time=lambda t: [f"{round((1_700_000_000 + t) * 1000)}"],
    ),
    "iso with a zone": Dialect(header="Timestamp," + HEADING, time=iso(2, "+02:00")),
    "quoted, with a byte-order mark": Dialect(
        header='"Time","12V voltage (V)","12V current (A)","3V3 voltage (V)","3V3 current (A)"',
        time=iso(0, "Z"),
        quoted=True,
        bom=True,
    ),
    "semicolons and decimal commas": Dialect(
        header="Zeit;12V Spannung [V];12V Strom [mA];3V3 Spannung [V];3V3 Strom [mA]",
        delimiter=";",
        decimal=",",
        time=iso(1, "", "%d.%m.%Y %H:%M:%S,%f"),
        milliamps=True,
    ),
    "tabs, date and time apart, a preamble": Dialect(
        header="Date\tTime\t12V/V\t12V/A\t3V3/V\t3V3/A",
        delimiter="\t",
        time=iso(0, "", "%Y/%m/%d|%H:%M:%S.%f"),
        preamble=("Model\tPSU-9", "", "Serial\t1234"),
    ),
    "headings that end at a delimiter": Dialect(header=f"Time (s),{HEADING},"),
    "a time of day, of UTF-16": Dialect(
        header="Clock," + HEADING, time=iso(0, "", "%H:%M:%S.%f"), encoding="utf-16"
    ),
    "seconds since the start": Dialect(header="Time (s)," + HEADING, time=since_start()),
    "milliseconds, watts alone": Dialect(
        header="t_ms,12V power (W),3V3 power (W)", time=since_start(1e3), watts=True
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_gives_the_watts_of_the_drive(
    sweep: Bench, tmp_path: Path, name: str
) -> None:
    file = sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=-7.3), DIALECTS[name])
    fio = sweep.write_fio(tmp_path / "fio")
    found, summary = imported(file, fio, tmp_path / "runs")
    assert all(inside(sweep, summary)), found.clocks[0].text()
    assert [result.phase.label for result in summary.phases] == [
        "randread 4k QD1", "randread 4k QD4", "randread 4k QD16",
    ]  # fmt: skip


def test_two_files_of_one_rail(sweep: Bench, tmp_path: Path) -> None:
    """Volts of one meter, amps of another with the same clock."""
    whole = sweep.write_csv(tmp_path / "both.csv", Clock(ahead_s=4.0))
    rows = [line.split(",") for line in whole.read_text().splitlines()]
    files = []
    for name, columns in (("volts", (0, 1, 3)), ("amps", (0, 2, 4))):
        file = tmp_path / f"{name}.csv"
        file.write_text("".join(",".join(row[i] for i in columns) + "\n" for row in rows))
        files.append(file)
    found, summary = imported(files, sweep.write_fio(tmp_path / "fio"), tmp_path / "runs")
    assert [one.how for one in found.clocks] == ["shared", "data"]
    assert all(inside(sweep, summary))


def test_a_reading_a_row(sweep: Bench, tmp_path: Path) -> None:
    wide = sweep.write_csv(tmp_path / "wide.csv", Clock(ahead_s=1.0))
    head, *rows = [line.split(",") for line in wide.read_text().splitlines()]
    long = tmp_path / "long.csv"
    long.write_text(
        "Time (s),Channel,Value\n"
        + "".join(
            f"{t},{name},{one}\n" for t, *of in rows for name, one in zip(head[1:], of, strict=True)
        )
    )
    _, summary = imported(long, sweep.write_fio(tmp_path / "fio"), tmp_path / "runs")
    assert all(inside(sweep, summary))


def test_amps_alone_need_volts_that_somebody_states(sweep: Bench, tmp_path: Path) -> None:
    file = tmp_path / "amps.csv"
    whole = sweep.write_csv(tmp_path / "both.csv").read_text().splitlines()
    file.write_text("".join(f"{a},{b}\n" for a, _, b, *_ in (line.split(",") for line in whole)))
    fio = sweep.write_fio(tmp_path / "fio")
    assert "12V: has no volts" in mistake(lambda: imported(file, fio, tmp_path / "runs"))
    _, summary = imported(file, fio, tmp_path / "runs", given=Given(stated=(12.1, 2.0)))
    (rail,) = summary.phases[0].rails.values()
    assert any("not measured" in one.how for one in rail.budget)


HEADINGS = {
    "12V current (mA)": ("amps", "mA", "12V"),
    "I_12V/A": ("amps", "A", "12V"),
    "3V3 Spannung [V]": ("volts", "V", "3V3"),
    "CH2 V": ("volts", "V", "CH2"),
    "V12.I [uA]": ("amps", "uA", "12"),
    "Power(W)": ("watts", "W", ""),
    "3.3V rail power": ("watts", "", "3V3V-rail"),
    "p_mW": ("watts", "mW", ""),
    "Temperature (C)": ("", "", "Temperature"),
    "Capacity (Ah)": ("", "", "Capacity"),
}


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_says_what_unit_and_rail(heading: str) -> None:
    assert (kind_of(heading), unit_of(heading), rail_of(heading)) == HEADINGS[heading]


@pytest.mark.parametrize("kind", ["volt", "amp", "watt"])
@pytest.mark.parametrize(
    ("prefix", "size"), [("", 1), ("milli", 1e-3), ("micro", 1e-6), ("nano", 1e-9), ("kilo", 1e3)]
)
def test_every_spelled_unit_is_one(kind: str, prefix: str, size: float) -> None:
    heading = f"12V ({prefix}{kind}s)"
    assert kind_of(heading) == f"{kind}s"
    assert UNITS[unit_of(heading)] == (f"{kind}s", size)


TABLES = {
    "a space behind the comma": '"Time [ms]", "U [V]", "I [mA]"\n{}.5,12.0,50{}\n',
    "a comment as heading": "#time (s),current (A),voltage (V)\n{},0.50{},12.0\n",
    "a comma at the end": "time,volts,amps,\n{},12.0,0.50{},\n",
    "units in the cells": "time,U,I\n{},12.0 V,50{} mA\n",
    "a line for the spreadsheet": "sep=;\nTime;Volt;Amp\n{};12.0;0.50{}\n",
    "exponents": "t/s\tU/V\tI/A\n{}.0e0\t1.2e+01\t5.0{}e-01\n",
    "an index first": "No.,Time,V(V),I(A)\n7,2025-01-01 10:00:0{},12.0,0.50{}\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_as_other_programs_write_them(tmp_path: Path, name: str) -> None:
    *head, row = TABLES[name].rstrip("\n").split("\n")
    file = tmp_path / "meter.csv"
    file.write_text("\n".join([*head, *(row.format(i, i) for i in range(9))]) + "\n")
    meter = guess(file, Given()).meter
    ((rail, columns),) = meter.rails.items()
    assert rail == "drive" and columns.volts and columns.amps
    (part,) = mapped_table(file, meter).parts()
    assert len(part.t_ns) == 9
    assert part.columns[columns.volts] == pytest.approx(12.0)
    assert part.columns[columns.amps] == pytest.approx(0.5 + np.arange(9) * 1e-3)


def test_no_other_thread_reads_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that still reads when the interpreter ends makes it abort (signal 6)."""
    readers = set()

    class Watched(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            readers.add(threading.get_ident())
            return super().read(size)

    monkeypatch.setattr("labctl.importing.table.BLOCK_BYTES", 1 << 12)
    file = tmp_path / "long.csv"
    file.write_text("time,12V volts,12V amps\n" + "".join(f"{i},12.0,0.5\n" for i in range(5000)))
    table = mapped_table(file, guess(file, ACCURACY).meter)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda path, mode: Watched(path, mode))
        first = next(table.parts())
        time.sleep(0.1)  # of a thread that would read ahead
    assert readers == {threading.get_ident()}
    assert 0 < len(first.t_ns) < 1000
    assert sum(len(part.t_ns) for part in mapped_table(file, table.meter).parts()) == 5000


def test_lines_are_counted_over_blocks_with_rows_that_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labctl.importing.table.BLOCK_BYTES", 1 << 10)
    file = tmp_path / "notes.csv"
    rows = ["# a note" if i % 7 == 3 else f"{i},12.0,0.5" for i in range(1000)]
    rows[400:600] = ["# nothing else for a whole block"] * 200
    file.write_text("\n".join(["time,12V volts,12V amps", *rows, "1000,twelve,0.5"]))
    table = mapped_table(file, guess(file, ACCURACY).meter)
    with pytest.raises(ConfigurationError, match="line 1002 = 'twelve'"):
        list(table.parts())
    file.write_text("\n".join(["time,12V volts,12V amps", *rows]) + "\n" + "9" * 5000)
    with pytest.raises(ConfigurationError, match="line 1002: has no end within"):
        list(mapped_table(file, table.meter).parts())


UNIT_COLUMNS = {
    "Timestamp,Mode,Value,Unit": "{t},DCA,{v},{u}",
    "No.,Time,Reading,Units,Note": "{n},{t},{v},{u},",
    "": "{t},{v},{u}",
}


@pytest.mark.parametrize("heading", UNIT_COLUMNS)
@pytest.mark.parametrize("said", [(), ("--amps",)])
def test_a_meter_that_writes_the_unit_of_each_reading(
    tmp_path: Path, heading: str, said: tuple[str, ...]
) -> None:
    """One that changes its range between mA and A, and is once switched to volts."""
    amps = [0.4123, 0.4125, 1.2345, 1.2341, 0.0, 0.4127, 0.4123, 0.4121]
    lines = [heading] if heading else []
    for n, one in enumerate(amps):
        value, unit = (f"{one * 1e3:.1f}", "mA DC") if one < 1 else (f"{one:.4f}", "A DC")
        if n == 4:
            value, unit = "3.3011", "V DC"
        moment = f"2023-11-14 22:13:{20 + n}.250"
        lines.append(UNIT_COLUMNS[heading].format(n=n + 1, t=moment, v=value, u=unit))
    file = tmp_path / "dmm.csv"
    file.write_text("\n".join(lines) + "\n")
    place = 3 if heading else 2
    meter = guess(file, Given(amps=(str(place),) if said else (), rail="12V")).meter
    kept = parse_mapping(mapping_text(Mapping(meters=[meter])), "kept").meters[0]
    table = mapped_table(file, kept)
    (part,) = table.parts()
    (found,) = part.columns.values()
    expected = [one or np.nan for one in amps]
    assert found.tolist() == pytest.approx(expected, abs=1e-7, nan_ok=True)
    assert "no reading there; 1 in all" in " ".join(table.seen.lines("dmm.csv"))


ALTERNATING = "t (s),Value,Unit\n" + "".join(
    f"{i},12.0{i},V\n{i}.5,480,mA\n{i}.7,481,mA\n" for i in range(6)
)
"""A meter that is switched to and fro: its column has volts and amps by turns."""


@pytest.mark.parametrize("amps", ["Value", "2"])
def test_one_column_is_not_both_volts_and_amps(tmp_path: Path, amps: str) -> None:
    """By heading or by number, on the command line or in a mapping that was kept."""
    file = tmp_path / "dmm.csv"
    file.write_text(ALTERNATING)
    meter = guess(file, Given(volts=("Value",), amps=(amps,))).meter
    kept = parse_mapping(mapping_text(Mapping(meters=[meter])), "kept").meters[0]
    with pytest.raises(ConfigurationError, match=r"rails.drive.amps = .*: is volts already"):
        list(mapped_table(file, kept).parts())


def test_some_units_of_the_kind_make_a_column_of_units(tmp_path: Path) -> None:
    """Of volts, though most readings are of amps."""
    file = tmp_path / "dmm.csv"
    file.write_text(ALTERNATING)
    meter = guess(file, Given(volts=("Value",))).meter
    (part,) = mapped_table(file, meter).parts()
    (found,) = part.columns.values()
    assert found[0] == 12.0 and np.isnan(found[1:3]).all()


@pytest.mark.parametrize("time", ["2", "at", "AT"])
@pytest.mark.parametrize(
    "table", ["Value,at,Unit\n12.0,{0}.5,V\n", "Channel,at,Value\n12V volts,{0}.5,12.0\n"]
)
def test_the_column_of_the_time_is_no_reading_however_it_is_named(
    tmp_path: Path, time: str, table: str
) -> None:
    """By its number, or its heading in other letters."""
    head, row = table.splitlines()
    file = tmp_path / "dmm.csv"
    file.write_text("\n".join([head, *(row.format(i) for i in range(9))]) + "\n")
    meter = guess(file, Given(time=(time,), time_format="s")).meter
    ((_, column),) = [one for rail in meter.rails.values() for one in rail.columns()]
    assert column.column == "Value"


def test_an_empty_heading_is_no_column_that_a_person_names(tmp_path: Path) -> None:
    file = tmp_path / "psu.csv"
    file.write_text("time,,Amps\n" + "".join(f"{i},12.0,0.5\n" for i in range(9)))
    with pytest.raises(ConfigurationError, match="--volts = '12V=': names no column"):
        guess(file, Given(volts=("12V=",), amps=("12V=Amps",)))
