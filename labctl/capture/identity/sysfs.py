"""What the kernel shows of a drive without root: its PCIe link and its temperature sensors.

``current_link_*`` and ``max_link_*``: Documentation/ABI/testing/sysfs-bus-pci. hwmon of the nvme
and drivetemp drivers: Documentation/hwmon/sysfs-interface.rst (millidegrees Celsius).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from instruments.drivers.hwmon import sensor_name
from labctl.capture.drive.block_devices import nvme_names
from labctl.capture.host.machine import Machine
from labctl.drive_state import PcieLink, TemperatureSensor

_NVME = "/sys/class/nvme"
_UNKNOWN_WIDTHS = (0, 255)
_HWMON_FILES = ("temp*_input", "temp*_label", "temp*_max", "temp*_crit")
_LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")


def nvme_controller_of(disk: str, machine: Machine) -> str | None:
    """The controller ("nvme0") that a namespace is reached through; None when it is no NVMe.

    Under multipath the namespace is named after the subsystem, not after the controller.
    """
    names = nvme_names(disk)
    if names is None:
        return None
    subsystem, namespace = names
    paths = machine.read_texts([f"{_NVME}/*/nvme*n*/size"])
    wanted = re.compile(rf"{subsystem}(c\d+)?n{namespace}")
    for path in sorted(paths):
        controller, child = path.split("/")[4:6]
        if wanted.fullmatch(child):
            return controller
    return subsystem


def read_link(controller: str, machine: Machine) -> PcieLink | None:
    """The PCIe link of an NVMe controller; None where it has none (emulated, over fabrics)."""
    folder = f"{_NVME}/{controller}/device"
    texts = machine.read_texts([f"{folder}/{name}" for name in _LINK_FILES])
    return parse_link({PurePosixPath(path).name: text for path, text in texts.items()})


def parse_link(files: Mapping[str, str]) -> PcieLink | None:
    """The link from the texts of sysfs; "Unknown" and impossible widths are not known."""
    link = PcieLink(
        speed_gt_s=_speed(files.get("current_link_speed", "")),
        width=_width(files.get("current_link_width", "")),
        max_speed_gt_s=_speed(files.get("max_link_speed", "")),
        max_width=_width(files.get("max_link_width", "")),
    )
    return None if link == PcieLink() else link


def slow_slot(link: PcieLink) -> str:
    """The finding about a link below what the drive can do; empty when it is as fast as can be."""
    if not link.slower_than_possible:
        return ""
    return (
        f"the drive is in a slow slot: its link runs at {_link(link.speed_gt_s, link.width)}, it "
        f"could {_link(link.max_speed_gt_s, link.max_width)}; use another slot or adapter, or know "
        "that throughput and watts are those of this link"
    )


def _link(speed: float | None, width: int | None) -> str:
    return f"{'?' if speed is None else f'{speed:g}'} GT/s x{width or '?'}"


def _speed(text: str) -> float | None:
    match = re.match(r"\s*(\d+(?:\.\d+)?)\s*GT/s", text)
    return float(match[1]) if match else None


def _width(text: str) -> int | None:
    plain = text.strip().removeprefix("x")
    width = int(plain) if plain.isdecimal() else 0
    return None if width in _UNKNOWN_WIDTHS else width


def read_sensors(folders: tuple[str, ...], machine: Machine) -> tuple[TemperatureSensor, ...]:
    """The hwmon sensors below ``folders`` (a controller's or a disk's directory in sysfs)."""
    bases = [
        f"{folder}/{below}"
        for folder in folders
        for below in ("hwmon[0-9]*", "hwmon/hwmon[0-9]*", "device/hwmon/hwmon[0-9]*")
    ]
    return parse_sensors(
        machine.read_texts([f"{base}/{name}" for base in bases for name in _HWMON_FILES])
    )


def parse_sensors(texts: Mapping[str, str]) -> tuple[TemperatureSensor, ...]:
    """The sensors in hwmon files, by path; named as the hwmon driver of instruments names them."""
    found: dict[str, TemperatureSensor] = {}
    for path in sorted(texts):
        if not path.endswith("_input"):
            continue
        stem = path.removesuffix("_input")
        label = sensor_name(texts.get(f"{stem}_label", "")) or PurePosixPath(stem).name
        sensor = TemperatureSensor(
            name=label,
            path=path,
            celsius=_millidegrees(texts[path]),
            max_celsius=_millidegrees(texts.get(f"{stem}_max", "")),
            critical_celsius=_millidegrees(texts.get(f"{stem}_crit", "")),
        )
        found.setdefault(label, sensor)
    return tuple(found.values())


def _millidegrees(text: str) -> float | None:
    try:
        return int(text) / 1000
    except ValueError:
        return None
