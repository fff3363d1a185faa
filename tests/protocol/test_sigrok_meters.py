"""Serial meters that sigrok knows: their frames, the real sigrok-cli, and labctl's driver.

The frames and what the displays showed are from the logs that H. Haftmann took of his meters
(UT61BCD, UT71BCDE, UT803, UT804, UT60FG, UT70B), and a log of a Metex 22T, as QtDMM collects them
in docs/protocols. That of an ES51978 is from the capture of an ISO-TECH IDM103N in sigrok-dumps
(uart/cyrustek_es51978: the resistance of skin, a few MΩ, each frame twice). "Built" frames follow
the tables of bits in the same logs, where no frame of that kind was recorded.
"""

from __future__ import annotations

import os
import pty
import threading
import tty
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from instruments import drivers, identify
from instruments.driver_kit.serial_sign import SerialSign
from instruments.drivers.sigrok import Sigrok, SigrokSettings
from instruments.drivers.sigrok_signs import SIGNS
from instruments.errors import ConnectionLost
from instruments.reading import Status
from tests.protocol import test_known_frames as known_frames
from tests.protocol.exchange import Clock, ExpectedExchange
from tests.protocol.sigrok_meter import fed_meter, sigrok_on_pty

OVERLOAD = Status.OVERLOAD
Expected = float | Status | str
"""A value, a status, or words of a refusal."""

