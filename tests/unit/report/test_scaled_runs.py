"""A run of a plan that was scaled down says so wherever it is shown first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labctl.analysis.compare.comparison import compare
from labctl.analysis.run.summary import summarise
from labctl.record.events import Event, EventKind
from labctl.record.layout import HEADER_FILE
from labctl.record.reader import RunRecord
from labctl.report.data.result_files import phase_rows
from labctl.report.pages.report import report_page
from labctl.report.text.comparison import comparison_text
from labctl.report.text.table import table_text
from labctl.sinks.follow.event_points import event_point
from labctl.sinks.mqtt.messages import RigMessages
from tests.servers.influx_run import MadeRun


def made(root: Path, plan_text: str) -> RunRecord:
    run = MadeRun(root).whole()
    file = run.path / HEADER_FILE
    data = json.loads(file.read_text())
    file.write_text(json.dumps(data | {"plan_text": plan_text}))
    return RunRecord(run.path)


def test_the_scale_stands_on_the_first_line_everywhere(tmp_path: Path) -> None:
    record = made(tmp_path, 'scale = 0.02\nname = "demo"\n')
    summary = summarise(record)
    title = f"{record.header.plan_name} at scale 0.02"
    assert table_text(summary).splitlines()[0].startswith(f"{title} on bench")
    assert f"<h1>{title} on bench</h1>" in report_page(record, summary, ())
    found = compare([(record, summary), (record, summary)])
    assert "at scale 0.02" in comparison_text(found).splitlines()[0]
    assert summary.to_json()["scale"] == 0.02 and summary.to_json()["plan_name"] == title
    assert {row["scale"] for row in phase_rows(summary)} == {0.02}
    started = Event(1, EventKind.RUN_STARTED, {"scale": 0.02})
    assert event_point(started, {}, {}).fields["text"] == "at scale 0.02 of the plan"
    message = RigMessages.of_run("labctl", record.header).state(1, "running", None, None)
    assert title in str(message)


@pytest.mark.parametrize("text", ["", 'scale = 1\nname = "demo"\n', "scale = [", 'scale = "x"'])
def test_another_run_says_nothing_of_it(tmp_path: Path, text: str) -> None:
    record = made(tmp_path, text)
    summary = summarise(record)
    assert summary.scale == 1.0 and summary.plan_name == record.header.plan_name
    assert "scale" not in table_text(summary)
