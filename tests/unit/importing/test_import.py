"""Runs of the simulated rig, written as other programs write them, and made runs of again."""

from __future__ import annotations

import asyncio
import hashlib
import html
import io
import json
import os
import re
import shlex
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labctl.analysis.readings.imported import UNCONFIRMED
from labctl.analysis.results import RunSummary
from labctl.analysis.run.summary import summarise
from labctl.config.plan import parse_plan
from labctl.errors import ConfigurationError
from labctl.importing.clock import ClockRules
from labctl.importing.given_plan import as_planned
from labctl.importing.guess import guess, table_of
from labctl.importing.headings import kind_of, rail_of, unit_of
from labctl.importing.make_run import Imported, Labels, import_run
from labctl.importing.mapping import Mapping, mapping_text, parse_mapping
from labctl.importing.meter_channels import Source
from labctl.importing.phases import Idle, phases_of
from labctl.importing.rails import Given
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from labctl.report.pages.report import report_page
from labctl.service.runs.shipping import ship
from tests.forked_labctl import labctl
from tests.json_schemas import validate
from tests.servers.influx_lines import stored_by
from tests.servers.influx_run import points_of
from tests.unit.importing.exported import (
    Bench,
    Clock,
    Dialect,
    bench,
    iso,
    meter_of,
    since_start,
    write_sample,
)
from tests.unit.service.runs.test_shipping import Collected
from tests.unit.test_docs import ROOT, blocks
from tests.unit.virtual_bench import Work

SWEEP = tuple(Work(Pattern.RANDREAD, 3.0, 4096, depth) for depth in (1, 4, 16))
LABELS = Labels("bench", "sweep")
ACCURACY = Given(accuracy_pct=0.5)
HEADING = "12V voltage (V),12V current (A),3V3 voltage (V),3V3 current (A)"


@pytest.fixture(scope="module")
def sweep() -> Bench:
    return bench(SWEEP, gain=0.004)


def imported(
    files: Path | list[Path],
    fio: Path,
    root: Path,
    rules: ClockRules | None = None,
    given: Given = ACCURACY,
) -> tuple[Imported, RunSummary]:
    """A run of these files, its columns guessed, and its summary."""
    each = [files] if isinstance(files, Path) else files
    sources = [Source(file, guess(file, given).meter) for file in each]
    found = import_run(read_workload([fio]), sources, root, LABELS, rules or ClockRules())
    return found, summarise(RunRecord(found.path))


def inside(made: Bench, summary: RunSummary) -> list[bool]:
    """Of each phase, whether the truth is inside the U."""
    found = []
    for index, result in enumerate(summary.phases):
        assert result.watts is not None, result.notes
        found.append(abs(result.watts.value - made.true_watts(index)) <= result.watts.u)
    return found


def mistake(call: Callable[[], Any]) -> str:
    with pytest.raises(ConfigurationError) as raised:
        call()
    return str(raised.value)


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


@pytest.mark.parametrize("start", [True, False])
def test_jobs_that_waited_for_each_other_are_phases_and_no_sum(
    sweep: Bench, tmp_path: Path, start: bool
) -> None:
    file = sweep.write_csv(tmp_path / "psu.csv")
    fio = sweep.write_stonewalled(tmp_path / "all.json", start=start)
    works = read_workload([fio])
    for work, at in zip(works, sweep.io, strict=True):
        began_s = work.begin_ns / 1e9 - 1_700_000_000
        assert abs(began_s - sweep.driven.begins_s[at]) * 1e9 <= work.boundary_u_ns
    _, summary = imported(file, fio, tmp_path / "runs")
    rates = [result.iops for result in summary.phases]
    whole = [job["read"]["iops"] for job in json.loads(fio.read_text())["jobs"]]
    assert rates == pytest.approx(whole, rel=2e-3)
    assert all(inside(sweep, summary))


