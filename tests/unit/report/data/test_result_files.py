"""phases.csv and summary.json: every digit, stable names, nothing instead of zero."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from labctl.analysis.estimate import Estimate
from labctl.analysis.run_summary import RunSummary
from labctl.config.sweeps import Sweep
from labctl.report.data.result_files import phases_csv, summary_json
from tests.unit.report_sample import plan, qd_sweep, summary_of, throttled

DOCS = Path(__file__).parents[4] / "docs" / "report.md"


def rows(summary: RunSummary) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(phases_csv(summary))))


def test_a_row_a_phase_with_every_digit() -> None:
    summary = summary_of(plan(qd_sweep()))
    found = rows(summary)
    assert len(found) == len(summary.phases)
    for row, result in zip(found, summary.phases, strict=True):
        assert row["label"] == result.phase.label
        assert result.watts is not None
        assert float(row["watts"]) == result.watts.value
        assert float(row["watts_u"]) == result.watts.u
        assert float(row["watts_12V"]) == result.rails["12V"].watts.value
        assert float(row["joules_3.3V_u"]) == result.rails["3.3V"].joules.u
        assert float(row["celsius_max"]) == result.temperatures["drive"].max
        assert float(row["celsius_start_drive"]) == result.temperatures["drive"].start
        assert float(row["celsius_end_drive"]) == result.temperatures["drive"].end
        assert float(row["watts_std_12V"]) == result.rails["12V"].watts_series.std
    assert float(found[1]["iops"]) == summary.phases[1].iops


def test_what_was_not_measured_is_empty_never_zero() -> None:
    idle, measured = rows(summary_of(plan(qd_sweep()), rails=()))[:2]
    for name in ("watts", "watts_u", "joules", "iops_per_watt", "alignment_ms", "write_iops"):
        assert measured[name] == "", name
    for name in ("iops", "latency_p99_us", "queue_depth", "read_pct", "block_size_bytes"):
        assert idle[name] == "", name


def test_a_number_that_is_none_is_empty() -> None:
    summary = summary_of(plan(qd_sweep()))
    broken = replace(summary.phases[1], watts=Estimate(4.0, float("inf")), iops=np.float64("nan"))
    row = rows(replace(summary, phases=(broken,)))[0]
    assert (row["watts"], row["watts_u"], row["iops"]) == ("4.0", "", "")


def test_latency_of_a_mixed_phase_is_over_both_directions() -> None:
    sweep = Sweep(pattern=["randrw"], read_pct=[75], duration_s=10)
    summary = summary_of(plan(sweep))
    row, result = rows(summary)[1], summary.measured[0]
    assert result.read is not None and result.write is not None
    mean = (
        result.read.latency_mean_us * result.read.total_ios
        + result.write.latency_mean_us * result.write.total_ios
    ) / (result.read.total_ios + result.write.total_ios)
    assert float(row["latency_mean_us"]) == mean
    slower = max(
        result.read.latency_percentiles_us["99"], result.write.latency_percentiles_us["99"]
    )
    assert float(row["latency_p99_us"]) == slower
    assert float(row["read_latency_p99_us"]) == result.read.latency_percentiles_us["99"]


def test_throttling_stands_in_its_row() -> None:
    found = rows(throttled(summary_of(plan(qd_sweep())), 5))
    slowed = next(row for row in found if row["slowed_by"])
    assert (slowed["queue_depth"], slowed["throttled_s"]) == ("32", "10.0")
    assert slowed["slowed_by"] == "thermal throttling"
    assert (slowed["throttling"], slowed["throttling_why"]) == ("throttled", "thermal: IOPS −38 %")
    assert (slowed["watts_unthrottled"], slowed["watts_unthrottled_u"]) == ("10.1", "0.03")
    assert (slowed["iops_unthrottled"], slowed["unthrottled_s"]) == ("400000.0", "9.0")


def test_every_column_is_in_the_docs_and_no_other() -> None:
    summary = summary_of(plan(qd_sweep()))
    header = phases_csv(summary).splitlines()[0].split(",")
    real = [re.sub(r"_(12V|3\.3V)(?=_u$|_repeatability$|$)", "_<rail>", name) for name in header]
    real = [re.sub(r"^(celsius_\w+)_drive$", r"\1_<sensor>", name) for name in real]
    section = DOCS.read_text(encoding="utf-8").partition("## The columns of phases.csv")[2]
    documented = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert list(dict.fromkeys(real)) == documented


def test_the_summary_is_json_that_anything_can_read() -> None:
    summary = throttled(summary_of(plan(qd_sweep())), 5)
    text = summary_json(replace(summary, idle_watts=Estimate(4.0, float("nan"))))
    data = json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert data["idle_watts"] == {"value": 4.0, "u": None, "repeatability": None}
    assert data["phases"][1]["rails"]["12V"]["budget"][0]["name"] == "scatter"
    assert data["throttling"][0]["cause"] == "thermal"


def test_a_run_without_phases_gives_an_empty_table() -> None:
    assert rows(replace(summary_of(plan(qd_sweep())), phases=())) == []
