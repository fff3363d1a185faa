"""What nvme-cli prints as JSON, over its versions 1.x to 3.x: pure functions, text to values.

Field names: ``nvme-print-json.c`` of nvme-cli; meanings: NVMe base specification (log page 02h,
Identify Controller, Identify Namespace). Parsers never raise: a missing value is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labctl.capture.host.machine import Completed, Machine, run_tool
from labctl.capture.identity.tool_output import (
    boolean,
    counter_of_32_bits,
    integer,
    json_object,
    kelvin,
    number,
    text,
    within,
)
from labctl.record.drive_state import LbaFormat, PowerState, SmartLog

_SENSORS = 8
_FORMATS_OF_4_BITS = 16
_WARNING_BITS = (
    ("available_spare", "avail_spare", "spare"),
    ("temp_threshold", "temperature", "temp"),
    ("reliability_degraded", "degraded", "reliability"),
    ("ro", "read_only", "readonly"),
    ("vmbu_failed", "volatile_memory_backup_failed", "vmbu"),
    ("pmr_ro", "persistent_memory_region_ro", "pmr"),
)
"""Names of the bits where ``critical_warning`` is an object (``-v``), bit 0 first."""
CRITICAL_WARNINGS = 0x7F
"""NVMe base specification 2.1: bit 7 is reserved; FFh is a log that was never filled in."""
_WATTS_PER_UNIT = {1: 0.0001, 2: 0.01}
"""Scale of a power field of two bits (IPS, APS, interval power); 0 is "not reported"."""


@dataclass(frozen=True, slots=True)
class Controller:
    """Values of ``nvme id-ctrl``. Temperatures in °C."""

    model: str = ""
    serial: str = ""
    firmware: str = ""
    capacity_bytes: int | None = None
    warning_celsius: float | None = None
    critical_celsius: float | None = None
    host_thermal_management: bool | None = None
    min_thermal_celsius: float | None = None
    max_thermal_celsius: float | None = None
    power_states: tuple[PowerState, ...] = ()


@dataclass(frozen=True, slots=True)
class Namespace:
    """Values of ``nvme id-ns``."""

    blocks: int | None = None
    lba_formats: tuple[LbaFormat, ...] = ()


def parse_smart_log(output: str) -> SmartLog | None:
    """The SMART / Health log; None when there is none in ``output``."""
    data = json_object(output)
    if data is None:
        return None
    first = _Fields(data)
    composite = kelvin(first("temperature", "composite_temperature"))
    warning = _critical_warning(first("critical_warning", "critical_warrning"))
    if composite is None and (warning is None or not any(map(integer, data.values()))):
        return None  # no log, or one that was never filled in
    return SmartLog(
        source="nvme smart-log",
        composite_celsius=composite,
        sensor_celsius=_sensors(data),
        critical_warning=warning,
        available_spare=within(100, first("avail_spare", "available_spare")),
        percentage_used=within(255, first("percent_used", "percentage_used")),
        data_units_read=integer(first("data_units_read")),
        data_units_written=integer(first("data_units_written")),
        host_read_commands=integer(first("host_read_commands", "host_reads")),
        host_write_commands=integer(first("host_write_commands", "host_writes")),
        controller_busy_time=integer(first("controller_busy_time", "ctrl_busy_time")),
        power_cycles=integer(first("power_cycles")),
        power_on_hours=integer(first("power_on_hours")),
        unsafe_shutdowns=integer(first("unsafe_shutdowns")),
        media_errors=integer(first("media_errors")),
        num_err_log_entries=integer(first("num_err_log_entries")),
        warning_temp_time=counter_of_32_bits(first("warning_temp_time")),
        critical_comp_time=counter_of_32_bits(first("critical_comp_time")),
        thm_temp1_trans_count=counter_of_32_bits(
            first("thm_temp1_trans_count", "tmt1_trans_count")
        ),
        thm_temp2_trans_count=counter_of_32_bits(
            first("thm_temp2_trans_count", "tmp_temp2_trans_count", "tmt2_trans_count")
        ),
        thm_temp1_total_time=counter_of_32_bits(first("thm_temp1_total_time", "tmt1_total_time")),
        thm_temp2_total_time=counter_of_32_bits(first("thm_temp2_total_time", "tmt2_total_time")),
        interval_watts=interval_watts(first("interval_power_measurement", "ipm")),
        lifetime_energy=integer(
            first("op_lifetime_energy_consumed", "operational_lifetime_energy_consumed", "olec")
        )
        or None,
    )


def interval_watts(value: Any) -> float | None:
    """The drive's own power in watts from Interval Power Measurement (bytes 240 to 243).

    Bits 15:0 are the value, 17:16 its scale (1: 0.1 mW, 2: 10 mW, 0: not reported); as nvme-cli
    decodes it. 0 means that the drive has not measured or cannot; all ones is no value.
    """
    raw = integer(value)
    if raw is None or raw & 0xFFFF in (0, 0xFFFF):
        return None
    unit = _WATTS_PER_UNIT.get(raw >> 16 & 0b11)
    return None if unit is None else (raw & 0xFFFF) * unit


def parse_id_ctrl(output: str) -> Controller | None:
    """Identify Controller; None when ``output`` has none."""
    data = json_object(output)
    if data is None or not any(name in data for name in ("mn", "sn", "psds", "wctemp")):
        return None
    states = data.get("psds", data.get("power_states"))
    hctma = integer(data.get("hctma"))
    return Controller(
        model=text(data.get("mn")),
        serial=text(data.get("sn")),
        firmware=text(data.get("fr")),
        capacity_bytes=integer(data.get("tnvmcap")) or None,
        warning_celsius=kelvin(data.get("wctemp")),
        critical_celsius=kelvin(data.get("cctemp")),
        host_thermal_management=None if hctma is None else bool(hctma & 1),
        min_thermal_celsius=kelvin(data.get("mntmt")),
        max_thermal_celsius=kelvin(data.get("mxtmt")),
        power_states=tuple(
            _power_state(index, item)
            for index, item in enumerate(states if isinstance(states, list) else ())
            if isinstance(item, dict)
        ),
    )


def parse_id_ns(output: str) -> Namespace | None:
    """Identify Namespace; None when ``output`` has none."""
    data = json_object(output)
    if data is None or not ("nsze" in data or "lbafs" in data):
        return None
    listed = data.get("lbafs")
    formats: list[Any] = listed if isinstance(listed, list) else []
    return Namespace(
        blocks=integer(data.get("nsze")),
        lba_formats=tuple(
            LbaFormat(size, _metadata_bytes(item), index == _in_use(data, formats))
            for index, item in enumerate(formats)
            if isinstance(item, dict) and (size := _data_bytes(item))
        ),
    )


def _data_bytes(item: Mapping[str, Any]) -> int | None:
    """As a power of two, or ("-v" of newer nvme-cli) in words: "512 bytes"."""
    words = integer(item.get("Data Size"))
    if words is not None:
        return words if words > 1 else None  # 1 << 0: a format that is not there
    shift = integer(item.get("ds")) or 0
    return 1 << shift if 9 <= shift <= 24 else None


def _metadata_bytes(item: Mapping[str, Any]) -> int:
    return integer(item.get("ms", item.get("Metadata Size"))) or 0


class _Fields:
    """Finds a field by any of the names it has had."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    def __call__(self, *names: str) -> Any:
        return next((self._data[name] for name in names if name in self._data), None)


