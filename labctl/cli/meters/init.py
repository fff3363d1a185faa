"""``labctl init``: writes a rig from what is connected, asking or by options."""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from instruments import identify
from instruments.errors import InstrumentError
from instruments.identify import FoundInstrument
from instruments.transports.serial_ports import connected_ports, stable_path
from instruments.transports.udev_rule import UDEV_TODO, may_not_open, udev_rule
from labctl.capture.host.machine import LocalMachine
from labctl.capture.identity.block_devices import read_block_devices
from labctl.cli.terminal.filled import filled
from labctl.config.find_rig import new_rig_file, write_new
from labctl.config.new_rig import (
    FIXED_PCT,
    MAINS_HZ,
    NewDrive,
    NewRail,
    has_functions,
    rig_text,
    volts_of_name,
)
from labctl.config.rig import parse_rig
from labctl.errors import ConfigurationError, LabctlError, Mistake
from labctl.printable import printable
from labctl.record.layout import NAME_PATTERN
from labctl.record.phase import parse_size
from labctl.service.data_dir import find_home
from labctl.service.locks.rig_lock import holding_meter
from labctl.toml_reading import pattern_in_words

RAIL_FORM = "NAME,amps=ADDRESS[,volts=ADDRESS|,fixed=PCT][,shunt=OHM][,nominal=V]"
_RAIL_KEYS = ("amps", "volts", "fixed", "shunt", "nominal")
_FIXED = "f"
SCRATCH_SIZE = "4g"
"""Of a scratch file, where a person has no other wish."""


