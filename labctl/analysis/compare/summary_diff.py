"""Differences between a stored summary of a record and the one derived from it now."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labctl.record.json_values import known
from labctl.record.phase import Phase
from labctl.rounded import rounded

SAME_WITHIN = 1e-9
"""Relative: another processor or numpy may round the last digits of a sum differently."""

LABCTL_VERSION = "labctl_version"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A number (or word) that differs when it is derived again. ``where`` is its path:
    ``phases[3] randread 4k QD8: rails.12V.watts.value``."""

    where: str
    stated: Any
    derived: Any

    @property
    def place(self) -> str:
        """The phase that it belongs to, or an empty text."""
        return self.where.partition(": ")[0] if ": " in self.where else ""

    def __str__(self) -> str:
        what = self.where.removeprefix(f"{self.place}: ") if self.place else self.where
        if not (_is_number(self.stated) and _is_number(self.derived)):
            return f"{what}: stated {_diff_value(self.stated)}, derived {_diff_value(self.derived)}"
        part = (self.derived / self.stated - 1) if self.stated else math.nan
        digits = _digits_that_differ(part)
        sign = "" if part < 0 else "+"
        change = f" ({sign}{rounded(part * 100, 2)} %)" if math.isfinite(part) else ""
        return f"{what}: stated {self.stated:.{digits}g}, derived {self.derived:.{digits}g}{change}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _digits_that_differ(part: float) -> int:
    """Significant digits that show the difference of two numbers that differ by this part."""
    if not math.isfinite(part) or part == 0:
        return 17
    return min(17, max(5, 2 - math.floor(math.log10(abs(part)))))


def _diff_value(value: Any) -> str:
    if value is None or value == ABSENT:
        return "nothing"
    if isinstance(value, dict | list):
        return "a result"
    if _is_number(value):
        return f"{value:.6g}"
    text = str(value)
    return f"‘{text}’" if len(text) <= 60 else f"‘{text[:57]}…’"


def mismatches(stated: dict[str, Any], derived: dict[str, Any]) -> tuple[Mismatch, ...]:
    """Every value in which two summaries (as plain JSON) differ beyond rounding.

    The version of the labctl that derived them is not a result and may differ.
    """
    labels = _summary_diff_labels(derived) or _summary_diff_labels(stated)
    found = []
    for where, one, other in _summary_diff_pairs((), stated, derived):
        if where != (LABCTL_VERSION,) and not _same_for_summary_diff(one, other):
            found.append(Mismatch(_summary_diff_place(where, labels), one, other))
    return tuple(found)


def _summary_diff_labels(summary: dict[str, Any]) -> list[str]:
    phases = summary.get("phases")
    if not isinstance(phases, list):
        return []
    return [
        _summary_diff_label(item.get("phase")) if isinstance(item, dict) else "" for item in phases
    ]


def _summary_diff_label(phase: Any) -> str:
    try:
        return known(Phase, phase).label
    except (TypeError, KeyError, ValueError, AttributeError):
        return ""  # of another version, or changed by hand: its number names it


def _summary_diff_place(where: tuple[str | int, ...], labels: list[str]) -> str:
    text = ""
    for number, part in enumerate(where):
        if isinstance(part, int):
            text += f"[{part}]"
            if number == 1 and where[0] == "phases" and part < len(labels):
                text += f" {labels[part]}".rstrip()
                text += ": " if len(where) > 2 else ""
        elif not text or text.endswith(": "):
            text += str(part)
        else:
            text += f".{part}"
    return text


ABSENT = "(nothing)"
"""Stands for a value that only one of the two has."""


def _summary_diff_pairs(
    where: tuple[str | int, ...], one: Any, other: Any
) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from _summary_diff_pairs(
                (*where, key), one.get(key, ABSENT), other.get(key, ABSENT)
            )
    elif isinstance(one, list) and isinstance(other, list):
        for number in range(max(len(one), len(other))):
            yield from _summary_diff_pairs(
                (*where, number),
                one[number] if number < len(one) else ABSENT,
                other[number] if number < len(other) else ABSENT,
            )
    else:
        yield where, one, other


def _same_for_summary_diff(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=SAME_WITHIN, abs_tol=1e-12)
    return type(one) is type(other) and bool(one == other)
