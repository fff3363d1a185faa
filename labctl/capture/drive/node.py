"""What stands at a path on a machine: a device, a file, a directory, or nothing."""

from __future__ import annotations

from dataclasses import dataclass

from labctl.capture.host.machine import Machine

_FIELDS = "%f %t %T %d %s"  # mode, major and minor in hexadecimal; the rest decimal


@dataclass(frozen=True, slots=True)
class Node:
    """Mode as in stat(2), a device's own number ("259:0"), its filesystem's number, and bytes."""

    mode: int
    number: str
    filesystem: int
    size_bytes: int


def look_at(path: str, machine: Machine) -> Node | None:
    """What stands at ``path``, symbolic links followed; None when nothing does."""
    done = machine.run(["stat", "-L", "-c", _FIELDS, "--", path])
    fields = done.stdout.split()
    if done.exit_code or len(fields) != 5:
        return None
    mode, major, minor = (int(field, 16) for field in fields[:3])
    return Node(mode, f"{major}:{minor}", int(fields[3]), int(fields[4]))
