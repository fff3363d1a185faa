"""``labctl instruments``: what is connected, who it is, and the rig lines to paste."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from instruments import identify
from instruments.errors import InstrumentError
from instruments.serial_ports import SerialPort, connected_ports


def list_instruments(addresses: Sequence[str], ask: bool, json_output: bool) -> int:
    """Print them; the exit code is 1 when an address that was named did not answer.

    Without ``ask`` nothing is opened but the ``addresses``; serial ports are asked only by name.
    """
    ports = connected_ports()
    rows = [_port_row(port) for port in ports]
    try:
        resources = identify.visa_resources()
    except InstrumentError as error:
        resources = []
        print(f"labctl: {error}", file=sys.stderr)
    rows += [{"address": name, "what": "VISA", "usb": "", "stays": ""} for name in resources]
    wanted = list(dict.fromkeys([*(resources if ask else []), *addresses]))
    stays = {port.path: port.usb or port.by_id for port in ports}
    found = [_asked(address, stays.get(address, "")) for address in wanted]
    failed = any(item["error"] for item in found if item["address"] in addresses)
    if json_output:
        print(json.dumps({"connected": rows, "asked": found}, indent=1))
        return int(failed)
    _print(rows, found, asked=ask)
    return int(failed)


def _port_row(port: SerialPort) -> dict[str, str]:
    return {
        "address": port.path,
        "what": port.description or "serial port",
        "usb": port.usb,
        "stays": port.by_id,
    }


def _asked(address: str, port: str) -> dict[str, Any]:
    result = {"address": address, "identity": "", "driver": "", "rig": [], "error": ""}
    try:
        found = identify.ask(address)
    except InstrumentError as error:
        return result | {"error": str(error)}
    if not found.identity:
        return result | {"error": "nothing known answered"}
    name = f"{found.driver or 'meter'}1"
    return result | {
        "identity": found.identity,
        "driver": found.driver,
        "rig": identify.rig_lines(found, name, port),
    }


def _print(rows: Sequence[dict[str, str]], found: Sequence[dict[str, Any]], *, asked: bool) -> None:
    if not rows:
        print("nothing found: no serial ports, no VISA resources")
    for row in rows:
        print(f"{row['address']:<32} {row['what']}")
        for key in ("usb", "stays"):
            if row[key]:
                print(f"{'':<32} {row[key]}")
    for item in found:
        print(f"\n{item['address']}: {item['error'] or item['identity']}")
        for line in item["rig"]:
            print(f"  {line}")
    if rows and not found:
        if not asked:
            print("\nlabctl instruments --ask asks VISA resources who they are.")
        print("\nA serial port is asked only by name: labctl instruments /dev/ttyUSB0")
