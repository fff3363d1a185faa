"""What ``smartctl -j`` prints (smartmontools 7.0 on, json_format_version 1.x): text to values.

Temperatures are in °C here. Exit status bits: smartctl(8), "EXIT STATUS". Never raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labctl.capture.host.machine import Completed
from labctl.capture.identity.tool_output import (
    boolean,
    celsius,
    failure,
    integer,
    json_object,
    number,
    text,
)
from labctl.drive_state import LbaFormat, PowerState, SmartLog

_COULD_NOT_ASK = 0b11
"""Bits 0 (command line) and 1 (device could not be opened); the others speak of its health."""
_KNOWN_FORMAT = 1
_AIRFLOW_CELSIUS, _CELSIUS = "190", "194"
_POWER_ON_HOURS, _POWER_CYCLES = "9", "12"
_NVME_LOG = "nvme_smart_health_information_log"


@dataclass(frozen=True, slots=True)
class SmartctlReport:
    """What smartctl says of a drive. ``problems``: one line for each thing that is wrong."""

    model: str = ""
    serial: str = ""
    firmware: str = ""
    protocol: str = ""
    size_bytes: int | None = None
    logical_block_bytes: int | None = None
    physical_block_bytes: int | None = None
    rotational: bool | None = None
    warning_celsius: float | None = None
    critical_celsius: float | None = None
    power_states: tuple[PowerState, ...] = ()
    lba_formats: tuple[LbaFormat, ...] = ()
    smart: SmartLog | None = None
    problems: tuple[str, ...] = ()


_SAME_NAMES = (
    "critical_warning",
    "available_spare",
    "percentage_used",
    "data_units_read",
    "data_units_written",
    "controller_busy_time",
    "unsafe_shutdowns",
    "media_errors",
    "num_err_log_entries",
    "warning_temp_time",
    "critical_comp_time",
    "thm_temp1_trans_count",
    "thm_temp2_trans_count",
    "thm_temp1_total_time",
    "thm_temp2_total_time",
)
"""Counters that smartctl calls as nvme-cli does."""


def parse_smartctl(output: str) -> SmartctlReport | None:
    """The report in ``output``; None when there is no JSON of smartctl in it."""
    data = json_object(output)
    if data is None or "smartctl" not in data:
        return None
    limits = _section(data, "nvme_composite_temperature_threshold")
    heat = _section(data, "temperature")
    protocol = text(_section(data, "device").get("protocol"))
    speed = data.get("rotation_rate")
    return SmartctlReport(
        model=text(data.get("model_name") or data.get("scsi_model_name") or data.get("product")),
        serial=text(data.get("serial_number")),
        firmware=text(data.get("firmware_version") or data.get("revision")),
        protocol=protocol,
        size_bytes=integer(_section(data, "user_capacity").get("bytes"))
        or integer(data.get("nvme_total_capacity")),
        logical_block_bytes=integer(data.get("logical_block_size")),
        physical_block_bytes=integer(data.get("physical_block_size")),
        rotational=None if speed is None else bool(integer(speed)),
        warning_celsius=celsius(limits.get("warning", heat.get("op_limit_max"))) or None,
        critical_celsius=celsius(
            limits.get("critical", heat.get("critical_limit_max", heat.get("limit_max")))
        )
        or None,
        power_states=_power_states(data.get("nvme_power_states")),
        lba_formats=_lba_formats(data),
        smart=_smart(data),
        problems=tuple(_problems(data)),
    )


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _problems(data: Mapping[str, Any]) -> Iterable[str]:
    about = _section(data, "smartctl")
    version = data.get("json_format_version")
    if isinstance(version, list) and version and (integer(version[0]) or 0) > _KNOWN_FORMAT:
        yield f"smartctl prints JSON format {version[0]}, labctl knows {_KNOWN_FORMAT}; update it"
    said = [text(item.get("string")) for item in _items(about.get("messages"))]
    status = integer(about.get("exit_status")) or 0
    if status & _COULD_NOT_ASK:
        why = "; ".join(said) or f"exit status {status}"
        yield failure("smartctl", "smartmontools", Completed(status, "", why), "SMART")
    elif boolean(_section(data, "smart_status").get("passed")) is False:
        yield "SMART says that the drive is failing"


def _smart(data: Mapping[str, Any]) -> SmartLog | None:
    log = _section(data, _NVME_LOG)
    attributes = _ata_attributes(data)
    hours = integer(_section(data, "power_on_time").get("hours"))
    cycles = integer(data.get("power_cycle_count"))
    passed = boolean(_section(data, "smart_status").get("passed"))
    degrees = _composite(data, log, attributes)
    if not log and not attributes and degrees is None and hours is None and passed is None:
        return None
    sensors = log.get("temperature_sensors")
    return SmartLog(
        source="smartctl",
        composite_celsius=degrees,
        sensor_celsius={
            f"sensor_{index}": found
            for index, value in enumerate(sensors if isinstance(sensors, list) else (), start=1)
            if (found := celsius(value))
        },
        host_read_commands=integer(log.get("host_reads")),
        host_write_commands=integer(log.get("host_writes")),
        power_cycles=_first(integer(log.get("power_cycles")), cycles, _POWER_CYCLES, attributes),
        power_on_hours=_first(integer(log.get("power_on_hours")), hours, _POWER_ON_HOURS, {}),
        passed=passed,
        ata_attributes=attributes,
        **{name: integer(log.get(name)) for name in _SAME_NAMES},
    )


def _first(
    log: int | None, general: int | None, attribute: str, attributes: Mapping[str, int]
) -> int | None:
    return next((found for found in (log, general) if found is not None), attributes.get(attribute))


def _composite(
    data: Mapping[str, Any], log: Mapping[str, Any], attributes: Mapping[str, int]
) -> float | None:
    for value in (_section(data, "temperature").get("current"), log.get("temperature")):
        found = celsius(value)
        if found is not None:
            return found
    for attribute in (_CELSIUS, _AIRFLOW_CELSIUS):
        if attribute in attributes:
            return float(attributes[attribute] & 0xFF)  # minimum and maximum stand above it
    return None


def _ata_attributes(data: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in _items(_section(data, "ata_smart_attributes").get("table")):
        attribute = integer(item.get("id"))
        raw = integer(_section(item, "raw").get("value"))
        if attribute is not None and raw is not None:
            found[str(attribute)] = raw
    return found


def _power_states(value: Any) -> tuple[PowerState, ...]:
    return tuple(
        PowerState(
            number=index,
            max_watts=_watts(item.get("max_power")),
            operational=not boolean(item.get("non_operational_state")),
            entry_us=integer(item.get("entry_latency_us")),
            exit_us=integer(item.get("exit_latency_us")),
            idle_watts=_watts(item.get("idle_power")),
            active_watts=_watts(item.get("active_power")),
        )
        for index, item in enumerate(_items(value))
    )


def _watts(value: Any) -> float | None:
    if not isinstance(value, dict):
        return None
    amount, units = number(value.get("value")), number(value.get("units_per_watt"))
    return amount / units if amount and units else None


def _lba_formats(data: Mapping[str, Any]) -> tuple[LbaFormat, ...]:
    namespaces = _items(data.get("nvme_namespaces"))
    first = namespaces[0] if namespaces else {}
    formats = tuple(
        LbaFormat(size, integer(item.get("metadata_bytes")) or 0, bool(item.get("formatted")))
        for item in _items(first.get("lba_formats"))
        if (size := integer(item.get("data_bytes")))
    )
    used = integer(first.get("formatted_lba_size"))
    return formats or ((LbaFormat(used, in_use=True),) if used else ())
