"""Recordings of known programs are recognised, and give the watts of the drive."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labctl.analysis.run.summary import summarise
from labctl.errors import ConfigurationError
from labctl.importing.clock import ClockRules
from labctl.importing.guess import guess, mapped_table
from labctl.importing.headings import kind_of, known_unit, time_unit_of
from labctl.importing.make_run import Labels, import_run
from labctl.importing.mapping import Mapping, mapping_text, parse_mapping
from labctl.importing.meter_channels import MeterFile
from labctl.importing.rails import Given
from labctl.importing.ready import ready_mappings
from labctl.importing.times import SINCE_START, guess_format
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from tests.judge_import import LEAST_SHARE, judge_all
from tests.unit.importing.exported import BEGAN_MS, Bench, Clock, bench
from tests.unit.importing.made_runs import said
from tests.unit.importing.makers import MAKERS, write_as
from tests.unit.test_docs import ROOT
from tests.unit.virtual_bench import Work

SWEEP = tuple(Work(Pattern.RANDREAD, 3.0, 4096, depth) for depth in (1, 4, 16))
OFF = Clock(ahead_s=-7.3, drift_ppm=40.0)


@pytest.fixture(scope="module")
def sweep() -> Bench:
    return bench(SWEEP, gain=0.004)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_makers_recording_is_recognised_and_gives_the_watts_of_the_drive(
    sweep: Bench, tmp_path: Path, maker: str
) -> None:
    name, _, rate_hz = MAKERS[maker]
    made = replace(sweep, rate_hz=rate_hz)
    file = write_as(maker, made.readings(), tmp_path / "recording.csv", OFF)
    columns = {"volts": ("CH1",), "amps": ("CH2",)} if name == "rigol-scope" else {}
    found = guess(file, Given(accuracy_pct=0.5, **columns))
    assert found.known is not None and found.known.ready.name == name
    assert ready_mappings()[name].summary in found.known.words()
    assert parse_mapping(mapping_text(Mapping(meters=[found.meter])), "") == Mapping(
        meters=[found.meter]
    )
    works = read_workload([made.write_fio(tmp_path / "fio")])
    source = MeterFile(file, found.meter)
    run = import_run(works, [source], tmp_path / "runs", Labels("bench", "sweep"), ClockRules())
    for index, result in enumerate(summarise(RunRecord(run.path)).phases):
        assert result.watts is not None, result.notes
        true = made.true_watts(index)
        assert abs(result.watts.value - true) <= result.watts.u, (true, result.watts)


@pytest.mark.long
def test_the_truth_is_inside_u_of_what_makers_write() -> None:
    scores = judge_all(2, 5)
    total = sum(one.phases for one in scores.values())
    assert total >= 0.8 * 8 * len(MAKERS)
    assert sum(one.inside for one in scores.values()) >= LEAST_SHARE * total, scores


def test_readings_that_share_a_time_are_one_reading_their_mean(tmp_path: Path) -> None:
    """A program that writes whole seconds, ten rows of each."""
    file = tmp_path / "fast.csv"
    rows = [f"{i // 10},12.0,{0.1 * (i % 10):.1f}" for i in range(200)]
    file.write_text("time (s),volts,amps\n" + "\n".join(rows) + "\n")
    table = mapped_table(file, guess(file, Given()).meter)
    (part,) = table.parts()
    amps = next(one for name, one in part.columns.items() if name.column == "amps")
    assert len(part.t_ns) == 20
    assert amps == pytest.approx(0.45)
    assert "line 3: the same time as the line before, 180 in all" in table.seen.lines("f")[0]


def test_a_file_may_be_packed_with_gzip(sweep: Bench, tmp_path: Path) -> None:
    import gzip

    file = write_as("Quarch QIS", sweep.readings(), tmp_path / "stream.csv", OFF)
    packed = tmp_path / "stream.csv.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    plain, other = (mapped_table(one, guess(one, Given()).meter) for one in (file, packed))
    assert [part.t_ns.tolist() for part in plain.parts()] == [
        part.t_ns.tolist() for part in other.parts()
    ]
    packed.write_bytes(packed.read_bytes()[:-2000])
    with pytest.raises(ConfigurationError, match=r"stream\.csv\.gz: file: .*end"):
        list(mapped_table(packed, plain.meter).parts())


def _imported(file: Path, made: Bench, folder: Path) -> list[bool]:
    """Of each phase, whether the truth is inside the U."""
    works = read_workload([made.write_fio(folder / "fio")])
    sources = [MeterFile(file, guess(file, Given(accuracy_pct=0.5)).meter)]
    run = import_run(works, sources, folder / "runs", Labels("bench", "sweep"), ClockRules())
    found = []
    for index, result in enumerate(summarise(RunRecord(run.path)).phases):
        assert result.watts is not None, result.notes
        found.append(abs(result.watts.value - made.true_watts(index)) <= result.watts.u)
    return found


def write_jls(
    file: Path, signals: dict[str, tuple[str, Any]], rate_hz: int, utc_s: float | None
) -> Path:
    """A JLS file as the Joulescope's library writes it."""
    from pyjls import Writer, time64

    with Writer(str(file)) as writer:
        writer.source_def(source_id=1, name="JS220-000001", vendor="x", model="JS220", version="1",
                          serial_number="000001")  # fmt: skip
        for number, (name, (unit, values)) in enumerate(signals.items(), 1):
            writer.signal_def(
                signal_id=number, source_id=1, sample_rate=rate_hz, name=name, units=unit
            )
            if utc_s is not None:
                for sample in range(0, len(values), rate_hz):
                    moment = time64.as_time64(float(utc_s)) + sample * time64.SECOND // rate_hz
                    writer.utc(number, sample, moment)
            writer.fsr_f32(number, 0, np.asarray(values, np.float32))
    return file


