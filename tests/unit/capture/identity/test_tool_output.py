"""Shapes that the tools' output has in the field, by tool and version; every serial is invented.

What a person reads in each is what labctl reads, and what no drive can be is not a value.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from labctl.capture.host.machine import Completed
from labctl.capture.identity.nvme_pages import parse_id_ctrl, parse_id_ns, parse_smart_log
from labctl.capture.identity.smartctl import SmartctlReport, parse_smartctl
from labctl.capture.identity.sysfs import parse_sensors
from labctl.capture.identity.tool_output import failure
from labctl.record.drive_state import SmartLog
from tests.unit.capture.identity.nvme_made import controller_page, namespace_page, smart_page


def smartctl(version: tuple[int, int], protocol: str, status: int = 0, **data: Any) -> str:
    """A report as that version prints it."""
    about = {"version": list(version), "exit_status": status}
    kind = {"ATA": "sat", "SCSI": "scsi", "NVMe": "nvme"}[protocol]
    device = {"name": "/dev/x", "info_name": "/dev/x", "type": kind, "protocol": protocol}
    return json.dumps({"json_format_version": [1, 0], "smartctl": about, "device": device, **data})


def read(output: str) -> tuple[SmartctlReport, SmartLog]:
    report = parse_smartctl(output)
    assert report is not None and report.smart is not None
    return report, report.smart


HEALTH: dict[str, Any] = {
    "critical_warning": 0,
    "temperature": 40,
    "available_spare": 100,
    "percentage_used": 5,
    "data_units_written": 2824080560,
    "power_on_hours": 482,
}


def test_a_sas_drive_of_7_4_goes_by_the_names_of_scsi() -> None:
    report, smart = read(
        smartctl(
            (7, 4),
            "SCSI",
            scsi_vendor="TOSHIBA",
            scsi_product="PX05SMB080Y",
            scsi_model_name="TOSHIBA PX05SMB080Y",
            scsi_revision="AS0A",
            serial_number="LAB0SAS00001",
            user_capacity={"blocks": 1562824368, "bytes": 800166076416},
            logical_block_size=512,
            physical_block_size=4096,
            rotation_rate=0,
            smart_status={"passed": True},
            temperature={"current": 32, "drive_trip": 65},
            scsi_percentage_used_endurance_indicator=3,
            power_on_time={"hours": 12437, "minutes": 29},
        )
    )
    assert (report.model, report.firmware) == ("TOSHIBA PX05SMB080Y", "AS0A")
    assert report.size_bytes == 800166076416
    assert (report.warning_celsius, report.critical_celsius) == (None, 65.0)
    assert (smart.composite_celsius, smart.power_on_hours, smart.percentage_used) == (32, 12437, 3)


def test_a_sas_drive_that_has_its_temperature_in_the_environmental_page() -> None:
    page = {"temperature_1": {"parameter_code": 0, "current": 38, "lifetime_maximum": 42}}
    output = smartctl(
        (7, 4),
        "SCSI",
        vendor="WDC",
        model_name="WDC WUSTR6480BSS200",
        revision="C232",
        smart_status={"passed": True},
        temperature={"current": 0, "drive_trip": 0},
        scsi_environmental_reports=page,
    )
    report, smart = read(output)
    assert (smart.composite_celsius, report.critical_celsius, report.firmware) == (38, None, "C232")


def test_7_5_tells_wear_and_spare_of_a_sata_drive_alike() -> None:
    _, smart = read(
        smartctl(
            (7, 5),
            "ATA",
            temperature={"current": 47, "op_limit_max": 70, "limit_max": 85},
            spare_available={"current_percent": 98, "threshold_percent": 10},
            endurance_used={"current_percent": 4},
        )
    )
    assert (smart.available_spare, smart.percentage_used) == (98, 4)


@pytest.mark.parametrize(("valid", "percent"), [(True, 4), (False, None)])
def test_before_7_4_wear_of_a_sata_drive_is_in_its_statistics(
    valid: bool, percent: int | None
) -> None:
    name = "Percentage Used Endurance Indicator"
    entry = {"offset": 8, "name": name, "size": 1, "value": 4, "flags": {"valid": valid}}
    other = {"offset": 8, "name": "Current Temperature", "size": 1, "value": -93}
    pages = [{"number": 5, "table": [other]}, {"number": 7, "table": [entry]}]
    output = smartctl(
        (7, 2), "ATA", smart_status={"passed": True}, ata_device_statistics={"pages": pages}
    )
    _, smart = read(output)
    assert (smart.percentage_used, smart.composite_celsius) == (percent, None)


def test_hosts_control_of_heat_has_other_names_after_7_5() -> None:
    log = HEALTH | {
        "thermal_mgmt_temperature_1_transition_count": 4,
        "thermal_mgmt_temperature_1_total_time": 63,
        "thermal_mgmt_temperature_2_transition_count": 1,
        "thermal_mgmt_temperature_2_total_time": 9,
        "warning_temp_time": 0xFFFFFFFF,  # as a drive that does not count
    }
    _, smart = read(smartctl((8, 0), "NVMe", nvme_smart_health_information_log=log))
    assert smart.thermal_counters() == {
        "critical_warning": 0,
        "thm_temp1_trans_count": 4,
        "thm_temp2_trans_count": 1,
        "thm_temp1_total_time": 63,
        "thm_temp2_total_time": 9,
    }


def test_a_sensor_that_is_not_there_keeps_the_place_of_the_next() -> None:
    log = HEALTH | {"temperature_sensors": [None, 43, 65262, 255]}
    _, smart = read(smartctl((7, 4), "NVMe", nvme_smart_health_information_log=log))
    assert smart.sensor_celsius == {"sensor_2": 43.0}


def test_a_drive_that_is_merely_hot_is_not_failing() -> None:
    state = {"passed": False, "nvme": {"value": 2, "temperature_above_or_below_threshold": True}}
    for warning, passed in ((2, None), (6, False)):
        report, smart = read(
            smartctl(
                (7, 4),
                "NVMe",
                status=0b1000,
                smart_status=state,
                nvme_smart_health_information_log=HEALTH | {"critical_warning": warning},
            )
        )
        assert (smart.critical_warning, smart.passed) == (warning, passed)
        assert bool(report.problems) is (passed is False)


def test_a_log_that_cannot_be_read_is_a_line_that_says_so() -> None:
    printed = "Read NVMe SMART/Health Information failed: NVME_IOCTL_ADMIN_CMD: Input/output error"
    output = json.loads(smartctl((7, 3), "NVMe", status=4, model_name="LAB 1"))
    output["smartctl"]["messages"] = [{"string": printed, "severity": "error"}]
    report = parse_smartctl(json.dumps(output))
    assert report is not None and report.smart is None
    (line,) = report.problems
    assert "dmesg" in line


def test_smart_that_is_switched_off_is_a_line_with_how_to_switch_it_on() -> None:
    support = {"available": True, "enabled": False}
    report = parse_smartctl(smartctl((7, 4), "ATA", status=4, smart_support=support))
    assert report is not None and report.smart is None
    (line,) = report.problems
    assert "smartctl -s on" in line


@pytest.mark.parametrize(
    ("number", "value", "string", "celsius"),
    [
        (194, 167504969753, "25 (Min/Max 19/39)", 25.0),
        (194, 325, "32.5", 32.5),
        (194, 0x002D00160020, "0x002d00160020", 32.0),
        (190, 0x2D16001F, "31 (Min/Max 22/45)", 31.0),
        (194, 0, "0", None),
        (194, 255, "255", None),
        (194, 0xFFFFFFFFFFFF, "281474976710655", None),
    ],
)
def test_a_packed_temperature_of_a_sata_drive(
    number: int, value: int, string: str, celsius: float | None
) -> None:
    item = {"id": number, "raw": {"value": value, "string": string}}
    output = smartctl((7, 1), "ATA", ata_smart_attributes={"revision": 16, "table": [item]})
    assert read(output)[1].composite_celsius == celsius


LOG: dict[str, Any] = {
    "critical_warning": 0,
    "temperature": 318,
    "avail_spare": 100,
    "percent_used": 3,
    "warning_temp_time": 0,
    "thm_temp1_trans_count": 0,
}


@pytest.mark.parametrize(
    ("reported", "celsius"),
    [(65535, None), (0, None), (199, None), (1000, None), (318, 45.0), (253, -20.0)],
)
def test_what_no_drive_can_be_at_is_no_temperature(reported: int, celsius: float | None) -> None:
    sensors = [reported, *[0] * 7]
    log = parse_smart_log(smart_page(composite_kelvin=reported, sensor_kelvin=sensors))
    assert log is not None
    assert log.composite_celsius == celsius
    assert log.sensor_celsius == ({} if celsius is None else {"sensor_1": celsius})
    controller = parse_id_ctrl(controller_page(warning_kelvin=reported, critical_kelvin=reported))
    assert controller is not None
    assert (controller.warning_celsius, controller.critical_celsius) == (celsius, celsius)


@pytest.mark.parametrize(
    ("reported", "celsius"),
    [(255, None), (-273, None), (65262, None), (308, 35.0), (-10, -10.0), ("41", 41.0), (0, 0.0)],
)
def test_nor_is_it_in_a_field_in_celsius(reported: object, celsius: float | None) -> None:
    output = smartctl(
        (7, 3),
        "NVMe",
        temperature={"current": reported},
        nvme_smart_health_information_log={"critical_warning": 0},
    )
    assert read(output)[1].composite_celsius == celsius


def test_the_upper_bits_of_the_format_count_only_where_there_are_so_many() -> None:
    space = parse_id_ns(namespace_page((9, 0), (12, 0), formatted_as=0b0100001))
    assert space is not None
    assert [item.in_use for item in space.lba_formats] == [False, True]


def test_limits_that_the_kernel_shows_of_a_sensor_without_any_are_not_known() -> None:
    """The nvme driver: 65535 K where no threshold is set, 0 K where the drive tells none."""
    (sensor,) = parse_sensors(
        {
            "/h/temp2_input": "47850\n",
            "/h/temp2_label": "Sensor 1\n",
            "/h/temp2_max": "65261850\n",
            "/h/temp2_crit": "-273150\n",
        }
    )
    assert (sensor.celsius, sensor.max_celsius, sensor.critical_celsius) == (47.85, None, None)
    (cold,) = parse_sensors({"/h/temp1_input": "-273150\n"})
    assert cold.celsius is None


@pytest.mark.parametrize(
    ("stderr", "reported"),
    [
        ("/dev/nvme9n1: No such file or directory\n\x1b[1mUsage: nvme", "was it pulled?"),
        ("smart log: Input/output error", "See dmesg"),
        ("NVMe status: Command Aborted By Host: The command was(0x371)", "See dmesg"),
        ("identify controller: Interrupted system call", "ended with 1: identify controller"),
        ("opening: Operation not permitted", "run labctl as root there"),
        ("/x is not a block or character device\n\x1b[1mUsage: nvme", "character device"),
    ],
)
def test_what_nvme_cli_says_of_a_drive_becomes_what_to_do(stderr: str, reported: str) -> None:
    line = failure("nvme", "nvme-cli", Completed(1, "", stderr), "SMART")
    assert reported in line
    assert "\x1b" not in line and "Usage" not in line
