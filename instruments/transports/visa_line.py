"""A line through PyVISA: LAN, USB, GPIB, serial."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from instruments.errors import ConnectionLost, NoAnswer
from instruments.install_command import install_command
from instruments.transports.addresses import RESOURCE_EXAMPLE
from instruments.transports.lines import NOT_OPEN, SerialFormat
from instruments.transports.serial_ports import port_error_text

PYVISA_PY: Final = "@py"
"""The VISA library in Python, which is installed with labctl; another one: its path."""
OPEN_TIMEOUT_S = 1.5

if TYPE_CHECKING:
    import pyvisa


_LOCAL_TIMEOUT_MS = 500


_SERIAL_POLL_S = 0.01


BUS_LIBRARIES = {"USB": "pyusb>=1.2", "GPIB": "gpib-ctypes>=0.3"}
"""Libraries that PyVISA-py needs for resources on these buses, and does not install."""


_manager_lock = threading.Lock()


class VisaLine:
    """One VISA session, line feed at the end of each message."""

    def __init__(
        self,
        name: str,
        resource: str,
        library: str = PYVISA_PY,
        serial_format: SerialFormat | None = None,
    ) -> None:
        self._name = name
        self._resource = resource
        self._library = library
        self._serial_format = serial_format if resource.upper().startswith("ASRL") else None
        self._session: Any = None
        self._peer: socket.socket | None = None
        self._received = b""
        self._timeout_ms = 0
        self._recv_timeout_s = 0.0

    def open(self) -> None:
        """Open the session. Raises ConnectionLost where the address refuses or is unreachable."""
        import pyvisa  # takes 0.2 s: loaded only to measure

        try:
            with _manager_lock:
                manager: pyvisa.ResourceManager = pyvisa.ResourceManager(self._library)
            session: Any = manager.open_resource(
                self._resource,
                open_timeout=int(OPEN_TIMEOUT_S * 1000),
                read_termination="\n",
                write_termination="",
            )
        except Exception as error:  # PyVISA-py raises bare Exceptions when it cannot connect
            reason = _open_error_text(self._resource, error)
            raise ConnectionLost(f"{self._name}: cannot open {self._resource}: {reason}") from error
        self._session = session
        self._timeout_ms = 0
        if self._serial_format is not None:
            self._set_up_serial(self._serial_format)
        peer = self._peer = self._socket()
        self._received = b""
        self._recv_timeout_s = 0.0
        if peer is not None:
            # PyVISA-py reports a refused connection as a success.
            code = peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self.close()
                raise ConnectionLost(
                    f"{self._name}: {self._resource} refused the connection (error {code}); "
                    "is its LAN interface on, and is no other program using it?"
                )
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Close the session; on buses with a remote state (GPIB, USB, VXI-11) go to local."""
        session, self._session, self._peer = self._session, None, None
        if session is None:
            return
        with contextlib.suppress(Exception):  # not every library and bus supports it
            from pyvisa.constants import RENLineOperation

            if hasattr(session, "control_ren"):
                session.timeout = _LOCAL_TIMEOUT_MS
                session.control_ren(RENLineOperation.address_gtl)
        with contextlib.suppress(Exception):
            session.close()

    def write(self, data: bytes) -> None:
        """Send ``data`` as it is."""
        session = self._open_session()
        try:
            if self._peer is not None:
                self._peer.sendall(data)
            else:
                session.write_raw(data)
        except Exception as error:
            raise self._lost(error) from error

    def read_line(self, timeout_s: float) -> bytes:
        """One message up to its line feed."""
        session = self._open_session()
        if self._peer is not None:
            return self._read_line_of(self._peer, timeout_s)
        from pyvisa.constants import StatusCode
        from pyvisa.errors import VisaIOError

        timeout_ms = max(int(timeout_s * 1000), 1)
        try:
            if timeout_ms != self._timeout_ms:
                session.timeout = self._timeout_ms = timeout_ms
            answer: bytes = session.read_raw()
        except VisaIOError as error:
            if error.error_code == StatusCode.error_timeout:
                raise self._no_answer(timeout_s) from error
            raise self._lost(error) from error
        except Exception as error:
            raise self._lost(error) from error
        return answer

    def discard(self, quiet_s: float = 0.0) -> None:
        """Empty the input buffer; on other buses (USB, GPIB …) send a device clear.

        Where the VISA library has none (PyVISA-sim), what still comes is read.
        """
        session, peer = self._open_session(), self._peer
        self._received = b""
        try:
            if self._serial_format is not None:
                self._discard_serial(quiet_s)
                return
            if peer is None:
                self._clear(session, quiet_s)
                return
            while select.select([peer], [], [], quiet_s)[0]:
                if not peer.recv(65536):
                    raise self._peer_closed()
        except ConnectionLost:
            raise
        except Exception as error:
            raise self._lost(error) from error

    def _clear(self, session: Any, quiet_s: float) -> None:
        from pyvisa.constants import StatusCode
        from pyvisa.errors import VisaIOError

        try:
            session.clear()
            return
        except NotImplementedError:
            pass
        except VisaIOError as error:
            if error.error_code != StatusCode.error_nonsupported_operation:
                raise
        session.timeout = self._timeout_ms = max(int(quiet_s * 1000), 1)
        try:
            while session.read_raw():
                pass
        except VisaIOError as error:
            if error.error_code != StatusCode.error_timeout:
                raise

    def _open_session(self) -> Any:
        if self._session is None:
            raise ConnectionLost(f"{self._name}: {self._resource} {NOT_OPEN}")
        return self._session

    def _socket(self) -> socket.socket | None:
        sessions = getattr(self._session.visalib, "sessions", {})
        interface = getattr(sessions.get(self._session.session), "interface", None)
        return interface if isinstance(interface, socket.socket) else None

    def _set_up_serial(self, serial_format: SerialFormat) -> None:
        from pyvisa.constants import Parity, StopBits

        parities = {"N": Parity.none, "E": Parity.even, "O": Parity.odd}
        session = self._session
        try:
            session.baud_rate = serial_format.baud
            session.data_bits = serial_format.data_bits
            session.parity = parities[serial_format.parity]
            session.stop_bits = StopBits(10 * serial_format.stop_bits)
        except Exception as error:
            self.close()
            raise ConnectionLost(
                f"{self._name}: {self._resource} cannot be set to {serial_format}: {error}"
            ) from error

    def _discard_serial(self, quiet_s: float) -> None:
        from pyvisa.constants import BufferOperation

        session = self._session
        session.flush(BufferOperation.discard_read_buffer)
        deadline = time.monotonic() + quiet_s
        while time.monotonic() < deadline:
            if session.bytes_in_buffer:
                session.flush(BufferOperation.discard_read_buffer)
                deadline = time.monotonic() + quiet_s
            time.sleep(_SERIAL_POLL_S)

    def _read_line_of(self, peer: socket.socket, timeout_s: float) -> bytes:
        """PyVISA-py takes several times the CPU, and spins where the peer has closed.

        The kernel keeps the time: to select first is another call for each answer.
        """
        deadline = time.monotonic() + timeout_s
        left_s = timeout_s
        try:
            while b"\n" not in self._received:
                if left_s <= 0:
                    raise self._no_answer(timeout_s)
                if left_s != self._recv_timeout_s:
                    self._set_recv_timeout(peer, left_s)
                part = peer.recv(65536)
                if not part:
                    raise self._peer_closed()
                self._received += part
                left_s = deadline - time.monotonic()
        except BlockingIOError:
            raise self._no_answer(timeout_s) from None
        except OSError as error:
            raise self._lost(error) from error
        line, end, self._received = self._received.partition(b"\n")
        return line + end

    def _set_recv_timeout(self, peer: socket.socket, timeout_s: float) -> None:
        """How long ``recv`` waits: socket(7). No time at all would mean for ever."""
        us = max(round(timeout_s * 1e6), 1)
        timeval = struct.pack("@ll", *divmod(us, 1_000_000))
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        self._recv_timeout_s = timeout_s

    def _no_answer(self, timeout_s: float) -> NoAnswer:
        return NoAnswer(f"{self._name}: no whole answer within {timeout_s:g} s on {self._resource}")

    def _peer_closed(self) -> ConnectionLost:
        return ConnectionLost(f"{self._name}: {self._resource} closed the connection")

    def _lost(self, error: Exception) -> ConnectionLost:
        reason = _in_words(str(error)) or f"{type(error).__name__} of its VISA library"
        return ConnectionLost(f"{self._name}: lost {self._resource}: {reason}")


def _open_error_text(resource: str, error: Exception) -> str:
    """Why a session cannot be opened, and what can be done; PyVISA's own message is unclear."""
    from pyvisa import rname

    if resource.upper().startswith("ASRL"):
        return port_error_text(error)
    try:
        rname.ResourceName.from_string(resource)
    except rname.InvalidResourceName:
        return f"it is no VISA resource (such as {RESOURCE_EXAMPLE}), and no path of a serial port"
    for bus, library in BUS_LIBRARIES.items():
        if resource.upper().startswith(bus) and "Please install" in str(error):
            return (
                f"{bus} needs a library that is not installed; add it: {install_command(library)}"
            )
    return f"{_in_words(str(error))}; is it switched on and connected?"


def _in_words(text: str) -> str:
    """The codes of VISA in a message as words: -1073807339 is "timeout"."""
    from pyvisa.constants import StatusCode

    def word(code: re.Match[str]) -> str:
        known = {int(one): one.name for one in StatusCode}.get(int(code[0]), code[0])
        return known.removeprefix("error_").replace("_", " ")

    return re.sub(r"-1073\d{6}", word, text)
