"""What a reader must know of a whole run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labctl.analysis.run.summary import summarise
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import RunRecord
from tests.unit import synthetic_run
from tests.unit.several_drives import several

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


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, None),
        (7.5, "the drive had a power limit of 7.5 W in 2 phases (the first: randread 4k QD2), "
              "which the plan did not set"),
        ("seven", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("drive", ["", "left"])
def test_a_power_limit_that_the_plan_did_not_set_is_said(
    tmp_path: Path, found: object, told: str | None, drive: str
) -> None:
    made = several(tmp_path)
    whose = {"drive": drive} if drive else {}
    settings = [
        {"t": 1, "kind": "settings_found", "index": index, "power_limit_watts": found, **whose}
        for index in (1, 2, 99)
    ]
    with (made.path / EVENTS_FILE).open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in settings)
    record = RunRecord(made.path)
    if not drive:
        record.header = replace(record.header, drives={})
    lines = [line for line in summarise(record).problems if "power limit" in line]
    begin = "left: " if drive else ""
    assert lines == [] if told is None else lines[0].startswith(begin + told), lines


@pytest.mark.parametrize(("found", "told"), [(15.0, False), (14.0, True), (None, True)])
def test_a_power_limit_that_somebody_else_has_changed_is_said(
    tmp_path: Path, found: float | None, told: bool
) -> None:
    made = synthetic_run.build(tmp_path, synthetic_run.Bench())
    record = RunRecord(made.path)
    limited = replace(record.header.phases[0], power_limit_watts=15.0)
    event = {"t": 1, "kind": "settings_found", "index": 0, "power_limit_watts": found}
    with (made.path / EVENTS_FILE).open("a") as file:
        file.write(json.dumps(event) + "\n")
    record = RunRecord(made.path)
    record.header = replace(record.header, phases=(limited, *record.header.phases[1:]))
    lines = [
        line
        for line in summarise(record).problems
        if "had a power limit" in line or "had no power limit" in line
    ]
    assert bool(lines) is told
    assert not told or ("a power limit of 14 W" if found else "no power limit") in lines[0]
