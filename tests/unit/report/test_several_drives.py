"""Several drives in one run, in what is written and shown: each by its name, and their sum."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from labctl.analysis.compare.comparison import compare
from labctl.analysis.compare.gate import check_gate, parse_gate
from labctl.analysis.methods.method_results import methods_of
from labctl.analysis.run.drives import run_of_drive
from labctl.analysis.run.summary import summarise
from labctl.cli.results.compare import compare_runs
from labctl.errors import ConfigurationError, JournalError
from labctl.record.header import ChannelInfo
from labctl.report.charts.run_charts import run_charts
from labctl.report.data.query import query
from labctl.report.data.result_files import drives_csv
from labctl.report.data.run_data import open_run
from labctl.report.pages.comparison import comparison_page
from labctl.report.pages.report import report_page
from labctl.report.pages.review import write_review
from labctl.report.text.methods import methods_text
from labctl.report.text.table import table_text
from tests.servers.influx_run import points_of
from tests.unit import synthetic_run
from tests.unit.several_drives import several
from tests.unit.vega_lite import assert_valid


def test_the_table_has_a_line_a_drive_below_each_point(tmp_path: Path) -> None:
    summary = summarise(several(tmp_path).record)
    lines = table_text(summary, 100).splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("QD 2"))
    assert [line.split()[0] for line in lines[at + 1 : at + 3]] == ["left", "right"]
    assert "5.000k" in lines[at] and "1.000k" in lines[at + 1] and "4.000k" in lines[at + 2]


def test_files_and_charts_have_every_drive(tmp_path: Path) -> None:
    run = several(tmp_path)
    summary = summarise(run.record)
    rows = list(csv.DictReader(io.StringIO(drives_csv(summary))))
    assert [(row["index"], row["drive"]) for row in rows] == [
        (str(index), name) for index in range(3) for name in ("left", "right")
    ]
    work = next(row for row in rows if row["index"] == "2" and row["drive"] == "right")
    assert (work["drive_serial"], float(work["iops"])) == ("S-right", 8000.0)
    result = summary.drives["right"].phases[2]
    assert result.watts is not None and float(work["watts"]) == result.watts.value
    charts = {chart.name: chart for chart in run_charts(run.record, summary)}
    assert {"watts", "work", "drives_work", "drives_watts"} <= set(charts)
    for chart in charts.values():
        assert_valid(chart.spec)
    (data,) = charts["drives_work"].spec["datasets"].values()
    assert [(row["x"], row["drive"], row["value"]) for row in data] == [
        (1.0, "left", 1000.0),
        (1.0, "right", 4000.0),
        (2.0, "left", 2000.0),
        (2.0, "right", 8000.0),
    ]
    page = report_page(run.record, summary, [])
    assert "Drive by drive" in page and "S-left" in page and "<h3>Drive right</h3>" in page


def test_a_drive_alone_has_the_temperature_of_its_shunt(tmp_path: Path) -> None:
    """It is no sensor of the drive, and no rail's volts or amps."""
    record = several(tmp_path).record
    rail = replace(record.header.rails[0], shunt_temperature="shunt.celsius")
    warm = ChannelInfo("shunt.celsius", "temperature", "°C")
    record.header = replace(
        record.header,
        rails=(rail, *record.header.rails[1:]),
        channels=(*record.header.channels, warm),
    )
    own = {name: run_of_drive(record, name).header.channels for name in ("left", "right")}
    assert warm in own["left"] and warm not in own["right"]


def test_a_review_has_each_drive_in_the_same_charts_and_then_alone(tmp_path: Path) -> None:
    record = several(tmp_path).record
    summary = summarise(record)
    written = write_review(record, summary, methods_of(record, summary))
    names = {path.name for path in written}
    together = {"watts.pdf", "work.pdf", "drives_work.pdf", "drives_watts.pdf"}
    assert together | {"left-watts.pdf", "left-work.png", "right-work.pdf"} <= names
    assert "left-drives_work.pdf" not in names
    page = written[-1].read_text()
    for name in ("left", "right"):
        assert f'<a href="#drive-{name}">' in page and f'<section id="drive-{name}">' in page
        (spec,) = re.findall(
            rf'<figure data-chart="{name}-work">.*?json">(.*?)</script>', page, re.DOTALL
        )
        shown = {row["y"] for rows in json.loads(spec)["datasets"].values() for row in rows}
        assert {item.iops for item in summary.drives[name].measured} <= shown
    assert "Drive by drive" in page


