"""What ``smartctl -j`` prints (smartmontools 7.0 on, json_format_version 1.x): text to values.

Temperatures are in °C here. Exit status bits: smartctl(8), "EXIT STATUS". Never raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labctl.capture.host.machine import Completed
from labctl.capture.identity.nvme_pages import CRITICAL_WARNINGS
from labctl.capture.identity.tool_output import (
    boolean,
    celsius,
    counter_of_32_bits,
    failure,
    integer,
    json_object,
    number,
    text,
    within,
)
from labctl.record.drive_state import LbaFormat, PowerState, SmartLog

_COULD_NOT_ASK = 0b11
"""Bits 0 (command line) and 1 (device could not be opened); the others concern its health."""
_KNOWN_FORMAT = 1
_COMMAND_FAILED = 0b100
_TOO_HOT = 0b10
"""Critical warning of an NVMe drive whose temperature alone is beyond a threshold."""
_AIRFLOW_CELSIUS, _CELSIUS = "190", "194"
_MOST_ATA_CELSIUS = 128
"""A signed byte; like smartctl, 0 and negative values are not taken for a temperature."""
_POWER_ON_HOURS, _POWER_CYCLES = "9", "12"
_NVME_LOG = "nvme_smart_health_information_log"


@dataclass(frozen=True, slots=True)
class SmartctlReport:
    """The report of smartctl on a drive. ``problems``: one line for each problem."""

    model: str = ""
    serial: str = ""
    firmware: str = ""
    size_bytes: int | None = None
    warning_celsius: float | None = None
    critical_celsius: float | None = None
    power_states: tuple[PowerState, ...] = ()
    lba_formats: tuple[LbaFormat, ...] = ()
    smart: SmartLog | None = None
    problems: tuple[str, ...] = ()


_SAME_NAMES = (
    "data_units_read",
    "data_units_written",
    "controller_busy_time",
    "unsafe_shutdowns",
    "media_errors",
    "num_err_log_entries",
)
"""Counters with the same name in smartctl and nvme-cli."""
_THERMAL = {
    "warning_temp_time": "warning_temp_time",
    "critical_comp_time": "critical_comp_time",
    "thermal_mgmt_temperature_1_transition_count": "thm_temp1_trans_count",
    "thermal_mgmt_temperature_2_transition_count": "thm_temp2_trans_count",
    "thermal_mgmt_temperature_1_total_time": "thm_temp1_total_time",
    "thermal_mgmt_temperature_2_total_time": "thm_temp2_total_time",
}
"""The last four only where one of them is not zero, and not at all in smartmontools 7.x."""


def parse_smartctl(output: str) -> SmartctlReport | None:
    """The report in ``output``; None when there is no JSON of smartctl in it."""
    data = json_object(output)
    if data is None or "smartctl" not in data:
        return None
    limits = _smartctl_section(data, "nvme_composite_temperature_threshold")
    heat = _smartctl_section(data, "temperature")
    smart = _smart(data)
    return SmartctlReport(
        model=text(data.get("model_name") or data.get("scsi_model_name") or data.get("product")),
        serial=text(data.get("serial_number")),
        firmware=text(
            data.get("firmware_version") or data.get("scsi_revision") or data.get("revision")
        ),
        size_bytes=integer(_smartctl_section(data, "user_capacity").get("bytes"))
        or integer(data.get("nvme_total_capacity")),
        warning_celsius=_first_celsius(limits.get("warning"), heat.get("op_limit_max")),
        critical_celsius=_first_celsius(
            limits.get("critical"),
            heat.get("critical_limit_max"),
            heat.get("limit_max"),
            heat.get("drive_trip"),  # SCSI
        ),
        power_states=_power_states(data.get("nvme_power_states")),
        lba_formats=_lba_formats(data),
        smart=smart,
        problems=tuple(_smartctl_problems(data, smart)),
    )


def _smartctl_section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _smartctl_items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _smartctl_problems(data: Mapping[str, Any], smart: SmartLog | None) -> Iterable[str]:
    about = _smartctl_section(data, "smartctl")
    version = data.get("json_format_version")
    if isinstance(version, list) and version and (integer(version[0]) or 0) > _KNOWN_FORMAT:
        yield f"smartctl prints JSON format {version[0]}, labctl knows {_KNOWN_FORMAT}; update it"
    messages = [text(item.get("string")) for item in _smartctl_items(about.get("messages"))]
    status = integer(about.get("exit_status")) or 0
    if smart is None and boolean(_smartctl_section(data, "smart_support").get("enabled")) is False:
        yield "no SMART: it is switched off in the drive; smartctl -s on switches it on"
    elif status & _COULD_NOT_ASK or (status & _COMMAND_FAILED and smart is None):
        why = "; ".join(messages) or f"exit status {status}"
        yield failure("smartctl", "smartmontools", Completed(status, "", why), "SMART")
    elif smart is not None and smart.passed is False:
        yield "SMART says that the drive is failing"


def _smart(data: Mapping[str, Any]) -> SmartLog | None:
    log = _smartctl_section(data, _NVME_LOG)
    attributes = _ata_attributes(data)
    hours = integer(_smartctl_section(data, "power_on_time").get("hours"))
    cycles = integer(data.get("power_cycle_count"))
    degrees = _smartctl_composite_celsius(data, log, attributes)
    passed = boolean(_smartctl_section(data, "smart_status").get("passed"))
    if not log and not attributes and degrees is None and hours is None and passed is None:
        return None
    warning = within(CRITICAL_WARNINGS, log.get("critical_warning"))
    if warning == _TOO_HOT:
        passed = None  # smartctl reports "failed" for every critical warning
    sensors = log.get("temperature_sensors")
    return SmartLog(
        source="smartctl",
        composite_celsius=degrees,
        sensor_celsius={
            f"sensor_{index}": found
            for index, value in enumerate(sensors if isinstance(sensors, list) else (), start=1)
            if (found := celsius(value))
        },
        critical_warning=warning,
        available_spare=within(100, _smartctl_spare(data, log)),
        percentage_used=within(255, _worn(data, log)),
        host_read_commands=integer(log.get("host_reads")),
        host_write_commands=integer(log.get("host_writes")),
        power_cycles=_first_smartctl_count(
            integer(log.get("power_cycles")), cycles, _POWER_CYCLES, attributes
        ),
        power_on_hours=_first_smartctl_count(
            integer(log.get("power_on_hours")), hours, _POWER_ON_HOURS, {}
        ),
        passed=passed,
        ata_attributes=attributes,
        **{name: integer(log.get(name)) for name in _SAME_NAMES},
        **{ours: counter_of_32_bits(log.get(name)) for name, ours in _THERMAL.items()},
    )


def _smartctl_spare(data: Mapping[str, Any], log: Mapping[str, Any]) -> Any:
    """In percent; from smartmontools 7.4 the same field for every kind of drive."""
    return log.get(
        "available_spare", _smartctl_section(data, "spare_available").get("current_percent")
    )


def _worn(data: Mapping[str, Any], log: Mapping[str, Any]) -> Any:
    """In percent of the rated life; the names of 7.4 on, and of SCSI and ATA before."""
    general = _smartctl_section(data, "endurance_used").get("current_percent")
    scsi = data.get("scsi_percentage_used_endurance_indicator")
    found = (log.get("percentage_used"), general, scsi, _ata_worn(data))
    return next((value for value in found if value is not None), None)


def _ata_worn(data: Mapping[str, Any]) -> Any:
    """Page 07h of the device statistics (ACS), where its flag marks it as valid."""
    pages = _smartctl_items(_smartctl_section(data, "ata_device_statistics").get("pages"))
    entries = (entry for page in pages for entry in _smartctl_items(page.get("table")))
    return next(
        (
            entry.get("value")
            for entry in entries
            if entry.get("name") == "Percentage Used Endurance Indicator"
            and boolean(_smartctl_section(entry, "flags").get("valid")) is not False
        ),
        None,
    )


def _first_smartctl_count(
    log: int | None, general: int | None, attribute: str, attributes: Mapping[str, int]
) -> int | None:
    return next((found for found in (log, general) if found is not None), attributes.get(attribute))


def _smartctl_composite_celsius(
    data: Mapping[str, Any], log: Mapping[str, Any], attributes: Mapping[str, int]
) -> float | None:
    current = celsius(_smartctl_section(data, "temperature").get("current"))
    if log:
        return current if current is not None else celsius(log.get("temperature"))
    if current:
        return current  # SCSI and ATA report 0 for "none"
    reports = _smartctl_section(data, "scsi_environmental_reports").values()
    reported = (item.get("current") for item in reports if isinstance(item, dict))
    return _first_celsius(*reported, *_ata_temperatures(data, attributes))


def _first_celsius(*values: Any) -> float | None:
    return next((found for value in values if (found := celsius(value))), None)


def _ata_temperatures(data: Mapping[str, Any], attributes: Mapping[str, int]) -> Iterable[Any]:
    """As smartctl shows them ("32 (Min/Max 22/45)", "32.5"), or the lowest byte of the raw word."""
    shown = {
        text(str(item.get("id"))): text(_smartctl_section(item, "raw").get("string"))
        for item in _smartctl_items(_smartctl_section(data, "ata_smart_attributes").get("table"))
    }
    for attribute in (_CELSIUS, _AIRFLOW_CELSIUS):
        if attribute in attributes:
            for found in (number(shown.get(attribute)), attributes[attribute] & 0xFF):
                if found is not None and 0 < found < _MOST_ATA_CELSIUS:
                    yield found


def _ata_attributes(data: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in _smartctl_items(_smartctl_section(data, "ata_smart_attributes").get("table")):
        attribute = integer(item.get("id"))
        raw = integer(_smartctl_section(item, "raw").get("value"))
        if attribute is not None and raw is not None:
            found[str(attribute)] = raw
    return found


def _power_states(value: Any) -> tuple[PowerState, ...]:
    return tuple(
        PowerState(
            number=index,
            max_watts=_smartctl_watts(item.get("max_power")),
            operational=not boolean(item.get("non_operational_state")),
            entry_us=integer(item.get("entry_latency_us")),
            exit_us=integer(item.get("exit_latency_us")),
            idle_watts=_smartctl_watts(item.get("idle_power")),
            active_watts=_smartctl_watts(item.get("active_power")),
        )
        for index, item in enumerate(_smartctl_items(value))
    )


def _smartctl_watts(value: Any) -> float | None:
    if not isinstance(value, dict):
        return None
    amount, units = number(value.get("value")), number(value.get("units_per_watt"))
    return amount / units if amount and units else None


def _lba_formats(data: Mapping[str, Any]) -> tuple[LbaFormat, ...]:
    namespaces = _smartctl_items(data.get("nvme_namespaces"))
    first = namespaces[0] if namespaces else {}
    formats = tuple(
        LbaFormat(size, integer(item.get("metadata_bytes")) or 0, bool(item.get("formatted")))
        for item in _smartctl_items(first.get("lba_formats"))
        if (size := integer(item.get("data_bytes")))
    )
    used = integer(first.get("formatted_lba_size"))
    return formats or ((LbaFormat(used, in_use=True),) if used else ())
