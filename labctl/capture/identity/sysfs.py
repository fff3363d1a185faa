"""What the kernel shows of a drive without root: its place in the PCIe tree, and its sensors.

``current_link_*``, ``max_link_*`` and ``slots``: Documentation/ABI/testing/sysfs-bus-pci. hwmon of
the nvme and drivetemp drivers: Documentation/hwmon/sysfs-interface.rst (millidegrees Celsius).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from instruments.drivers.hwmon import hwmon_sensor_name
from labctl.capture.host.machine import Machine
from labctl.capture.identity.block_devices import nvme_names
from labctl.capture.identity.tool_output import integer, plausible
from labctl.record.drive_state import PcieLink, PciePort, TemperatureSensor

_NVME = "/sys/class/nvme"
_UNKNOWN_WIDTHS = (0, 255)
_HWMON_FILES = ("temp*_input", "temp*_label", "temp*_max", "temp*_crit")
_PCI_DEVICES = "/sys/bus/pci/devices"
_PCI_SLOTS = "/sys/bus/pci/slots/*/address"
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
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
    """The link from the texts of sysfs; None for "Unknown" and impossible widths."""
    link = PcieLink(
        speed_gt_s=_sysfs_link_speed(files.get("current_link_speed", "")),
        width=_sysfs_link_width(files.get("current_link_width", "")),
        max_speed_gt_s=_sysfs_link_speed(files.get("max_link_speed", "")),
        max_width=_sysfs_link_width(files.get("max_link_width", "")),
    )
    return None if link == PcieLink() else link


@dataclass(frozen=True, slots=True)
class PciePlace:
    """Where a drive is in the PCIe tree. ``ports`` are above it, the root port first."""

    address: str = ""
    slot: str = ""
    ports: tuple[PciePort, ...] = ()
    numa_node: int | None = None


def read_place(controller: str, machine: Machine) -> PciePlace:
    """Where an NVMe controller is; empty where it is on no PCI bus (over fabrics)."""
    path = machine.resolve(f"{_NVME}/{controller}/device") or ""
    addresses = [part for part in path.split("/") if _PCI_ADDRESS.fullmatch(part)]
    if not addresses:
        return PciePlace()
    *above, own = addresses
    files = [f"{_PCI_DEVICES}/{address}/{name}" for address in above for name in _LINK_FILES]
    node = f"{_PCI_DEVICES}/{own}/numa_node"
    texts = machine.read_texts([*files, node, _PCI_SLOTS])
    ports = []
    for address in above:
        folder = f"{_PCI_DEVICES}/{address}"
        link = parse_link({name: texts.get(f"{folder}/{name}", "") for name in _LINK_FILES})
        ports.append(PciePort(address, link))
    numa_node = integer(texts.get(node, "").strip())
    return PciePlace(own, _slot_of(addresses, texts), tuple(ports), numa_node)


def _slot_of(addresses: Sequence[str], texts: Mapping[str, str]) -> str:
    """The name of the slot that the drive, or what is above it, is plugged into."""
    slots = {
        text.strip(): PurePosixPath(path).parent.name
        for path, text in texts.items()
        if path.endswith("/address")
    }
    for address in reversed(addresses):
        device, _, _ = address.partition(".")
        bus = device.rpartition(":")[0]  # a slot that is a whole bus has no device number
        if name := slots.get(device) or slots.get(bus):
            return name
    return ""


def slow_slot(link: PcieLink, ports: Sequence[PciePort] = ()) -> str:
    """The finding about a drive whose PCIe path is slower than possible; empty when it is not.

    ``ports``: those above the drive, the root port first. They show whether the slot limits the
    speed, or a port further up.
    """
    consequence = "or know that throughput and watts are those of this link"
    if link.slower_than_possible:
        above = ports[-1].link if ports else None
        advice = "use another slot or adapter"
        if above is not None and above.max_bytes_per_s and link.max_bytes_per_s:
            could = _link_text(above.max_speed_gt_s, above.max_width)
            if above.max_bytes_per_s < link.max_bytes_per_s:
                advice = f"the slot (port {ports[-1].address}) can do no more than {could}: use "
                advice += "another one"
            else:
                advice = f"the slot (port {ports[-1].address}) could {could} too: reseat the "
                advice += "drive, try without an adapter, look into the firmware's settings"
        return (
            "the drive is in a slow slot: its link runs at "
            f"{_link_text(link.speed_gt_s, link.width)}, it could "
            f"{_link_text(link.max_speed_gt_s, link.max_width)}; {advice}, {consequence}"
        )
    for port in ports:
        port_bytes_per_s = port.link.bytes_per_s if port.link is not None else None
        own_bytes_per_s = link.bytes_per_s
        if (
            port.link
            and port_bytes_per_s
            and own_bytes_per_s
            and port_bytes_per_s < own_bytes_per_s
        ):
            return (
                f"the drive's own link runs at {_link_text(link.speed_gt_s, link.width)}, but port "
                f"{port.address} above it only at "
                f"{_link_text(port.link.speed_gt_s, port.link.width)}: "
                f"use another slot, {consequence}"
            )
    return ""


def _link_text(speed: float | None, width: int | None) -> str:
    return f"{'?' if speed is None else f'{speed:g}'} GT/s x{width or '?'}"


def _sysfs_link_speed(text: str) -> float | None:
    match = re.match(r"\s*(\d+(?:\.\d+)?)\s*GT/s", text)
    return float(match[1]) if match else None


def _sysfs_link_width(text: str) -> int | None:
    plain = text.strip().removeprefix("x")
    width = int(plain) if plain.isdecimal() else 0
    return None if width in _UNKNOWN_WIDTHS else width


def read_sysfs_sensors(folders: tuple[str, ...], machine: Machine) -> tuple[TemperatureSensor, ...]:
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
        label = hwmon_sensor_name(texts.get(f"{stem}_label", "")) or PurePosixPath(stem).name
        sensor = TemperatureSensor(
            name=label,
            path=path,
            celsius=_sysfs_celsius(texts[path]),
            max_celsius=_sysfs_celsius(texts.get(f"{stem}_max", "")),
            critical_celsius=_sysfs_celsius(texts.get(f"{stem}_crit", "")),
        )
        found.setdefault(label, sensor)
    return tuple(found.values())


def _sysfs_celsius(text: str) -> float | None:
    """In °C; None also for what the nvme driver makes of 65535 K (no limit set) and of 0 K."""
    try:
        return plausible(int(text) / 1000)
    except ValueError:
        return None
