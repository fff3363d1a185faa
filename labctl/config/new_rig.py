"""The text of a new rig: what was found on a bench, with comments on what a person should know."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from instruments import drivers
from instruments.drivers import wt300
from instruments.errors import DriverUnusable
from instruments.identify import FoundInstrument
from labctl.printable import printable

MOST_WATTS = 15.0
MOST_AMPS = 3.0
"""The ranges are chosen for these: a usual drive, and the lead in the usual socket."""
_ROOM = 1.1
"""How much of the nominal volts a range must hold."""
FIXED_PCT = 5.0
"""Tolerance of volts that nobody measures, if nothing is said: that of ATX supplies."""
MAINS_HZ = (50, 60)
_INTERVALS_S = {"truevolt": (0.021, 0.0175), "dmm6500": (0.021, 0.0175), "scpi_dmm": (0.2, 0.2)}
"""Seconds between readings at 50 and 60 Hz: what streams hardly longer than it integrates."""
_ADDRESS_KEYS = ("resource", "port", "device")
_OWN_RAILS: Mapping[str, str] = {"quarch": "{}", "elmorlabs_pmd": "atx_{}"}
"""What instruments of several rails call one, from its volts (12V, 3V3)."""


@dataclass(frozen=True, slots=True)
class NewRail:
    """A rail: its meters, and the shunt across which the current is measured (None: through it)."""

    name: str
    nominal_volts: float
    amps: FoundInstrument
    volts: FoundInstrument | None = None
    """None: nobody measures them."""
    fixed_pct: float = FIXED_PCT
    """Tolerance of volts that nobody measures."""
    shunt_ohm: float | None = None
    shunt_pct: float = 1.0


@dataclass(frozen=True, slots=True)
class NewDrive:
    """The drive: what is known of it."""

    target: str
    engine: str = "io_uring"
    model: str = ""
    serial: str = ""
    hwmon: str = ""
    """Directory of its sensors; empty: none."""
    sensor: str = "composite"
    size_bytes: int | None = None
    """Of a scratch file."""


def volts_of_name(rail: str) -> float | None:
    """The volts that a rail's name says: 12 of ``12V``, 3.3 of ``3V3``, None of ``main``."""
    match = re.fullmatch(r".*?(\d+)V(\d*)", rail, re.IGNORECASE)
    return float(f"{match[1]}.{match[2] or 0}") if match else None


def rig_text(
    name: str, host: str, drive: NewDrive, rails: Sequence[NewRail], mains_hz: int = 50
) -> str:
    """A rig file. What the manual of a meter must say first is a comment, so that ``labctl check``
    names what is left."""
    parts = [_new_rig_head(name, host), *_drive(drive)]
    suffixes = _meter_suffixes([rail.name for rail in rails])
    several = _SeveralRails(rails, suffixes)
    meters = several.sections()
    for rail, suffix in zip(rails, suffixes, strict=True):
        lines, sections = _rail(rail, suffix, mains_hz, several)
        parts.append("\n".join(lines))
        meters += sections
    if drive.hwmon:
        own = "" if drive.sensor == "composite" else ', of = "drive"'
        parts.append(
            f'[temperatures]\n{drive.sensor} = {{ channel = "drive_temp.{drive.sensor}"{own} }}'
        )
        meters.append(
            '[instruments.drive_temp]        # the drive\'s own sensor\ndriver = "hwmon"\n'
            f'directory = {_quoted_for_new_rig(drive.hwmon)}\nsensors = ["{drive.sensor}"]'
        )
    parts.append(
        "[limits]\n# celsius = 75                # hotter than this, a run pauses\n"
        "# watts = 15                  # more than this ends it"
    )
    return "\n\n".join([*parts, *meters]) + "\n"


def _new_rig_head(name: str, host: str) -> str:
    return (
        "# Made by labctl init from what was connected. Look at shunts and ranges, then:\n"
        f"#   labctl check rigs/{name}.toml      every mistake at once\n"
        f"#   labctl doctor {name}               volts, amps and watts as read now\n"
        f"name = {_quoted_for_new_rig(name)}\nhost = {_quoted_for_new_rig(host)}"
    )


def _quoted_for_new_rig(text: str) -> str:
    """A TOML string: JSON's escapes are among TOML's."""
    return json.dumps(printable(text), ensure_ascii=False)


def _new_rig_toml(value: str | list[str]) -> str:
    return (
        _quoted_for_new_rig(value)
        if isinstance(value, str)
        else f"[{', '.join(map(_quoted_for_new_rig, value))}]"
    )


