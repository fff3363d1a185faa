"""Scaled-down plans: the same phases on a smaller part of the drive, in less time.

A plan scaled by 0.01 treats the drive as if it had a hundredth of its bytes, and gives every phase
a hundredth of its time. Points, rounds and their order stay: a bench shows in minutes what a
lab measures in hours; the numbers are not those of the method.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from labctl.record.phase import Pattern

LEAST_S = 3.0
"""In less, a meter of two readings a second does not measure."""
LEAST_BYTES = 64 << 20
"""The smallest part of a drive that is worked on: the largest block of the transfer-size test."""


def scaled_bytes(size_bytes: int, scale: float) -> int:
    """A size scaled, in whole MiB, at least ``LEAST_BYTES`` and never more than it was."""
    whole = int(size_bytes * scale) >> 20 << 20
    return min(size_bytes, max(whole, LEAST_BYTES))


def scaled_axes(axes: dict[str, Any], scale: float, drive_bytes: int | None) -> dict[str, Any]:
    """The axes of a phase scaled; ``drive_bytes`` is the size that the drive is taken for.

    A purge keeps its limit of time, for it is always of the whole drive, and a replay its trace.
    """
    if axes["pattern"] is Pattern.REPLAY:
        return axes  # a trace is what it is
    found = dict(axes)
    if axes["pattern"] is not Pattern.PURGE and axes["duration_s"]:
        found["duration_s"] = min(axes["duration_s"], max(axes["duration_s"] * scale, LEAST_S))
    if axes.get("steady_temperature_s"):
        found["steady_temperature_s"] = max(axes["steady_temperature_s"] * scale, LEAST_S)
    until = axes.get("until")
    if until is not None and until.min_duration_s is not None:
        least_s = min(max(until.min_duration_s * scale, LEAST_S), found["duration_s"])
        found["until"] = replace(until, min_duration_s=least_s)
    if not axes["pattern"].io:
        return found
    span_bytes = axes.get("span_bytes")
    if span_bytes is None:
        found["span_bytes"] = drive_bytes
    elif not axes.get("fill_bytes") or span_bytes != drive_bytes:
        least = axes["jobs"] * axes["block_size_bytes"]
        found["span_bytes"] = min(span_bytes, max(scaled_bytes(span_bytes, scale), least))
    if axes.get("fill_bytes"):
        found["fill_bytes"] = found["span_bytes"]
    return found