def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of the new rig.")
    ] = "my-rig",
    drive: Annotated[
        str | None, typer.Option(help="The drive: a device, or a scratch file.")
    ] = None,
    rail: Annotated[
        list[str] | None,
        typer.Option(metavar="RAIL", help=f"A rail (may be repeated): {RAIL_FORM}."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where the drive is: user@box for ssh.")] = "local",
    size: Annotated[str | None, typer.Option(help="Size of a scratch file, such as 4g.")] = None,
    mains_hz: Annotated[int, typer.Option(help="The mains: 50 or 60.")] = 50,
) -> int:
    """Make a rig of what is connected: it asks.

    Or it takes --drive and --rail.
    """
    # a serial port is asked only by name, for what is written to one may be an order to something
    _check_name("NAME", name)
    file = new_rig_file(name)
    if mains_hz not in MAINS_HZ:
        raise typer.BadParameter("--mains-hz is 50 or 60")
    size_bytes = None if size is None else _size_bytes(size)
    wanted = [_rail_for_init(text) for text in rail or ()]
    _check_distinct([one.name for one in wanted])
    if file.exists():
        raise ConfigurationError([Mistake(str(file), "file", None, "is there already")])
    asks = not wanted
    if asks and not sys.stdin.isatty():
        allowed = f"is missing, and there is nobody to ask: {RAIL_FORM}"
        raise ConfigurationError([Mistake("command line", "--rail", None, allowed)])
    meters = _Meters()
    chosen = _ask_for_drive(drive) if asks and host == "local" else drive
    if chosen is None:
        listed = ", ".join(target for target, _ in _drives_for_init()) or "none found"
        allowed = f"is missing; here are: {listed}"
        raise ConfigurationError([Mistake("command line", "--drive", None, allowed)])
    if asks and size_bytes is None and _is_to_be_made(chosen, host):
        size_bytes = typer.prompt(
            "Size of the scratch file", default=SCRATCH_SIZE, value_proc=_answered_size
        )
    rails = _ask_for_rails(meters) if asks else [one.asked(meters) for one in wanted]
    text = rig_text(name, host, _new_drive(chosen, host, size_bytes), rails, mains_hz)
    write_new(file, text)
    print(f"{file} is written")
    for rule in dict.fromkeys(meters.rules):
        print(f"\n{UDEV_TODO}:\n{rule}")
    mistakes = _init_rig_mistakes(text, file)
    if size_bytes is None and _is_to_be_made(chosen, host):
        allowed = "is missing: how large the scratch file is to be (--size)"
        mistakes.append(Mistake(str(file), "drive.size_bytes", None, allowed))
    if mistakes:
        print("\nwhat is left for you to fill in (labctl check says it again):")
        for mistake in mistakes:
            print(filled(f"  {mistake.key}: {mistake.allowed}"))
        return 1
    print(f"labctl check {file}    finds no mistake in it")
    print(f"labctl doctor {name}    shows what each rail draws now")
    return 0


def _init_rig_mistakes(text: str, file: Path) -> list[Mistake]:
    """What is wrong with a rig."""
    try:
        parse_rig(text, str(file))
    except ConfigurationError as error:
        return list(error.mistakes)
    return []


def _is_to_be_made(target: str, host: str) -> bool:
    """Whether a target is a scratch file that a run will make."""
    return host == "local" and not target.startswith("/dev/") and not Path(target).exists()


class _Meters:
    """The meters that were asked who they are, each once; and rules for those that refused."""

    def __init__(self) -> None:
        self._found: dict[str, FoundInstrument] = {}
        self.rules: list[str] = []

    def at(self, address: str) -> FoundInstrument:
        """The meter at an address. Raises ConfigurationError where none answers that is known."""
        if address not in self._found:
            self._found[address] = self._ask(address)
        return self._found[address]

    def _ask(self, address: str) -> FoundInstrument:
        try:
            with holding_meter(find_home(), address, "labctl init"):
                found = identify.identify_address(address)
        except (InstrumentError, LabctlError) as error:
            reason = str(error).removeprefix(f"{address}: ")
            if may_not_open(reason) and (rule := udev_rule(address)):
                reason += f"; {UDEV_TODO}: {rule}"
            raise ConfigurationError([Mistake("meter", "address", address, reason)]) from error
        if not found.driver:
            allowed = "nothing known answered: is it on, and does it send (docs/drivers.md)?"
            raise ConfigurationError([Mistake("meter", "address", address, allowed)])
        if found.address.startswith("/"):
            found = replace(found, address=stable_path(found.address))
        if rule := udev_rule(address):
            self.rules.append(rule)
        return found


def _wrong_init_answer(key: str, value: str, allowed: str) -> ConfigurationError:
    """What a word of the command line, or an answer, must be."""
    return ConfigurationError([Mistake("command line", key, value, allowed)])


def _check_name(key: str, name: str) -> None:
    """Raises ConfigurationError for a name that neither a rig nor a rail may have."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise _wrong_init_answer(key, name, pattern_in_words(NAME_PATTERN))


def _check_distinct(rails: Sequence[str]) -> None:
    """Raises ConfigurationError for two rails of one name."""
    for rail in rails:
        if rails.count(rail) > 1:
            raise _wrong_init_answer("--rail", rail, "is the name of two rails")


def _size_bytes(size: str) -> int:
    """The bytes that ``--size`` says. Raises ConfigurationError."""
    try:
        size_bytes = parse_size(size)
    except ValueError as error:
        raise _wrong_init_answer("--size", size, f"must be {error}") from None
    if size_bytes <= 0:
        raise _wrong_init_answer("--size", size, "must be more than 0")
    return size_bytes


def _answered_size(text: str) -> int:
    """The bytes of an answer. Raises BadParameter, at which a prompt asks again."""
    try:
        return _size_bytes(text)
    except ConfigurationError as error:
        raise _asked_again_by_init(error) from None


def _asked_again_by_init(error: ConfigurationError) -> typer.BadParameter:
    """What a prompt says, behind a word of its own, before it asks again."""
    begin = "Error: "
    text = filled(f"{begin}{error.mistakes[0].allowed}")
    return typer.BadParameter(text.removeprefix(begin))


def _number_for_init(text: str, *, zero: bool = False) -> float:
    """A finite number above 0, or from 0 on. Raises BadParameter, at which a prompt asks again."""
    with contextlib.suppress(ValueError):
        number = float(text)
        if math.isfinite(number) and (number > 0 or (zero and number == 0)):
            return number
    raise typer.BadParameter(f"must be a number, {'0 or more' if zero else 'more than 0'}")


@dataclass(frozen=True, slots=True)
class _RailWords:
    """What ``--rail`` says of a rail: the addresses of meters that nobody has asked yet."""

    name: str
    nominal_volts: float
    amps: str
    volts: str | None
    fixed_pct: float
    shunt_ohm: float | None

    def asked(self, meters: _Meters) -> NewRail:
        """The rail with its meters. Raises ConfigurationError where one does not answer."""
        return NewRail(
            self.name,
            self.nominal_volts,
            meters.at(self.amps),
            None if self.volts is None else meters.at(self.volts),
            self.fixed_pct,
            self.shunt_ohm,
        )


def _rail_for_init(text: str) -> _RailWords:
    """What ``--rail`` says. Raises ConfigurationError."""
    name, *parts = text.split(",")
    _check_name("--rail", name)
    given = dict(part.partition("=")[::2] for part in parts)
    if unknown := [key for key in given if key not in _RAIL_KEYS]:
        raise _wrong_init_answer("--rail", text, f"has no {unknown[0]!r}: {RAIL_FORM}")
    if "amps" not in given:
        raise _wrong_init_answer(
            "--rail", text, f"needs amps=ADDRESS, the meter of its current: {RAIL_FORM}"
        )
    numbers: dict[str, float] = {}
    for key in given.keys() & {"fixed", "shunt", "nominal"}:
        try:
            numbers[key] = _number_for_init(given[key], zero=key == "shunt")
        except typer.BadParameter as error:
            raise _wrong_init_answer("--rail", text, f"{key} {error.message}") from None
    nominal = numbers.get("nominal") or volts_of_name(name)
    if not nominal:
        allowed = "needs nominal=VOLTS, which its name does not say (as 12V and 3V3 do)"
        raise _wrong_init_answer("--rail", text, allowed)
    if ("volts" in given) == ("fixed" in given):
        allowed = "needs volts=ADDRESS, the meter of its volts, or fixed=PCT, their tolerance"
        raise _wrong_init_answer("--rail", text, allowed)
    fixed_pct = numbers.get("fixed", FIXED_PCT)
    shunt_ohm = numbers.get("shunt") or None
    return _RailWords(name, nominal, given["amps"], given.get("volts"), fixed_pct, shunt_ohm)


def _drives_for_init() -> list[tuple[str, str]]:
    """The disks of this machine, and what they are."""
    devices = read_block_devices(LocalMachine())
    found = []
    for name in sorted(devices.files):
        size = int(devices.file(name, "size") or 0) * 512
        if size and not devices.is_partition(name) and name.startswith(("nvme", "sd", "vd")):
            model = printable(devices.file(name, "device/model"))
            found.append((f"/dev/{name}", f"{model} {size / 1e9:.0f} GB".strip()))
    return found


def _new_drive(target: str, host: str, size_bytes: int | None) -> NewDrive:
    """What this machine knows of the drive."""
    name = Path(target).resolve().name
    if not target.startswith("/dev/"):
        return NewDrive(str(Path(target).absolute()), "libaio", size_bytes=size_bytes)
    if host != "local":
        return NewDrive(target)
    devices = read_block_devices(LocalMachine())
    controller = name.partition("n1")[0] if name.startswith("nvme") else ""
    hwmon = f"/sys/class/nvme/{controller}/hwmon*" if controller else ""
    return NewDrive(
        target,
        "io_uring",
        devices.file(name, "device/model"),
        devices.file(name, "device/serial", "serial"),
        hwmon if controller and list(Path(f"/sys/class/nvme/{controller}").glob("hwmon*")) else "",
    )


def _ask_for_drive(given: str | None) -> str:
    if given is not None:
        return given
    drives = _drives_for_init()
    for number, (target, what) in enumerate(drives, start=1):
        print(f"  {number}  {target}  {what}")

    def chosen(answer: str) -> str:
        return drives[_place_in_init_list(answer, drives)][0] if answer.isdecimal() else answer

    return str(
        typer.prompt("The drive (its number, a device, or a scratch file)", value_proc=chosen)
    )


def _ask_for_rails(meters: _Meters) -> list[NewRail]:
    found = _ask_for_meters(meters)
    names = typer.prompt(
        "Rails, by the volts in their names", default="12V 3V3", value_proc=_rail_names
    )
    return [_ask_for_rail(name, found) for name in names]


def _ask_for_meters(meters: _Meters) -> list[FoundInstrument]:
    """Every meter that the person names, who answered."""
    ports = connected_ports()
    for port in ports:
        print(f"  {port.by_id or port.path}  {port.description}")
    try:
        resources = identify.visa_resources()
    except InstrumentError as error:
        print(f"  {error}")
        resources = []
    for resource in resources:
        print(f"  {resource}")
    for one in identify.on_no_port():
        print(f"  {one.address}  {one.identity}")
    print("A meter is asked who it is, so name only what is one.")
    print("On a network: TCPIP0::HOST::5025::SOCKET")
    found: list[FoundInstrument] = []
    while address := typer.prompt("Address of a meter (nothing: no more)", "", show_default=False):
        try:
            one = meters.at(address.strip())
        except ConfigurationError as error:
            print(filled(f"  {error.mistakes[0].allowed}"))
            continue
        found.append(one)
        print(f"  {len(found)}  {one.identity}  (driver {one.driver})")
    if not found:
        raise ConfigurationError([Mistake("meters", "address", None, "a rig needs one at least")])
    return found


def _ask_for_rail(name: str, found: Sequence[FoundInstrument]) -> NewRail:
    nominal = volts_of_name(name) or typer.prompt(
        f"{name}: nominal volts", value_proc=_number_for_init
    )
    amps = _pick_for_init(f"{name}: number of the meter of its current", found)
    question = f"{name}: its shunt in ohms (50 mΩ: 0.05; 0: no shunt, through the meter)"
    shunt = 0.0
    if has_functions(amps):
        shunt = typer.prompt(question, default="0", value_proc=partial(_number_for_init, zero=True))

    def meter_of_volts(answer: str) -> FoundInstrument | None:
        return None if answer == _FIXED else found[_place_in_init_list(answer, found)]

    volts = typer.prompt(
        f"{name}: number of the meter of its volts ({_FIXED}: fixed, there is none)",
        value_proc=meter_of_volts,
    )
    if volts is None:
        question = f"{name}: tolerance of these volts in %"
        pct = typer.prompt(question, default=f"{FIXED_PCT:g}", value_proc=_number_for_init)
        return NewRail(name, nominal, amps, None, pct, shunt or None)
    return NewRail(name, nominal, amps, volts, shunt_ohm=shunt or None)


def _pick_for_init(question: str, found: Sequence[FoundInstrument]) -> FoundInstrument:
    def chosen(answer: str) -> FoundInstrument:
        return found[_place_in_init_list(answer, found)]

    answered: FoundInstrument = typer.prompt(question, default="1", value_proc=chosen)
    return answered


def _rail_names(answer: str) -> list[str]:
    """The names of an answer. Raises BadParameter, at which a prompt asks again."""
    names = answer.split()
    if not names:
        raise typer.BadParameter("a rig needs one rail at least")
    try:
        for name in names:
            _check_name("rail", name)
        _check_distinct(names)
    except ConfigurationError as error:
        raise _asked_again_by_init(error) from None
    return names


def _place_in_init_list(answer: str, listed: Sequence[object]) -> int:
    """Which of a numbered list is meant. Raises BadParameter, at which a prompt asks again."""
    if answer.isdecimal() and 0 < int(answer) <= len(listed):
        return int(answer) - 1
    raise typer.BadParameter(f"must be a number from 1 to {len(listed)}")
