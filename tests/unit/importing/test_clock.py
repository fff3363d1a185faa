"""The clocks of files are aligned, or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labctl.analysis.readings.imported import UNCONFIRMED
from labctl.analysis.run.summary import summarise
from labctl.importing.clock import ClockRules
from labctl.importing.guess import guess
from labctl.importing.make_run import import_run
from labctl.importing.meter_channels import MeterFile
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from labctl.report.pages.report import report_page
from tests.unit.importing.exported import (
    BEGAN_MS,
    Bench,
    Clock,
    Dialect,
    bench,
    iso,
)
from tests.unit.importing.made_runs import (
    ACCURACY,
    HEADING,
    LABELS,
    imported,
    inside,
    mistake,
)
from tests.unit.virtual_bench import Work


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


def test_a_given_clock_is_checked_by_the_steps(sweep: Bench, tmp_path: Path) -> None:
    file, fio = sweep.write_csv(tmp_path / "psu.csv"), sweep.write_fio(tmp_path / "fio")
    rules = ClockRules(offset_s=0.0, u_s=0.1)
    found, summary = imported(file, fio, tmp_path / "runs", rules)
    page = report_page(RunRecord(found.path), summary, ())
    assert "were given" in page and "no check of it" not in page


@pytest.mark.parametrize(("suffix", "zone_h"), [("Z", 0), ("+02:00", 2)])
def test_stamps_that_name_their_zone_are_not_searched_around_others(
    sweep: Bench, tmp_path: Path, suffix: str, zone_h: int
) -> None:
    """Recorded five hours later, by a clock that says so."""
    heading = "Timestamp," + HEADING
    fio = sweep.write_fio(tmp_path / "fio")
    dialect = Dialect(header=heading, time=iso(zone_h + 5, suffix))
    later = sweep.write_csv(tmp_path / "later.csv", dialect=dialect)
    text = mistake(lambda: imported(later, fio, tmp_path / "runs"))
    assert "do not meet within" in text and "unknown zone" not in text
    dialect = Dialect(header=heading, time=iso(zone_h, suffix))
    file = sweep.write_csv(tmp_path / "same.csv", Clock(ahead_s=3.0), dialect)
    found, _ = imported(file, fio, tmp_path / "runs")
    assert found.clocks[0].offset_s == pytest.approx(-3.0, abs=0.2)


def test_watts_that_never_change_follow_no_phase(sweep: Bench, tmp_path: Path) -> None:
    def flat(rows: list[str]) -> list[str]:
        return [f"{row.partition(',')[0]},12.0,0.4,3.3,0.2" for row in rows]

    file = sweep.write_csv(tmp_path / "flat.csv", rows=flat)
    text = mistake(lambda: imported(file, sweep.write_fio(tmp_path / "fio"), tmp_path / "runs"))
    assert "flat.csv: clock: no offset makes its watts follow fio's phases" in text


@pytest.mark.parametrize("absolute", [True, False])
def test_a_recording_that_is_too_short_is_named_as_that(
    sweep: Bench, tmp_path: Path, absolute: bool
) -> None:
    dialect = Dialect() if absolute else Dialect(time=lambda t: [f"{t:.6f}"])
    file = sweep.write_csv(tmp_path / "short.csv", dialect=dialect, rows=lambda r: r[60:100])
    text = mistake(lambda: imported(file, sweep.write_fio(tmp_path / "fio"), tmp_path / "runs"))
    assert "short.csv: clock: it lasts 2 s, and fio's phases 9 s" in text


def test_phases_stay_where_fio_says_beside_a_meter_whose_clock_is_given(tmp_path: Path) -> None:
    """fio printed the end of all of them late: the other meter's steps cannot tell, and its
    offset takes it up; that of the first one does not."""
    made = bench(tuple(Work(Pattern.RANDREAD, 3.0, 4096, depth) for depth in (1, 4, 16, 32)))
    fio = tmp_path / "fio.json"
    fio.write_text(json.dumps(made.document(range(4), start=False, late_ms=240)))
    sources = []
    for rail in ("12V", "3V3"):
        heading = f"Time (s),{rail} voltage (V),{rail} current (A)"
        file = made.write_csv(
            tmp_path / f"meter{rail}.csv", dialect=Dialect(header=heading, rails=(rail,))
        )
        sources.append(MeterFile(file, guess(file, ACCURACY).meter))
    told = sources[0].meter.model_copy(update={"offset_s": 0.0, "offset_u_s": 0.01})
    sources[0] = MeterFile(sources[0].file, told)
    found = import_run(read_workload([fio]), sources, tmp_path / "runs", LABELS, ClockRules())
    assert [one.how for one in found.clocks] == ["given", "data"]
    for work, at in zip(found.works, made.io, strict=True):
        late_s = (work.begin_ns - BEGAN_MS * 10**6) * 1e-9 - made.driven.begins_s[at]
        for clock in found.clocks:
            doubt_s = work.boundary_u_ns * 1e-9 + clock.u_s + 0.5 / made.rate_hz
            assert abs(late_s - clock.offset_s) <= doubt_s, clock.text()
    assert all(inside(made, summarise(RunRecord(found.path))))


@pytest.mark.parametrize(
    ("suffix", "given", "shared"),
    [("+01:00", "", True), ("", "+01:00", True), ("", "", False)],
)
def test_times_of_a_known_zone_and_of_the_epoch_are_of_one_clock(
    sweep: Bench, tmp_path: Path, suffix: str, given: str, shared: bool
) -> None:
    """The amps of one program, with their zone or in one that a person says, the volts of another
    one that counts from 1970."""
    stamps = Dialect(header="Timestamp," + HEADING, time=iso(1, suffix))
    t = Dialect(header="timestamp_ms," + HEADING, time=lambda t: [f"{BEGAN_MS + t * 1000:.0f}"])
    files = []
    for name, dialect, columns in (("amps", stamps, (0, 2, 4)), ("volts", t, (0, 1, 3))):
        whole = sweep.write_csv(tmp_path / "both.csv", Clock(ahead_s=4.0), dialect)
        rows = [line.split(",") for line in whole.read_text().splitlines()]
        files.append(tmp_path / f"{name}.csv")
        files[-1].write_text("".join(",".join(row[i] for i in columns) + "\n" for row in rows))
    fio = sweep.write_fio(tmp_path / "fio")
    zone = replace(ACCURACY, zone=given)
    if not shared:
        text = mistake(lambda: imported(files, fio, tmp_path / "runs", given=zone))
        assert "volts.csv: clock: it has volts alone" in text
        return
    found, summary = imported(files, fio, tmp_path / "runs", given=zone)
    assert [one.how for one in found.clocks] == ["data", "shared"]
    assert all(inside(sweep, summary))


@pytest.mark.parametrize(
    "rules", [ClockRules(), ClockRules(trust=True), ClockRules(offset_s=2.0)], ids=str
)
@pytest.mark.parametrize("suffix", ["Z", ""])
def test_a_short_recording_of_another_day_is_called_that(
    sweep: Bench, tmp_path: Path, rules: ClockRules, suffix: str
) -> None:
    dialect = Dialect(header="Timestamp," + HEADING, time=iso(0, suffix))
    file = sweep.write_csv(
        tmp_path / "short.csv", Clock(ahead_s=86_400 * 3), dialect, rows=lambda r: r[60:100]
    )
    fio = sweep.write_fio(tmp_path / "fio")
    text = mistake(lambda: imported(file, fio, tmp_path / "runs", rules))
    assert "2023-11-17" in text and "do not meet" in text and "another day" in text