UT61_VOLTS: dict[str, tuple[str, Expected]] = {
    "DC 348.2 mV AUTO": ("2B 33 34 38 32 20 34 31 00 40 80 22 0D 0A", 0.3482),
    "DC 331.0 mV": ("2B 33 33 31 30 20 34 11 00 40 80 21 0D 0A", 0.3310),
    "DC 0.000 V": ("2B 30 30 30 30 20 31 11 00 00 80 00 0D 0A", 0.0),
    "built: DC 12.05 V": ("2B 31 32 30 35 20 32 11 00 00 80 00 0D 0A", 12.05),
    "built: DC -3.301 V": ("2D 33 33 30 31 20 31 11 00 00 80 00 0D 0A", -3.301),
    "built: DC OL V": ("2B 3F 30 3A 3F 20 34 11 00 00 80 29 0D 0A", OVERLOAD),
    "DC 000.0 V, 400 V range": ("2B 30 30 30 30 20 34 11 00 00 80 00 0D 0A", "last digit is 0.1 V"),
    "DC MAX": ("2B 30 30 30 33 20 34 10 20 40 80 00 0D 0A", "shows DC MAX"),
    "DC MIN": ("2D 30 33 34 36 20 34 10 10 40 80 00 0D 0A", "shows DC MIN"),
    "diode OL": ("2B 3F 30 3A 3F 20 31 00 00 04 80 00 0D 0A", "shows DC DIODE"),
    "built: diode 0.612 V": ("2B 30 36 31 32 20 31 00 00 04 80 00 0D 0A", "shows DC DIODE"),
    "ohms OL": ("2B 3F 30 3A 3F 20 32 21 00 10 20 29 0D 0A", "measures MΩ, not V"),
    "ohms": ("2B 30 30 31 35 20 31 01 00 20 20 00 0D 0A", "measures Ω, not V"),
    "beeper OL": ("2B 3F 30 3A 3F 20 34 01 00 08 20 29 0D 0A", "without a unit, not V"),
    "built: AC 230.1 V": ("2B 32 33 30 31 20 34 29 00 00 80 00 0D 0A", "shows AC"),
    "hertz": ("2B 34 39 39 38 20 32 20 00 00 08 29 0D 0A", "measures Hz, not V"),
    "duty cycle": ("2B 30 34 39 32 20 34 00 00 02 00 29 0D 0A", "measures %, not V"),
    "built: DC HOLD": ("2B 31 32 30 35 20 32 13 00 00 80 00 0D 0A", Status.HOLD),
    "built: DC REL": ("2B 31 32 30 35 20 32 15 00 00 80 00 0D 0A", "shows DC REL"),
    "µA": ("2B 30 30 30 30 20 34 31 00 80 40 80 0D 0A", "measures A, not V"),
}
UT61_AMPS: dict[str, tuple[str, Expected]] = {
    "DC 000.0 µA": ("2B 30 30 30 30 20 34 31 00 80 40 80 0D 0A", 0.0),
    "AC 000.1 µA": ("2B 30 30 30 31 20 34 29 00 80 40 00 0D 0A", "shows AC AUTO"),
    "built: DC 1.234 A": ("2B 31 32 33 34 20 31 11 00 00 40 00 0D 0A", 1.234),
    "built: DC -25.31 mA": ("2D 32 35 33 31 20 32 11 00 40 40 00 0D 0A", -0.02531),
    "DC 348.2 mV": ("2B 33 34 38 32 20 34 31 00 40 80 22 0D 0A", "measures V, not A"),
}
UT71_VOLTS: dict[str, tuple[str, Expected]] = {
    "DC -0.0007 V AUTO": ("30 30 30 30 37 31 31 30 35 0D 0A", -0.0007),
    "DC 0.0005 V AUTO": ("30 30 30 30 35 31 31 30 31 0D 0A", 0.0005),
    "DC -051.53 mV": ("30 35 31 35 33 30 33 30 34 0D 0A", -0.05153),
    "UT804: DC -132.46 mV": ("31 33 32 34 36 30 33 30 34 0D 0A", -0.13246),
    "DC 00.000 V": ("30 30 30 30 30 32 31 30 32 0D 0A", 0.0),
    "built: DC 12.057 V": ("31 32 30 35 37 32 31 30 32 0D 0A", 12.057),
    "built: DC OL V": ("3A 3A 30 3C 3A 32 31 30 31 0D 0A", OVERLOAD),
    "DC 000.00 V, 400 V range": ("30 30 30 30 30 33 31 30 32 0D 0A", "last digit is 0.01 V"),
    "AC 0.6495 V": ("30 36 34 39 35 31 32 31 32 0D 0A", "shows AC RMS"),
    "AC+DC 0.0053 V": ("30 30 30 35 33 31 32 33 31 0D 0A", "shows AC AUTO DC RMS"),
    "ohms OL": ("3A 3A 30 3C 3A 36 34 30 31 0D 0A", "Ω, not V"),
    "beeper OL": ("3A 3A 30 3C 3A 30 3A 30 30 0D 0A", "without a unit, not V"),
    "diode OL": ("3A 3A 30 3C 3A 30 3B 30 30 0D 0A", "shows DC DIODE"),
    "26.4 °C": ("30 30 32 36 34 30 36 30 30 0D 0A", "measures °C, not V"),
    "µA": ("30 30 30 30 30 30 37 30 31 0D 0A", "measures A, not V"),
    "watts of a UT71E": ("30 30 30 30 30 33 3E 30 30 0D 0A", "measures W, not V"),
    "4-20 mA tester": ("3A 3C 30 3A 3A 30 3F 30 30 0D 0A", "measures %, not V"),
}
UT71_AMPS: dict[str, tuple[str, Expected]] = {
    "DC 000.00 µA": ("30 30 30 30 30 30 37 30 31 0D 0A", 0.0),
    "AC 0000.0 µA": ("30 30 30 30 30 31 37 31 32 0D 0A", "shows AC RMS"),
    "DC 00.000 A": ("30 30 30 30 30 31 39 30 30 0D 0A", 0.0),
    "built: DC 2.345 A": ("30 32 33 34 35 31 39 30 30 0D 0A", 2.345),
    "built: DC -123.45 mA": ("31 32 33 34 35 31 38 30 36 0D 0A", -0.12345),
    "AC 00.000 A": ("30 30 30 30 30 31 39 31 30 0D 0A", "shows AC RMS"),
    "built: DC OL A": ("3A 3A 30 3C 3A 31 39 30 30 0D 0A", OVERLOAD),
}
ES51986_VOLTS: dict[str, tuple[str, Expected]] = {
    "DC 0.000 V AUTO": ("30 30 30 30 30 3B 38 30 3A 0D 0A", 0.0),
    "built: DC 12.05 V": ("31 31 32 30 35 3B 38 30 38 0D 0A", 12.05),
    "built: DC -3.301 V": ("30 33 33 30 31 3B 3C 30 38 0D 0A", -3.301),
    "DC 0.0 V, 600 V range": ("32 30 30 30 30 3B 38 30 38 0D 0A", "last digit is 0.1 V"),
    "built: DC OL V": ("30 36 30 30 30 3B 39 30 38 0D 0A", OVERLOAD),
    "AC 0.014 V": ("30 30 30 31 34 3B 38 30 36 0D 0A", "shows AC AUTO"),
    "ohms OL": ("35 36 30 30 30 33 39 30 32 0D 0A", "measures MΩ, not V"),
    "diode OL": ("30 32 36 34 37 31 39 30 30 0D 0A", "shows DC DIODE"),
    "UT60G: diode OL, HOLD": ("30 32 38 32 30 31 39 38 30 0D 0A", "shows DC DIODE HOLD"),
    "built: DC MAX": ("31 31 32 30 35 3B 38 34 38 0D 0A", "shows DC MAX"),
    "built: DC HOLD": ("31 31 32 30 35 3B 38 38 38 0D 0A", Status.HOLD),
    "nF": ("30 30 30 35 31 36 38 30 32 0D 0A", "measures pF, not V"),
    "µA": ("30 30 30 30 30 3D 38 30 3A 0D 0A", "measures A, not V"),
}
ES51986_AMPS: dict[str, tuple[str, Expected]] = {
    "DC 0.00 mA AUTO": ("30 30 30 30 30 3F 3C 30 3A 0D 0A", 0.0),
    "built: DC 123.4 mA": ("31 31 32 33 34 3F 38 30 38 0D 0A", 0.1234),
    "AC 3.2 mA": ("31 30 30 33 32 3F 38 30 34 0D 0A", "shows AC AUTO"),
    # libsigrok 0.5.2 makes 123 A of the 1.23 A that the display shows
    "built: DC 1.23 A": ("30 30 31 32 33 39 38 30 38 0D 0A", "last digit is 1 A"),
    "DC 0.00 A": ("30 30 30 30 30 39 3C 30 38 0D 0A", "last digit is 1 A"),
}
ES51962_VOLTS: dict[str, tuple[str, Expected]] = {
    "DC 005.8 mV AUTO": ("30 30 30 35 38 3B 30 30 3A 0D 0A", 0.0058),
    "DC -002.1 mV": ("30 30 30 32 31 3B 34 30 38 0D 0A", -0.0021),
    "built: DC 12.05 V": ("32 31 32 30 35 3B 30 30 38 0D 0A", 12.05),
    "DC -000.0 V, 400 V range": ("33 30 30 30 30 3B 34 30 38 0D 0A", "last digit is 0.1 V"),
    "AC 040.1 mV": ("30 30 34 30 31 3B 30 30 36 0D 0A", "shows AC AUTO"),
    "ohms": ("30 30 31 34 30 33 30 30 30 0D 0A", "measures Ω, not V"),
    "ES51978: 6.79 MΩ AUTO": ("35 30 36 37 39 33 30 30 32 0D 0A", "measures MΩ, not V"),
    "beeper": ("30 30 31 34 30 35 30 30 30 0D 0A", "without a unit, not V"),
    "diode 0.026 V": ("30 30 30 32 36 31 30 30 30 0D 0A", "shows DC DIODE"),
    "0.00 kRPM": ("30 30 30 30 30 32 38 30 32 0D 0A", "measures RPM, not V"),
    "built: DC OL V": ("30 34 30 30 30 3B 31 30 3A 0D 0A", OVERLOAD),
}
ES51962_AMPS: dict[str, tuple[str, Expected]] = {
    "DC 0.0 µA AUTO": ("30 30 30 30 30 3D 30 30 3A 0D 0A", 0.0),
    "built: DC 12.34 mA": ("30 31 32 33 34 39 30 30 38 0D 0A", 0.01234),
    "DC 0.00 A": ("30 30 30 30 30 3F 30 30 38 0D 0A", 0.0),
    "built: DC -2.31 A": ("30 30 32 33 31 3F 34 30 38 0D 0A", -2.31),
    "AC 0.00 A": ("30 30 30 30 30 3F 30 30 34 0D 0A", "shows AC AUTO"),
}
METEX_VOLTS: dict[str, tuple[str, Expected]] = {
    "DC -00.83   V": ("", -0.83),
    "DC  00.01   V": ("", 0.01),
    "DC  0.002   V": ("", 0.002),
    "DC    OL    V": ("", OVERLOAD),
    "DC  0017    V": ("", "last digit is 1 V"),
    "DC - .OL    V": ("", OVERLOAD),
    # of 57.4 mV libsigrok 0.5.2 prints 0.1 V, of -133.7 mV -0.1 V
    "DC  057.4  mV": ("", "digits that sigrok does not print"),
    "DC -133.7  mV": ("", "digits that sigrok does not print"),
    "AC  0.445   V": ("", "shows AC"),
    "DI  0039   mV": ("", "shows DC DIODE"),
    "OH  102.6 Ohm": ("", "measures Ω, not V"),
    "FR  0.050 KHz": ("", "measures Hz, not V"),
    "TE  0001    C": ("", "measures °C, not V"),
    "DC  00.01   A": ("", "measures A, not V"),
}
METEX_AMPS: dict[str, tuple[str, Expected]] = {
    "DC  00.01   A": ("", 0.01),
    "DC  000.1  mA": ("", "digits that sigrok does not print"),
    "DC  00.03   V": ("", "measures V, not A"),
}
TWICE = {"copies": 2}
METERS: list[tuple[str, str, float, dict[str, tuple[str, Expected]], dict[str, Any]]] = [
    ("uni-t-ut61b-ser", "voltage", 0.03, UT61_VOLTS, {}),
    ("uni-t-ut61d-ser", "current", 0.03, UT61_AMPS, {}),
    ("uni-t-ut71c-ser", "voltage", 0.005, UT71_VOLTS, {}),
    ("voltcraft-vc940-ser", "current", 0.005, UT71_AMPS, {}),
    ("uni-t-ut60g-ser", "voltage", 0.03, ES51986_VOLTS, TWICE),
    ("tenma-72-7750-ser", "current", 0.03, ES51986_AMPS, TWICE),
    ("iso-tech-idm103n", "voltage", 0.03, ES51962_VOLTS, TWICE),
    ("iso-tech-idm103n", "current", 0.03, ES51962_AMPS, TWICE),
    ("metex-m3640d", "voltage", 0.03, METEX_VOLTS, {"asked": True}),
    ("voltcraft-me42", "current", 0.03, METEX_AMPS, {"asked": True}),
]
ON_A_CABLE: list[Any] = [
    (driver, quantity, floor, frames, {**sends, "cable": True})
    for driver, quantity, floor, frames, sends in METERS[:4]
]
EIGHT_BITS = ("uni-t-ut61b-ser", "uni-t-ut61d-ser")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sigrok_on_pty(tmp_path_factory.mktemp("sigrok"))


