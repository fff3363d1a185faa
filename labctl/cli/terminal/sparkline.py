"""A sparkline: values as blocks of eight heights, in one line of a terminal."""

from __future__ import annotations

from collections.abc import Iterable


def sparkline(values: Iterable[float]) -> str:
    """The values as bars between their least and their greatest."""
    found = list(values)
    if not found:
        return ""
    low, high = min(found), max(found)
    if high == low:
        return SPARKS[0] * len(found)
    top = len(SPARKS) - 1
    return "".join(SPARKS[round((value - low) / (high - low) * top)] for value in found)


SPARKS = "▁▂▃▄▅▆▇█"