def test_statuses_give_the_begin_and_iops_over_time(sweep: Bench, tmp_path: Path) -> None:
    fio = tmp_path / "fio"
    fio.mkdir()
    for index, at in enumerate(sweep.io):
        last = sweep.document([index], start=False, late_ms=90)
        texts = []
        for t_s, reads, _ in sweep.driven.statuses[at]:
            document = json.loads(json.dumps(last))
            side = document["jobs"][0]["read"]
            side["runtime"] = round((t_s - sweep.driven.begins_s[at]) * 1000)
            side["total_ios"], side["io_bytes"] = reads, reads * 4096
            document["timestamp_ms"] = round(1_700_000_000_000 + t_s * 1000)
            texts.append(json.dumps(document, indent=1))
        texts[-1] = json.dumps(last, indent=1)
        (fio / f"{index}.json").write_text("\n".join(texts) + "\n")
    works = read_workload([fio])
    assert {work.timed_by for work in works} == {"the times of its statuses"}
    assert max(work.boundary_u_ns for work in works) < 10_000_000
    found, summary = imported(sweep.write_csv(tmp_path / "psu.csv"), fio, tmp_path / "runs")
    assert all(inside(sweep, summary))
    live = RunRecord(found.path).readings("fio.read.iops")
    assert len(live) > 3 * len(works)
    assert np.median(live["v"][-4:]) == pytest.approx(summary.phases[-1].iops, rel=0.1)


def test_the_files_are_kept_as_they_are(sweep: Bench, tmp_path: Path) -> None:
    file, fio = sweep.write_csv(tmp_path / "psu.csv"), sweep.write_fio(tmp_path / "fio")
    found, _ = imported(file, fio, tmp_path / "runs")
    (event,) = [one for one in RunRecord(found.path).events if one.kind == "imported"]
    kept = {one["file"]: one for one in event.data["files"]}
    assert set(kept) == {"import/meters/psu.csv", *(f"import/fio/{n}.json" for n in range(3))}
    for name, one in kept.items():
        data = (found.path / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == one["sha256"]
    assert (found.path / "import/meters/psu.csv").read_bytes() == file.read_bytes()
    assert [one.name for one in (tmp_path / "runs").iterdir()] == [found.path.name]


def test_the_offset_is_inside_its_stated_doubt(sweep: Bench, tmp_path: Path) -> None:
    fio = sweep.write_fio(tmp_path / "fio")
    clock = Clock(ahead_s=31.25, drift_ppm=60)
    file = sweep.write_csv(tmp_path / "psu.csv", clock)
    found, summary = imported(file, fio, tmp_path / "runs")
    (one,) = found.clocks
    assert one.how == "data"
    middle = -31.25 - 0.5 / sweep.rate_hz  # the meter says when its windows end
    assert abs(one.offset_s - middle) <= one.u_s + 60e-6 * 20
    assert one.u_s < 2 / sweep.rate_hz
    assert all(one.confirmed)
    assert all(inside(sweep, summary))
    edges = [lag for lag in summary.edge_lags if not lag.consistent]
    assert not edges


def test_a_zone_that_nobody_knows_is_found(sweep: Bench, tmp_path: Path) -> None:
    dialect = Dialect(header="Timestamp," + HEADING, time=iso(-5.5))
    file = sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=3.0), dialect)
    found, summary = imported(file, sweep.write_fio(tmp_path / "fio"), tmp_path / "runs")
    assert found.clocks[0].offset_s == pytest.approx(5.5 * 3600 - 3.0, abs=0.2)
    assert all(inside(sweep, summary))


def test_stamps_may_be_trusted_or_an_offset_given(sweep: Bench, tmp_path: Path) -> None:
    fio = sweep.write_fio(tmp_path / "fio")
    file = sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=0.2))
    trusted, summary = imported(file, fio, tmp_path / "a", ClockRules(trust=True, u_s=0.25))
    assert trusted.clocks[0].how == "stamps"
    assert all(inside(sweep, summary))
    unsure = {result.alignment_ms for result in summary.phases}
    assert min(one for one in unsure if one is not None) >= 250
    given, summary = imported(file, fio, tmp_path / "b", ClockRules(offset_s=-0.2, u_s=0.1))
    assert given.clocks[0].offset_s == -0.2
    assert all(inside(sweep, summary))


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