def frame_of(name: str, written: str) -> bytes:
    """Metex sends what it shows as text; its frames are their own names."""
    return bytes.fromhex(written) if written else f"{name}\r".encode()


def with_odd_parity(frame: bytes) -> bytes:
    """As a USB cable without a serial port hands on what it takes for eight bits."""
    return bytes(byte | (0x80 if byte.bit_count() % 2 == 0 else 0) for byte in frame)


@pytest.mark.parametrize(
    ("driver", "quantity", "floor", "frames", "sends"),
    METERS + ON_A_CABLE,
    ids=[f"{driver} {quantity}" for driver, quantity, *_ in METERS]
    + [f"{driver} {quantity} on a USB cable" for driver, quantity, *_ in ON_A_CABLE],
)
def test_each_frame_gives_its_value_or_is_refused_in_words(
    driver: str,
    quantity: str,
    floor: float,
    frames: dict[str, tuple[str, Expected]],
    sends: dict[str, Any],
    program: Path,
    tmp_path: Path,
) -> None:
    rig = {"sigrok_driver": driver, "quantity": quantity, "accuracy_floor": floor}
    wrong: list[str] = []
    parity = sends.get("cable") and driver not in EIGHT_BITS
    with fed_meter(program, tmp_path, **rig, **sends) as meter:
        written = [frame_of(name, hex_) for name, (hex_, _) in frames.items()]
        written = [with_odd_parity(frame) if parity else frame for frame in written]
        meter.start(written[-1], written[1])
        for (name, (_, expected)), frame in zip(frames.items(), written, strict=True):
            reading, words = meter.reading(frame)
            if isinstance(expected, Status):
                right = reading is expected
            elif isinstance(expected, str):
                words = unicodedata.normalize("NFC", words)  # sigrok's ohm is the old sign
                right = reading is Status.WRONG_FUNCTION and expected in words
            else:
                right = reading == pytest.approx(expected, abs=1e-9)
            if not right:
                wrong.append(f"{name}: {reading} ({words}), not {expected}")
    assert not wrong


