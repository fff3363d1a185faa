"""Raw NVMe structures are understood as declared elsewhere, and no bytes are an exception."""

from __future__ import annotations

import struct
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruments.simulated.drive.nvme_structures import PowerStateDescriptor
from labctl.capture.identity.nvme_pages import (
    parse_id_ctrl,
    parse_id_ns,
    parse_power_threshold,
    parse_sanitize_log,
    parse_smart_log,
    power,
    with_extended_smart,
)
from labctl.record.drive_state import LbaFormat, SmartLog
from tests.unit.capture.identity.nvme_made import controller_page, namespace_page, smart_page

PARSERS = (parse_smart_log, parse_id_ctrl, parse_id_ns)


def test_a_smart_log_is_read_in_celsius_with_its_counters() -> None:
    log = parse_smart_log(smart_page())
    assert log is not None
    assert log.composite_celsius == 45.0
    assert log.sensor_celsius == {"sensor_1": 45.0, "sensor_3": 57.0}
    assert (log.available_spare, log.percentage_used) == (100, 3)
    assert (log.data_units_read, log.data_units_written) == (14051417, 47217872)
    assert (log.host_read_commands, log.host_write_commands) == (122591395, 96126428)
    assert (log.controller_busy_time, log.power_cycles, log.power_on_hours) == (2328, 77, 1244)
    assert (log.unsafe_shutdowns, log.media_errors, log.num_err_log_entries) == (52, 0, 1)
    assert (log.interval_watts, log.lifetime_energy) == (None, None)
    assert log.thermal_counters() == {
        "critical_warning": 0,
        "warning_temp_time": 7,
        "critical_comp_time": 2,
        "thm_temp1_trans_count": 4,
        "thm_temp2_trans_count": 1,
        "thm_temp1_total_time": 63,
        "thm_temp2_total_time": 9,
    }


@pytest.mark.parametrize(
    ("changed", "field", "value"),
    [
        ({"data_units_read": 2**60 + 1}, "data_units_read", 2**60 + 1),
        ({"data_units_read": 2**128 - 1}, "data_units_read", None),
        ({"critical_warning": 0b1010}, "critical_warning", 0b1010),
        ({"critical_warning": 0xFF}, "critical_warning", None),
        ({"available_spare": 101}, "available_spare", None),
        ({"percentage_used": 255}, "percentage_used", 255),
        ({"composite_kelvin": 0}, "composite_celsius", None),
        ({"composite_kelvin": 0xFFFF}, "composite_celsius", None),
        ({"composite_kelvin": 250}, "composite_celsius", -23.0),
        ({"sensor_kelvin": [0] * 7 + [301]}, "sensor_celsius", {"sensor_8": 28.0}),
        ({"thermal_transitions": [0xFFFFFFFF, 3]}, "thm_temp1_trans_count", None),
        ({"interval_power": 2 << 16 | 456, "lifetime_energy": 77}, "lifetime_energy", 77),
        ({"interval_power": 2 << 16 | 456}, "interval_watts", pytest.approx(4.56)),
    ],
)
def test_a_value_that_cannot_be_is_none(changed: dict[str, Any], field: str, value: object) -> None:
    log = parse_smart_log(smart_page(**changed))
    assert log is not None
    assert getattr(log, field) == value


@pytest.mark.parametrize("page", [b"", bytes(512), smart_page()[:511], b"\xff" * 512])
def test_no_log_is_none_and_no_exception(page: bytes) -> None:
    assert [parse(page) for parse in PARSERS] == [None, None, None]


EXTENDED = {
    "media_bytes_written": 3 << 50,
    "media_bytes_read": 123_456_789_012,
    "thermal_throttling_events": 7,
    "thermal_throttling_level": 2,
    "power_state_changes": 41,
    "power_loss_events": 5,
    "incomplete_shutdowns": 1,
    "hottest_celsius": 83.0,
}


def extended_page(version: int = 5, level: int = 2, guid: int = 0xC5) -> bytes:
    """Log page C0h of OCP, by the bytes that the specification names."""
    page = bytearray(512)
    struct.pack_into("<QQ", page, 0, 3 << 50, 0)
    struct.pack_into("<QQ", page, 16, 123_456_789_012, 0)
    struct.pack_into("<BB", page, 96, 7, level)
    struct.pack_into("<I", page, 112, 1)
    struct.pack_into("<QQ", page, 160, 5, 0)
    struct.pack_into("<Q", page, 200, 41)
    struct.pack_into("<B", page, 222, 83)
    struct.pack_into("<H", page, 494, version)
    words = "AF 10 28 EA BF F2 A4 9C 4F 6F 7C C9 14 D5 AF"
    struct.pack_into("16s", page, 496, bytes([guid]) + bytes.fromhex(words))
    return bytes(page)


def said_by(page: bytes) -> dict[str, Any]:
    read = asdict(with_extended_smart(SmartLog(), page))
    return {name: value for name, value in read.items() if value != getattr(SmartLog(), name)}


def test_the_extended_smart_log_of_ocp_is_added_to_what_smart_says() -> None:
    assert said_by(extended_page()) == EXTENDED
    log = parse_smart_log(smart_page())
    assert log is not None
    both = with_extended_smart(log, extended_page())
    assert both.composite_celsius == 45.0
    assert both.thermal_counters() == log.thermal_counters() | {
        "thermal_throttling_events": 7,
        "thermal_throttling_level": 2,
    }


