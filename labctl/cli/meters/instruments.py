"""``labctl instruments``: what is connected, who it is, and the rig lines to paste."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from instruments import identify
from instruments.errors import InstrumentError
from instruments.transports.serial_ports import SerialPort, connected_ports
from labctl.cli.terminal.arguments import JsonOption
from labctl.service.data_dir import find_home
from labctl.service.locks.rig_lock import RigBusy, holding_meter

_NO_USB = {"usb": "", "stays": ""}


def list_instruments(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ADDRESS", help="Serial ports, VISA resources, Quarch modules to ask."
        ),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask each VISA resource and Quarch module.")
    ] = False,
    json_output: JsonOption = False,
) -> int:
    """List what is connected, who it is, and the rig lines for it."""
    # the exit code is 1 when an address that was named did not answer; serial ports are asked by
    # name alone, for what is written to one may be an order to something else
    named = addresses or []
    ports = connected_ports()
    rows = [_port_row(port) for port in ports]
    try:
        resources = identify.visa_resources()
    except InstrumentError as error:
        resources = []
        print(f"labctl: {error}", file=sys.stderr)
    rows += [{"address": name, "what": "VISA", **_NO_USB} for name in resources]
    others = identify.on_no_port() if ask or not named else []
    rows += [{"address": one.address, "what": one.identity, **_NO_USB} for one in others]
    resources += [one.address for one in others if one.driver == "quarch"]
    wanted = list(dict.fromkeys([*(resources if ask else []), *named]))
    stays = {port.path: port.usb or port.by_id for port in ports}
    found = [
        _asked(address, f"meter{number}", stays.get(address, ""))
        for number, address in enumerate(wanted, start=1)
    ]
    failed = any(item["error"] for item in found if item["address"] in named)
    if json_output:
        print(json.dumps({"connected": rows, "asked": found}, indent=1))
        return int(failed)
    if ask or not named:
        _print_rows(rows)
    _print_found(found)
    if rows and not found:
        if not ask:
            print("labctl instruments --ask asks VISA resources and Quarch modules who they are.")
        print("A serial port is asked only by name: labctl instruments /dev/ttyUSB0")
    return int(failed)


def _port_row(port: SerialPort) -> dict[str, str]:
    return {
        "address": port.path,
        "what": port.description or "serial port",
        "usb": port.usb,
        "stays": port.by_id,
    }


def _asked(address: str, name: str, port: str) -> dict[str, Any]:
    result = {"address": address, "identity": "", "driver": "", "rig": [], "error": ""}
    try:
        with holding_meter(find_home(), address, "labctl instruments"):
            found = identify.identify_address(address)
    except InstrumentError as error:
        return result | {"error": str(error).removeprefix(f"{address}: ")}
    except RigBusy as error:
        return result | {"error": str(error).removeprefix(f"meter {address} ")}
    if not found.identity:
        return result | {"error": "nothing known answered"}
    return result | {
        "identity": found.identity,
        "driver": found.driver,
        "rig": identify.rig_lines(found, name, port),
    }


def _print_rows(rows: Sequence[dict[str, str]]) -> None:
    if not rows:
        print("nothing found: no serial ports, no VISA resources, no power monitors")
    for row in rows:
        print(f"{row['address']:<32} {row['what']}")
        for key in ("usb", "stays"):
            if row[key]:
                print(f"{'':<32} {row[key]}")
    if rows:
        print()


def _print_found(found: Sequence[dict[str, Any]]) -> None:
    for number, item in enumerate(found):
        if number:
            print()
        print(f"{item['address']}: {item['error'] or item['identity']}")
        for line in item["rig"]:
            print(f"  {line}")