def _drive(drive: NewDrive) -> Iterator[str]:
    lines = [
        "[drive]",
        f"target = {_quoted_for_new_rig(drive.target)}",
        f'engine = "{drive.engine}"',
    ]
    if drive.model:
        lines.append(f"model = {_quoted_for_new_rig(drive.model)}")
    if drive.serial:
        lines.append(f"serial = {_quoted_for_new_rig(drive.serial)}      # writing needs it")
    if drive.size_bytes:
        lines.append(f"size_bytes = {drive.size_bytes}")
    lines.append("destructive = false           # true allows plans that overwrite it")
    yield "\n".join(lines)


def _meter_suffixes(rails: Sequence[str]) -> list[str]:
    """What tells the meters of each rail apart: the digits of its volts, as in ``v12``; the whole
    name of a rail that does not say its volts, or whose digits are another one's, too."""
    digits = [re.sub(r"\D", "", rail) if volts_of_name(rail) else "" for rail in rails]
    return [
        own if own and digits.count(own) == 1 else f"_{rail}"
        for rail, own in zip(rails, digits, strict=True)
    ]


class _SeveralRails:
    """The instruments that measure several rails by themselves: each is there once."""

    def __init__(self, rails: Sequence[NewRail], suffixes: Sequence[str]) -> None:
        self._found: dict[str, tuple[str, FoundInstrument, list[NewRail]]] = {}
        for rail, suffix in zip(rails, suffixes, strict=True):
            meters = {one.address: one for one in (rail.amps, rail.volts) if one is not None}
            for address, found in meters.items():
                if found.driver in _OWN_RAILS:
                    self._found.setdefault(address, (f"m{suffix}", found, []))[2].append(rail)

    def channel(self, found: FoundInstrument, rail: NewRail, quantity: str) -> str:
        """The channel of a rail; empty where the instrument is none of these."""
        if found.address not in self._found:
            return ""
        return f"{self._found[found.address][0]}.{quantity}_{_own_name(found, rail)}"

    def sections(self) -> list[str]:
        """One for each."""
        made = []
        for name, found, rails in self._found.values():
            settings = _new_rig_address(found) | {
                "rails": [_own_name(found, rail) for rail in rails]
            }
            what = f"volts and current of {' and '.join(rail.name for rail in rails)}"
            made.append(_new_rig_section(found, name, what, settings))
        return made


def _own_name(found: FoundInstrument, rail: NewRail) -> str:
    whole, _, tenths = f"{rail.nominal_volts:g}".partition(".")
    name = _OWN_RAILS[found.driver].format(f"{whole}V{tenths}")
    return name.lower() if name.startswith("atx") else name


def _rail(
    rail: NewRail, suffix: str, mains_hz: int, several: _SeveralRails
) -> tuple[list[str], list[str]]:
    """A rail's section, and those of its meters, whose names end in ``suffix``."""
    most_amps = min(MOST_AMPS, MOST_WATTS / rail.nominal_volts)
    sections = []
    if rail.volts is not None and rail.volts.address == rail.amps.address:
        both = f"m{suffix}"
        if rail.amps.driver not in _OWN_RAILS:
            sections.append(_both(rail.amps, both, rail, most_amps))
        volts = amps = both
    else:
        volts, amps = f"v{suffix}", f"i{suffix}"
        what = f"current of {rail.name}"
        if rail.amps.driver not in _OWN_RAILS:
            sections.append(
                _new_rig_meter(
                    rail.amps, amps, what, "voltage", most_amps * rail.shunt_ohm, mains_hz
                )
                if rail.shunt_ohm
                else _new_rig_meter(rail.amps, amps, what, "current", most_amps, mains_hz)
            )
        if rail.volts is None:
            sections.append(
                f"[instruments.{volts}]            # nobody measures the volts of {rail.name}\n"
                f'driver = "fixed_voltage"\nvolts = {rail.nominal_volts:g}\n'
                f"tolerance_pct = {rail.fixed_pct:g}           # goes into the ± of every watt"
            )
        elif rail.volts.driver not in _OWN_RAILS:
            most = rail.nominal_volts * _ROOM
            what = f"volts of {rail.name}"
            sections.append(_new_rig_meter(rail.volts, volts, what, "voltage", most, mains_hz))
    volts_channel = several.channel(rail.volts, rail, "voltage") if rail.volts else ""
    current = f'"{several.channel(rail.amps, rail, "current") or f"{amps}.current"}"'
    if rail.shunt_ohm:
        current = (
            f'{{ channel = "{amps}.voltage", shunt_ohm = {rail.shunt_ohm:g}, '
            f"shunt_tolerance_pct = {rail.shunt_pct:g} }}"
        )
    lines = [
        f"[rails.{rail.name}]",
        f"nominal_volts = {rail.nominal_volts:g}",
        f'voltage = "{volts_channel or f"{volts}.voltage"}"     '
        "# measured at the drive's side of the shunt or ammeter",
        f"current = {current}",
    ]
    return lines, sections


