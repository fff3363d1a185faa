"""Who is at a serial port: an SCPI meter is found there, and its rig lines name port and baud."""

from __future__ import annotations

import os
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments import drivers, identify
from instruments.errors import ConnectionLost

IDENTITY = b"OWON,XDM1041,23120418,V4.1.0,3"


class ScpiMeter:
    """Answers whole lines on a pseudo terminal; what it does not know, it tells of."""

    def __init__(self, *, identity: bytes, end: bytes) -> None:
        self.received: list[bytes] = []
        self._identity, self._end = identity, end
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.path = os.ttyname(self._slave)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        data = b""
        while not data.endswith(b"over"):
            data += os.read(self._master, 100)
            while self._end in data:
                line, _, data = data.partition(self._end)
                self.received.append(line)
                if line == b"*IDN?":
                    os.write(self._master, self._identity + b"\r\n")
                elif line not in (b"", b"SYST:REM", b"SYST:LOC", b"*CLS"):
                    os.write(self._master, b"NONE\r\n")

    def stop(self) -> None:
        os.write(self._slave, b"over")
        self._thread.join()
        os.close(self._master)
        os.close(self._slave)


@pytest.fixture
def no_other_language(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A second is spent on each, and each leaves letters in the meter's line."""
    extech = [(name, sign) for name, sign in drivers.serial_signs() if sign.question == b" "]
    monkeypatch.setattr(drivers, "serial_signs", lambda: extech)
    yield


@pytest.mark.usefixtures("no_other_language")
def test_an_scpi_meter_on_a_serial_port_is_found_and_left_local() -> None:
    """source: *IDN? as an XDM1041 on a serial port was seen to answer in a public C# program."""
    meter = ScpiMeter(identity=IDENTITY, end=b"\n")
    found = identify.identify_address(meter.path)
    meter.stop()
    assert (found.driver, found.model) == ("free_running_dmm", "XDM1041")
    assert meter.received == [b" ", b"SYST:REM", b"*IDN?", b"*CLS", b"SYST:LOC"]
    lines = identify.rig_lines(found, "meter1")
    assert lines[:5] == [
        "[instruments.meter1]",
        'driver = "free_running_dmm"',
        f'resource = "ASRL{meter.path}::INSTR"',
        "baud = 115200",
        'model = "XDM1041"',
    ]


@pytest.mark.usefixtures("no_other_language")
def test_one_that_takes_commands_only_with_a_carriage_return() -> None:
    meter = ScpiMeter(identity=b"KEITHLEY INSTRUMENTS INC.,MODEL 2000,1,A17", end=b"\r\n")
    found = identify.identify_address(meter.path)
    meter.stop()
    assert (found.driver, found.model, found.baud) == ("scpi_dmm", "2000", 9600)


def test_a_device_that_says_nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "serial_signs", list)
    monkeypatch.setattr(identify, "_LISTEN_S", 0.05)
    meter = ScpiMeter(identity=b"no identity", end=b"\n")
    found = identify.identify_address(meter.path)
    meter.stop()
    assert (found.identity, found.driver) == ("", "")


def test_meters_that_send_by_themselves_are_listened_for_before_any_is_asked() -> None:
    signs = drivers.serial_signs()
    asked = [bool(sign.question) for _, sign in signs]
    assert asked == sorted(asked) and not all(asked) and any(asked)
    assert {"es51922", "fs9721", "brymen_bm25x", "powersensor3", "k204", "extech380803"} <= {
        name for name, _ in signs
    }


def test_chips_that_the_kernel_reads_are_found_by_bus_and_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As sysfs has them: other I2C devices, a bus, and a chip of another kind are left out."""
    for device, name in (
        ("1-0040/hwmon/hwmon5", "ina228"),
        ("1-0041/hwmon/hwmon2", "ina226"),
        ("0-0048/hwmon/hwmon1", "tmp102"),
        ("i2c-1/hwmon/hwmon9", "ina226"),
        ("1-0050", "24c02"),
    ):
        (tmp_path / device).mkdir(parents=True)
        (tmp_path / device / "name").write_text(f"{name}\n")
    found = identify.power_monitors(tmp_path)
    assert [(one.address, one.model) for one in found] == [
        ("i2c-1-0x40", "ina228"),
        ("i2c-1-0x41", "ina226"),
    ]
    monkeypatch.setattr(identify, "power_monitors", lambda: found)
    lines = identify.rig_lines(identify.identify_address("i2c-1-0x40"), "rail12")
    assert lines[:4] == [
        "[instruments.rail12]", 'driver = "ina2xx"', 'model = "ina228"', 'device = "i2c-1-0x40"',
    ]  # fmt: skip
    with pytest.raises(ConnectionLost, match="reads no INA2xx there"):
        identify.identify_address("i2c-1-0x4f")


def test_usb_cables_without_a_serial_port_are_found_by_their_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``HID_ID`` of the kernel: bus, vendor, product (drivers/hid/hid-core.c)."""
    for name, ids in (
        ("hidraw0", "0003:0000046D:0000C52B"),  # a mouse
        ("hidraw1", "0003:00001A86:0000E008"),
    ):
        (tmp_path / name / "device").mkdir(parents=True)
        (tmp_path / name / "device" / "uevent").write_text(f"DRIVER=hid\nHID_ID={ids}\n")
    found = identify.meter_cables(tmp_path)
    assert [one.address for one in found] == ["hid/ch9325"]
    monkeypatch.setattr(identify, "meter_cables", lambda: found)
    lines = identify.rig_lines(identify.identify_address("hid/ch9325"), "v12")
    assert lines[:3] == ["[instruments.v12]", 'driver = "sigrok"', "# sigrok_driver ="]
    assert 'conn = "hid/ch9325"' in lines
    monkeypatch.setattr(identify, "meter_cables", list)
    with pytest.raises(ConnectionLost, match=r"no such USB cable"):
        identify.identify_address("hid/ch9325")
