"""What a reader must know of a whole run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labctl.analysis.run.summary import summarise
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import RunRecord
from tests.unit import synthetic_run

WHY = "the power limit of /dev/nvme0n1 cannot be read: No such file or directory"


@pytest.mark.parametrize("resumed", [False, True])
def test_settings_that_were_not_put_back_are_said_until_the_run_goes_on(
    tmp_path: Path, resumed: bool
) -> None:
    made = synthetic_run.build(tmp_path, synthetic_run.Bench())
    end_ns = RunRecord(made.path).events[-1].t_ns
    events = [{"t": end_ns, "kind": "not_restored", "reason": WHY}]
    if resumed:
        events.append({"t": end_ns + 1, "kind": "run_resumed", "gap_s": 60.0})
    with (made.path / EVENTS_FILE).open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
    lines = [line for line in summarise(RunRecord(made.path)).problems if WHY in line]
    told = f"settings were not put back at the end of the run: {WHY}; the next run on the rig "
    assert lines == [] if resumed else lines[0].startswith(told)