def _both(found: FoundInstrument, name: str, rail: NewRail, most_amps: float) -> str:
    """An instrument that measures volts and amps at once, such as a supply."""
    settings = _new_rig_address(found)
    if found.driver == "wt300":
        amps = wt300.MODELS[found.model].amps
        settings |= {
            "coupling": "dc",
            "voltage_range": _new_rig_smallest_range(wt300.VOLTS, rail.nominal_volts * _ROOM),
            "current_range": _new_rig_smallest_range(amps, most_amps),
            "quantities": ["voltage", "current"],
        }
    return _new_rig_section(found, name, f"volts and current of {rail.name}", settings)


def _new_rig_smallest_range(ranges: Sequence[float], most: float) -> float:
    """The smallest range that has room for ``most``; the largest where none has."""
    return min((one for one in ranges if one >= most), default=max(ranges))


def _new_rig_address(found: FoundInstrument) -> dict[str, Any]:
    fields = drivers.settings_model(found.driver).model_fields
    known: dict[str, Any] = {key: found.address for key in _ADDRESS_KEYS if key in fields}
    if found.model and "model" in fields:
        known["model"] = found.model
    if found.baud and "baud" in fields:
        known["baud"] = found.baud
    return known | dict(found.settings)


def _new_rig_meter(
    found: FoundInstrument, name: str, what: str, function: str, most: float, mains_hz: int
) -> str:
    """The section of a multimeter that must read up to ``most`` (V or A)."""
    fields = drivers.settings_model(found.driver).model_fields
    wanted: dict[str, Any] = _new_rig_address(found)
    ranges = _new_rig_meter_ranges(found, function)
    wanted |= dict.fromkeys(("function", "quantity"), function)
    wanted["range"] = _new_rig_smallest_range(ranges, most) if ranges else most
    if "nplc" in fields:
        wanted["nplc"] = 1
    if mains_hz != MAINS_HZ[0]:
        wanted["mains_hz"] = mains_hz
    if found.driver in _INTERVALS_S:
        wanted["interval_s"] = _INTERVALS_S[found.driver][MAINS_HZ.index(mains_hz)]
    elif fields.get("interval_s") is not None and fields["interval_s"].is_required():
        wanted["interval_s"] = 0.5
    kept = {key: value for key, value in wanted.items() if key in fields}
    return _new_rig_section(found, name, what, kept)


def _new_rig_meter_ranges(found: FoundInstrument, function: str) -> tuple[float, ...]:
    """The meter's ranges of a function, ascending; empty where they are not known."""
    settings = drivers.settings_model(found.driver)
    known = settings.model_construct(**_new_rig_address(found), function=function)
    ranges: tuple[float, ...] = getattr(known, "ranges", ())
    return ranges


def _new_rig_section(found: FoundInstrument, name: str, what: str, settings: dict[str, Any]) -> str:
    lines = [f"[instruments.{name}]            # {what}: {printable(found.identity)}"]
    lines.append(f'driver = "{found.driver}"')
    for key, value in settings.items():
        text = f"{value:g}" if isinstance(value, int | float) else _new_rig_toml(value)
        note = "             # labctl range finds the best one" if key == "range" else ""
        lines.append(f"{key} = {text}{note}")
    lines += [f"# {left}" for left in _needs_of_new_rig(found.driver, settings)]
    return "\n".join(lines)


def _needs_of_new_rig(driver: str, settings: dict[str, Any]) -> Iterator[str]:
    """What a driver's settings still need, as ``labctl check`` will say it."""
    try:
        drivers.create("new", driver, settings, time.monotonic_ns)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            key = ".".join(map(str, item["loc"]))
            text = item["msg"].removeprefix("Value error, ")
            yield f"{key} = ?  # from its manual" if item["type"] == "missing" else text
    except DriverUnusable as error:
        yield str(error)


def has_functions(found: FoundInstrument) -> bool:
    """Whether it measures volts or amps, as it is set, and so can be across a shunt."""
    return not {"function", "quantity"}.isdisjoint(
        drivers.settings_model(found.driver).model_fields
    )
