"""A number is the same to its last digit wherever a run is read: from the API, ``summary.json``,
``phases.csv`` and InfluxDB."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

import labctl
from labctl.analysis.run.summary import summarise
from labctl.record.reader import RunRecord
from labctl.report.data.result_files import phases_csv, summary_json
from labctl.sinks.follow.phase_points import result_point
from labctl.sinks.influxdb.line_protocol import line
from tests.unit.synthetic_run import Bench, Meter, build

ESTIMATES = ("watts", "joules", "iops_per_watt", "bytes_per_joule", "joules_per_io")
LOST = Meter(rate_hz=10.0, lost=((15.0, 15.9), (22.0, 22.3)))


def stored(text: str) -> dict[str, float]:
    """The numbers in a line of line protocol."""
    found = re.findall(r"[ ,](\w+)=(-?[0-9.]+(?:e[+-]?\d+)?)i?(?=[ ,])", text)
    return {name: float(value) for name, value in found}


@pytest.mark.parametrize("bench", [Bench(), Bench(shunt_ohm=0.1, meters={"v12.voltage": LOST})])
def test_a_number_is_the_same_wherever_it_is_read(tmp_path: Path, bench: Bench) -> None:
    path = build(tmp_path, bench).path
    summary = summarise(RunRecord(path))
    api = labctl.open_run(path)
    rows = list(csv.DictReader(io.StringIO(phases_csv(summary))))
    whole = json.loads(summary_json(summary))["phases"]
    compared = 0
    for item, opened, row, kept in zip(summary.phases, api.phases, rows, whole, strict=True):
        text = line(result_point(item, 1, {"run": "r", "drive": "d"}))
        assert text is not None
        fields = stored(text)
        names = {f"watts_{rail}": rail for rail in kept["rails"]} | dict.fromkeys(ESTIMATES)
        for name, rail in names.items():
            found = kept["rails"][rail]["watts"] if rail else kept[name]
            if found is None:
                assert name not in fields and row.get(name, "") == ""
                continue
            for part, column in (("value", name), ("u", f"{name}_u")):
                assert fields[column] == float(row[column]) == found[part]
                compared += 1
            again = f"{name}_repeatability"
            assert fields.get(again) == found["repeatability"]
            assert row[again] == ("" if again not in fields else repr(fields[again]))
            if rail:
                assert api.rail(rail, opened).mean_watts == found["value"]
                assert opened.rails[rail].watts.u == found["u"]
    assert compared > 20
