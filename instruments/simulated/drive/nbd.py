"""An NBD server on a unix socket whose drive is a model: each request is answered when due.

Protocol: fixed newstyle negotiation (GO, INFO, EXPORT_NAME, LIST, ABORT), simple replies, several
clients at once. One thread: an epoll set, a priority queue of requests in flight, and a caller's
clock function that advances the model. Source of numbers and layouts: the NBD project,
``doc/proto.md``.
"""

from __future__ import annotations

import errno
import heapq
import mmap
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

MAX_REQUEST_BYTES: Final = 64 << 20
"""The most that libnbd sends in one request."""
SECTOR_BYTES: Final = 512
MAX_CLIENTS: Final = 256

IDLE_NS: Final = 2_000_000
"""Time between two readings of the clock while nothing is in flight."""
_SPIN_NS = 15_000  # waking up takes about that long: the rest of a wait is spent polling

_INIT = struct.Struct(">QQH").pack(0x4E42444D41474943, 0x49484156454F5054, 0b11)
_OPTION = struct.Struct(">QII")  # magic, option, length
_OPTION_MAGIC = 0x49484156454F5054
_OPTION_REPLY = struct.Struct(">QIII")
_OPTION_REPLY_MAGIC = 0x3E889045565A9
_OPTION_LIMIT_BYTES = 8192  # a name is at most 4096
_EXPORT_NAME, _ABORT, _LIST, _INFO, _GO = 1, 2, 3, 6, 7
_ACK, _SERVER, _EXPORT_INFO = 1, 2, 3
_UNSUPPORTED, _INVALID, _UNKNOWN = 0x80000001, 0x80000003, 0x80000006

_REQUEST = struct.Struct(">IHH8sQI")  # magic, flags, command, handle, offset, length
_REQUEST_BYTES = _REQUEST.size
_REQUEST_MAGIC = 0x25609513
_CMD_READ, _CMD_WRITE, _CMD_DISC, _CMD_FLUSH, _CMD_TRIM, _CMD_ZERO = 0, 1, 2, 3, 4, 6
_FLAG_FUA, _FLAG_NO_HOLE, _FLAG_FAST = 1, 2, 16
_KNOWN_FLAGS = _FLAG_FUA | _FLAG_NO_HOLE | _FLAG_FAST
_REPLY_MAGIC = 0x67446698
_DONE = struct.pack(">II", _REPLY_MAGIC, 0)
# HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES, CAN_MULTI_CONN
_TRANSMISSION_FLAGS = 1 | 4 | 8 | 32 | 64 | 256

