"""A serial port through pyserial."""

from __future__ import annotations

import contextlib
import select
import termios
import time
from collections.abc import Callable
from typing import Any

from instruments.errors import ConnectionLost, NoAnswer
from instruments.transports.lines import NOT_OPEN, ByteLine, SerialFormat
from instruments.transports.serial_ports import IN_USE, port_error_text, port_path

_DISCARD_TIMEOUT_S = 1.0
_FREE_WITHIN_S = 0.5
_ASK_AGAIN_S = 0.02


class SerialLine:
    """One serial port (a pty works too).

    ``port`` is a path or names a USB device (:mod:`instruments.transports.serial_ports`),
    whose path is looked up at each opening: it may come back under another path.
    """

    def __init__(self, name: str, port: str, line_format: SerialFormat) -> None:
        self._name = name
        self._port = port
        self._format = line_format
        self._serial: Any = None

    def open(self) -> None:
        """Open the port for this process alone."""
        import serial

        path = port_path(self._name, self._port)
        port = serial.Serial(
            baudrate=self._format.baud,
            bytesize=self._format.data_bits,
            parity=self._format.parity,
            stopbits=self._format.stop_bits,
            timeout=0,  # select waits: setting a timeout would configure the whole port again
            exclusive=True,
            write_timeout=1.0,
        )
        port.port = path
        port.rts = self._format.rts
        port.dtr = self._format.dtr
        try:
            try:
                _open_when_free(port)
            except termios.error:
                # A pseudo terminal has no parity: glibc reports that at the second opening.
                port.bytesize, port.parity = 8, "N"
                _open_when_free(port)
        except (OSError, ValueError, termios.error) as error:
            raise ConnectionLost(
                f"{self._name}: cannot open {self._port}: {port_error_text(error)}"
            ) from error
        self._serial = port

    def close(self) -> None:
        """Close the port."""
        port, self._serial = self._serial, None
        if port is not None:
            with contextlib.suppress(Exception):
                port.close()

    def write(self, data: bytes) -> None:
        """Send all of ``data``."""
        port = self._open_port()
        try:
            port.write(data)
        except OSError as error:
            raise self._lost(error) from error

    def read_some(self, timeout_s: float) -> bytes:
        """Wait for the first byte, then take all that is there."""
        port = self._open_port()
        try:
            if not select.select([port], [], [], timeout_s)[0]:
                return b""
            data: bytes = port.read(max(port.in_waiting, 1))
            return data
        except (OSError, TypeError) as error:  # TypeError: pyserial, when unplugged while reading
            raise self._lost(error) from error

    def discard(self, quiet_s: float = 0.0) -> None:
        """Empty the input buffer; gives up after 1 s on a device that never pauses."""
        port = self._open_port()
        deadline = time.monotonic() + quiet_s + _DISCARD_TIMEOUT_S
        try:
            port.reset_input_buffer()
            while time.monotonic() < deadline and select.select([port], [], [], quiet_s)[0]:
                port.read(4096)
        except (OSError, termios.error) as error:
            raise self._lost(error) from error

    def _open_port(self) -> Any:
        if self._serial is None:
            raise ConnectionLost(f"{self._name}: {self._port} {NOT_OPEN}")
        return self._serial

    def _lost(self, error: Exception) -> ConnectionLost:
        return ConnectionLost(f"{self._name}: lost {self._port}: {error}; is it still plugged in?")


def _open_when_free(port: Any) -> None:
    """Open a port; one that another program has is asked for until ``_FREE_WITHIN_S`` are over.

    A lock of a port that was closed a moment ago stays for as long as a child that another thread
    started then is between its fork and its exec: it has the open port, too.
    """
    deadline = time.monotonic() + _FREE_WITHIN_S
    while True:
        try:
            port.open()
        except OSError as error:
            if error.errno not in IN_USE or time.monotonic() > deadline:
                raise
            time.sleep(_ASK_AGAIN_S)
        else:
            return


def bytes_until(line: ByteLine, enough: Callable[[bytes], object], timeout_s: float) -> bytes:
    """The bytes that come until those so far are ``enough``, or ``timeout_s`` is over.

    Raises ConnectionLost.
    """
    deadline = time.monotonic() + timeout_s
    data = b""
    while not enough(data) and (left_s := deadline - time.monotonic()) > 0:
        data += line.read_some(left_s)
    return data


def ask_for_reply(
    line: ByteLine,
    query: bytes,
    find_reply: Callable[[bytes], bytes],
    timeout_s: float,
    no_answer: str,
) -> bytes:
    """Send ``query``; the reply, or all bytes that came where no whole reply came in time.

    ``find_reply`` gives the whole reply in the bytes so far, or nothing. Raises NoAnswer with the
    message ``no_answer`` where nothing comes, and ConnectionLost.
    """
    line.write(query)
    data = bytes_until(line, find_reply, timeout_s)
    if not data:
        raise NoAnswer(no_answer)
    return find_reply(data) or data