def _critical_warning(value: Any) -> int | None:
    if not isinstance(value, dict) or "value" in value:
        return within(CRITICAL_WARNINGS, value)
    bits = [bool(integer(_Fields(value)(*names))) for names in _WARNING_BITS]
    return sum(1 << place for place, is_set in enumerate(bits) if is_set)


def _sensors(data: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    listed = data.get("temperature_sensors")
    for index in range(1, _SENSORS + 1):
        value = data.get(f"temperature_sensor_{index}")
        if value is None and isinstance(listed, list) and index <= len(listed):
            value = listed[index - 1]
        degrees = kelvin(value)
        if degrees is not None:
            found[f"sensor_{index}"] = degrees
    return found


def _power_state(index: int, item: Mapping[str, Any]) -> PowerState:
    flags = integer(item.get("flags"))  # nvme-cli before 2.5: both bits in one number
    scale = integer(item.get("max_power_scale", (flags or 0) & 1))
    unusable = boolean(item.get("non-operational_state", item.get("non_operational_state")))
    if unusable is None:
        unusable = bool((flags or 0) & 2)
    return PowerState(
        number=index,
        max_watts=_max_watts(item.get("max_power"), scale),
        operational=not unusable,
        entry_us=integer(item.get("entry_lat")),
        exit_us=integer(item.get("exit_lat")),
        idle_watts=_scaled_watts(item.get("idle_power"), item.get("idle_scale")),
        active_watts=_scaled_watts(item.get("active_power"), _active_scale(item)),
    )


def _max_watts(value: Any, scale: int | None) -> float | None:
    if isinstance(value, str) and value.strip().upper().endswith("W"):
        return number(value.strip().upper().removesuffix("W"))
    found = number(value)
    if not found:
        return None
    return found * (0.0001 if scale else 0.01)


def _active_scale(item: Mapping[str, Any]) -> int | None:
    """The scale alone, or (nvme-cli 1.x) bits 7:6 of a byte whose others are the workload."""
    byte = integer(item.get("active_work_scale"))
    return integer(item.get("active_scale")) if byte is None else byte >> 6 & 0b11


def _scaled_watts(value: Any, scale: Any) -> float | None:
    found, shift = number(value), integer(scale)
    if not found or shift is None:
        return None
    # nvme-cli 1.x printed the two bits in place (7:6 of the byte)
    unit = _WATTS_PER_UNIT.get(shift if shift < 4 else shift >> 6)
    return None if unit is None else found * unit


def _in_use(data: Mapping[str, Any], formats: list[Any]) -> int | None:
    for index, item in enumerate(formats):
        if isinstance(item, dict) and (boolean(item.get("in_use")) or item.get("in use") == "yes"):
            return index
    flbas = integer(data.get("flbas"))
    if flbas is None:
        return None
    # bits 3:0 and, only where there are more than 16 formats, 6:5 as the upper ones
    return flbas & 0xF | (flbas >> 5 & 0b11 if len(formats) > _FORMATS_OF_4_BITS else 0) << 4


_SINCE_3 = {
    "id-ctrl": ("id", "ctrl"),
    "id-ns": ("id", "ns"),
    "smart-log": ("log", "smart"),
    "sanitize-log": ("log", "sanitize"),
}
"""nvme-cli 3.0 groups its commands; it may be built without the old names (NEWS.md of 3.0)."""
_UNKNOWN = "invalid sub-command"


def ask_nvme(machine: Machine, command: str, device: str) -> Completed:
    """What ``command`` (by its old name) prints of ``device`` as JSON."""
    done = run_tool(machine, ["nvme", command, device, "-o", "json"])
    if done.exit_code and _UNKNOWN in f"{done.stderr}{done.stdout}".lower():
        return run_tool(machine, ["nvme", *_SINCE_3[command], device, "-o", "json"])
    return done