def test_of_an_older_page_only_the_fields_that_it_has_are_read() -> None:
    assert "hottest_celsius" not in said_by(extended_page(version=4))
    first = said_by(extended_page(version=1))
    assert EXTENDED.keys() - first.keys() == {"power_state_changes", "hottest_celsius"}


@pytest.mark.parametrize("page", [b"", extended_page()[:511], extended_page(guid=0xC6), bytes(512)])
def test_a_page_of_a_vendor_under_the_same_number_says_nothing(page: bytes) -> None:
    assert said_by(page) == {}


def test_a_throttling_status_that_is_not_defined_is_not_known() -> None:
    assert "thermal_throttling_level" not in said_by(extended_page(level=4))
    assert said_by(extended_page(level=0))["thermal_throttling_level"] == 0


def test_the_drives_own_power_is_decoded_with_its_scale() -> None:
    assert power(2 << 16 | 456) == pytest.approx(4.56)
    assert power(1 << 16 | 45600) == pytest.approx(4.56)
    assert power(1 << 20 | 2 << 16 | 712) == pytest.approx(7.12)  # with its type
    assert power(0) is None
    assert power(456) is None  # scale "not reported"
    assert power(3 << 16 | 456) is None  # reserved
    assert power(2 << 16) is None  # nothing measured yet: no drive answers at 0 W
    assert power(0xFFFFFFFF) is None and power(2 << 16 | 0xFFFF) is None


@pytest.mark.parametrize(
    ("field", "watts", "is_enabled", "of", "words"),
    [
        (0, None, False, 0, "none"),
        (1 << 31 | 2 << 16 | 2500, 25.0, True, 0, "25 W"),
        (1 << 16 | 45600, 4.56, False, 0, "4.56 W, not enabled"),
        (1 << 31 | 0xC << 20 | 2 << 16 | 900, 9.0, True, 12, "9 W"),
    ],
)
def test_a_power_threshold_has_watts_a_type_and_a_switch(
    field: int, watts: float | None, is_enabled: bool, of: int, words: str
) -> None:
    found = parse_power_threshold(field)
    assert found.watts == (None if watts is None else pytest.approx(watts))
    assert (found.is_enabled, found.measurement_type, str(found)) == (is_enabled, of, words)


def test_identify_controller_gives_limits_and_power_states() -> None:
    found = parse_id_ctrl(controller_page())
    assert found is not None
    assert found.model == "Samsung SSD 970 EVO Plus 1TB"
    assert (found.serial, found.firmware) == ("S4EWNX0R123456", "2B2QEXM7")
    assert (found.warning_celsius, found.critical_celsius) == (85.0, None)
    assert (found.min_thermal_celsius, found.max_thermal_celsius) == (83.0, 85.0)
    assert (found.host_thermal_management, found.capacity_bytes) == (True, 1000204886016)
    assert (found.has_power_limit, found.has_power_measurement) == (False, False)
    operating, sleeping = found.power_states
    assert (operating.max_watts, operating.operational) == (pytest.approx(7.8), True)
    assert (sleeping.max_watts, sleeping.operational) == (pytest.approx(0.005), False)
    assert (sleeping.idle_watts, sleeping.active_watts) == (pytest.approx(5.06), None)
    assert (operating.entry_us, operating.exit_us) == (None, None)  # 0: not reported


def test_all_32_power_states_and_what_each_reports() -> None:
    states = (PowerStateDescriptor * 32)()
    states[31] = PowerStateDescriptor(
        maximum_power=9, entry_latency=1500, exit_latency=70000,
        active_power=1234, active_power_workload_and_scale=2 << 6 | 1,
    )  # fmt: skip
    attributes = 1 << 20 | 1 << 21
    page = controller_page(
        power_states=states,
        power_states_minus_one=31,
        controller_attributes=attributes,
        longest_measurement_minutes=90,
    )
    found = parse_id_ctrl(page)
    assert found is not None and len(found.power_states) == 32
    last = found.power_states[31]
    assert (last.max_watts, last.entry_us, last.exit_us) == (pytest.approx(0.09), 1500, 70000)
    assert (last.idle_watts, last.active_watts) == (None, pytest.approx(12.34))
    assert found.power_states[5].max_watts is None
    assert (found.has_power_limit, found.has_power_measurement) == (True, True)
    assert found.longest_measurement_minutes == 90


def test_the_lba_format_in_use_is_found() -> None:
    space = parse_id_ns(namespace_page((9, 0), (12, 8), (0, 0), formatted_as=1))
    assert space is not None
    assert space.lba_formats == (LbaFormat(512, 0, False), LbaFormat(4096, 8, True))
    space = parse_id_ns(namespace_page(*[(9, 0)] * 16, (12, 0), formatted_as=0b0100000))
    assert space is not None and space.lba_formats[16].in_use
    assert parse_id_ns(namespace_page(deallocate_features=9)).deallocate_features == 9  # type: ignore[union-attr]


def test_a_sanitize_log_is_progress_and_status() -> None:
    assert parse_sanitize_log(bytes([0xA0, 0x0F, 0x02, 0x01]) + bytes(508)) == (4000, 2)
    assert parse_sanitize_log(b"\xff\xff\x01") is None


@given(st.binary(max_size=600) | st.binary(min_size=4096, max_size=4100))
def test_no_bytes_make_a_parser_raise(page: bytes) -> None:
    for parse in PARSERS:
        parse(page)
    with_extended_smart(SmartLog(), page)
