"""Structures of NVMe as a controller returns them: pure functions, bytes to values.

Offsets: NVM Express Base Specification 2.1 to 2.4 (Identify Controller, Identify Namespace, log
pages 02h, 25h and 81h), as libnvme's ``nvme-types-base.h`` (3.0-rc1) has them; log page C0h: OCP
Datacenter NVMe SSD Specification 2.0 to 2.7, as nvme-cli's ``ocp-smart-extended-log.h`` (3.0-rc1)
has it. Little endian; temperatures are whole kelvins, in C0h °C. What a drive does not report is
None. A page shorter than its structure is None, and nothing raises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from labctl.capture.identity.tool_output import counter_of_32_bits, integer, plausible, text, within
from labctl.record.drive_state import (
    LbaFormat,
    PowerMeasurement,
    PowerState,
    PowerThreshold,
    SmartLog,
)

IDENTIFY_BYTES = 4096
SMART_BYTES = 512
SANITIZE_BYTES = 512
EXTENDED_SMART_BYTES = 512
MEASUREMENT_BYTES = 64
"""Of log page 25h, before its histogram."""

CRITICAL_WARNINGS = 0x7F
"""NVMe base specification 2.1: bit 7 is reserved; FFh is a log that was never filled in."""
_WATTS_PER_UNIT = {1: 0.0001, 2: 0.01}
"""Scale of a power field of two bits (IPS, APS, interval power, limits); 0 is "not reported"."""
_WHOLE_KELVIN = 273
"""Drives report whole kelvins, from which every tool subtracts 273."""
_SENSORS = 8
_EXTENDED_SMART_GUID = bytes.fromhex("c5af1028eabff2a49c4f6f7cc914d5af")
"""The last bytes of log page C0h, as they come; vendors have other pages under its number."""
_WITH_POWER_STATE_CHANGES, _WITH_HOTTEST = 2, 5
"""Versions of log page C0h that these fields came with."""
_MOST_THROTTLED = 3
"""Thermal throttling status of C0h: 0 is unthrottled, 1 to 3 are levels."""
_MOST_POWER_STATES = 32
_POWER_STATE_BYTES = 32
_FORMATS_OF_4_BITS = 16
_MOST_PERCENT = 100
"""Of the error that a drive states for its own measurement; 255 is "not reported"."""
_LEAST_SHIFT, _MOST_SHIFT = 9, 24
"""Of a block's size; 0 is a format that is not there."""


