"""Ready mappings: files of known programs, recognised by their headings.

Each is a file of ``mappings/``: by what such a file is recognised, and what of it a guess from its
headings could not know. Its ``source`` says where the form was looked up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field

from labctl.importing.dialect import Sniffed, fields
from labctl.importing.headings import headings_of, rail_of
from labctl.importing.mapping import Name
from labctl.toml_reading import parse_toml, validated

SHOWN = 60
"""Characters of a line that is shown."""

LONGEST_S = 1e6
"""Between two readings."""

_SIZES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}

Pattern = re.Pattern[str]


class Ready(BaseModel):
    """A known program's table."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: Name
    summary: str
    """Whose file it is, for a person."""
    source: str
    """Where its form was looked up."""
    line: Pattern
    """What one of the lines before the first reading has."""
    headings_there: bool = False
    """Whether that line is the one of the headings."""
    ignore: Pattern | None = None
    """Columns, by their whole heading, that are no readings of their own."""
    rail: Pattern | None = None
    """What of a heading is the name of its rail, as a group ``rail``; else the usual name."""
    time: list[Pattern] = Field(default_factory=list)
    """The column of the time by its whole heading: the first pattern that fits one."""
    time_format: str = ""
    """Empty: found from the values."""
    interval: Pattern | None = None
    """Of a file without times, what says in the lines before the readings how far they are apart:
    a group ``seconds``, or ``rate`` (Hz) with its ``size`` (k, M, G)."""
    mean_over_interval: bool = False
    """Whether a reading is the mean over the time since the one before."""
    stamp: str | None = None
    refuse: str = ""
    """Why such a file cannot be read, and what to record instead."""

    def interval_s(self, opening: tuple[str, ...]) -> float | None:
        """How far readings are apart, as the lines before them say; None: they do not."""
        if self.interval is None:
            return None
        for text in opening:
            match = self.interval.search(text)
            if match is None:
                continue
            found = match.groupdict()
            try:
                if found.get("rate"):
                    interval_s = 1 / (float(found["rate"]) * _SIZES[found.get("size") or ""])
                else:
                    interval_s = float(found["seconds"])
            except (ValueError, ZeroDivisionError):
                continue
            if 0 < interval_s < LONGEST_S:
                return interval_s
        return None

    def rail_of(self, heading: str) -> str:
        """The name of a heading's rail."""
        match = None if self.rail is None else self.rail.search(heading)
        return rail_of(heading if match is None else match["rail"])

    def time_heading(self, headings: tuple[str, ...]) -> int | None:
        """The place of the column of the time, from 0; None where it has none of these."""
        for pattern in self.time:
            for place, heading in enumerate(headings):
                if pattern.fullmatch(heading):
                    return place
        return None


@dataclass(frozen=True, slots=True)
class Recognised:
    """A file that a ready mapping is for."""

    ready: Ready
    line: int
    """The line that it was recognised by; 0: a person said so."""
    text: str

    def words(self) -> str:
        """In a line, for a person."""
        if not self.line:
            return f"read as {self.ready.name}: {self.ready.summary}"
        shown = self.text if len(self.text) <= SHOWN else self.text[:SHOWN] + "…"
        return (
            f"recognised as {self.ready.name} ({self.ready.summary}) by line {self.line}: {shown}"
        )


@cache
def ready_mappings() -> dict[str, Ready]:
    """All of them by name."""
    folder = files("labctl.importing") / "mappings"
    found = {}
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if not file.name.endswith(".toml"):
            continue
        data = parse_toml(file.read_text(encoding="utf-8"), file.name)
        one = validated(Ready, data, file.name)
        found[one.name] = one
    return found


def recognise(found: Sniffed, name: str = "") -> tuple[Recognised | None, Sniffed]:
    """The ready mapping that a file is for (or the one called ``name``), and its dialect with the
    headings where that mapping says that they are."""
    for ready in [ready_mappings()[name]] if name else ready_mappings().values():
        for number, text in enumerate(found.opening, 1):
            if ready.line.search(text.lstrip("\ufeff")):
                if ready.headings_there:
                    row = headings_of(fields(text, found.delimiter))[: found.width]
                    found = replace(found, headings=row, heading_line=number)
                return Recognised(ready, 0 if name else number, text.strip()), found
        if name:
            return Recognised(ready, 0, ""), found
    return None, found
