"""The wall clock of a drive's host behind ssh, mapped by all recorded samples of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labctl.analysis.readings.clock_fit import ClockMap, fit_clock
from labctl.analysis.run_summary import ClockResult
from labctl.record.events import EventKind
from labctl.record.json_values import is_number
from labctl.record.layout import HOST_CLOCK
from labctl.record.reader import RunRecord


def host_clock(record: RunRecord) -> ClockMap | None:
    """The mapping of the host's clock; None when the drive was in this machine."""
    pairs = record.clock_pairs(HOST_CLOCK)
    if not len(pairs):
        return None
    ticks = [
        tick
        for data in _epochs(record)
        if (tick := _host_clock_number(data.get("tick_s"))) is not None
    ]
    device = pairs["device_ns"]
    return fit_clock(pairs, max(ticks, default=0.0), int(device[0]), int(device[-1]))


def host_clock_result(record: RunRecord) -> ClockResult | None:
    """The summary's entry on the host's clock."""
    clock = host_clock(record)
    if clock is None:
        return None
    offsets = [_host_clock_number(data.get("offset_ns")) for data in _epochs(record)]
    first = next((offset for offset in offsets if offset is not None), None)
    return ClockResult(
        channel=HOST_CLOCK,
        drift_ppm=clock.drift_ppm,
        u_ms=clock.u_ns * 1e-6,
        epochs=clock.epochs,
        pairs=clock.pairs,
        offset_ms=None if first is None else first * 1e-6,
    )


def host_problems(record: RunRecord) -> tuple[str, ...]:
    """A line for each time that the host was lost, or its clock was set."""
    lines = []
    for event in record.events:
        if event.kind == EventKind.HOST_LOST:
            lines.append(f"the drive's host was lost: {event.data.get('reason', '')}")
        elif event.kind == EventKind.HOST_BACK:
            lines.append(f"the drive's host was back after {event.data.get('gap_s')} s")
        elif event.kind == EventKind.HOST_CLOCK_STEP:
            lines.append(
                f"the wall clock of the drive's host was set by {event.data.get('seconds')} s: of "
                "a phase meanwhile, the boundaries are from labctl's own signals"
            )
    clock = host_clock(record)
    if clock is not None:
        lines += [f"{HOST_CLOCK}: {problem}" for problem in clock.problems]
    return tuple(lines)


def _epochs(record: RunRecord) -> Iterator[dict[str, Any]]:
    return (event.data for event in record.events if event.kind == EventKind.HOST_CLOCK)


def _host_clock_number(value: object) -> float | None:
    return float(value) if is_number(value) else None