@dataclass(frozen=True, slots=True)
class Controller:
    """What Identify Controller (CNS 01h) says. Temperatures in °C."""

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
    has_power_limit: bool = False
    """CTRATT bit 20: the power limit feature (23h)."""
    has_power_measurement: bool = False
    """CTRATT bit 21: the power measurement feature (25h) and log page 25h."""
    longest_measurement_minutes: int | None = None
    """MSMT; None: no bound is given."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """What Identify Namespace (CNS 00h) says."""

    lba_formats: tuple[LbaFormat, ...] = ()
    deallocate_features: int = 0
    """DLFEAT."""


def parse_id_ctrl(page: bytes) -> Controller | None:
    """Identify Controller; None where it is too short, or was never filled in."""
    if len(page) < IDENTIFY_BYTES or not any(page[:IDENTIFY_BYTES]):
        return None
    attributes = _number_in_nvme_page(page, 96, 4)
    states = min(page[263] + 1, _MOST_POWER_STATES)
    return Controller(
        serial=_words_in_nvme_page(page[4:24]),
        model=_words_in_nvme_page(page[24:64]),
        firmware=_words_in_nvme_page(page[64:72]),
        capacity_bytes=integer(_number_in_nvme_page(page, 280, 16)) or None,
        warning_celsius=_celsius_in_nvme_page(page, 266),
        critical_celsius=_celsius_in_nvme_page(page, 268),
        host_thermal_management=bool(_number_in_nvme_page(page, 322, 2) & 1),
        min_thermal_celsius=_celsius_in_nvme_page(page, 324),
        max_thermal_celsius=_celsius_in_nvme_page(page, 326),
        power_states=tuple(_power_state(page, number) for number in range(states)),
        has_power_limit=bool(attributes >> 20 & 1),
        has_power_measurement=bool(attributes >> 21 & 1),
        longest_measurement_minutes=_number_in_nvme_page(page, 394, 2) or None,
    )


def _power_state(page: bytes, number: int) -> PowerState:
    at = 2048 + _POWER_STATE_BYTES * number
    flags = page[at + 3]
    max_power = _number_in_nvme_page(page, at, 2)
    return PowerState(
        number=number,
        max_watts=max_power * (0.0001 if flags & 1 else 0.01) if max_power else None,
        operational=not flags & 2,
        entry_us=_number_in_nvme_page(page, at + 4, 4) or None,
        exit_us=_number_in_nvme_page(page, at + 8, 4) or None,
        idle_watts=nvme_watts(_number_in_nvme_page(page, at + 16, 2), page[at + 18] >> 6),
        active_watts=nvme_watts(_number_in_nvme_page(page, at + 20, 2), page[at + 22] >> 6),
    )


def parse_id_ns(page: bytes) -> Namespace | None:
    """Identify Namespace; None where it is too short, or there is no such namespace (all zero)."""
    if len(page) < IDENTIFY_BYTES or not any(page[:IDENTIFY_BYTES]):
        return None
    count, chosen = page[25] + 1, page[26]
    in_use = chosen & 0xF
    if count > _FORMATS_OF_4_BITS:  # bits 6:5 are the upper ones of the index
        in_use |= (chosen >> 5 & 0b11) << 4
    formats = [
        (index, page[at + 2], _number_in_nvme_page(page, at, 2))
        for index, at in ((index, 128 + 4 * index) for index in range(min(count, 64)))
    ]
    return Namespace(
        lba_formats=tuple(
            LbaFormat(1 << shift, metadata, index == in_use)
            for index, shift, metadata in formats
            if _LEAST_SHIFT <= shift <= _MOST_SHIFT
        ),
        deallocate_features=page[33],
    )


def parse_smart_log(page: bytes) -> SmartLog | None:
    """The SMART / Health log (02h); None where it is too short, or was never filled in."""
    if len(page) < SMART_BYTES:
        return None
    composite = _celsius_in_nvme_page(page, 1)
    warning = within(CRITICAL_WARNINGS, page[0])
    if composite is None and (warning is None or not any(page[:SMART_BYTES])):
        return None
    sensors = {
        f"sensor_{index + 1}": _celsius_in_nvme_page(page, 200 + 2 * index)
        for index in range(_SENSORS)
    }
    return SmartLog(
        source="nvme smart-log",
        composite_celsius=composite,
        sensor_celsius={name: value for name, value in sensors.items() if value is not None},
        critical_warning=warning,
        available_spare=within(100, page[3]),
        percentage_used=page[5],
        data_units_read=_counter_in_nvme_page(page, 32),
        data_units_written=_counter_in_nvme_page(page, 48),
        host_read_commands=_counter_in_nvme_page(page, 64),
        host_write_commands=_counter_in_nvme_page(page, 80),
        controller_busy_time=_counter_in_nvme_page(page, 96),
        power_cycles=_counter_in_nvme_page(page, 112),
        power_on_hours=_counter_in_nvme_page(page, 128),
        unsafe_shutdowns=_counter_in_nvme_page(page, 144),
        media_errors=_counter_in_nvme_page(page, 160),
        num_err_log_entries=_counter_in_nvme_page(page, 176),
        warning_temp_time=counter_of_32_bits(_number_in_nvme_page(page, 192, 4)),
        critical_comp_time=counter_of_32_bits(_number_in_nvme_page(page, 196, 4)),
        thm_temp1_trans_count=counter_of_32_bits(_number_in_nvme_page(page, 216, 4)),
        thm_temp2_trans_count=counter_of_32_bits(_number_in_nvme_page(page, 220, 4)),
        thm_temp1_total_time=counter_of_32_bits(_number_in_nvme_page(page, 224, 4)),
        thm_temp2_total_time=counter_of_32_bits(_number_in_nvme_page(page, 228, 4)),
        lifetime_energy=integer(_number_in_nvme_page(page, 232, 8)) or None,
        interval_watts=power(_number_in_nvme_page(page, 240, 4)),
    )


def with_extended_smart(log: SmartLog, page: bytes) -> SmartLog:
    """``log`` with what SMART / Health Information Extended (C0h of OCP) says; as it is where
    ``page`` is too short, or another page."""
    if len(page) < EXTENDED_SMART_BYTES or page[496:512] != _EXTENDED_SMART_GUID:
        return log
    version = _number_in_nvme_page(page, 494, 2)
    hottest = plausible(float(page[222])) if page[222] and version >= _WITH_HOTTEST else None
    changes = (
        integer(_number_in_nvme_page(page, 200, 8))
        if version >= _WITH_POWER_STATE_CHANGES
        else None
    )
    return replace(
        log,
        media_bytes_written=_counter_in_nvme_page(page, 0),
        media_bytes_read=_counter_in_nvme_page(page, 16),
        thermal_throttling_events=page[96],
        thermal_throttling_level=within(_MOST_THROTTLED, page[97]),
        incomplete_shutdowns=counter_of_32_bits(_number_in_nvme_page(page, 112, 4)),
        power_loss_events=_counter_in_nvme_page(page, 160),
        power_state_changes=changes,
        hottest_celsius=hottest,
    )


def parse_power_measurement(page: bytes) -> PowerMeasurement | None:
    """The power measurement log (25h), as far as it came: of a histogram that is cut off, the bins
    that are whole."""
    if len(page) < MEASUREMENT_BYTES:
        return None
    attributes, size = _number_in_nvme_page(page, 2, 2), _bin_bytes(page)
    starts = range(MEASUREMENT_BYTES, min(len(page) - 7, whole_measurement_bytes(page)), size)
    bins = [
        (power(_number_in_nvme_page(page, at + 4, 4)) or 0.0, _number_in_nvme_page(page, at, 4))
        for at in starts
    ]
    return PowerMeasurement(
        is_on=bool(attributes & 1),
        generation=page[1],
        intervals=_number_in_nvme_page(page, 8, 4),
        average_watts=power(_number_in_nvme_page(page, 40, 4)),
        maximum_watts=power(_number_in_nvme_page(page, 44, 4)),
        percent_error=within(_MOST_PERCENT, page[56]),
        is_estimated=bool(attributes & 4),
        has_gaps=bool(attributes & 2),
        bins=tuple(one for one in bins if one[1]),
        beyond_last_bin=_number_in_nvme_page(page, 32, 4),
    )


def whole_measurement_bytes(page: bytes) -> int:
    """How long log page 25h is with all bins of its histogram, by what its first 64 bytes say."""
    return MEASUREMENT_BYTES + _number_in_nvme_page(page, 12, 2) * _bin_bytes(page)


def _bin_bytes(page: bytes) -> int:
    return max(_number_in_nvme_page(page, 24, 2), 8)


def parse_sanitize_log(page: bytes) -> tuple[int, int] | None:
    """Progress (SPROG, 0 to 65535) and status (SSTAT bits 2:0) of log page 81h; None where it is
    too short."""
    if len(page) < SANITIZE_BYTES:
        return None
    return _number_in_nvme_page(page, 0, 2), _number_in_nvme_page(page, 2, 2) & 0b111


def power(field: int) -> float | None:
    """Watts of a power field: bits 15:0 are the value, 17:16 its scale."""
    return nvme_watts(field & 0xFFFF, field >> 16 & 0b11)


def parse_power_threshold(field: int) -> PowerThreshold:
    """Feature 24h: value in bits 15:0, scale in 17:16, type of measurement in 23:20, enabled in 31
    (NVM Express Base Specification 2.3, as libnvme has it)."""
    return PowerThreshold(power(field), bool(field >> 31 & 1), field >> 20 & 0xF)


def nvme_watts(value: int, scale: int) -> float | None:
    """Watts of a value and its scale (1: 0.1 mW, 2: 10 mW, 0: not reported, 3: reserved).

    None also for 0, with which a drive says that it has not measured or cannot, and for all ones.
    """
    unit = _WATTS_PER_UNIT.get(scale)
    return None if unit is None or value in (0, 0xFFFF) else value * unit


def _number_in_nvme_page(page: bytes, at: int, size: int) -> int:
    return int.from_bytes(page[at : at + size], "little")


def _counter_in_nvme_page(page: bytes, at: int) -> int | None:
    """A counter of 128 bits; None where it is filled with ones, or was never written."""
    return integer(_number_in_nvme_page(page, at, 16))


def _celsius_in_nvme_page(page: bytes, at: int) -> float | None:
    """°C of a field in kelvin, where 0 is "not reported"; None where no drive can have it."""
    kelvin = _number_in_nvme_page(page, at, 2)
    return plausible(float(kelvin - _WHOLE_KELVIN)) if kelvin else None


def _words_in_nvme_page(field: bytes) -> str:
    return text(field.decode("ascii", "replace"))
