"""Whether the drive's host has room for a plan's queues, asked before anything is begun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from labctl.capture.host.machine import Machine
from labctl.config.rig import Rig
from labctl.errors import Mistake
from labctl.record.phase import Phase

AIO_MOST, AIO_TAKEN = "/proc/sys/fs/aio-max-nr", "/proc/sys/fs/aio-nr"
"""Requests that the kernel keeps for libaio (Documentation/admin-guide/sysctl/fs.rst): fio takes
its queue depth for each job when it gets ready."""
MEMORY = "/proc/meminfo"
IO_URING_OFF = "/proc/sys/kernel/io_uring_disabled"
"""2: for everybody (Documentation/admin-guide/sysctl/kernel.rst)."""


def mistakes_with_host(
    rig: Rig, phases: Sequence[Phase], plan_file: str, machine: Machine
) -> tuple[Mistake, ...]:
    """What the plan asks that the drive's host has no room for.

    Two phases count at a time: the fio of the next one is ready while the present one works.
    """
    found = machine.read_texts([AIO_MOST, AIO_TAKEN, MEMORY, IO_URING_OFF])
    deep = [phase for phase in phases if phase.pattern.io]
    lines = [*_memory_room_requests(deep, rig, found), *_memory_room_buffers(deep, rig, found)]
    mistakes = [Mistake(plan_file, "queue_depth", phase.queue_depth, text) for phase, text in lines]
    if "io_uring" in rig.engines and _memory_room_number(found.get(IO_URING_OFF)) == 2:
        allowed = (
            "is switched off on the drive's host: sudo sysctl -w kernel.io_uring_disabled=0 there, "
            'or engine = "libaio"'
        )
        mistakes.append(Mistake(rig.path, f"{rig.drive_key}.engine", "io_uring", allowed))
    return tuple(mistakes)


def _memory_room_requests(
    phases: Sequence[Phase], rig: Rig, found: dict[str, str]
) -> Iterator[tuple[Phase, str]]:
    most, taken = (
        _memory_room_number(found.get(AIO_MOST)),
        _memory_room_number(found.get(AIO_TAKEN)) or 0,
    )
    drives = sum(drive.engine == "libaio" for drive in rig.drives.values())
    needed = [drives * phase.jobs * phase.queue_depth for phase in phases]
    if most is not None and _room_needed(needed) > most - taken:
        phase = phases[needed.index(max(needed))]
        yield (
            phase,
            f"libaio needs up to {_room_needed(needed)} requests at a time ({phase.label}: "
            f"{max(needed)}), the drive's host has {most - taken}: sudo sysctl -w fs.aio-max-nr="
            f"{taken + _room_needed(needed)} there, or less depth or jobs",
        )


def _memory_room_buffers(
    phases: Sequence[Phase], rig: Rig, found: dict[str, str]
) -> Iterator[tuple[Phase, str]]:
    words = (line.split() for line in found.get(MEMORY, "").splitlines())
    left = {word[0]: _memory_room_number(word[1]) for word in words if len(word) > 1}.get(
        "MemAvailable:"
    )
    one = [phase.jobs * phase.queue_depth * phase.block_size_bytes for phase in phases]
    needed = [len(rig.drives) * in_flight for in_flight in one]
    if left is not None and _room_needed(needed) > left * 1024:
        phase = phases[needed.index(max(needed))]
        yield (
            phase,
            f"fio's buffers take up to {_room_needed(needed) / 1e9:.1f} GB at a time ({phase.label}"
            f": {max(needed) / 1e9:.1f} GB), the drive's host has {left * 1024 / 1e9:.1f} GB: less "
            "depth, smaller blocks or fewer jobs",
        )


def _room_needed(needed: Sequence[int]) -> int:
    """The most of two phases in a row."""
    return max((sum(two) for two in pairwise([0, *needed])), default=0)


def _memory_room_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None