def test_a_phase_without_a_step_says_that_nothing_confirms_it(tmp_path: Path) -> None:
    same = tuple(Work(Pattern.RANDREAD, 3.0, 4096, depth) for depth in (1, 8, 8, 8))
    made = bench(same)
    found, summary = imported(
        made.write_csv(tmp_path / "psu.csv"), made.write_fio(tmp_path / "fio"), tmp_path / "runs"
    )
    confirmed = list(found.clocks[0].confirmed)
    assert confirmed == [True, True, False, True]
    assert [UNCONFIRMED in result.notes for result in summary.phases] == [
        not one for one in confirmed
    ]


def test_two_offsets_that_fit_as_well_are_refused(sweep: Bench, tmp_path: Path) -> None:
    """The recording holds the same sweep twice, and fio's output is of one of them."""
    file = sweep.write_csv(tmp_path / "psu.csv")
    head, *rows = file.read_text().splitlines()
    fields = [row.split(",", 1) for row in rows]
    again = [f"{float(t) + 40:.6f},{rest}" for t, rest in fields]
    file.write_text("\n".join([head, *rows, *again]) + "\n")
    text = mistake(lambda: imported(file, sweep.write_fio(tmp_path / "fio"), tmp_path / "runs"))
    assert "fit fio's phases as well at" in text and "--offset" in text
    assert not list((tmp_path / "runs").iterdir()), "nothing is left of a run that was refused"


def test_another_day_and_another_recording_are_refused(sweep: Bench, tmp_path: Path) -> None:
    fio = sweep.write_fio(tmp_path / "fio")
    file = sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=86_400 * 3))
    text = mistake(lambda: imported(file, fio, tmp_path / "runs"))
    assert "2023-11-17" in text and "do not meet" in text and "another day" in text
    steady = tmp_path / "steady.csv"
    lines = [f"{t / 20:.2f},12.0,{0.5 + (t * 7919 % 97) * 1e-4:.5f}" for t in range(2000)]
    steady.write_text("Time (s),Volts,Amps\n" + "\n".join(lines) + "\n")
    text = mistake(lambda: imported(steady, fio, tmp_path / "runs"))
    assert "no offset makes its watts follow" in text or "as well at" in text


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
    (part,) = table_of(file, meter).parts()
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
    table = table_of(file, guess(file, ACCURACY).meter)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda path, mode: Watched(path, mode))
        first = next(table.parts())
        time.sleep(0.1)  # of a thread that would read ahead
    assert readers == {threading.get_ident()}
    assert 0 < len(first.t_ns) < 1000
    assert sum(len(part.t_ns) for part in table_of(file, table.meter).parts()) == 5000


def test_lines_are_counted_over_blocks_with_rows_that_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labctl.importing.table.BLOCK_BYTES", 1 << 10)
    file = tmp_path / "notes.csv"
    rows = ["# a note" if i % 7 == 3 else f"{i},12.0,0.5" for i in range(1000)]
    rows[400:600] = ["# nothing else for a whole block"] * 200
    file.write_text("\n".join(["time,12V volts,12V amps", *rows, "1000,twelve,0.5"]))
    table = table_of(file, guess(file, ACCURACY).meter)
    with pytest.raises(ConfigurationError, match="line 1002 = 'twelve'"):
        list(table.parts())
    file.write_text("\n".join(["time,12V volts,12V amps", *rows]) + "\n" + "9" * 5000)
    with pytest.raises(ConfigurationError, match="line 1002: has no end within"):
        list(table_of(file, table.meter).parts())


