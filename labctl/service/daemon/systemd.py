"""Reports the service's state to systemd (sd_notify(3)): datagrams to the socket it names."""

from __future__ import annotations

import contextlib
import os
import socket
import time

SOCKET_VARIABLE = "NOTIFY_SOCKET"


def notify(*assignments: str) -> None:
    """Send assignments such as ``READY=1``. Does nothing when systemd did not start this."""
    address = os.environ.get(SOCKET_VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as sender:
        sender.sendto("\n".join(assignments).encode(), address)


def reloading() -> None:
    """The configuration is being read again; ``READY=1`` must follow."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def watchdog_interval_s() -> float | None:
    """How often to send WATCHDOG=1: half of what systemd asks for, s; None: not at all."""
    wanted = os.environ.get("WATCHDOG_USEC", "")
    for_whom = os.environ.get("WATCHDOG_PID", "")
    if not wanted.isdigit() or (for_whom and for_whom != str(os.getpid())):
        return None
    return int(wanted) / 2e6 or None