def test_the_cable_gets_its_power_and_the_port_its_rate(program: Path, tmp_path: Path) -> None:
    """DTR on and RTS off feed the opto cables of UNI-T and Voltcraft."""
    frame = bytes.fromhex(UT71_VOLTS["built: DC 12.057 V"][0])
    rig = {"sigrok_driver": "uni-t-ut71a-ser", "accuracy_floor": 0.01}
    with fed_meter(program, tmp_path, **rig) as meter:
        meter.start(frame, bytes.fromhex(UT71_VOLTS["AC 0.6495 V"][0]))
        assert meter.modem_lines == "dtr=1 rts=0"
        assert meter.baud == 11, "B2400 of Linux"


def test_a_usb_cable_without_a_serial_port_gets_the_rate(program: Path, tmp_path: Path) -> None:
    """2400 baud, least byte first (sigrok's wiki, Device cables)."""
    frames = [bytes.fromhex(UT61_VOLTS[name][0]) for name in ("built: DC 12.05 V", "DC 0.000 V")]
    rig = {"sigrok_driver": "uni-t-ut61b-ser", "accuracy_floor": 0.03}
    with fed_meter(program, tmp_path, cable=True, **rig) as meter:
        meter.start(*frames)
    assert program.with_name("cable.set").read_text().startswith("60 09 00 00")


