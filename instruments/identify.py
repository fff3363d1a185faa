"""Finds the instruments that are connected: their addresses, identities and drivers.

Listing opens nothing; a QIS on this machine is asked for its Quarch modules. Identifying sends
``*IDN?`` to a VISA resource. A serial port may belong to anything, so nothing is sent to one that
the user has not named. Messages name the address.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final, get_args

from instruments import drivers
from instruments.driver_kit.i2c_chips import DEVICES, connected_chips
from instruments.driver_kit.scpi import parse_identity
from instruments.driver_kit.serial_sign import SerialSign
from instruments.drivers import ina2xx, joulescope
from instruments.drivers.quarch_qis import PORT, modules_at
from instruments.errors import ConnectionLost, InstrumentError, ProtocolError
from instruments.transports.lines import SerialFormat
from instruments.transports.serial_line import SerialLine, bytes_until
from instruments.transports.serial_ports import stable_path
from instruments.transports.visa_line import PYVISA_PY, VisaLine

_LISTEN_S: Final = 1.2
_ANSWER_S: Final = 1.0
_SCPI_BAUD: Final = ((115_200, b"\n"), (9600, b"\r\n"))
"""Factory settings of serial SCPI meters: with USB inside (XDM1041), and with RS-232."""
_COMMAS_OF_IDENTITY: Final = 3
_QIS = ("127.0.0.1", PORT)
_MODULE: Final = re.compile(r"(usb::qtl|tcp::)[a-z0-9._-]+", re.IGNORECASE)
"""A VISA resource on USB has numbers there, one on TCP/IP is called TCPIP."""


_HID: Final = Path("/sys/class/hidraw")
_HID_ID: Final = re.compile(r"^HID_ID=[0-9A-F]+:([0-9A-F]{8}):([0-9A-F]{8})$", re.MULTILINE)
METER_CABLES: Final = {(0x1A86, 0xE008), (0x04FA, 0x2490)}
"""CH9325 and HE2325U (libsigrok 0.5.2, README.devices)."""
HID_CONN: Final = "hid/ch9325"
"""What libsigrok calls either."""


@dataclass(frozen=True, slots=True)
class FoundInstrument:
    """The instrument at an address, and the driver that reads it (empty: none is known)."""

    address: str
    identity: str
    driver: str = ""
    model: str = ""
    baud: int = 0
    """The baud rate at which a serial SCPI meter answered."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further keys of the rig that are known."""


def visa_resources() -> list[str]:
    """The resources that VISA finds on USB, GPIB and by LAN discovery; no serial ports.

    Raises InstrumentError where VISA cannot be used.
    """
    import pyvisa

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyVISA-py: of discoveries that are not installed
            manager: Any = pyvisa.ResourceManager(PYVISA_PY)
            found: Sequence[str] = manager.list_resources("?*")
    except Exception as error:  # whatever a VISA library raises
        raise InstrumentError(f"VISA {PYVISA_PY} cannot be used: {error}") from error
    return sorted(name for name in found if "ASRL" not in name.upper())


def power_monitors(devices: Path = DEVICES) -> list[FoundInstrument]:
    """The INA2xx chips of this machine that the kernel reads, by bus and address."""
    known = get_args(ina2xx.Model)
    return [
        FoundInstrument(device, f"Texas Instruments {chip}, read by the kernel", "ina2xx", chip)
        for device, chip in connected_chips(devices).items()
        if chip in known
    ]


def meter_cables(devices: Path = _HID) -> list[FoundInstrument]:
    """The USB cables without a serial port of UNI-T and Voltcraft meters: which meter hangs on one
    its frames alone say, and those only sigrok reads."""
    found = []
    for path in sorted(devices.glob("*/device/uevent")):
        text = ""
        with contextlib.suppress(OSError):  # it was unplugged
            text = path.read_text(errors="replace")
        ids = _HID_ID.search(text)
        if ids and (int(ids[1], 16), int(ids[2], 16)) in METER_CABLES:
            identity = "USB cable of a UNI-T or Voltcraft meter"
            found.append(FoundInstrument(HID_CONN, identity, "sigrok", settings={"conn": HID_CONN}))
    return found


def joulescopes() -> list[FoundInstrument]:
    """The Joulescopes of this machine; none where the maker's library is not installed."""
    return [
        FoundInstrument(address, f"Jetperch {model.upper()} {serial}", "joulescope", model.upper())
        for address in joulescope.connected_joulescopes()
        for _, model, serial in [address.split("/")]
    ]


def identify_visa(resource: str) -> FoundInstrument:
    """The instrument at a VISA resource. Raises ConnectionLost, NoAnswer."""
    line = VisaLine(resource, resource, PYVISA_PY)
    line.open()
    try:
        line.write(b"*IDN?\n")
        identity = line.read_line(_ANSWER_S).decode("ascii", errors="replace").strip()
    finally:
        line.close()
    return FoundInstrument(resource, identity, *driver_for_model(_model_of(identity)))