def test_empty_and_swapped_files(sweep: Bench, tmp_path: Path) -> None:
    fio = sweep.write_fio(tmp_path / "fio")
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    assert "empty.csv: line 1: the file is empty" in mistake(lambda: guess(empty, Given()))
    assert "0.json: line " in mistake(lambda: guess(fio / "0.json", Given()))
    csv = sweep.write_csv(tmp_path / "psu.csv")
    assert "psu.csv: fio: has no document of fio" in mistake(lambda: read_workload([csv]))
    assert "is empty" in mistake(lambda: read_workload([empty]))


def test_two_fios_at_the_same_time_are_refused(sweep: Bench, tmp_path: Path) -> None:
    fio = sweep.write_fio(tmp_path / "fio")
    document = sweep.document([1], start=True)
    document["jobs"][0]["job_start"] -= 2000
    (fio / "1.json").write_text(json.dumps(document))
    text = mistake(lambda: read_workload([fio]))
    assert "1.json" in text and "0.json ended" in text


def test_job_start_is_behind_the_ramp(sweep: Bench, tmp_path: Path) -> None:
    """fio 3.42 begins to count anew there, and takes the time of its job again."""
    document = sweep.document([0], start=True)
    (tmp_path / "plain.json").write_text(json.dumps(document))
    document["jobs"][0]["job options"]["ramp_time"] = "2"
    (tmp_path / "ramp.json").write_text(json.dumps(document))
    plain, ramp = (read_workload([tmp_path / f"{one}.json"])[0] for one in ("plain", "ramp"))
    assert (ramp.begin_ns, ramp.end_ns) == (plain.begin_ns, plain.end_ns)


def test_fios_own_clock_is_compared(sweep: Bench, tmp_path: Path) -> None:
    """A fio that counts 3.2 s in 3 s, by its own stamps: the phase is as long as the stamps say."""
    fio = sweep.write_fio(tmp_path / "fio")
    document = sweep.document([2], start=True)
    for side in ("read", "write"):
        document["jobs"][0][side]["runtime"] = round(document["jobs"][0][side]["runtime"] * 1.2)
    (fio / "2.json").write_text(json.dumps(document))
    _, summary = imported(sweep.write_csv(tmp_path / "psu.csv"), fio, tmp_path / "runs")
    assert any("fio's clock runs" in one for one in summary.problems)
    true = document["jobs"][0]["read"]["total_ios"] / 3.0
    assert summary.phases[2].iops == pytest.approx(true, rel=0.06)


def test_a_fast_clock_of_a_fio_that_says_no_begin(tmp_path: Path) -> None:
    """It counts 8.64 s in 8 s: by their ends less their runtimes the phases would overlap."""
    made = bench(tuple(Work(Pattern.RANDREAD, 8.0, 4096, depth) for depth in (1, 8, 32)))
    fio = tmp_path / "fio"
    fio.mkdir()
    for index in range(3):
        document = made.document([index], start=False, late_ms=100)
        job = document["jobs"][0]
        job["read"]["runtime"] = job["job_runtime"] = round(job["read"]["runtime"] * 1.08)
        (fio / f"{index}.json").write_text(json.dumps(document))
    works = read_workload([fio])
    for work, at in zip(works, made.io, strict=True):
        began_s = work.begin_ns / 1e9 - 1_700_000_000
        assert abs(began_s - made.driven.begins_s[at]) * 1e9 <= work.boundary_u_ns
        assert work.duration_s == pytest.approx(8.0, rel=0.03)
    _, summary = imported(made.write_csv(tmp_path / "psu.csv"), fio, tmp_path / "runs")
    assert all(inside(made, summary))
    assert any("fio's clock runs" in one for one in summary.problems)


