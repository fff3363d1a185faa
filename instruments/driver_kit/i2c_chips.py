"""Chips on I2C buses that the Linux kernel reads, named by bus and address: ``i2c-1-0x40``.

The numbers of hwmon directories change from boot to boot; bus and address do not (kernel:
Documentation/i2c/i2c-sysfs.rst: a device is called ``1-0040``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

DEVICES: Final = Path("/sys/bus/i2c/devices")
NAME_PATTERN: Final = r"^i2c-[0-9]+-0x[0-9a-f]{2}$"
_KERNEL_NAME: Final = re.compile(r"(\d+)-00([0-9a-f]{2})")


def hwmon_pattern(device: str) -> str:
    """The pattern that finds the hwmon directory of a device such as ``i2c-1-0x40``."""
    _, bus, address = device.split("-")
    return f"{DEVICES}/{bus}-00{address[2:]}/hwmon/hwmon*"


def connected_chips(devices: Path = DEVICES) -> dict[str, str]:
    """The name (``ina226``) of each chip of this machine that a hwmon driver reads, by device."""
    found = {}
    for file in sorted(devices.glob("*/hwmon/hwmon*/name")):
        name = _KERNEL_NAME.fullmatch(file.parents[2].name)
        if name is not None:
            found[f"i2c-{name[1]}-0x{name[2]}"] = file.read_text("utf-8", "replace").strip()
    return found
