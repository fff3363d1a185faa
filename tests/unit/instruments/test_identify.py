"""Who is at a serial port: an SCPI meter is found there, and its rig lines name port and baud."""

from __future__ import annotations

import os
import threading
import tty
from collections.abc import Iterator

import pytest

from instruments import identify

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
    monkeypatch.setattr(identify, "SERIAL_CANDIDATES", identify.SERIAL_CANDIDATES[-1:])
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
    monkeypatch.setattr(identify, "SERIAL_CANDIDATES", ())
    monkeypatch.setattr(identify, "_LISTEN_S", 0.05)
    meter = ScpiMeter(identity=b"no identity", end=b"\n")
    found = identify.identify_address(meter.path)
    meter.stop()
    assert (found.identity, found.driver) == ("", "")
