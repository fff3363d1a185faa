"""Finds serial ports by the USB device: its serial number stays the same, its path may not.

A port is written as a path (best one in ``/dev/serial/by-id``, which stays the same),
``usb:SERIAL``, ``usb:VID:PID`` or ``usb:VID:PID:SERIAL`` (VID and PID in hexadecimal, as
``lsusb`` shows them).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from instruments.errors import ConnectionLost, WrongInstrument

PREFIX: Final = "usb:"
BY_ID: Final = Path("/dev/serial/by-id")
IN_USE: Final = frozenset({errno.EAGAIN, errno.EBUSY})
"""Error numbers of opening a port that another program has locked."""
_VID_PID: Final = re.compile(r"([0-9a-fA-F]{4}):([0-9a-fA-F]{4})(?::(.+))?")


@dataclass(frozen=True, slots=True)
class SerialPort:
    """One serial port of this machine."""

    path: str
    description: str = ""
    vid: int | None = None
    pid: int | None = None
    serial: str = ""
    by_id: str = ""
    """Its path in ``/dev/serial/by-id``, which stays the same; empty: none."""

    @property
    def usb(self) -> str:
        """Its name in a rig, which holds on every USB socket; empty where it is not on USB."""
        if self.vid is None or self.pid is None:
            return ""
        serial = f":{self.serial}" if self.serial else ""
        return f"{PREFIX}{self.vid:04x}:{self.pid:04x}{serial}"


def connected_ports() -> list[SerialPort]:
    """The serial ports of this machine, by path."""
    from serial.tools import list_ports

    links = {link.resolve(): link for link in sorted(BY_ID.glob("*"))}
    ports = [
        SerialPort(
            path=info.device,
            description=info.description if info.description != "n/a" else "",
            vid=info.vid,
            pid=info.pid,
            serial=info.serial_number or "",
            by_id=str(links.get(Path(info.device).resolve(), "")),
        )
        for info in list_ports.comports()
    ]
    return sorted(ports, key=lambda port: port.path)


def port_path(name: str, port: str, ports_there: Sequence[SerialPort] | None = None) -> str:
    """The present path of a port. ``ports_there``: choose from these, not this machine's.

    Raises ConnectionLost (not plugged in) and WrongInstrument (several are meant).
    """
    if not port.startswith(PREFIX):
        return port
    wanted = port.removeprefix(PREFIX)
    ports = connected_ports() if ports_there is None else ports_there
    match = _VID_PID.fullmatch(wanted)
    if match is None:
        found = [item for item in ports if wanted and item.serial == wanted]
    else:
        vid, pid, serial = int(match[1], 16), int(match[2], 16), match[3]
        found = [
            item
            for item in ports
            if (item.vid, item.pid) == (vid, pid) and serial in (None, item.serial)
        ]
    if not found:
        known = ", ".join(item.usb for item in ports if item.usb) or "none"
        raise ConnectionLost(f"{name}: no serial port is {port} (on USB: {known}); plug it in")
    if len(found) > 1:
        which = ", ".join(f"{item.path} ({item.usb})" for item in found)
        raise WrongInstrument(f"{name}: {port} means several: {which}; add the serial number")
    return found[0].path


def stable_path(port: str) -> str:
    """The port's path in ``/dev/serial/by-id``, which stays the same; else its present path."""
    path = port_path(port, port)
    by_id_of = {item.path: item.by_id for item in connected_ports()}
    return by_id_of.get(path, "") or path


def port_error_text(error: Exception) -> str:
    """Why a port cannot be opened, and what can be done; pyserial's own message is unclear."""
    code = getattr(error, "errno", None) or getattr(error.__context__, "args", (None,))[0]
    match code:
        case errno.ENOENT | errno.ENODEV | errno.ENXIO:
            return "there is no such port; is it plugged in?"
        case errno.EACCES | errno.EPERM:
            return "this user may not open it (group dialout?)"
        case _ if code in IN_USE:
            return "another program has it open"
        case errno.ENOTTY | errno.EISDIR:
            return "it is no serial port"
        case _:
            return f"{error}; is it plugged in, and may this user open it (group dialout)?"
