"""The result of one check of ``labctl doctor``: its level, a text, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """``trouble`` would stop a run or make it worthless; ``warning`` would not."""

    OK = "ok"
    WARNING = "warning"
    TROUBLE = "trouble"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. ``subject``: an instrument, a rail, "drive", "host" …"""

    subject: str
    level: Level
    text: str
    todo: str = ""
    """What to do about it; empty where ``text`` names it or nothing is to be done."""
    paste: str = ""
    """A line to be copied as it is, for ``todo``."""

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)


def ok(subject: str, text: str) -> Check:
    """A check that found nothing wrong."""
    return Check(subject, Level.OK, text)


def warning(subject: str, text: str, todo: str = "") -> Check:
    """A check that found what a person should know."""
    return Check(subject, Level.WARNING, text, todo)


def trouble(subject: str, text: str, todo: str = "") -> Check:
    """A check that found what would stop the run."""
    return Check(subject, Level.TROUBLE, text, todo)


def worst(checks: Iterable[Check]) -> Level:
    """The worst level of all."""
    order = list(Level)
    return max((check.level for check in checks), key=order.index, default=Level.OK)
