"""The state of the drive in a run's header and report, also between versions of labctl."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from labctl.record.drive_state import (
    DriveState,
    HostState,
    LbaFormat,
    PcieLink,
    PowerState,
    SmartLog,
    TemperatureSensor,
)
from labctl.record.header import Header
from labctl.report.data.result_files import summary_json
from labctl.report.pages.report import report_page
from tests.unit.record.test_journal import header
from tests.unit.report_sample import HOSTILE, plan, qd_sweep, record_of, summary_of

FULL = DriveState(
    "/dev/nvme0n1",
    device="/dev/nvme0n1",
    kind="nvme",
    model="A drive",
    serial="S1",
    firmware="FW9",
    namespace=1,
    warning_celsius=84.85,
    power_states=(PowerState(0, 8.25), PowerState(1, 0.005, operational=False)),
    lba_formats=(LbaFormat(512), LbaFormat(4096, 8, True)),
    link=PcieLink(8.0, 2, 8.0, 4),
    temperature_sensors=(TemperatureSensor("composite", "/sys/x", 40.0),),
    in_use=("ext4 mounted on /x",),
    smart=SmartLog("nvme smart-log", 41.0, {"sensor_1": 44.0}, percentage_used=3),
    host=HostState(name="box", cpu_model="Ryzen 7", memory_bytes=1 << 34),
    findings=("the drive is in a slow slot",),
    problems=(HOSTILE,),
)


def test_the_state_survives_the_header() -> None:
    made = replace(header(), drive_state=FULL)
    assert Header.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_a_header_of_before_has_no_state() -> None:
    old = header().to_json()
    del old["drive_state"]
    assert Header.from_json(json.loads(json.dumps(old))).drive_state is None


def test_keys_of_a_later_labctl_are_left_out() -> None:
    made = replace(header(), drive_state=FULL)
    data = made.to_json()
    new = json.loads(json.dumps(data | {"added_later": 1}))
    new["drive_state"]["added"] = new["drive_state"]["smart"]["added"] = 2
    new["channels"][0]["added"] = new["drive"]["added"] = 3
    assert Header.from_json(new) == made


def test_the_report_and_the_summary_show_it(tmp_path: Path) -> None:
    summary = replace(
        summary_of(plan(qd_sweep())),
        drive_state=FULL,
        drive_counters={"thm_temp1_trans_count": (4, 6)},
    )
    page = report_page(record_of(tmp_path, summary), summary, ())
    for words in (
        "FW9",
        "4096 B + 8 B metadata, namespace 1",
        "8 GT/s ×2, could 8 GT/s ×4",
        "warning 84.85 °C",
        "PS0 8.25 W, PS1 0.005 W (sleeps)",
        "41 °C, worn 3 %",
        "times at the first thermal level 4 → 6",
        "slow slot",
        "Ryzen 7",
    ):
        assert words in page, words
    assert HOSTILE not in page  # escaped
    reported = json.loads(summary_json(summary))
    assert reported["drive_state"]["smart"]["composite_celsius"] == 41.0
    assert reported["drive_counters"] == {"thm_temp1_trans_count": [4, 6]}