def quarch_modules() -> list[FoundInstrument]:
    """The Quarch modules that the QIS of this machine lists; none where it does not answer within
    1.5 s."""
    _, modules = modules_at(*_QIS)
    return [
        FoundInstrument(module, f"Quarch {name}".strip(), "quarch")
        for module, name in modules.items()
    ]


def on_no_port() -> list[FoundInstrument]:
    """All that is known to be connected without a serial port or VISA."""
    return [*power_monitors(), *meter_cables(), *quarch_modules(), *joulescopes()]


def _model_of(identity: str) -> str:
    try:
        return parse_identity(identity).model
    except ProtocolError:
        return ""


def driver_for_model(model: str) -> tuple[str, str]:
    """The driver that knows this model and how it spells it; any SCPI meter can be polled."""
    fallback = (drivers.POLLED, drivers.GENERIC) if model else ("", "")
    return drivers.driver_knowing(model) or fallback


def identify_serial(port: str) -> FoundInstrument:
    """The instrument at a serial port: listens, then sends each known meter's query.

    It listens once for all meters that send in one format. SCPI comes last: its letters are
    commands to the meters whose queries are one letter. Raises ConnectionLost, WrongInstrument.
    """
    for (question, line_format), together in groupby(drivers.serial_signs(), _question_and_format):
        found = _sign_on_line(SerialLine(port, port, line_format), question, list(together))
        if found is not None:
            driver, sign = found
            path = stable_path(port)
            settings = {key: text.format(port=path) for key, text in sign.settings.items()}
            return FoundInstrument(port, sign.identity, driver, settings=settings)
    for baud, end in _SCPI_BAUD:
        identity = _scpi_identity(SerialLine(port, port, SerialFormat(baud)), end)
        if identity:
            resource = f"ASRL{stable_path(port)}::INSTR"
            return FoundInstrument(resource, identity, *driver_for_model(_model_of(identity)), baud)
    return FoundInstrument(port, "")


def _question_and_format(sign: tuple[str, SerialSign]) -> tuple[bytes, SerialFormat]:
    return sign[1].question, sign[1].line_format


def _sign_on_line(
    line: SerialLine, question: bytes, signs: Sequence[tuple[str, SerialSign]]
) -> tuple[str, SerialSign] | None:
    """The first of these signs, which have one question, that is heard on the line."""

    def recognised(data: bytes) -> tuple[str, SerialSign] | None:
        return next((one for one in signs if one[1].recognised(data)), None)

    line.open()
    try:
        line.discard()
        if question:
            line.write(question)
        return recognised(bytes_until(line, recognised, _LISTEN_S))
    finally:
        line.close()


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
    known = {"model": found.model, "port": port or found.address}
    known |= dict.fromkeys(("resource", "device"), found.address) | dict(found.settings)
    if found.baud:
        known["baud"] = str(found.baud)
    lines = [f"[instruments.{name}]", f'driver = "{found.driver}"']
    for key, key_of_rig in drivers.settings_model(found.driver).model_fields.items():
        value = known.get(key, "")
        if value and (key_of_rig.is_required() or key in known):
            lines.append(f"{key} = {value}" if key == "baud" else f'{key} = "{value}"')
        elif key_of_rig.is_required():
            words = [one for one in get_args(key_of_rig.annotation) if isinstance(one, str)]
            lines.append(
                " ".join([f"# {key} =", " or ".join(f'"{one}"' for one in words)]).rstrip()
            )
    return lines


def identify_address(address: str) -> FoundInstrument:
    """The instrument at an address: a VISA resource (with ``::``), a path, ``usb:…``, ``i2c-…``, a
    Quarch module (``usb::QTL…``, ``tcp::…``), a Joulescope (``u/js220/…``) or a USB cable of a
    meter (``hid/ch9325``).

    Raises InstrumentError.
    """
    if address.startswith("i2c-"):
        missing = "the kernel reads no INA2xx there; is ina2xx or ina238 bound to it?"
        return _identified_at_address(address, power_monitors(), missing)
    if _MODULE.fullmatch(address):
        missing = f"no QIS at {_QIS[0]}:{_QIS[1]} lists it; does QIS run, and is the module on?"
        return _identified_at_address(address, quarch_modules(), missing)
    if joulescope.is_address(address):
        missing = "not connected, or pyjoulescope_driver is not installed"
        return _identified_at_address(address, joulescopes(), missing)
    if address == HID_CONN:
        return _identified_at_address(address, meter_cables(), "no such USB cable is plugged in")
    if address.startswith("usb:") or ("/" in address and "::" not in address):
        return identify_serial(address)
    return identify_visa(address)


def _identified_at_address(
    address: str, found: Sequence[FoundInstrument], missing: str
) -> FoundInstrument:
    """The one of ``found`` at an address, in whatever letter case. Raises ConnectionLost."""
    for one in found:
        if one.address.lower() == address.lower():
            return one
    raise ConnectionLost(f"{address}: {missing}")
