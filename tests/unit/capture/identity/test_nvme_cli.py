"""What nvme-cli printed over its versions is understood, and nothing it prints is an exception."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labctl.capture.identity.nvme_cli import (
    interval_watts,
    parse_id_ctrl,
    parse_id_ns,
    parse_smart_log,
)
from labctl.record.drive_state import LbaFormat

SMART: dict[str, Any] = {
    "critical_warning": 0,
    "temperature": 318,
    "avail_spare": 100,
    "spare_thresh": 10,
    "percent_used": 3,
    "data_units_read": 14051417,
    "data_units_written": 47217872,
    "host_read_commands": 122591395,
    "host_write_commands": 96126428,
    "controller_busy_time": 2328,
    "power_cycles": 77,
    "power_on_hours": 1244,
    "unsafe_shutdowns": 52,
    "media_errors": 0,
    "num_err_log_entries": 1,
    "warning_temp_time": 7,
    "critical_comp_time": 2,
    "temperature_sensor_1": 318,
    "temperature_sensor_3": 330,
    "thm_temp1_trans_count": 4,
    "thm_temp2_trans_count": 1,
    "thm_temp1_total_time": 63,
    "thm_temp2_total_time": 9,
}
CTRL: dict[str, Any] = {
    "sn": "S4EWNX0R123456      ",
    "mn": "Samsung SSD 970 EVO Plus 1TB            ",
    "fr": "2B2QEXM7",
    "wctemp": 358,
    "cctemp": 0,
    "tnvmcap": 1000204886016,
    "hctma": 1,
    "mntmt": 356,
    "mxtmt": 358,
    "psds": [
        {"max_power": 780, "max_power_scale": 0, "non-operational_state": 0, "entry_lat": 0},
        {
            "max_power": 50,
            "max_power_scale": 1,
            "non-operational_state": 1,
            "idle_power": 506,
            "idle_scale": 2,
            "active_power": 0,
            "active_scale": 0,
        },
    ],
}
SHARED = Path(__file__).parents[5] / "shared" / "data" / "smart"


def test_a_smart_log_is_read_in_celsius_with_its_counters() -> None:
    log = parse_smart_log(json.dumps(SMART))
    assert log is not None
    assert log.composite_celsius == 45.0
    assert log.sensor_celsius == {"sensor_1": 45.0, "sensor_3": 57.0}
    assert log.data_units_written == 47217872
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
        ({"data_units_read": 14051417.0}, "data_units_read", 14051417),
        ({"data_units_read": "14051417"}, "data_units_read", 14051417),
        ({"data_units_read": "14,051,417"}, "data_units_read", 14051417),
        ({"data_units_read": str(2**60 + 1)}, "data_units_read", 2**60 + 1),
        ({"data_units_read": 2**128 - 1}, "data_units_read", None),
        ({"data_units_read": -1}, "data_units_read", None),
        ({"critical_warning": "0x2"}, "critical_warning", 2),
        ({"critical_warning": {"value": 5, "available_spare": 1}}, "critical_warning", 5),
        ({"critical_warning": {"temp_threshold": 1, "ro": 1}}, "critical_warning", 0b1010),
        ({"temperature": 45}, "composite_celsius", 45.0),
        ({"temperature": 318.15}, "composite_celsius", pytest.approx(45.0)),
        ({"temperature": "318 K"}, "composite_celsius", 45.0),
        ({"temperature": "45°C"}, "composite_celsius", 45.0),
        ({"temperature": 0}, "composite_celsius", None),
        ({"temperature": float("nan")}, "composite_celsius", None),
        ({"thm_temp1_trans_count": None}, "thm_temp1_trans_count", None),
        ({"temperature_sensors": [300]}, "sensor_celsius", {"sensor_1": 45.0, "sensor_3": 57.0}),
    ],
)
def test_the_same_value_in_other_shapes(changed: dict[str, Any], field: str, value: object) -> None:
    log = parse_smart_log(json.dumps(SMART | changed))
    assert log is not None
    assert getattr(log, field) == value


def test_old_and_misspelt_names_are_known() -> None:
    old = {
        {"critical_warning": "critical_warrning", "avail_spare": "available_spare"}.get(
            name, name
        ): x
        for name, x in SMART.items()
    }
    del old["thm_temp2_trans_count"]
    log = parse_smart_log(json.dumps(old | {"critical_warrning": 2, "tmp_temp2_trans_count": 8}))
    assert log is not None
    assert (log.critical_warning, log.available_spare, log.thm_temp2_trans_count) == (2, 100, 8)


def test_noise_around_the_json_is_skipped() -> None:
    noisy = f"warning: {{no json}} in here\n{json.dumps(SMART, indent=1)}\nbye {{"
    log = parse_smart_log(noisy)
    assert log is not None and log.power_cycles == 77


@pytest.mark.parametrize("output", ["", "null", "[]", "{", '{"error": "Permission denied"}', "\0"])
def test_no_log_is_none_and_no_exception(output: str) -> None:
    assert parse_smart_log(output) is None
    assert parse_id_ctrl(output) is None
    assert parse_id_ns(output) is None


def test_the_drives_own_power_is_decoded_with_its_scale() -> None:
    assert interval_watts(2 << 16 | 456) == pytest.approx(4.56)
    assert interval_watts(str(1 << 16 | 45600)) == pytest.approx(4.56)
    assert interval_watts(1 << 20 | 2 << 16 | 712) == pytest.approx(7.12)  # with its type
    assert interval_watts(0) is None
    assert interval_watts(456) is None  # scale "not reported"
    assert interval_watts(3 << 16 | 456) is None  # reserved
    assert interval_watts(2 << 16) is None  # nothing measured yet: no drive answers at 0 W
    assert interval_watts(0xFFFFFFFF) is None and interval_watts(2 << 16 | 0xFFFF) is None
    log = parse_smart_log(
        json.dumps(SMART | {"interval_power_measurement": 2 << 16 | 456, "olec": "987654321"})
    )
    assert log is not None
    assert (log.interval_watts, log.lifetime_energy) == (pytest.approx(4.56), 987654321)


def test_identify_controller_gives_limits_and_power_states() -> None:
    found = parse_id_ctrl(json.dumps(CTRL))
    assert found is not None
    assert found.model == "Samsung SSD 970 EVO Plus 1TB"
    assert found.serial == "S4EWNX0R123456"
    assert (found.warning_celsius, found.critical_celsius) == (85.0, None)
    assert found.host_thermal_management is True
    operating, sleeping = found.power_states
    assert (operating.max_watts, operating.operational) == (pytest.approx(7.8), True)
    assert (sleeping.max_watts, sleeping.operational) == (pytest.approx(0.005), False)
    assert (sleeping.idle_watts, sleeping.active_watts) == (pytest.approx(5.06), None)


def test_power_states_of_older_and_verbose_outputs() -> None:
    flags = {"psds": [{"max_power": 300, "flags": 3}, {"max_power": "6.50W", "flags": 0}]}
    found = parse_id_ctrl(json.dumps(flags))
    assert found is not None
    assert found.power_states[0].max_watts == pytest.approx(0.03)
    assert not found.power_states[0].operational
    assert found.power_states[1].max_watts == pytest.approx(6.5)


def test_the_lba_format_in_use_is_found() -> None:
    formats = [{"ms": 0, "ds": 9, "rp": 2}, {"ms": 8, "ds": 12, "rp": 0}, {"ms": 0, "ds": 0}]
    space = parse_id_ns(json.dumps({"nsze": 1953525168, "flbas": 1, "lbafs": formats}))
    assert space is not None
    assert space.blocks == 1953525168
    assert space.lba_formats == (LbaFormat(512, 0, False), LbaFormat(4096, 8, True))
    many = [{"ds": 9}] * 16 + [{"ds": 12}]
    space = parse_id_ns(json.dumps({"flbas": 0b0100000, "lbafs": many}))
    assert space is not None and space.lba_formats[16].in_use
    verbose = [{"lbaf": 0, "ms": 0, "ds": 9, "in_use": 0}, {"lbaf": 1, "ds": 12, "in_use": 1}]
    space = parse_id_ns(json.dumps({"lbafs": verbose}))
    assert space is not None and space.lba_formats[1].in_use


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*SMART, *CTRL, "value", "max_power", "ds"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
_names = st.sampled_from([*SMART, *CTRL, "interval_power_measurement", "lbafs", "flbas"])


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine
@given(st.dictionaries(_names, _values, max_size=8))
def test_no_json_makes_a_parser_raise(data: dict[str, Any]) -> None:
    for parse in (parse_smart_log, parse_id_ctrl, parse_id_ns):
        parse(json.dumps(data))


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine
@given(st.text())
def test_no_text_makes_a_parser_raise(output: str) -> None:
    for parse in (parse_smart_log, parse_id_ctrl, parse_id_ns):
        parse(output)


def test_a_recorded_smart_log_is_understood() -> None:
    file = SHARED / "nvme-smart-log.json"
    if not file.exists():
        pytest.skip("the shared recordings are not here")
    log = parse_smart_log(file.read_text())
    assert log is not None
    assert log.composite_celsius == 33.0
    assert log.critical_warning == 0
    assert log.power_on_hours == 1244
