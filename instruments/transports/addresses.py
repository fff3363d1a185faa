"""Addresses of meters as people write them: VISA resources and serial ports."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Final

from instruments.errors import InstrumentError
from instruments.transports.serial_ports import port_path

PSEUDO_TERMINALS: Final = "/dev/pts/"
"""Their numbers are given to others as soon as they are free, also while a run waits for a meter
that was behind one: they are named by the path that leads to them."""
_USB: Final = re.compile(
    r"USB\d*::(?P<vendor>0x[0-9a-f]+|[1-9]\d*)::(?P<product>0x[0-9a-f]+|[1-9]\d*)::(?P<rest>.+)",
    re.IGNORECASE,
)
_BOARD: Final = re.compile(r"^(?:(tcpip)\d+|([a-z-]+)0)(?=::|$)")
"""TCPIP: however this machine reaches a host, it is that host."""
_BUS: Final = re.compile(r"(TCPIP|USB|GPIB|GPIB-VXI|VXI|PXI|VICP|PRLGX-\w+)\d*", re.IGNORECASE)
_SERIAL: Final = re.compile(r"ASRL.+", re.IGNORECASE)
RESOURCE_EXAMPLE: Final = "TCPIP0::192.168.1.20::5025::SOCKET"
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")


ADDRESS_KEYS: Final = ("resource", "port", "conn")
"""The keys of drivers' settings that say where a meter is."""


def canonical_address(address: str) -> str:
    """One name for a meter, however its address is written.

    Of a VISA resource without letter case, board 0 and ``::INSTR``, which may be left out
    (VPP-4.3), as may interface 0 of a USB device, whose ids are decimal or hexadecimal; of a serial
    port the path that its links lead to, where it is plugged in.
    """
    if "::" in address:
        name = address.strip().casefold().removesuffix("::instr")
        if (ids := usb_ids(name)) and (usb := _USB.match(name)):
            return f"usb::{ids[0]:04x}::{ids[1]:04x}::{usb['rest'].removesuffix('::0')}"
        return _BOARD.sub(r"\1\2", name)
    path = address
    with contextlib.suppress(InstrumentError):  # not plugged in now
        port = port_path("", address)
        if Path(port).is_absolute() or Path(port).exists():  # else no path: sigrok's hid/ch9325
            path = os.path.realpath(port)
        if path.startswith(PSEUDO_TERMINALS):
            path = str(Path(port).absolute())
    return path


def usb_ids(resource: str) -> tuple[int, int] | None:
    """Vendor and product of the USB device at a VISA resource; None where it is none.

    They are decimal or, with 0x, hexadecimal: PyVISA-py lists them in decimal.
    """
    usb = _USB.match(resource.strip())
    return (int(usb["vendor"], 0), int(usb["product"], 0)) if usb else None


def checked_resource(resource: str) -> str:
    """``resource``, one that PyVISA-py can open by its form: other libraries know more, such as
    aliases and resources of other machines. Raises ValueError with what it should be."""
    first, *rest = resource.strip().split("::")
    if _SERIAL.fullmatch(first):
        return resource
    if not rest or not _BUS.fullmatch(first):
        host = first.partition(":")[0]
        example = f"TCPIP0::{host}::5025::SOCKET" if _HOST.fullmatch(host) else RESOURCE_EXAMPLE
        of_port = " (a serial port: ASRL/dev/ttyUSB0::INSTR)" if "/" in resource else ""
        raise ValueError(
            f"is no VISA resource, such as {example} or {example.removesuffix('::5025::SOCKET')}"
            f"::INSTR{of_port}"
        )
    if any(not part for part in rest):
        raise ValueError("has nothing between two '::'")
    if first.upper().startswith("TCPIP") and not rest[0].startswith("["):
        single = next((part for part in rest if ":" in part), None)
        if single is not None:
            raise ValueError(f"has a single ':' in {single!r}: the parts are joined by '::'")
        if rest[-1].upper() == "SOCKET" and not (len(rest) == 3 and rest[1].isdecimal()):
            raise ValueError(f"a socket has a host and a port, such as {RESOURCE_EXAMPLE}")
    return resource
