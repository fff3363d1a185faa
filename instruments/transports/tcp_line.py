"""A plain TCP connection, for instruments that are behind a server with a protocol of its own."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final

from instruments.errors import ConnectionLost
from instruments.transports.lines import NOT_OPEN

_CONNECT_S: Final = 1.5
_SEND_S: Final = 1.0
_DISCARD_S: Final = 1.0
_MOST_BYTES: Final = 1 << 20

_Found = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]
"""An address, as the resolver answers it."""


class TcpLine:
    """One connection to ``host``:``port``; ``hint`` is what to do where nobody listens there."""

    def __init__(
        self, name: str, host: str, port: int, hint: str = "", connect_s: float = _CONNECT_S
    ) -> None:
        self._name = name
        self._address = host, port
        self._hint = f"; {hint}" if hint else ""
        self._connect_s = connect_s
        self._socket: socket.socket | None = None

    def open(self) -> None:
        """Connect anew."""
        self.close()
        try:
            connected = _connect_tcp_line(*self._address, self._connect_s)
        except (OSError, UnicodeError) as error:  # the second one: no name that a host can have
            raise ConnectionLost(
                f"{self._name}: cannot connect to {self._where}: {_tcp_reason(error)}{self._hint}"
            ) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.settimeout(_SEND_S)
        self._socket = connected

    def close(self) -> None:
        """Close the connection."""
        connected, self._socket = self._socket, None
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.close()

    def write(self, data: bytes) -> None:
        """Send all of ``data``."""
        connected = self._connected()
        try:
            connected.sendall(data)
        except OSError as error:
            raise self._lost(_tcp_reason(error)) from error

    def read_some(self, timeout_s: float) -> bytes:
        """Wait for the first byte, then take what is there."""
        connected = self._connected()
        try:
            if not select.select([connected], [], [], timeout_s)[0]:
                return b""
            data = connected.recv(_MOST_BYTES)
        except OSError as error:
            raise self._lost(_tcp_reason(error)) from error
        if not data:
            raise self._lost("it closed the connection")
        return data

    def discard(self, quiet_s: float = 0.0) -> None:
        """Discard what is unread; gives up after 1 s on a server that never pauses."""
        deadline = time.monotonic() + quiet_s + _DISCARD_S
        while time.monotonic() < deadline and self.read_some(quiet_s):
            pass

    @property
    def _where(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionLost(f"{self._name}: {self._where} {NOT_OPEN}")
        return self._socket

    def _lost(self, reason: str) -> ConnectionLost:
        return ConnectionLost(f"{self._name}: lost {self._where}: {reason}{self._hint}")


def _connect_tcp_line(host: str, port: int, timeout_s: float) -> socket.socket:
    """A connection to the first address of ``host`` that takes one, all within ``timeout_s``.

    Raises OSError, UnicodeError.
    """
    deadline = time.monotonic() + timeout_s
    failed: OSError = TimeoutError("nobody took the connection in time")
    for family, kind, protocol, _, address in _tcp_host_addresses(host, port, timeout_s):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(left_s)
        try:
            connection.connect(address)
            return connection
        except OSError as error:
            connection.close()
            failed = error
    raise failed


def _tcp_host_addresses(host: str, port: int, timeout_s: float) -> Sequence[_Found]:
    """What ``host`` resolves to. The resolver knows no limit of time: a thread waits for it.

    Raises OSError, UnicodeError.
    """
    answers: SimpleQueue[Sequence[_Found] | OSError | UnicodeError] = SimpleQueue()

    def resolve() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    threading.Thread(target=resolve, name=f"resolve {host}", daemon=True).start()
    try:
        answer = answers.get(timeout=timeout_s)
    except Empty:
        raise TimeoutError("its name was not resolved in time") from None
    if isinstance(answer, OSError | UnicodeError):
        raise answer
    return answer


def _tcp_reason(error: OSError | UnicodeError) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__