@pytest.mark.parametrize("utc", [True, False])
def test_a_joulescopes_own_file_gives_the_watts_of_the_drive(
    sweep: Bench, tmp_path: Path, utc: bool
) -> None:
    pytest.importorskip("pyjls")
    made = replace(sweep, rate_hz=5000.0)
    t, found = made.readings()
    watts = sum(found[f"{rail} volts"] * found[f"{rail} amps"] for rail in ("12V", "3V3"))
    volts = found["12V volts"]
    signals = {"current": ("A", watts / volts), "voltage": ("V", volts), "power": ("W", watts)}
    began_s = BEGAN_MS / 1000 + t[0] + 4.0 if utc else None
    file = write_jls(tmp_path / "js220.jls", signals, 5000, began_s)
    meter = guess(file, Given()).meter
    assert meter.aperture_s == pytest.approx(1e-3) and meter.stamp == "middle"
    assert meter.time_format == ("epoch_ns" if utc else "ns")
    (part,) = mapped_table(file, meter).parts()
    if utc:
        assert part.t_ns[0] == pytest.approx((BEGAN_MS / 1000 + t[0] + 4.0005) * 1e9, abs=1000)
    before = file.read_bytes()
    assert all(_imported(file, made, tmp_path))
    assert file.read_bytes() == before


def test_watts_of_a_jls_file_are_the_mean_of_the_product(tmp_path: Path) -> None:
    """Volts that sag with the amps: the product of the means would be 4 % more."""
    pytest.importorskip("pyjls")
    amps = np.tile([0.0, 2.0], 10_000)
    signals = {"current": ("A", amps), "voltage": ("V", 12.5 - 0.5 * amps)}
    file = write_jls(tmp_path / "sag.jls", signals, 10_000, None)
    (part,) = mapped_table(file, guess(file, Given()).meter).parts()
    volts, current = (next(v for c, v in part.columns.items() if c.column == name)
                      for name in ("voltage", "current"))  # fmt: skip
    assert volts * current == pytest.approx(11.5)
    assert len(volts) == 2000
    kept = mapping_text(Mapping(meters=[guess(file, Given()).meter]))
    for micro in ("µA", "μA"):
        stated = kept.replace(
            '{ column = "current" }', f'{{ column = "current", unit = "{micro}" }}'
        )
        (part,) = mapped_table(file, parse_mapping(stated, "kept").meters[0]).parts()
        (small,) = (v for c, v in part.columns.items() if c.column == "current")
        assert small == pytest.approx(current * 1e-6)


def test_a_jls_file_that_cannot_be_read_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    pytest.importorskip("pyjls")
    whole = write_jls(tmp_path / "a.jls", {"current": ("A", np.ones(50_000))}, 1000, None)
    cut = tmp_path / "cut.jls"
    for data in (whole.read_bytes()[:-5000], whole.read_bytes()[:200], whole.read_bytes()[:20]):
        cut.write_bytes(data)
        with pytest.raises(ConfigurationError, match="was not closed, or is cut off"):
            guess(cut, Given())
        assert cut.read_bytes() == data
    other = write_jls(tmp_path / "b.jls", {"temperature": ("C", np.ones(50))}, 1000, None)
    with pytest.raises(ConfigurationError, match="has no volts, amps or watts"):
        guess(other, Given())
    cut.write_bytes(b"\xd3tagfmt \r\n \n  \x1a\x1c" + bytes(100))
    with pytest.raises(ConfigurationError, match="version 1"):
        guess(cut, Given())


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (Given(volts=("voltage",), amps=("current",)), "--volts"),
        (Given(amps=("current",)), "--amps"),
        (Given(watts=("power",)), "--watts"),
        (Given(time=("time",)), "--time"),
        (Given(time_format="epoch_s"), "--time-format"),
        (Given(zone="UTC"), "--zone"),
        (Given(aperture_s=0.0), "--aperture-s"),
    ],
)
def test_what_a_jls_file_says_itself_is_not_taken_from_a_person(
    tmp_path: Path, given: Given, option: str
) -> None:
    pytest.importorskip("pyjls")
    signals = {"current": ("A", np.ones(5000)), "voltage": ("V", np.full(5000, 12.0))}
    file = write_jls(tmp_path / "a.jls", signals, 1000, None)
    with pytest.raises(ConfigurationError, match=f"{option}.*a JLS file says itself"):
        guess(file, given)
    with pytest.raises(ConfigurationError, match=r"--mapping.*a JLS file says itself"):
        guess(file, Given(), "powersensor3")


