"""smartctl's JSON of NVMe and SATA drives is understood; what is wrong becomes a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labctl.capture.identity.smartctl import parse_smartctl
from labctl.record.drive_state import LbaFormat

ABOUT = {"version": [7, 3], "exit_status": 0}
NVME: dict[str, Any] = {
    "json_format_version": [1, 0],
    "smartctl": ABOUT,
    "device": {"name": "/dev/nvme0", "type": "nvme", "protocol": "NVMe"},
    "model_name": "CT250P2SSD8",
    "serial_number": "2114E5A",
    "firmware_version": "P2CR033",
    "nvme_total_capacity": 250059350016,
    "nvme_namespaces": [{"id": 1, "formatted_lba_size": 512}],
    "logical_block_size": 512,
    "nvme_composite_temperature_threshold": {"warning": 83, "critical": 85},
    "nvme_power_states": [
        {"non_operational_state": False, "max_power": {"value": 800, "units_per_watt": 100}},
        {"non_operational_state": True, "max_power": {"value": 50, "units_per_watt": 10000}},
    ],
    "smart_status": {"passed": True, "nvme": {"value": 0}},
    "nvme_smart_health_information_log": {
        "critical_warning": 0,
        "temperature": 26,
        "available_spare": 100,
        "percentage_used": 7,
        "host_reads": 38087906,
        "warning_temp_time": 3,
        "critical_comp_time": 0,
        "temperature_sensors": [40, 26],
    },
    "temperature": {"op_limit_max": 83, "critical_limit_max": 85, "current": 26},
    "power_on_time": {"hours": 10147},
    "power_cycle_count": 8,
}
SATA: dict[str, Any] = {
    "json_format_version": [1, 0],
    "smartctl": ABOUT,
    "device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
    "model_name": "Samsung SSD 860 EVO 500GB",
    "serial_number": "S3YZNB0K",
    "firmware_version": "RVT02B6Q",
    "user_capacity": {"blocks": 976773168, "bytes": 500107862016},
    "logical_block_size": 512,
    "physical_block_size": 4096,
    "rotation_rate": 0,
    "smart_status": {"passed": True},
    "ata_smart_attributes": {
        "table": [
            {"id": 9, "raw": {"value": 12345, "string": "12345"}},
            {"id": 12, "raw": {"value": 99, "string": "99"}},
            {"id": 190, "raw": {"value": 31, "string": "31"}},
            {"id": 194, "raw": {"value": 0x002D00160020, "string": "32 (Min/Max 22/45)"}},
        ]
    },
}
SHARED = Path(__file__).parents[5] / "shared" / "data" / "smart"


def test_an_nvme_drive() -> None:
    report = parse_smartctl(json.dumps(NVME))
    assert report is not None and report.smart is not None
    assert (report.model, report.serial) == ("CT250P2SSD8", "2114E5A")
    assert (report.warning_celsius, report.critical_celsius) == (83.0, 85.0)
    assert [state.max_watts for state in report.power_states] == [8.0, 0.005]
    assert [state.operational for state in report.power_states] == [True, False]
    assert report.lba_formats == (LbaFormat(512, 0, True),)
    assert report.smart.composite_celsius == 26.0
    assert report.smart.sensor_celsius == {"sensor_1": 40.0, "sensor_2": 26.0}
    assert (report.smart.power_on_hours, report.smart.power_cycles) == (10147, 8)
    assert report.smart.thermal_counters() == {
        "critical_warning": 0,
        "warning_temp_time": 3,
        "critical_comp_time": 0,
    }
    assert report.problems == ()


def test_a_sata_drive_whose_temperature_is_only_an_attribute() -> None:
    report = parse_smartctl(json.dumps(SATA))
    assert report is not None and report.smart is not None
    assert report.smart.composite_celsius == 32.0
    assert (report.smart.power_on_hours, report.smart.power_cycles) == (None, 99)
    assert report.smart.ata_attributes["9"] == 12345
    assert report.smart.thermal_counters() == {}


def test_attribute_190_where_there_is_no_194() -> None:
    table = [item for item in SATA["ata_smart_attributes"]["table"] if item["id"] != 194]
    report = parse_smartctl(json.dumps(SATA | {"ata_smart_attributes": {"table": table}}))
    assert report is not None and report.smart is not None
    assert report.smart.composite_celsius == 31.0


def test_the_temperature_object_comes_first_and_kelvin_is_noticed() -> None:
    report = parse_smartctl(json.dumps(SATA | {"temperature": {"current": 308}}))
    assert report is not None and report.smart is not None
    assert report.smart.composite_celsius == 35.0


@pytest.mark.parametrize(
    ("message", "reported"),
    [
        ("Smartctl open device: /dev/nvme0 failed: Permission denied", "run labctl as root there"),
        (
            "Read NVMe Identify Controller failed: NVME_IOCTL_ADMIN_CMD: Permission denied",
            "run labctl as root there",
        ),
        ("Smartctl open device: /dev/sdb failed: No such device", "was it pulled?"),
        ("/dev/sdb: Unable to detect device type", "this kind of drive does not answer"),
        ("/dev/sdb: Unknown USB bridge [0x1:0x2]", "Unknown USB bridge"),
    ],
)
def test_a_drive_that_could_not_be_asked_is_a_line_with_what_to_do(
    message: str, reported: str
) -> None:
    printed = {"exit_status": 2, "messages": [{"string": message, "severity": "error"}]}
    report = parse_smartctl(json.dumps({"json_format_version": [1, 0], "smartctl": printed}))
    assert report is not None
    assert report.smart is None
    (line,) = report.problems
    assert reported in line


def test_exit_bits_about_health_do_not_hide_the_values() -> None:
    logged = NVME | {"smartctl": {**ABOUT, "exit_status": 0b1000000}}
    report = parse_smartctl(json.dumps(logged))
    assert report is not None and report.smart is not None
    assert report.problems == ()
    failing = logged | {"smart_status": {"passed": False}}
    report = parse_smartctl(json.dumps(failing))
    assert report is not None and report.smart is not None
    assert report.problems == ("SMART says that the drive is failing",)


def test_a_newer_format_is_reported_and_read_as_far_as_it_goes() -> None:
    report = parse_smartctl(json.dumps(NVME | {"json_format_version": [2, 0]}))
    assert report is not None and report.smart is not None
    assert "format 2" in report.problems[0]


def test_what_is_not_smartctls_is_none() -> None:
    for output in ("", "{}", "[1]", "smartctl 6.6 knows no -j", '{"critical_warning": 0}'):
        assert parse_smartctl(output) is None


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["table", "id", "raw", "value", "current"]), inner)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine
@given(st.dictionaries(st.sampled_from([*NVME, *SATA]), _values), st.booleans())
def test_no_json_makes_the_parser_raise(data: dict[str, Any], whole: bool) -> None:
    parse_smartctl(json.dumps({**(NVME if whole else {}), "smartctl": {}, **data}))


def test_recorded_reports_are_understood() -> None:
    files = sorted(SHARED.glob("nvme-null-*.json"))
    if not files:
        pytest.skip("the shared recordings are not here")
    for file in files:
        report = parse_smartctl(file.read_text())
        assert report is not None and report.smart is not None
        assert report.model and report.size_bytes == 250059350016
        assert report.smart.composite_celsius in (26.0, 35.0)
        assert report.smart.critical_warning == 0