_ZEROS = memoryview(  # private and never written: every page is the kernel's page of zeros
    mmap.mmap(-1, MAX_REQUEST_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
)
_RECEIVE_BYTES = 1 << 20
_MAX_BUFFERS = 1000  # of one sendmsg; IOV_MAX is 1024
_MAX_OWED = 8192  # requests and unfetched replies of a client; beyond, it is not read any more
_SENDS_DATA = 0x100  # beside the kind of a request in flight: its reply carries zeros


class NbdDrive(Protocol):
    """What the server needs of a drive: times in nanoseconds, see ``DriveModel``."""

    def submit_read(self, now_ns: int, offset: int, length: int) -> tuple[int, int]:
        """When it is due, and its kind."""

    def submit_write(self, now_ns: int, offset: int, length: int) -> tuple[int, int]:
        """When it is due, and its kind."""

    def submit_flush(self, now_ns: int) -> tuple[int, int]:
        """When it is due, and its kind."""

    def submit_trim(self, now_ns: int, offset: int, length: int) -> tuple[int, int]:
        """When it is due, and its kind."""

    def complete(self, kind: int, length: int, now_ns: int) -> None:
        """It was answered."""


class _Refused(Exception):
    """The client speaks another language, or went away: close the connection."""


class _Client:
    """One connection: its half-received bytes, its unsent replies."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.step = _Client.flags  # what the next bytes are
        self.rest = b""  # received, but not yet enough
        self.write: tuple[bytes, int, int] | None = None  # its data is being received
        self.data_left = 0
        self.refuses_data = False
        self.no_zeroes = False
        self.out: deque[bytes | memoryview] = deque()
        self.events = select.EPOLLIN
        self.in_flight = 0
        self.leaving = False
        self.closed = False

    flags, options, transmission = range(3)

    def send(self) -> bool:
        """Send what the socket takes; whether all of it went out."""
        out = self.out
        while out:
            buffers = list(out) if len(out) <= _MAX_BUFFERS else [*out][:_MAX_BUFFERS]
            try:
                sent = self.connection.sendmsg(buffers)
            except BlockingIOError:
                return False
            except OSError as error:
                raise _Refused from error
            for buffer in buffers:
                if sent < len(buffer):
                    out[0] = memoryview(buffer)[sent:]
                    break
                sent -= len(buffer)
                out.popleft()
        return True


class NbdServer:
    """Serves ``drive`` until :meth:`stop`.

    ``advance(now_ns)`` brings the model up to that time and returns when it wants to be called
    next; it is called before requests of a later time are submitted.
    """

    def __init__(
        self, path: Path, size_bytes: int, drive: NbdDrive, advance: Callable[[int], int]
    ) -> None:
        self._size = size_bytes
        self._drive = drive
        self._advance = advance
        self._due: list[tuple[int, int, _Client, bytes, int, int]] = []
        self._order = 0
        self._clients: dict[int, _Client] = {}
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._stopping = False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener.bind(str(path))
        self._listener.listen(MAX_CLIENTS)
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)

    def stop(self) -> None:
        """End :meth:`serve` soon; callable from a signal handler."""
        self._stopping = True

    def serve(self) -> None:
        """Answer until stopped, then close everything."""
        clock, poll, due = time.monotonic_ns, self._epoll.poll, self._due
        epoll = [self._epoll.fileno()]
        listener = self._listener.fileno()
        next_tick = 0
        while not self._stopping:
            if due:
                wake = due[0][0]
                if next_tick < wake:
                    wake = next_tick
                left = wake - clock() - _SPIN_NS
            else:
                left = IDLE_NS
            if left > 0:  # epoll itself counts in milliseconds; select in microseconds
                select.select(epoll, (), (), left * 1e-9)
            now = clock()
            if now >= next_tick:
                next_tick = self._advance(now)
            if due and due[0][0] <= now:
                self._answer(now)
            for fd, events in poll(0):
                if fd == listener:
                    self._accept()
                    continue
                client = self._clients[fd]
                try:
                    if events & select.EPOLLOUT:
                        self._flush(client)
                    if events & ~select.EPOLLOUT:
                        self._receive(client, now)
                except _Refused:
                    self._close(client)
        for client in list(self._clients.values()):
            self._close(client)
        self._listener.close()
        self._epoll.close()

    def _answer(self, now: int) -> None:
        """Complete what is due, and send all replies of a client in one go."""
        due, drive, pop = self._due, self._drive, heapq.heappop
        answered: set[_Client] = set()
        while due and due[0][0] <= now:
            _, _, client, handle, kind, length = pop(due)
            drive.complete(kind & 0xFF, length, now)
            client.in_flight -= 1
            if client.closed:
                continue
            out = client.out
            out.append(_DONE + handle)
            if kind & _SENDS_DATA:
                out.append(_ZEROS[:length])
            answered.add(client)
        for client in answered:
            try:
                self._flush(client)
            except _Refused:
                self._close(client)

    def _flush(self, client: _Client) -> None:
        """Send, and listen to what makes sense now: room to send, or requests, or nothing."""
        all_sent = client.send()
        if all_sent and client.leaving and client.in_flight == 0:
            raise _Refused
        events = 0 if all_sent else select.EPOLLOUT
        if not client.leaving and client.in_flight + len(client.out) < _MAX_OWED:
            events |= select.EPOLLIN
        if events != client.events:
            client.events = events
            self._epoll.modify(client.connection, events)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone again, or no descriptor left: the others go on
            return
        if len(self._clients) >= MAX_CLIENTS:
            connection.close()
            return
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        client = _Client(connection)
        self._clients[connection.fileno()] = client
        self._epoll.register(connection, select.EPOLLIN)
        client.out.append(_INIT)
        try:
            self._flush(client)
        except _Refused:
            self._close(client)

    def _close(self, client: _Client) -> None:
        """Forget a client. What it has in flight is still done by the drive."""
        client.closed = True
        client.out.clear()
        del self._clients[client.connection.fileno()]
        self._epoll.unregister(client.connection)
        client.connection.close()

    def _receive(self, client: _Client, now: int) -> None:
        kept = len(client.rest)
        if kept:
            self._buffer[:kept] = client.rest
        try:
            count = client.connection.recv_into(self._view[kept:])
        except BlockingIOError:
            return
        except OSError as error:
            raise _Refused from error
        if count == 0:
            raise _Refused
        end = kept + count
        used = 0
        if client.step != _Client.transmission:
            used = self._negotiate(client, end)
        if client.step == _Client.transmission:
            used = self._requests(client, used, end, now)
        client.rest = bytes(self._view[used:end])
        if client.out or client.leaving or client.in_flight >= _MAX_OWED:
            self._flush(client)

    def _requests(self, client: _Client, position: int, end: int, now: int) -> int:
        """Submit the requests in the buffer; how far it was used."""
        buffer, unpack, drive, due = self._buffer, _REQUEST.unpack_from, self._drive, self._due
        while not client.leaving:
            if client.write is not None:
                taken = min(client.data_left, end - position)
                position += taken
                client.data_left -= taken
                if client.data_left:
                    break
                handle, offset, length = client.write
                client.write = None
                if client.refuses_data:
                    self._refuse(client, handle)
                    continue
                when, kind = drive.submit_write(now, offset, length)
            else:
                if end - position < _REQUEST_BYTES:
                    break
                magic, flags, command, handle, offset, length = unpack(buffer, position)
                position += _REQUEST_BYTES
                if magic != _REQUEST_MAGIC:
                    raise _Refused
                is_valid = self._is_valid(flags, command, offset, length)
                if command == _CMD_WRITE:
                    if length > MAX_REQUEST_BYTES:
                        raise _Refused  # what follows cannot be trusted
                    client.write = (handle, offset, length)
                    client.data_left, client.refuses_data = length, not is_valid
                    continue
                if command == _CMD_DISC:
                    client.leaving = True
                    break
                if not is_valid:
                    self._refuse(client, handle)
                    continue
                if command == _CMD_READ:
                    when, kind = drive.submit_read(now, offset, length)
                    kind |= _SENDS_DATA
                elif command == _CMD_FLUSH:
                    when, kind = drive.submit_flush(now)
                elif command == _CMD_ZERO and flags & _FLAG_NO_HOLE:
                    when, kind = drive.submit_write(now, offset, length)
                else:
                    when, kind = drive.submit_trim(now, offset, length)
            self._order = order = self._order + 1
            client.in_flight += 1
            heapq.heappush(due, (when, order, client, handle, kind, length))
        return position

    def _is_valid(self, flags: int, command: int, offset: int, length: int) -> bool:
        if flags & ~_KNOWN_FLAGS:
            return False
        if command == _CMD_FLUSH:
            return offset == 0 and length == 0
        if command in (_CMD_READ, _CMD_WRITE):
            if length > MAX_REQUEST_BYTES:
                return False
        elif command not in (_CMD_TRIM, _CMD_ZERO):
            return False
        if (offset | length) % SECTOR_BYTES:
            return False
        return length > 0 and offset + length <= self._size

    @staticmethod
    def _refuse(client: _Client, handle: bytes) -> None:
        client.out.append(struct.pack(">II", _REPLY_MAGIC, errno.EINVAL) + handle)

    def _negotiate(self, client: _Client, end: int) -> int:
        """Answer the options in the buffer; how far it was used."""
        position = 0
        if client.step == _Client.flags:
            if end < 4:
                return 0
            (flags,) = struct.unpack_from(">I", self._buffer)
            if flags & ~0b11 or not flags & 1:  # only fixed newstyle
                raise _Refused
            client.no_zeroes = bool(flags & 2)
            client.step = _Client.options
            position = 4
        while client.step == _Client.options and not client.leaving:
            if end - position < _OPTION.size:
                break
            magic, option, length = _OPTION.unpack_from(self._buffer, position)
            if magic != _OPTION_MAGIC or length > _OPTION_LIMIT_BYTES:
                raise _Refused
            data_at = position + _OPTION.size
            if end - data_at < length:
                break
            self._option(client, option, bytes(self._buffer[data_at : data_at + length]))
            position = data_at + length
        return position

    def _option(self, client: _Client, option: int, data: bytes) -> None:
        def reply(kind: int, content: bytes = b"") -> None:
            header = _OPTION_REPLY.pack(_OPTION_REPLY_MAGIC, option, kind, len(content))
            client.out.append(header + content)

        if option == _EXPORT_NAME:
            if data:  # there is no reply that could say no
                raise _Refused
            padding = b"" if client.no_zeroes else bytes(124)
            client.out.append(struct.pack(">QH", self._size, _TRANSMISSION_FLAGS) + padding)
            client.step = _Client.transmission
        elif option in (_GO, _INFO):
            name_bytes = int.from_bytes(
                data[:4], "big"
            )  # then the name, then a count and information requests
            if name_bytes + 6 > len(data):
                reply(_INVALID)
            elif name_bytes:
                reply(_UNKNOWN)
            else:
                reply(_EXPORT_INFO, struct.pack(">HQH", 0, self._size, _TRANSMISSION_FLAGS))
                sizes = (SECTOR_BYTES, 4096, MAX_REQUEST_BYTES)
                reply(_EXPORT_INFO, struct.pack(">HIII", 3, *sizes))
                reply(_ACK)
                if option == _GO:
                    client.step = _Client.transmission
        elif option == _LIST:
            reply(_SERVER, struct.pack(">I", 0))
            reply(_ACK)
        elif option == _ABORT:
            reply(_ACK)
            client.leaving = True
        else:
            reply(_UNSUPPORTED)
