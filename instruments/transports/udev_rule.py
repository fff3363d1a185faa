"""The udev rule that lets an ordinary user open a meter on USB (udev(7); systemd: TAG uaccess)."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Final

from instruments.errors import InstrumentError
from instruments.transports.addresses import usb_ids
from instruments.transports.serial_ports import connected_ports, port_path

GROUP: Final = "dialout"
"""Whose members open serial ports (Debian, Fedora, SUSE)."""
UDEV_TODO: Final = (
    "put the next line into /etc/udev/rules.d/70-labctl.rules, then: sudo udevadm control "
    f"--reload && sudo udevadm trigger; you must be in the group {GROUP}"
)
_REFUSED: Final = re.compile(
    r"may not open|access denied|permission denied|insufficient permissions|\[errno 13\]",
    re.IGNORECASE,
)


def may_not_open(reason: str) -> bool:
    """Whether a message says that this user may not open a device."""
    return _REFUSED.search(reason) is not None


def udev_rule(address: str) -> str:
    """The rule for the USB device at a VISA resource or a serial port; empty where it is none."""
    if ids := usb_ids(address):
        return _rule("usb", "ATTR", *ids)
    path = address.removeprefix("ASRL").removesuffix("::INSTR")
    if "::" in path or not path:
        return ""
    with contextlib.suppress(InstrumentError):
        path = os.path.realpath(port_path("", path))
    for port in connected_ports():
        if port.path == path and port.vid is not None and port.pid is not None:
            return _rule("tty", "ATTRS", port.vid, port.pid)
    return ""


def _rule(subsystem: str, attribute: str, vid: int, pid: int) -> str:
    return (
        f'SUBSYSTEM=="{subsystem}", {attribute}{{idVendor}}=="{vid:04x}", '
        f'{attribute}{{idProduct}}=="{pid:04x}", MODE="0660", GROUP="{GROUP}", '
        'TAG+="uaccess"'
    )
