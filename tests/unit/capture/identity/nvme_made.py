"""NVMe pages for tests, by the structures that the simulated drive declares field by field."""

from __future__ import annotations

from typing import Any

from instruments.simulated.drive.nvme_structures import (
    HistogramBin,
    IdentifyController,
    IdentifyNamespace,
    LbaFormat,
    PowerMeasurementLog,
    PowerStateDescriptor,
    SmartLog,
    counter,
    power,
)
from labctl.capture.host.machine import Completed

COUNTERS = {
    "data_units_read": 14051417,
    "data_units_written": 47217872,
    "host_reads": 122591395,
    "host_writes": 96126428,
    "busy_minutes": 2328,
    "power_cycles": 77,
    "power_on_hours": 1244,
    "unsafe_shutdowns": 52,
    "media_errors": 0,
    "error_log_entries": 1,
}


def printed(page: bytes) -> Completed:
    """What a tool that prints these bytes has done."""
    return Completed(0, page.decode("utf-8", "replace"), "", page)


def smart_page(**changed: Any) -> bytes:
    """A SMART log of a drive at 45 °C; ``changed`` by the names of the structure."""
    log = SmartLog(
        composite_kelvin=318,
        available_spare=100,
        spare_threshold=10,
        percentage_used=3,
        warning_minutes=7,
        critical_minutes=2,
    )
    log.sensor_kelvin[:3] = [318, 0, 330]
    log.thermal_transitions[:] = [4, 1]
    log.thermal_seconds[:] = [63, 9]
    for name, value in (COUNTERS | changed).items():
        if name in COUNTERS:
            setattr(log, name, counter(value))
        elif isinstance(value, list):
            getattr(log, name)[:] = value
        else:
            setattr(log, name, value)
    return bytes(log)


def controller_page(**changed: Any) -> bytes:
    """Identify Controller of a consumer's drive with an operational and a sleeping power state."""
    found = IdentifyController(
        serial_number=b"S4EWNX0R123456      ",
        model_number=b"Samsung SSD 970 EVO Plus 1TB".ljust(40),
        firmware_revision=b"2B2QEXM7",
        power_states_minus_one=1,
        warning_kelvin=358,
        total_capacity=counter(1000204886016),
        host_thermal_management=1,
        minimum_thermal_kelvin=356,
        maximum_thermal_kelvin=358,
    )
    found.power_states[0] = PowerStateDescriptor(maximum_power=780)
    found.power_states[1] = PowerStateDescriptor(
        maximum_power=50, flags=0b11, idle_power=506, idle_power_scale=2 << 6
    )
    for name, value in changed.items():
        setattr(found, name, value)
    return bytes(found)


def namespace_page(*formats: tuple[int, int], formatted_as: int = 0, **changed: Any) -> bytes:
    """Identify Namespace; ``formats``: shift of the block's size, bytes of metadata."""
    made = formats or ((12, 0),)
    found = IdentifyNamespace(
        size_blocks=1953525168, formats_minus_one=len(made) - 1, formatted_as=formatted_as
    )
    for place, (shift, metadata) in enumerate(made):
        found.formats[place] = LbaFormat(data_shift=shift, metadata_bytes=metadata)
    for name, value in changed.items():
        setattr(found, name, value)
    return bytes(found)


def power_page(*counts: tuple[float, int], **changed: Any) -> bytes:
    """Log page 25h; ``counts``: lower threshold in watts of a bin, and its count."""
    log = PowerMeasurementLog(
        attributes=1,
        bins=len(counts),
        bin_bytes=8,
        bin_milliwatts=250,
        measurements=sum(count for _, count in counts),
        size_bytes=64 + 8 * len(counts),
        percent_error=5,
    )
    for name, value in changed.items():
        setattr(log, name, value)
    bins = (bytes(HistogramBin(count, power(watts))) for watts, count in counts)
    return bytes(log) + b"".join(bins)
