"""What a trace asks of a drive, in one pass and constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from labctl.trace.chunks import UNKNOWN, Chunk, IoTrace, Op, TraceError
from labctl.trace.fields import Ints

KIB = 1024
SIZE_EDGES = (0, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB)
SIZE_NAMES = ("<4K", "4K", "8K", "16K", "32K", "64K", "128K", ">=256K")
"""A bin holds sizes from its name up to the next one: "4K" is 4 KiB to under 8 KiB."""

DEPTH_EDGES = (1, 2, 3, 4, 6, 11, 21, 33)
DEPTH_NAMES = ("1", "2", "3", "4-5", "6-10", "11-20", "21-32", ">32")

SLOW_NS = {10: 10_000_000, 100: 100_000_000}


@dataclass(frozen=True, slots=True)
class Bin:
    """I/Os of one bin, reads and writes apart, and their bytes."""

    name: str
    reads: int
    writes: int
    bytes: int

    @property
    def ios(self) -> int:
        """Reads and writes together."""
        return self.reads + self.writes


@dataclass(frozen=True, slots=True)
class Description:
    """A trace in numbers. None: the format does not tell.

    ``duration_s`` is from the first to the last I/O, ``busy_s`` the time in which any I/O was
    open, ``span_bytes`` the end of the furthest I/O: how large a drive must be to replay it.
    ``sequential_*``: I/Os that begin where the one before them on the same disk ended.
    """

    path: str
    format: str
    lines: int
    bad_lines: int
    bad_shown: tuple[str, ...]
    ios: int
    reads: int
    writes: int
    trims: int
    flushes: int
    bytes_read: int
    bytes_written: int
    read_share: float | None
    read_byte_share: float | None
    disks: int
    span_bytes: int
    sequential_ios: float | None
    sequential_bytes: float | None
    duration_s: float | None
    bytes_per_s: float | None
    iops: float | None
    out_of_order: int
    sizes: tuple[Bin, ...]
    queue_depths: tuple[Bin, ...] | None
    mean_queue_depth: float | None
    service_mean_ms: float | None
    service_max_ms: float | None
    busy_s: float | None
    slow_shares: dict[int, float] | None
    """Share of the I/Os that took longer than so many ms."""


def describe(trace: IoTrace, disk: int | None = None) -> Description:
    """Go through a trace, or the I/Os of one ``disk`` of it. Raises TraceError when there is
    nothing that can be read."""
    totals = _Totals()
    others = False
    for chunk in trace.chunks:
        own = chunk if disk is None else chunk.only(chunk.disk == disk)
        others = others or len(own) < len(chunk)
        if len(own):
            totals.add(own)
    if not totals.ios:
        if others:
            raise TraceError(f"{trace.path}: no I/O of disk {disk} is in it")
        shown = "; ".join(trace.bad.shown[:3])
        raise TraceError(f"{trace.path}: no line of it is an I/O {f'({shown})' if shown else ''}")
    return totals.description(trace)


@dataclass(slots=True)
class _Totals:
    ops: Ints = field(default_factory=lambda: np.zeros(len(Op), np.int64))
    bytes: Ints = field(default_factory=lambda: np.zeros(len(Op), np.int64))
    sizes: Ints = field(default_factory=lambda: np.zeros((len(SIZE_NAMES), 3), np.int64))
    depths: Ints = field(default_factory=lambda: np.zeros((len(DEPTH_NAMES), 3), np.int64))
    span: int = 0
    followers: int = 0
    sequential: int = 0
    follower_bytes: int = 0
    sequential_bytes: int = 0
    out_of_order: int = 0
    first_ns: int | None = None
    last_ns: int = 0
    served: int = 0
    service_sum_ns: float = 0.0
    service_max_ns: int = 0
    slow: dict[int, int] = field(default_factory=lambda: dict.fromkeys(SLOW_NS, 0))
    busy_ns: int = 0
    busy_until_ns: int = -(1 << 62)
    depth_sum: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    open_ns: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def ios(self) -> int:
        return int(self.ops.sum())

    def add(self, chunk: Chunk) -> None:
        self.ops += np.bincount(chunk.op, minlength=len(Op))
        moved = chunk.only(chunk.op <= Op.WRITE)
        for op in (Op.READ, Op.WRITE, Op.TRIM):
            self.bytes[op] += int(chunk.size[chunk.op == op].sum())
        if len(moved):
            self.span = max(self.span, int((moved.offset + moved.size).max()))
            _count_for_description(
                self.sizes, np.searchsorted(SIZE_EDGES, moved.size, "right") - 1, moved
            )
            self._follow(moved)
        if chunk.t_ns[0] != UNKNOWN or (chunk.t_ns != UNKNOWN).any():
            self._time(chunk)
        served = moved.only(moved.service_ns != UNKNOWN)
        if len(served):
            self._serve(served)

    def _follow(self, chunk: Chunk) -> None:
        """Count I/Os that begin where the one before on their disk ended."""
        order = np.argsort(chunk.disk, kind="stable")
        disk, offset, size = chunk.disk[order], chunk.offset[order], chunk.size[order]
        end = offset + size
        before = np.concatenate([[-1], end[:-1]])
        fresh = np.concatenate([[True], disk[1:] != disk[:-1]])
        known = np.ones(len(disk), bool)
        for at in np.flatnonzero(fresh):
            known[at] = int(disk[at]) in self.ends
            before[at] = self.ends.get(int(disk[at]), -1)
        lasts = np.concatenate([np.flatnonzero(fresh)[1:] - 1, [len(disk) - 1]])
        self.ends.update(zip(disk[lasts].tolist(), end[lasts].tolist(), strict=True))
        joined = known & (before == offset)
        self.followers += int(known.sum())
        self.sequential += int(joined.sum())
        self.follower_bytes += int(size[known].sum())
        self.sequential_bytes += int(size[joined].sum())

    def _time(self, chunk: Chunk) -> None:
        t = chunk.t_ns
        self.out_of_order += int((np.diff(t) < 0).sum())
        if self.first_ns is not None and t[0] < self.last_ns:
            self.out_of_order += 1
        low, high = int(t.min()), int(t.max())
        self.first_ns = low if self.first_ns is None else min(self.first_ns, low)
        self.last_ns = max(self.last_ns, high)

    def _serve(self, chunk: Chunk) -> None:
        """Service times, the depth that each I/O found (itself counted), and busy time."""
        service = chunk.service_ns
        self.served += len(service)
        self.service_sum_ns += float(service.sum(dtype=np.float64))
        self.service_max_ns = max(self.service_max_ns, int(service.max()))
        for limit_ms, limit_ns in SLOW_NS.items():
            self.slow[limit_ms] += int((service > limit_ns).sum())
        order = np.argsort(chunk.t_ns, kind="stable")
        ordered = Chunk(
            chunk.t_ns[order], chunk.op[order], chunk.offset[order], chunk.size[order],
            service[order], chunk.disk[order], chunk.line[order],
        )  # fmt: skip
        begin, end = ordered.t_ns, ordered.t_ns + ordered.service_ns
        every_end = np.sort(np.concatenate([self.open_ns, end]))
        begun = len(self.open_ns) + 1 + np.arange(len(begin))
        depth = np.maximum(begun - np.searchsorted(every_end, begin, "right"), 1)
        self.depth_sum += int(depth.sum())
        _count_for_description(
            self.depths, np.searchsorted(DEPTH_EDGES, depth, "right") - 1, ordered
        )
        self.open_ns = every_end[every_end > begin[-1]]
        reach = np.maximum.accumulate(np.concatenate([[self.busy_until_ns], end]))
        self.busy_ns += int(np.maximum(end - np.maximum(begin, reach[:-1]), 0).sum())
        self.busy_until_ns = int(reach[-1])

    def description(self, trace: IoTrace) -> Description:
        """The sums as shares and rates."""
        moved = int(self.ops[Op.READ] + self.ops[Op.WRITE])
        size = int(self.bytes[Op.READ] + self.bytes[Op.WRITE])
        seconds = (self.last_ns - self.first_ns) * 1e-9 if self.first_ns is not None else None
        timed = seconds if seconds else None
        served = self.served
        return Description(
            path=str(trace.path),
            format=trace.format,
            lines=trace.line_count,
            bad_lines=trace.bad.count,
            bad_shown=trace.bad.shown,
            ios=self.ios,
            reads=int(self.ops[Op.READ]),
            writes=int(self.ops[Op.WRITE]),
            trims=int(self.ops[Op.TRIM]),
            flushes=int(self.ops[Op.FLUSH]),
            bytes_read=int(self.bytes[Op.READ]),
            bytes_written=int(self.bytes[Op.WRITE]),
            read_share=int(self.ops[Op.READ]) / moved if moved else None,
            read_byte_share=int(self.bytes[Op.READ]) / size if size else None,
            disks=len(self.ends),
            span_bytes=self.span,
            sequential_ios=self.sequential / self.followers if self.followers else None,
            sequential_bytes=(
                self.sequential_bytes / self.follower_bytes if self.follower_bytes else None
            ),
            duration_s=seconds,
            bytes_per_s=size / timed if timed else None,
            iops=moved / timed if timed else None,
            out_of_order=self.out_of_order,
            sizes=_described_bins(SIZE_NAMES, self.sizes),
            queue_depths=_described_bins(DEPTH_NAMES, self.depths) if served else None,
            mean_queue_depth=self.depth_sum / served if served else None,
            service_mean_ms=self.service_sum_ns / served * 1e-6 if served else None,
            service_max_ms=self.service_max_ns * 1e-6 if served else None,
            busy_s=self.busy_ns * 1e-9 if served else None,
            slow_shares={ms: count / served for ms, count in self.slow.items()} if served else None,
        )


def _count_for_description(table: Ints, place: Ints, chunk: Chunk) -> None:
    """Add reads, writes and bytes of a chunk to the bins of a table."""
    bins = len(table)
    for column, op in enumerate((Op.READ, Op.WRITE)):
        table[:, column] += np.bincount(place[chunk.op == op], minlength=bins)
    table[:, 2] += np.bincount(place, weights=chunk.size, minlength=bins).astype(np.int64)


def _described_bins(names: tuple[str, ...], table: Ints) -> tuple[Bin, ...]:
    return tuple(
        Bin(name, int(row[0]), int(row[1]), int(row[2]))
        for name, row in zip(names, table, strict=True)
    )
