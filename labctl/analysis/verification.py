"""What was derived from a record once, held against what is derived from it now."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SAME_WITHIN = 1e-9
"""Relative: another processor or numpy may round the last digits of a sum differently."""

LABCTL_VERSION = "labctl_version"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A number (or word) that is another when it is derived again. ``where`` is its path:
    ``phases[3] randread 4k QD8: rails.12V.watts.value``."""

    where: str
    stated: Any
    derived: Any

    def __str__(self) -> str:
        text = f"{self.where}: stated {_short(self.stated)}, derived {_short(self.derived)}"
        numbers = all(
            isinstance(value, int | float) and not isinstance(value, bool)
            for value in (self.stated, self.derived)
        )
        if numbers and self.stated:
            text += f" ({self.derived / self.stated - 1:+.2g})"
        return text


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def mismatches(stated: dict[str, Any], derived: dict[str, Any]) -> tuple[Mismatch, ...]:
    """Every value in which two summaries (as plain JSON) differ beyond rounding.

    The version of the labctl that derived them is not a result and may differ.
    """
    labels = _labels(derived) or _labels(stated)
    found = []
    for where, one, other in _pairs((), stated, derived):
        if where != (LABCTL_VERSION,) and not _same(one, other):
            found.append(Mismatch(_named(where, labels), one, other))
    return tuple(found)


def _labels(summary: dict[str, Any]) -> list[str]:
    phases = summary.get("phases")
    if not isinstance(phases, list):
        return []
    return [
        f"{item['phase'].get('pattern')} {item['phase'].get('block_size_bytes')} "
        f"QD{item['phase'].get('queue_depth')}"
        if isinstance(item, dict) and isinstance(item.get("phase"), dict)
        else ""
        for item in phases
    ]


def _named(where: tuple[str | int, ...], labels: list[str]) -> str:
    text = ""
    for number, part in enumerate(where):
        if isinstance(part, int):
            text += f"[{part}]"
            if number == 1 and where[0] == "phases" and part < len(labels):
                text += f" {labels[part]}:"
        elif text.endswith(":"):
            text += f" {part}"
        else:
            text += f".{part}" if text else str(part)
    return text


ABSENT = "(nothing)"
"""Stands for a value that only one of the two has."""


def _pairs(
    where: tuple[str | int, ...], one: Any, other: Any
) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from _pairs((*where, key), one.get(key, ABSENT), other.get(key, ABSENT))
    elif isinstance(one, list) and isinstance(other, list):
        for number in range(max(len(one), len(other))):
            yield from _pairs(
                (*where, number),
                one[number] if number < len(one) else ABSENT,
                other[number] if number < len(other) else ABSENT,
            )
    else:
        yield where, one, other


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=SAME_WITHIN, abs_tol=1e-12)
    return type(one) is type(other) and bool(one == other)
