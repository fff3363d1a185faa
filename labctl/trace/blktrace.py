"""Queue events of a binary blktrace, as ``blkparse -d`` or fio's own merge writes it.

A record is ``struct blk_io_trace`` of linux/blktrace_api.h, 48 bytes, followed by ``pdu_len`` bytes
of its own. The queue events are what the host asked of the device; fio replays the same.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

RECORD = np.dtype(
    [("magic", "<u4"), ("sequence", "<u4"), ("time", "<u8"), ("sector", "<u8"), ("bytes", "<u4"),
     ("action", "<u4"), ("pid", "<u4"), ("device", "<u4"), ("cpu", "<u4"), ("error", "<u2"),
     ("pdu_len", "<u2")]
)  # fmt: skip
RECORD_BYTES = RECORD.itemsize
MAGIC = 0x65617407
"""BLK_IO_TRACE_MAGIC with version 7."""

_QUEUE = 1
_WRITE, _DISCARD, _NOTIFY = 1 << 17, 1 << 29, 1 << 26
"""BLK_TC_WRITE, _DISCARD and _NOTIFY, shifted by BLK_TC_SHIFT (16)."""


@dataclass(frozen=True, slots=True)
class QueueEvents:
    """I/Os as they were queued; sectors of 512 bytes."""

    t_ns: Ints
    sector: Ints
    size: Ints
    device: Ints
    write: Mask
    discard: Mask


def starts_as_blktrace(head: bytes) -> bool:
    """Whether a file begins with a record of this version and byte order."""
    return len(head) >= 4 and struct.unpack("<I", head[:4])[0] == MAGIC


def queue_events(data: bytes, *, last: bool) -> tuple[QueueEvents, int, str]:
    """The events in ``data``, how many bytes were used, and what stands where no record is.

    Records are read in runs without data of their own, so that few are read singly.
    """
    parts: list[NDArray[np.void]] = []
    at, torn = 0, ""
    while len(data) - at >= RECORD_BYTES:
        records = np.frombuffer(data, RECORD, (len(data) - at) // RECORD_BYTES, at)
        odd = np.flatnonzero((records["magic"] != MAGIC) | (records["pdu_len"] != 0))
        if not len(odd):
            parts.append(records)
            at += len(records) * RECORD_BYTES
            break
        stop = int(odd[0])
        if records["magic"][stop] != MAGIC:
            parts.append(records[:stop])
            at += stop * RECORD_BYTES
            torn = f"byte {at} of the block: {data[at : at + 8].hex()}"
            break
        length = (stop + 1) * RECORD_BYTES + int(records["pdu_len"][stop])
        if len(data) - at < length:
            parts.append(records[:stop])
            at += stop * RECORD_BYTES
            torn = f"a record cut off after {len(data) - at} bytes" if last else ""
            break
        parts.append(records[: stop + 1])
        at += length
    if last and not torn and at < len(data):
        torn = f"a record cut off after {len(data) - at} bytes"
    records = np.concatenate(parts) if parts else np.empty(0, RECORD)
    action = records["action"]
    queued = ((action & 0xFFFF) == _QUEUE) & ((action & _NOTIFY) == 0) & (records["bytes"] > 0)
    records, action = records[queued], action[queued]
    return (
        QueueEvents(
            t_ns=records["time"].astype(np.int64),
            sector=records["sector"].astype(np.int64),
            size=records["bytes"].astype(np.int64),
            device=records["device"].astype(np.int64),
            write=(action & _WRITE) != 0,
            discard=(action & _DISCARD) != 0,
        ),
        at,
        torn,
    )
