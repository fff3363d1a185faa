"""Finds the instruments that are connected: their addresses, identities and drivers.

Listing opens nothing. Identifying sends ``*IDN?`` to a VISA resource. A serial port may belong to
anything, so nothing is sent to one that the user has not named. Messages name the address.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from instruments import drivers
from instruments.driver_kit.scpi import parse_identity
from instruments.driver_kit.serial_display import SerialDisplayMeter
from instruments.drivers import (
    brymen_bm25x,
    es51922,
    extech380803,
    fs9721,
    k204,
    powersensor3,
)
from instruments.errors import InstrumentError, ProtocolError
from instruments.transports.lines import SerialFormat
from instruments.transports.serial_line import SerialLine, bytes_until
from instruments.transports.serial_ports import stable_path
from instruments.transports.visa_line import VisaLine

_LISTEN_S: Final = 1.2
_ANSWER_S: Final = 1.0
_SCPI_BAUD: Final = ((115_200, b"\n"), (9600, b"\r\n"))
"""Factory settings of serial SCPI meters: with USB inside (XDM1041), and with RS-232."""
_COMMAS_OF_IDENTITY: Final = 3


@dataclass(frozen=True, slots=True)
class FoundInstrument:
    """The instrument at an address, and the driver that reads it (empty: none is known)."""

    address: str
    identity: str
    driver: str = ""
    model: str = ""
    baud: int = 0
    """The baud rate at which a serial SCPI meter answered."""


def visa_resources(library: str = "@py") -> list[str]:
    """The resources that VISA finds on USB, GPIB and by LAN discovery; no serial ports.

    Raises InstrumentError where that VISA cannot be used.
    """
    import pyvisa

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyVISA-py: of discoveries that are not installed
            manager: Any = pyvisa.ResourceManager(library)
            found: Sequence[str] = manager.list_resources("?*")
    except Exception as error:  # whatever a VISA library raises
        raise InstrumentError(f"VISA {library} cannot be used: {error}") from error
    return sorted(name for name in found if "ASRL" not in name.upper())


def identify_visa(resource: str, library: str = "@py") -> FoundInstrument:
    """The instrument at a VISA resource. Raises ConnectionLost, NoAnswer."""
    line = VisaLine(resource, resource, library)
    line.open()
    try:
        line.write(b"*IDN?\n")
        identity = line.read_line(_ANSWER_S).decode("ascii", errors="replace").strip()
    finally:
        line.close()
    return FoundInstrument(resource, identity, *driver_for_model(_model_of(identity)))


def _model_of(identity: str) -> str:
    try:
        return parse_identity(identity).model
    except ProtocolError:
        return ""


def driver_for_model(model: str) -> tuple[str, str]:
    """The driver that knows this model and how it spells it; any SCPI meter can be polled."""
    fallback = (drivers.POLLED, drivers.GENERIC) if model else ("", "")
    return drivers.driver_knowing(model) or fallback


@dataclass(frozen=True, slots=True)
class _SerialCandidate:
    driver: str
    identity: str
    line_format: SerialFormat
    question: bytes
    recognised: Callable[[bytes], object]
    """What it finds of the meter in the bytes so far."""


def _display_candidate(
    driver: str, identity: str, line_format: SerialFormat, meter: type[SerialDisplayMeter]
) -> _SerialCandidate:
    family = meter.family

    def recognised(data: bytes) -> bool:
        return any(_decodes(family.decode, piece) for piece in family.split(data)[0])

    return _SerialCandidate(driver, identity, line_format, b"", recognised)


def _decodes(decode: Callable[[bytes], object], data: bytes) -> bool:
    try:
        decode(data)
    except ProtocolError:
        return False
    return True


SERIAL_CANDIDATES: Final = (
    _display_candidate("es51922", "UNI-T UT61E (ES51922)", es51922.FORMAT, es51922.Es51922),
    _display_candidate("fs9721", "FS9721 family", fs9721.FORMAT, fs9721.Fs9721),
    _display_candidate(
        "brymen_bm25x", "Brymen BM25x", brymen_bm25x.FORMAT, brymen_bm25x.BrymenBm25x
    ),
    _SerialCandidate(
        "powersensor3",
        "PowerSensor3",
        powersensor3.FORMAT,
        b"TV",
        re.compile(rb"F4\d\d-\d+\.\d+\.\d+").search,
    ),
    _SerialCandidate(
        "k204",
        "Center 309 / Voltcraft K204",
        k204.FORMAT,
        b"A",
        k204.find_reply,
    ),
    _SerialCandidate(
        "extech380803",
        "Extech 380803",
        extech380803.FORMAT,
        b" ",
        extech380803.find_reply,
    ),
)
"""Meters that send by themselves come before those that must be asked."""


def identify_serial(port: str) -> FoundInstrument:
    """The instrument at a serial port: listens, then sends each known meter's query.

    SCPI comes last: its letters are commands to the meters whose queries are one letter.
    Raises ConnectionLost, WrongInstrument.
    """
    for candidate in SERIAL_CANDIDATES:
        line = SerialLine(port, port, candidate.line_format)
        line.open()
        try:
            line.discard()
            if candidate.question:
                line.write(candidate.question)
            if candidate.recognised(bytes_until(line, candidate.recognised, _LISTEN_S)):
                return FoundInstrument(port, candidate.identity, candidate.driver)
        finally:
            line.close()
    for baud, end in _SCPI_BAUD:
        identity = _scpi_identity(SerialLine(port, port, SerialFormat(baud)), end)
        if identity:
            resource = f"ASRL{stable_path(port)}::INSTR"
            return FoundInstrument(resource, identity, *driver_for_model(_model_of(identity)), baud)
    return FoundInstrument(port, "")


def _identity_in(data: bytes) -> str:
    """The first whole line that may be an identity; empty: none."""
    lines = data.decode("ascii", errors="replace").splitlines(keepends=True)
    whole = (line.strip() for line in lines if line.endswith(("\r", "\n")))
    return next((line for line in whole if line.count(",") >= _COMMAS_OF_IDENTITY), "")


def _scpi_identity(line: SerialLine, end: bytes) -> str:
    """The answer to ``*IDN?``; empty: none. The meter's error queue is cleared."""
    line.open()
    try:
        line.discard()
        line.write(end.join([b"", b"SYST:REM", b"*IDN?", b""]))
        identity = _identity_in(bytes_until(line, _identity_in, _LISTEN_S))
        if identity:
            line.write(end.join([b"*CLS", b"SYST:LOC", b""]))
        return identity
    finally:
        line.close()


def rig_lines(found: FoundInstrument, name: str, port: str = "") -> list[str]:
    """The rig's section for it, line by line; required keys that are not known are comments."""
    if not found.driver:
        return []
    known = {"model": found.model, "port": port or found.address, "resource": found.address}
    if found.baud:
        known["baud"] = str(found.baud)
    lines = [f"[instruments.{name}]", f'driver = "{found.driver}"']
    for key, field in drivers.settings_model(found.driver).model_fields.items():
        value = known.get(key, "")
        if value and (field.is_required() or key in known):
            lines.append(f"{key} = {value}" if key == "baud" else f'{key} = "{value}"')
        elif field.is_required():
            words = [one for one in get_args(field.annotation) if isinstance(one, str)]
            lines.append(
                " ".join([f"# {key} =", " or ".join(f'"{one}"' for one in words)]).rstrip()
            )
    return lines


def identify_address(address: str) -> FoundInstrument:
    """The instrument at an address: a VISA resource (with ``::``), a path or ``usb:…``.

    Raises InstrumentError.
    """
    if address.startswith("usb:") or ("/" in address and "::" not in address):
        return identify_serial(address)
    return identify_visa(address)
