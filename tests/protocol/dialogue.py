"""What is said to a SCPI meter and what it answers, as manuals and independent projects have it.

Written down once, by family, and played against both sides: a driver may say nothing that is not
here and must read these answers; a simulated meter must take every line without an error and answer
in the same form. So neither can agree with the other about a wrong fact. Spellings are those of the
source: SCPI's long and short forms, optional nodes and white space are the same message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

Line = tuple[str, str | None]

READINGS = "{readings}"
"""In an answer: how many readings it has by then."""


@dataclass(frozen=True)
class Dialogue:
    """``lines`` in an order in which a meter takes them; ``reads`` is what the driver makes of the
    answer to the last question."""

    source: str
    driver: str
    kind: str
    """Of the simulated meter; empty: this one is not simulated."""
    settings: dict[str, Any]
    lines: tuple[Line, ...]
    reads: list[float]
    """In the order of the driver's channels."""
    sent_only_by_us: frozenset[str] = field(default_factory=frozenset)
    """Canonical headers without a source of their own: to be confirmed on a meter."""
    resource: str = "TCPIP0::meter::5025::SOCKET"
    point: str = "12V.current"
    """Where the simulated one is connected."""
    readings_per_s: float = 0.0
    """Of a meter that measures by itself at a rate that its driver finds out."""
    cleared_by_reading: frozenset[str] = field(default_factory=frozenset)
    """Questions whose answer is 0 when they are asked again at once."""


_NUMBER_OR_BOOLEAN = re.compile(r"[+-]?[\d.]+(E[+-]?\d+)?|ON|OFF")


def canonical(message: str) -> tuple[str, ...]:
    """A message without what SCPI leaves to the sender: one entry for each unit of it.

    Headers by their short forms (SCPI-99 volume 1, 6.2.1: four letters, three if the fourth is a
    vowel), without SENSe and DC, with the parameters that are words; numbers and booleans (ON is
    1) may be any.
    """
    return tuple(_unit(unit) for unit in message.split(";") if unit.strip())


def _unit(text: str) -> str:
    header, _, rest = text.strip().partition(" ")
    question = "?" if header.endswith("?") else ""
    nodes = [_short(node) for node in header.strip(":?").upper().split(":")]
    kept = [node for node in nodes if node not in ("SENS", "DC", "IMM", "NORM")] or nodes
    words = [part.strip().strip("\"'").upper() for part in rest.split(",") if part.strip()]
    shown = [word for word in words if not _NUMBER_OR_BOOLEAN.fullmatch(word)]
    return " ".join([":".join(kept) + question, *(_short(word) for word in shown)])


def _short(word: str) -> str:
    match = re.fullmatch(r"(\*?[A-Z]+)(\d*)", word)
    if match is None or len(match[1]) <= 4 or match[1].startswith("*"):
        return word
    letters = match[1][:3] if match[1][3] in "AEIOU" else match[1][:4]
    return letters + match[2]


def form(answer: str) -> str:
    """What kind of answer it is: numbers may be any, of any sign and length."""
    text = answer.strip()
    if text.startswith("#"):
        return "block"
    if text.count(",") >= 3 and text[0].isalpha():
        return "identity"
    text = re.sub(r"[+-]?\d+\.?\d*(E[+-]?\d+)?", "1", text, flags=re.IGNORECASE)
    return re.sub(r'(1,"No error)[^"]*', r"\1", text)