def test_a_fast_clock_is_seen_in_statuses(sweep: Bench, tmp_path: Path) -> None:
    fio = tmp_path / "all.json"
    last = sweep.document([2], start=False, late_ms=90)
    begin_s = sweep.driven.begins_s[sweep.io[2]]
    texts = []
    for t_s, reads, _ in sweep.driven.statuses[sweep.io[2]]:
        document = json.loads(json.dumps(last))
        side = document["jobs"][0]["read"]
        side["runtime"] = round((t_s - begin_s) * 1080)
        side["total_ios"], side["io_bytes"] = reads, reads * 4096
        document["timestamp_ms"] = round(1_700_000_000_000 + t_s * 1000)
        texts.append(json.dumps(document, indent=1))
    fio.write_text("\n".join(texts) + "\n")
    (work,) = read_workload([fio])
    assert work.duration_s == pytest.approx(3.0, abs=0.02)
    assert abs(work.begin_ns / 1e9 - 1_700_000_000 - begin_s) * 1e9 <= work.boundary_u_ns


def test_idle_before_and_after_the_work_stands_beside_the_depths(
    sweep: Bench, tmp_path: Path
) -> None:
    file, fio = sweep.write_csv(tmp_path / "psu.csv", Clock(9.0)), sweep.write_fio(tmp_path / "fio")
    plain = imported(file, fio, tmp_path / "plain")[1]
    idle = Idle(2.0, 1.5)
    works, sources = read_workload([fio]), [Source(file, meter_of(file))]
    found = import_run(works, sources, tmp_path / "runs", LABELS, ClockRules(), idle=idle)
    first, *between, last = summarise(RunRecord(found.path)).phases
    assert (first.phase.label, last.phase.label) == ("idle before", "idle after")
    begin_s = sweep.driven.begins_s[sweep.io[0]]
    ticks = sweep.driven.ticks
    joules = ticks["joules_12V"] + ticks["joules_3V3"]
    spent = np.diff(np.interp((begin_s - 2.4, begin_s - 0.4), ticks["t_ns"] * 1e-9, joules))[0]
    assert first.watts is not None and abs(first.watts.value - spent / 2) <= first.watts.u
    for one, other in zip(between, plain.phases, strict=True):
        assert one.watts is not None and other.watts is not None
        assert one.watts.value == pytest.approx(other.watts.value)
        assert UNCONFIRMED not in one.notes


def test_idle_beyond_the_recording_is_refused(sweep: Bench, tmp_path: Path) -> None:
    file, fio = sweep.write_csv(tmp_path / "psu.csv"), sweep.write_fio(tmp_path / "fio")
    works, sources = read_workload([fio]), [Source(file, meter_of(file))]

    def call() -> Any:
        idle = Idle(before_s=20.0)
        return import_run(works, sources, tmp_path / "runs", LABELS, ClockRules(), idle=idle)

    text = mistake(call)
    assert "--idle-before" in text and "s before the first phase, of which" in text


PLAN = """\
name = "my-sweep"
[[sweeps]]
name = "small reads"
pattern = "randread"
queue_depth = [1, 4, 16]
duration_s = 3
"""


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


def test_a_given_clock_is_checked_by_the_steps(sweep: Bench, tmp_path: Path) -> None:
    file, fio = sweep.write_csv(tmp_path / "psu.csv"), sweep.write_fio(tmp_path / "fio")
    rules = ClockRules(offset_s=0.0, u_s=0.1)
    found, summary = imported(file, fio, tmp_path / "runs", rules)
    page = report_page(RunRecord(found.path), summary, ())
    assert "were given" in page and "no check of it" not in page


def said(folder: Path, *words: str, code: int = 0) -> str:
    environment = {**os.environ, "LABCTL_RUNS": str(folder / "runs")}
    done = labctl(*words, cwd=folder, env=environment)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


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


def test_the_command_takes_a_plan_and_idle_times(sweep: Bench, tmp_path: Path) -> None:
    sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=5))
    sweep.write_fio(tmp_path / "fio")
    (tmp_path / "plan.toml").write_text(PLAN)
    text = said(
        tmp_path, "import", "psu.csv", "--fio", "fio", "--plan", "plan.toml", "--idle-before", "1.5"
    )  # fmt: skip
    assert re.search(r"^idle \d", text, re.MULTILINE) and "_import_my-sweep" in text


