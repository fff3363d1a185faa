"""A USB adapter is pulled and put back, and returns as another device."""

from __future__ import annotations

import os
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from instruments import drivers
from instruments.errors import ConnectionLost, WrongInstrument
from instruments.simulated.meters.es51922 import ut61e_frame
from instruments.transports import serial_ports
from instruments.transports.serial_ports import SerialPort, port_path
from instruments.transports.visa_line import OPEN_TIMEOUT_S
from labctl.capture.meters.acquisition import LAST_RETRY_S, Acquisition
from tests.unit.capture.meters.test_acquisition import Seen
from tests.waiting import until

PORTS = (
    SerialPort("/dev/ttyUSB0", "CP2102", 0x10C4, 0xEA60, "0001"),
    SerialPort("/dev/ttyUSB1", "CP2102", 0x10C4, 0xEA60, "0002"),
    SerialPort("/dev/ttyACM0", "PowerSensor3", 0x0483, 0x5740, "3485"),
    SerialPort("/dev/ttyS0", "ttyS0"),
)


class Adapter:
    """A pseudo terminal with a meter that sends twenty frames a second while plugged in."""

    def __init__(self, link: Path) -> None:
        self.link = link
        self.paths: list[str] = []
        self.back_s = 0.0
        self._ends: tuple[int, int] | None = None
        self._held: list[int] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self.plug_in()
        self._thread.start()

    def plug_in(self) -> None:
        ends = os.openpty()
        while os.ttyname(ends[1]) in self.paths:  # its old name is free again: leave it unused
            self._held += ends
            ends = os.openpty()
        tty.setraw(ends[1])
        os.set_blocking(ends[0], False)
        with self._lock:
            self._ends = ends
        self.paths.append(os.ttyname(ends[1]))
        self.link.symlink_to(self.paths[-1])
        self.back_s = time.monotonic()

    def pull(self) -> None:
        self.link.unlink()
        with self._lock:
            ends, self._ends = self._ends, None
        assert ends is not None
        os.close(ends[0])
        os.close(ends[1])

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        for end in [*self._held, *(self._ends or ())]:
            os.close(end)

    def _send(self) -> None:
        while not self._over.wait(0.05):
            with self._lock:
                if self._ends is not None:
                    os.write(self._ends[0], ut61e_frame("voltage", 3.3))


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[Adapter]:
    made = Adapter(tmp_path / "usb-Maker_Adapter_0001-if00-port0")
    yield made
    made.stop()


def pulled_and_put_back(adapter: Adapter, port: str) -> Seen:
    settings = {"port": port, "function": "voltage", "range": 22.0, "interval_s": 0.05}
    meter = drivers.create("v33", "es51922", settings, time.monotonic_ns)
    seen = Seen()
    group = Acquisition({"v33": meter}, time.monotonic_ns, seen)
    group.record_to(seen)
    group.start()
    until(lambda: len(seen.values) > 3)
    adapter.pull()
    until(lambda: "instrument_lost" in seen.kinds)
    time.sleep(3.0)  # long enough for the back-off to be at its longest
    before = len(seen.values)
    adapter.plug_in()
    until(lambda: len(seen.values) > before)
    assert group.stop() == []
    assert adapter.paths[0] != adapter.paths[1], "it returned under another name"
    about_it = [event for event in seen.events if event[0].startswith("instrument_")]
    assert [kind for kind, _ in about_it] == ["instrument_lost", "instrument_back"]
    assert about_it[1][1]["gap_s"] > 3.0
    assert set(np.round(seen.values, 6)) == {3.3}
    return seen


def test_what_it_waits_for_by_itself_leaves_most_of_the_five_seconds() -> None:
    assert LAST_RETRY_S + OPEN_TIMEOUT_S <= 2.5


def test_by_the_path_that_stays(adapter: Adapter) -> None:
    pulled_and_put_back(adapter, str(adapter.link))


def test_by_usb_serial_number(adapter: Adapter, monkeypatch: pytest.MonkeyPatch) -> None:
    def there() -> list[SerialPort]:
        if not adapter.link.exists():
            return []
        return [SerialPort(str(adapter.link.resolve()), "adapter", 0x10C4, 0xEA60, "0001")]

    monkeypatch.setattr(serial_ports, "connected_ports", there)
    pulled_and_put_back(adapter, "usb:0001")


@pytest.mark.parametrize(
    ("port", "path"),
    [
        ("/dev/ttyUSB7", "/dev/ttyUSB7"),
        ("usb:0002", "/dev/ttyUSB1"),
        ("usb:10c4:ea60:0001", "/dev/ttyUSB0"),
        ("usb:0483:5740", "/dev/ttyACM0"),
        ("usb:10C4:EA60:0002", "/dev/ttyUSB1"),
    ],
)
def test_which_port_is_meant(port: str, path: str) -> None:
    assert port_path("it", port, PORTS) == path


def test_a_device_that_is_not_there_or_there_twice() -> None:
    with pytest.raises(ConnectionLost, match=r"no serial port is usb:0003 .*usb:10c4:ea60:0001"):
        port_path("it", "usb:0003", PORTS)
    with pytest.raises(WrongInstrument, match=r"several: /dev/ttyUSB0 .* add the serial number"):
        port_path("it", "usb:10c4:ea60", PORTS)
    with pytest.raises(ConnectionLost):
        port_path("it", "usb:", PORTS)


def test_the_ports_of_this_machine_can_be_listed() -> None:
    for port in serial_ports.connected_ports():
        assert port.path.startswith("/dev/")
        assert bool(port.usb) == (port.vid is not None)
