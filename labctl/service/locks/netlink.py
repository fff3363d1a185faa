"""The Unix sockets that are bound on this machine, and whose they are: sock_diag(7) by netlink."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _NLMSG_DONE = 20, 3
_NLM_F_REQUEST, _NLM_F_DUMP = 0x1, 0x300
_SHOW_NAME, _SHOW_UID = 0x1, 0x40
_NAME, _UID = 0, 7
_ALL = 0xFFFFFFFF
_MOST_BYTES = 1 << 17
_ANSWER_WITHIN_S = 5.0


def bound_sockets(begin: bytes) -> Iterator[tuple[int, int | None]]:
    """Inode and user of every socket whose name begins so; None: the kernel does not tell whose."""
    try:
        yield from _bound_by_diag(begin)
    except OSError:  # a kernel or a container without unix_diag
        text = Path("/proc/net/unix").read_bytes()
        for line in text.splitlines()[1:]:
            fields = line.split(b" ", 7)
            if len(fields) == 8 and fields[7].startswith(b"@" + begin[1:]):
                yield int(fields[6]), None


def _bound_by_diag(begin: bytes) -> list[tuple[int, int | None]]:
    request = struct.pack(
        "=BBHIIIII", socket.AF_UNIX, 0, 0, _ALL, 0, _SHOW_NAME | _SHOW_UID, _ALL, _ALL
    )
    flags = _NLM_F_REQUEST | _NLM_F_DUMP
    header = struct.pack("=IHHII", 16 + len(request), _SOCK_DIAG_BY_FAMILY, flags, 1, 0)
    found: list[tuple[int, int | None]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as line:
        line.settimeout(_ANSWER_WITHIN_S)
        line.send(header + request)
        while True:
            data = line.recv(_MOST_BYTES)
            at = 0
            while at + 16 <= len(data):
                size, kind = struct.unpack_from("=IH", data, at)
                if kind == _NLMSG_DONE:
                    return found
                if kind != _SOCK_DIAG_BY_FAMILY or size < 32:
                    raise OSError("the kernel does not list Unix sockets")
                (inode,) = struct.unpack_from("=I", data, at + 20)
                attributes = dict(_netlink_attributes(data[at + 32 : at + size]))
                if attributes.get(_NAME, b"").startswith(begin):
                    uid = attributes.get(_UID)
                    found.append((inode, None if uid is None else struct.unpack("=I", uid)[0]))
                at += size + 3 & ~3


def _netlink_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        if size < 4:
            return
        yield kind, data[at + 4 : at + size]
        at += size + 3 & ~3