@pytest.mark.long
def test_everything_that_works_on_a_run_works_on_it(sweep: Bench, tmp_path: Path) -> None:
    sweep.write_csv(tmp_path / "psu.csv", Clock(ahead_s=5))
    sweep.write_fio(tmp_path / "fio")
    made = json.loads(said(tmp_path, "import", "psu.csv", "--fio", "fio", "--json"))
    validate("import", made)
    again = json.loads(said(tmp_path, "import", "psu.csv", "--fio", "fio", "--json"))
    assert again["run"].endswith("-2")
    assert again["clocks"] == made["clocks"]
    run = made["run"]
    for words in (
        ("report", run), ("analyse", run), ("review", run), ("bundle", run, "-o", "one.zip"),
        ("verify", "one.zip"), ("compare", run, again["run"]), ("runs",),
        ("analyse", run, "--from", "1", "--to", "5"),
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


@pytest.fixture(scope="module")
def known() -> tuple[Bench, Bench]:
    """Phases that are long enough for a meter with a reading a second."""
    reads = tuple(Work(Pattern.RANDREAD, 9.0, 4096, depth) for depth in (1, 2, 4, 8))
    mixed = (
        Work(Pattern.RANDREAD, 9.0, 4096, 1),
        Work(Pattern.WRITE, 9.0, 131_072, 4, 0),
        Work(Pattern.IDLE, 4.0, 0, 0, 0),
        Work(Pattern.READ, 9.0, 131_072, 8),
        Work(Pattern.READ, 9.0, 131_072, 1),
    )
    return bench(reads), bench(mixed, seed=2)


@pytest.mark.long
@pytest.mark.parametrize("rate_hz", [1.0, 10.0, 100.0])
def test_the_truth_is_inside_u_in_95_of_100_phases(
    known: tuple[Bench, Bench], tmp_path: Path, rate_hz: float
) -> None:
    """Shifted and drifting clocks, of known and unknown zones, meters with errors within what they
    state, and fios with and without a start."""
    rng = np.random.default_rng(7)
    good: list[bool] = []
    offsets: list[bool] = []
    refused: list[str] = []
    for number in range(20):
        base = known[number % 2]
        made = Bench(
            base.driven, base.works, rate_hz, rng.uniform(-0.005, 0.005), 1e-3, number,
            float(rng.choice([1.0, 0.2])),
        )  # fmt: skip
        clock = Clock(ahead_s=rng.uniform(-60, 60), drift_ppm=rng.uniform(-80, 80))
        zone_h = float(rng.choice([-5.5, 0, 1, 8])) if number % 3 else 0.0
        heading = "Timestamp," + HEADING
        dialect = Dialect(header=heading, time=iso(zone_h)) if number % 3 else Dialect()
        folder = tmp_path / f"{number}"
        folder.mkdir()
        file = made.write_csv(folder / "psu.csv", clock, dialect)
        start = bool(number % 4)
        alone = number % 5
        fio = (
            made.write_fio(folder / "fio", start=start)
            if alone
            else made.write_stonewalled(folder / "all.json", start=start)
        )
        try:
            found, summary = imported(file, fio, folder / "runs")
        except ConfigurationError as error:
            refused.append(f"{number}: {error}")
            continue
        one = found.clocks[0]
        # the meter says when its windows end, and without a start fio's phases are known to this
        late_s = 0.5 / rate_hz + (0.0 if start else 0.15 if alone else 0.6)
        apart_s = one.offset_s + 3600 * zone_h + clock.ahead_s
        offsets.append(abs(apart_s) <= one.u_s + late_s + 80e-6 * 60)
        good += inside(made, summary)
    print(
        f"{rate_hz:g} readings/s: truth inside U in {sum(good)} of {len(good)} phases, offset "
        f"inside its doubt in {sum(offsets)} of {len(offsets)}; refused: {refused}"
    )
    assert sum(good) >= 0.95 * len(good)
    assert sum(offsets) >= 0.95 * len(offsets)
    assert len(refused) <= 5
