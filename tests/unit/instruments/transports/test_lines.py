from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import termios
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.errors import ConnectionLost, NoAnswer
from instruments.transports import serial_line
from instruments.transports.lines import SerialFormat
from instruments.transports.serial_line import SerialLine
from instruments.transports.visa_line import VisaLine, _open_error_text


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def line_to(server: socket.socket) -> VisaLine:
    return VisaLine("it", f"TCPIP0::127.0.0.1::{server.getsockname()[1]}::SOCKET")


def test_lines_and_late_answers(listener: socket.socket) -> None:
    line = line_to(listener)
    line.open()
    peer = listener.accept()[0]
    line.write(b"*IDN?\n")
    assert peer.recv(100) == b"*IDN?\n"
    peer.sendall(b"one\ntwo\nthr")
    assert line.read_line(1.0) == b"one\n"
    assert line.read_line(1.0) == b"two\n"
    with pytest.raises(NoAnswer, match="no whole answer"):
        line.read_line(0.05)
    peer.sendall(b"stale\n")
    line.discard(0.1)
    peer.sendall(b"fresh\n")
    assert line.read_line(1.0) == b"fresh\n"
    peer.close()
    line.close()
    line.close()


def test_a_peer_that_closes(listener: socket.socket) -> None:
    line = line_to(listener)
    line.open()
    listener.accept()[0].close()
    with pytest.raises(ConnectionLost, match="closed the connection"):
        line.read_line(1.0)
    line.close()
    line.open()
    peer = listener.accept()[0]
    peer.sendall(b"last words")
    peer.close()
    with pytest.raises(ConnectionLost, match="closed the connection"):
        line.discard(0.5)
    line.close()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = line_to(server)
    with pytest.raises(ConnectionLost, match="refused"):
        line.open()
    with pytest.raises(ConnectionLost, match="is not open"):
        line.write(b"*IDN?\n")


def test_why_a_port_cannot_be_opened(tmp_path: Path) -> None:
    for path, why in {
        "/dev/does-not-exist": "there is no such port; is it plugged in",
        "/dev/null": "it is no serial port",
        str(tmp_path): "it is no serial port",
    }.items():
        with pytest.raises(ConnectionLost, match=f"^it: cannot open {path}: {why}"):
            SerialLine("it", path, SerialFormat(9600)).open()


def test_a_port_that_another_program_reads(port: Port) -> None:
    other = SerialLine("other", os.ttyname(port.slave), SerialFormat(9600))
    other.open()
    with pytest.raises(ConnectionLost, match="another program has it open"):
        SerialLine("it", os.ttyname(port.slave), SerialFormat(9600)).open()
    other.close()


def test_a_port_that_a_child_still_has_is_opened_again(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread starts a child while the port is closed and opened again: until its exec the
    child has the open port and its lock."""
    monkeypatch.setattr(serial_line, "_FREE_WITHIN_S", 60.0)
    line = SerialLine("it", os.ttyname(port.slave), SerialFormat(9600))
    line.open()
    child = subprocess.Popen(["sleep", "0.2"], pass_fds=[line._serial.fileno()])
    line.close()
    line.open()
    line.close()
    child.wait()


def test_a_name_that_is_no_resource() -> None:
    for name in ("nonsense", "192.168.1.20", "USB0::0x1AB1::0x09C4"):
        with pytest.raises(ConnectionLost, match="it is no VISA resource"):
            VisaLine("it", name).open()


def test_the_time_of_a_byte() -> None:
    assert SerialFormat(19200, 7, "O").byte_s == pytest.approx(10 / 19200)
    assert SerialFormat(9600).byte_s == pytest.approx(10 / 9600)


class Port:
    """The meter's end of a pseudo terminal."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self.resource = f"ASRL{os.ttyname(self.slave)}::INSTR"

    def close(self) -> None:
        os.close(self.slave)
        os.close(self.master)


@pytest.fixture
def port() -> Iterator[Port]:
    end = Port()
    yield end
    with contextlib.suppress(OSError):
        end.close()


def test_visa_on_a_serial_port(port: Port) -> None:
    line = VisaLine("it", port.resource, serial_format=SerialFormat(115_200))
    line.open()
    settings = termios.tcgetattr(port.slave)
    assert settings[4] == settings[5] == termios.B115200
    line.write(b"*IDN?\n")
    assert os.read(port.master, 100) == b"*IDN?\n"
    os.write(port.master, b"one\r\ntwo\r\nthr")
    assert line.read_line(1.0) == b"one\r\n"
    assert line.read_line(1.0) == b"two\r\n"
    with pytest.raises(NoAnswer, match="no whole answer"):
        line.read_line(0.1)
    os.write(port.master, b"stale\r\n")
    line.discard(0.1)
    os.write(port.master, b"fresh\r\n")
    assert line.read_line(1.0) == b"fresh\r\n"
    line.close()
    line.close()


def test_a_serial_port_that_is_pulled(port: Port) -> None:
    line = VisaLine("it", port.resource, serial_format=SerialFormat(9600))
    line.open()
    port.close()
    with pytest.raises((ConnectionLost, NoAnswer)):
        line.read_line(0.5)
    with pytest.raises(ConnectionLost):
        line.discard(0.1)
    line.close()
    with pytest.raises(ConnectionLost, match="is it plugged in"):
        VisaLine("it", "ASRL/dev/does-not-exist::INSTR").open()


def test_a_meter_that_does_not_answer_is_told_in_words() -> None:
    said = _open_error_text("TCPIP0::192.0.2.1::5025::SOCKET", Exception("no: -1073807339"))
    assert said == "no: timeout; is it switched on and connected?"
    assert "-1073999999" in _open_error_text("TCPIP0::h::INSTR", Exception("-1073999999"))