def test_a_jls_file_of_one_rail_is_called_as_a_person_says(tmp_path: Path) -> None:
    pytest.importorskip("pyjls")
    ones = np.ones(5000)
    one = {"js.current": ("A", ones), "js.voltage": ("V", ones)}
    file = write_jls(tmp_path / "a.jls", one, 1000, None)
    assert set(guess(file, Given()).meter.rails) == {"js"}
    assert set(guess(file, Given(rail="3V3")).meter.rails) == {"3V3"}
    two = {f"{source}.{kind}": (unit, ones) for source in ("a", "b")
           for kind, unit in (("current", "A"), ("voltage", "V"))}  # fmt: skip
    file = write_jls(tmp_path / "b.jls", two, 1000, None)
    with pytest.raises(ConfigurationError, match=r"--rail.*the file has several: a, b"):
        guess(file, Given(rail="3V3"))


@pytest.mark.parametrize("form", ["epoch ns", "timestamp", "timestamp with a zone"])
def test_parquet_means_what_the_same_csv_means(sweep: Bench, tmp_path: Path, form: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    t, found = sweep.readings()
    stamps = np.rint((BEGAN_MS / 1000 + t + 5.0) * 1e9).astype(np.int64)
    kinds = {"timestamp": pa.timestamp("us"), "timestamp with a zone": pa.timestamp("us", "UTC")}
    time = pa.array(stamps) if form == "epoch ns" else pa.array(stamps // 1000, kinds[form])
    columns = {f"{name.replace(' ', '_')}": values for name, values in found.items()}
    file = tmp_path / "psu.parquet"
    pq.write_table(pa.table({"time": time, **columns}), file, row_group_size=100)
    assert all(_imported(file, sweep, tmp_path))
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ConfigurationError, match="Parquet: cannot be read"):
        guess(file, Given())


def test_labctls_own_parquet_says_what_its_values_are(sweep: Bench, tmp_path: Path) -> None:
    from labctl.service.runs.parquet import export

    csv = sweep.write_csv(tmp_path / "psu.csv")
    assert all(_imported(csv, sweep, tmp_path))
    (run,) = (tmp_path / "runs").iterdir()
    export(run, tmp_path / "exported")
    file = tmp_path / "exported" / "psu.12V-amps.parquet"
    meter = guess(file, Given(stated=(12.0, 1.0))).meter
    assert list(meter.rails) == ["12V"] and meter.rails["12V"].amps is not None
    (part,) = mapped_table(file, meter).parts()
    kept = RunRecord(run).readings("psu.12V-amps")
    assert part.t_ns.tolist() == kept["t"].tolist()
    assert next(iter(part.columns.values())).tolist() == kept["v"].tolist()


def test_stripes_without_times_are_refused_with_what_to_record(tmp_path: Path) -> None:
    file = tmp_path / "stripes.csv"
    file.write_text("StripeNum,Trig,5V_V,5V_I,12V_V,12V_I\n" + "0,0,5011,120000,12034,450000\n" * 9)
    with pytest.raises(ConfigurationError, match="stream mode header v3"):
        guess(file, Given())


def test_rows_without_times_or_a_rate_are_refused(sweep: Bench, tmp_path: Path) -> None:
    file = write_as("sigrok without times", sweep.readings(), tmp_path / "dmm.csv", OFF)
    file.write_text(re.sub("; Samplerate.*\n", "", file.read_text()))
    with pytest.raises(ConfigurationError, match="line 5: has no times, and does not say how far"):
        guess(file, Given())


TOTALS = {
    "12V power (W),5V power (W),Total power (W)": ["12V", "5V"],
    "p_12V,p_sum": ["12V"],
    "Total power (W)": ["Total"],
    "V DC,A DC,V DC,A DC": ["drive", "drive-2"],
    "voltage,current,current_max,set voltage": ["drive"],
    "Chan 201 (VDC),Chan 221 (ADC)": ["drive"],
    "5V voltage,12V current": ["5V", "12V"],
}


@pytest.mark.parametrize("headings", TOTALS)
def test_columns_become_rails_but_for_sums_and_what_is_derived(
    tmp_path: Path, headings: str
) -> None:
    file = tmp_path / "table.csv"
    count = headings.count(",") + 1
    rows = [",".join([f"{i}", *["1.5"] * count]) for i in range(9)]
    file.write_text(f"time (s),{headings}\n" + "\n".join(rows) + "\n")
    assert list(guess(file, Given()).meter.rails) == TOTALS[headings]


def test_a_reading_a_row_with_decimal_commas_and_microamps(sweep: Bench, tmp_path: Path) -> None:
    """Fields end at semicolons, and dates, milliseconds and numbers have commas, too."""
    t, found = sweep.readings()
    lines = ["When;Channel;Value"]
    for at, volts, amps in zip(t, found["12V volts"], found["12V amps"], strict=True):
        moment = "14.11.2023 22:13:" + f"{20 + at:06.3f}".replace(".", ",")
        for name, value in (("12V Spannung (V)", volts), ("12V Strom (µA)", amps * 1e6)):
            lines.append(f"{moment};{name};" + f"{value:.3f}".replace(".", ","))
    file = tmp_path / "long.csv"
    file.write_text("\n".join(lines) + "\n", encoding="cp1252")
    meter = guess(file, Given()).meter
    assert (meter.delimiter, meter.decimal, meter.encoding) == (";", ",", "cp1252")
    (rail,) = meter.rails.values()
    parts = list(mapped_table(file, meter).parts())
    seen = {column.unit: part.columns[column] for part in parts for column in part.columns}
    amps = seen["uA"][np.isfinite(seen["uA"])]
    assert rail.volts and amps == pytest.approx(found["12V amps"][: len(amps)], abs=1e-8)


def test_units_as_people_write_them() -> None:
    said = {"VDC": "V", "V DC": "V", "mAdc": "mA", "Volts": "V", "milliamps": "mA", "ma": "mA",
            "µA": "uA", "Watt": "W", "C": "", "Ah": "", "VAC": ""}  # fmt: skip
    assert {one: known_unit(one) for one in said} == said
    times = {"milliseconds": "ms", "Time (Sec)": "s", "t/us": "us", "Time uS": "us", "Time": ""}
    assert {one: time_unit_of(one) for one in times} == times
    for unit, epoch in (("ms", "epoch_ms"), ("us", "epoch_us"), ("ns", "epoch_ns")):
        assert guess_format(["3000000000"], ".", unit) == [unit]
        assert guess_format([f"{1.7e9 / SINCE_START[unit] * 1e9:.0f}"], ".", unit) == [epoch]
    assert guess_format(["1700000000000"], ".", "s") == ["epoch_ms"]
    assert kind_of("current_max") == kind_of("Set voltage (V)") == ""


def test_a_ready_mapping_may_be_named_and_what_was_recognised_is_shown(
    sweep: Bench, tmp_path: Path
) -> None:
    write_as("Joulescope, UTC", sweep.readings(), tmp_path / "js.csv", OFF)
    sweep.write_fio(tmp_path / "fio")
    words = ("import", "js.csv", "--fio", "fio", "--dry-run")
    shown = said(tmp_path, *words)
    assert max(map(len, shown.splitlines())) <= 80
    shown = " ".join(shown.split())
    assert "recognised as joulescope-statistics" in shown and "by line 1: time,current" in shown
    named = said(tmp_path, *words, "--mapping", "joulescope-statistics", "--accuracy-pct", "0.2")
    assert "read as joulescope-statistics" in named and "± 0.2 %" in named
    wrong = said(tmp_path, *words, "--mapping", "joulescoop", code=2)
    assert "none of the ready mappings" in wrong and "joulescope-statistics" in wrong


def test_every_ready_mapping_has_a_source_a_test_and_a_row_in_the_docs() -> None:
    shipped = {
        tomllib.loads(one.read_text())["name"]: one.name
        for one in (files("labctl.importing") / "mappings").iterdir()
    }
    assert all(file == f"{name}.toml" for name, file in shipped.items())
    assert set(shipped) == set(ready_mappings())
    tested = {name for name, _, _ in MAKERS.values()} | {"quarch-stripes"}
    assert tested == set(shipped)
    page = (ROOT / "docs" / "import.md").read_text()
    for name, one in ready_mappings().items():
        assert f"`{name}`" in page, name
        assert one.source.strip(), json.dumps(name)