@pytest.mark.parametrize(
    ("driver", "frame"),
    [
        ("uni-t-ut61b-ser", ES51986_VOLTS["built: DC 12.05 V"][0]),
        ("uni-t-ut60g-ser", UT61_VOLTS["built: DC 12.05 V"][0]),
        ("uni-t-ut61b-ser", ""),
    ],
)
def test_another_chip_and_a_silent_port(
    driver: str, frame: str, program: Path, tmp_path: Path
) -> None:
    told = pytest.raises(ConnectionLost, match=f"(a valid packet|No devices).*frames of {driver}")
    rig = {"sigrok_driver": driver, "accuracy_floor": 0.03}
    with fed_meter(program, tmp_path, **rig) as meter, told:
        meter.start(bytes.fromhex(frame), b"")


def test_a_change_of_range_is_told_beside_the_value(program: Path, tmp_path: Path) -> None:
    rig = {"sigrok_driver": "uni-t-ut61b-ser", "accuracy_floor": 0.03}
    with fed_meter(program, tmp_path, **rig) as meter:
        first, second = (
            bytes.fromhex(UT61_VOLTS[name][0]) for name in ("DC 331.0 mV", "built: DC 12.05 V")
        )
        meter.start(second, first)
        meter.send(second)
        batches = [meter.instrument.read() for _ in range(3)]
        said = [status for batch in batches for status in batch.statuses]
        assert [(one.status, one.count) for one in said] == [(Status.RANGE_CHANGED, 0)]
        assert said[0].detail == "the last digit is now 0.01 V"


