"""A phase that was done again says why."""

from __future__ import annotations

import json
from pathlib import Path

from labctl.analysis.run.summary import summarise
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import RunRecord
from tests.servers.influx_run import MadeRun


def test_a_phase_that_was_done_again_says_why_the_first_time_did_not_count(tmp_path: Path) -> None:
    path = MadeRun(tmp_path).whole().path
    assert not any("was done" in line for line in summarise(RunRecord(path)).problems)
    lines = (path / EVENTS_FILE).read_text().splitlines()
    number = next(n for n, line in enumerate(lines) if "phase_ended" in line)
    event = json.loads(lines[number])
    data = event.get("data", event)
    data |= {"outcome": "failed", "reason": "fio could not read"}
    lines.insert(number, json.dumps(event))
    (path / EVENTS_FILE).write_text("\n".join(lines) + "\n")
    label = RunRecord(path).header.phases[data["index"]].label
    said = f"phase {data['index'] + 1} ({label}) was done 2 times: at first fio could not read"
    assert said in summarise(RunRecord(path)).problems