def test_a_run_in_python_has_its_drives(tmp_path: Path) -> None:
    data = open_run(several(tmp_path).path)
    left = data.drives["left"]
    assert left.table()["iops"][1] == 1000.0
    assert left.drives == {} and "fio.read.iops" in left.channels
    _, iops = left.live_iops(left.phases[1])
    assert set(iops) == {1000.0}
    assert len(left.rail("12V").t_ns)
    with pytest.raises(JournalError, match="no rail"):
        left.rail("3V3")


def test_the_analyses_tell_of_all_drives_and_then_of_each(tmp_path: Path) -> None:
    record = several(tmp_path).record
    found = methods_of(record, summarise(record))
    assert list(found.drives) == ["left", "right"]
    (left,) = found.drives["left"].models
    assert left.rail == "12V", "a drive's model is of its own rail"
    text = methods_text(found)
    assert max(map(len, text.splitlines())) <= 80
    assert text.index("── left ─") < text.index("── right ─")
    assert set(found.to_json()["drives"]) == {"left", "right"}


def test_a_comparison_has_the_sum_and_then_each_drive(tmp_path: Path) -> None:
    runs = [several(tmp_path / name).record for name in "ab"]
    found = compare([(record, summarise(record)) for record in runs])
    points = [row.point for row in found.quantity("iops")]
    assert points[-4:] == [
        f"{drive} · randread 4k QD{depth}" for drive in ("left", "right") for depth in (2, 4)
    ]
    row = next(row for row in found.quantity("iops") if row.point == "right · randread 4k QD4")
    assert [cell.value.value for cell in row.cells if cell.value is not None] == [8000.0, 8000.0]
    limits = parse_gate('[[limits]]\nquantity = "watts"\nworse_pct = 5\npoints = "left ·*"', "g")
    assert {check.point for check in check_gate(found, limits).checks} == {
        point.point for point in found.quantity("watts") if point.point.startswith("left · ")
    }
    page = comparison_page(found, summarise(runs[0]))
    assert "left · randread 4k" in page


def test_drives_of_one_run_can_be_compared_with_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = several(tmp_path / "two").path
    assert compare_runs([path], None, (), False, tmp_path / "page.html", True, False) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(row["run"], row["drive"], row["drive_serial"]) for row in rows} == {
        ("A", "left", "S-left"), ("B", "right", "S-right"),
    }  # fmt: skip
    (change,) = (
        float(row["change"])
        for row in rows
        if (row["run"], row["point"], row["quantity"]) == ("B", "randread 4k QD4", "iops")
    )
    assert change == pytest.approx(3.0)
    alone = synthetic_run.build(tmp_path / "one", synthetic_run.Bench()).path
    one = Path(f"{path}:right")
    assert compare_runs([alone, one], None, (), False, None, False, False) == 0
    said = capsys.readouterr().out
    assert f"B  {path.name}:right" in said
    with pytest.raises(JournalError, match="no drive 'up': its drives are left, right"):
        compare_runs([alone, Path(f"{path}:up")], None, (), False, None, False, False)
    with pytest.raises(ConfigurationError, match="at least two runs"):
        compare_runs([alone], None, (), False, None, False, False)


def test_drives_can_be_asked_by_sql(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="DuckDB is not installed")
    several(tmp_path / "several")
    synthetic_run.build(tmp_path / "one", synthetic_run.Bench())
    sql = 'SELECT drive, iops FROM drives WHERE "index" = 2 ORDER BY drive'
    both = [tmp_path / "several", tmp_path / "one"]
    assert query(sql, both).rows == (("left", 2000.0), ("right", 8000.0))
    assert query("SELECT count(*) FROM drives WHERE drive = 'left'", both[1:]).rows == ((0,),)


def test_each_drive_is_its_own_series_and_their_sum_another(tmp_path: Path) -> None:
    run = several(tmp_path)
    points = points_of(run.path)

    def tags_of(measurement: str) -> set[tuple[str, str]]:
        second = {"power": "rail", "io": "op"}[measurement]
        return {
            (dict(tags)["drive"], dict(tags).get(second, ""))
            for name, tags, _ in points
            if name == measurement
        }

    both = "(S-left + S-right)"
    assert tags_of("power") == {("S-left", "12V"), ("S-right", "3V3")}
    assert tags_of("io") == {(name, "read") for name in (both, "S-left", "S-right")}
    iops = {
        (dict(tags)["drive"], fields.get("qd")): fields.get("iops")
        for (name, tags, _), fields in points.items()
        if name == "phase"
    }
    assert [iops[name, 2] for name in (both, "S-left", "S-right")] == [5000.0, 1000.0, 4000.0]
    parts = {
        (dict(tags)["drive"], dict(tags)["part"]) for name, tags, _ in points if name == "point"
    }
    name = run.path.name
    assert parts == {
        (both, name),
        ("S-left", f"{name} S-left"),
        ("S-right", f"{name} S-right"),
    }