def test_a_frame_that_a_meter_sends_twice_is_one_reading() -> None:
    """An ES51986 sends each frame twice; of equal ones libsigrok makes a reading of each."""
    values = {
        "sigrok_driver": "uni-t-ut60g-ser",
        "quantity": "voltage",
        "interval_s": 0.5,
        "accuracy_pct_of_reading": 0.5,
        "accuracy_floor": 0.03,
    }
    line = ExpectedExchange()
    settings = SigrokSettings.model_validate(values)
    instrument = Sigrok("meter", settings, Clock(step_ns=500_000_000), line)
    instrument.open()
    instrument.start()
    line._unread = [b"P1: 12.05 V DC AUTO\n" * 2] * 6
    instrument.read()  # of the first pair nobody knows how long the meter had
    batches = [instrument.read() for _ in range(5)]
    assert [len(block) for batch in batches for block in batch.blocks] == [1] * 5
    assert [one.status for batch in batches for one in batch.statuses] == [Status.DUPLICATE]


def recognised_as(data: bytes, *bauds: int) -> set[str]:
    signs = [*SIGNS, es51986_sign()]
    heard = [sign for sign in signs if sign.line_format.baud in (bauds or (2400, 19200))]
    found = [sign.settings for sign in heard if sign.recognised(data)]
    return {one.get("sigrok_driver", "es51986") for one in found}


def es51986_sign() -> SerialSign:
    (sign,) = (one for _, one in drivers.serial_signs() if one.settings.get("chip") == "es51986")
    return sign


def test_a_meter_is_known_by_its_frames_on_dc_and_never_taken_for_another() -> None:
    families = (
        ("uni-t-ut61b-ser", 2400, 1, UT61_VOLTS | UT61_AMPS),
        ("uni-t-ut71c-ser", 2400, 1, UT71_VOLTS | UT71_AMPS),
        ("es51986", 19200, 2, ES51986_VOLTS | ES51986_AMPS),
        ("iso-tech-idm103n", 2400, 2, ES51962_VOLTS | ES51962_AMPS),
    )
    for driver, baud, copies, frames in families:
        for name, (written, _) in frames.items():
            found = recognised_as(bytes.fromhex(written) * copies, baud)
            assert found <= {driver}, name
            if name.startswith("DC") and "MAX" not in name and "MIN" not in name:
                assert found == {driver}, name
    for frame in [*known_frames.UT61E, *known_frames.UT60, *known_frames.BM25X]:
        assert not recognised_as(bytes.fromhex(frame) * 2), frame
    for line in METEX_VOLTS:
        assert not recognised_as(f"{line}\r".encode() * 2)


def test_a_meter_at_a_port_gets_the_lines_of_its_rig(monkeypatch: pytest.MonkeyPatch) -> None:
    signs = [one for one in drivers.serial_signs() if one[0] == "sigrok"]
    monkeypatch.setattr(drivers, "serial_signs", lambda: signs)
    frame = bytes.fromhex(UT71_VOLTS["built: DC 12.057 V"][0])
    master, slave = pty.openpty()
    tty.setraw(slave)
    over = threading.Event()

    def sends() -> None:
        while not over.wait(0.1):
            os.write(master, frame)

    sender = threading.Thread(target=sends)
    sender.start()
    port = os.ttyname(slave)
    found = identify.identify_address(port)
    over.set()
    sender.join()
    os.close(master)
    os.close(slave)
    assert found.identity.startswith("frames of the UNI-T UT71 family")
    lines = identify.rig_lines(found, "v12", port)
    assert lines[:4] == [
        "[instruments.v12]",
        'driver = "sigrok"',
        'sigrok_driver = "uni-t-ut71c-ser"',
        f'conn = "{port}"',
    ]
    assert lines[4].startswith('# quantity = "voltage" or "current"')
