"""What a heading of a meter's table says: volts, amps or watts, in which unit, of which rail."""

from __future__ import annotations

import re
from collections.abc import Sequence

from labctl.importing.mapping import UNITS, micro_as_u

_IN_BRACKETS = re.compile(r"[\[(]\s*([^\])]{1,16}?)\s*[\])]")
_WORDS = {
    "volts": r"volt(age|s)?|spannung|u|v|vdc|vbus",
    "amps": r"curr(ent)?|amp(s|ere|erage)?|strom|i|a|adc|ibus",
    "watts": r"power|watts?|leistung|p|w",
}
_MEANS = r"dc|avg|average|mean|meas(ured)?|value|reading"
"""Words of a heading that say nothing about its rail."""

_NO_READING = re.compile(
    r"(?<![a-z])(min(imum)?|max(imum)?|peak|pk|std(dev)?|sigma|set(point)?|limit|target|ac)"
    r"(?![a-z])",
    re.IGNORECASE,
)
"""What is derived from readings, set and not measured, or of alternating current."""

_TOTAL = re.compile(r"tot(al)?|sum(me)?|all", re.IGNORECASE)
_SPELLED = re.compile(r"(milli|micro|nano|kilo)?(volt|amp|ampere|watt)s?", re.IGNORECASE)
_PREFIXES = {"milli": "m", "micro": "u", "nano": "n", "kilo": "k"}
_TIME_UNITS = {
    "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "ms": "ms", "msec": "ms", "millisecond": "ms", "milliseconds": "ms", "milli": "ms",
    "us": "us", "usec": "us", "microsecond": "us", "microseconds": "us", "micro": "us",
    "ns": "ns", "nanosecond": "ns", "nanoseconds": "ns",
    "min": "min", "minute": "min", "minutes": "min",
}  # fmt: skip


def known_unit(text: str) -> str:
    """A unit of volts, amps or watts as :data:`UNITS` has it (``VDC``, ``V DC`` and ``Volts`` are
    ``V``, ``ma`` is ``mA``); empty where it is none."""
    bare = re.sub(
        r"(?<=[VAWvaw])[ _]?dc$", "", micro_as_u(text).strip("[]() "), flags=re.IGNORECASE
    )
    if bare in UNITS:
        return bare
    spelled = _SPELLED.fullmatch(bare)
    if spelled is not None:
        return _PREFIXES.get((spelled[1] or "").lower(), "") + spelled[2][0].upper()
    small = bare[:-1] + bare[-1:].upper()
    return small if bare.islower() and small in UNITS else ""


def time_unit(text: str) -> str:
    """A unit of time as ``s``, ``ms``, ``us``, ``ns`` or ``min``; empty where it is none."""
    return _TIME_UNITS.get(micro_as_u(text).strip("[]() ").lower(), "")


def time_unit_of(heading: str) -> str:
    """The unit of time that a heading says, in brackets, at its end or as a whole."""
    inside = [time_unit(one) for one in _IN_BRACKETS.findall(heading)]
    last = re.split(r"[/_\s]", heading)[-1]
    return next(filter(None, reversed(inside)), "") or time_unit(last)


def is_unit(text: str) -> bool:
    """Whether a text is a unit alone, of readings or of time."""
    return bool(known_unit(text) or time_unit(text))


def unit_of(heading: str) -> str:
    """The unit of volts, amps or watts that a heading says: in brackets, behind a slash or at its
    end (``Current [mA]``, ``P/W``, ``i_mA``); empty where it says none."""
    inside = [known_unit(one) for one in _IN_BRACKETS.findall(heading)]
    if any(inside):
        return [one for one in inside if one][-1]
    text = re.sub(r"(?<=[VAW])[ _]DC$", "", micro_as_u(heading))
    last: str = re.split(r"[/_\s]", text)[-1]
    return last if last in UNITS and (last != text or last != heading) else ""


def kind_of(heading: str) -> str:
    """``volts``, ``amps`` or ``watts`` as a heading says it, empty where it says neither, or is of
    something that was derived or set."""
    if _NO_READING.search(heading.replace("_", " ")):
        return ""
    unit = unit_of(heading)
    if unit:
        return UNITS[unit][0]
    for kind, words in _WORDS.items():
        if any(
            re.fullmatch(words, re.sub(r"\d+$", "", part), re.IGNORECASE)
            for part in re.split(r"[^0-9A-Za-zµ]+", heading)
        ):
            return kind
    return ""


def rail_of(heading: str) -> str:
    """What of a heading is the name of its rail: without its unit and what says that it is volts or
    amps; a number behind these is one."""
    text = re.sub(r"(?<!\d)\.|\.(?!\d)", " ", _IN_BRACKETS.sub(" ", heading))
    parts = [part for part in re.split(r"[^0-9A-Za-z.µ+-]+", text) if part.strip("-+")]
    words = "|".join(_WORDS.values())
    left = []
    for part in parts:
        match = re.fullmatch(rf"(?:{words})(\d*)", part, re.IGNORECASE)
        if re.fullmatch(_MEANS, part, re.IGNORECASE):
            continue
        if match is None and part not in UNITS and not part.endswith("_"):
            left.append(part)
        elif match is not None and match[match.lastindex or 0] and part[-1].isdigit():
            left.append(re.sub(r"^\D+", "", part))
    name = "-".join(left).replace(".", "V").replace("+", "")
    return re.sub(r"[^A-Za-z0-9_-]", "", name)[:40].strip("-_")


def is_total(rail: str) -> bool:
    """Whether a rail's name says that it is the sum of the others."""
    return _TOTAL.fullmatch(rail) is not None


def headings_of(row: Sequence[str]) -> tuple[str, ...]:
    """The headings of a line of them, without a byte-order mark or what begins a comment."""
    return tuple(one.strip().lstrip("\ufeff#; ").strip() for one in row)
