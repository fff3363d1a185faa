"""Reads line protocol back as an InfluxDB does, and says what a database holds after it."""

from __future__ import annotations

from collections.abc import Iterable

Key = tuple[str, tuple[tuple[str, str], ...], int]
"""Measurement, tags in order, time: what makes two points the same."""

Stored = dict[Key, dict[str, float | int | str | bool]]

TAG_ESCAPES = ", ="


class Unparsable(Exception):
    pass


def _scan(text: str, place: int, stops: str, escapes: str) -> tuple[str, int]:
    """Up to the first unescaped stop."""
    found = ""
    while place < len(text) and text[place] not in stops:
        if text[place] == "\n":
            raise Unparsable("a newline outside a string")
        if text[place] == "\\" and place + 1 < len(text) and text[place + 1] in escapes:
            place += 1
        found += text[place]
        place += 1
    return found, place


def _string(text: str, place: int) -> tuple[str, int]:
    found = ""
    place += 1
    while text[place] != '"':
        if text[place] == "\\" and text[place + 1] in '"\\':
            place += 1
        found += text[place]
        place += 1
    return found, place + 1


def _value(text: str, place: int) -> tuple[float | int | str | bool, int]:
    if text[place] == '"':
        return _string(text, place)
    word, place = _scan(text, place, ", ", "")
    if word in ("true", "false"):
        return word == "true", place
    if word.endswith("i"):
        return int(word[:-1]), place
    if word.lower() in ("nan", "inf", "-inf"):
        raise Unparsable(word)
    return float(word), place


def parsed(text: str) -> tuple[Key, dict[str, float | int | str | bool]]:
    """One line. Raises Unparsable as a server would."""
    measurement, place = _scan(text, 0, ", ", ", ")
    tags = {}
    while text[place] == ",":
        key, place = _scan(text, place + 1, "=", TAG_ESCAPES)
        value, place = _scan(text, place + 1, ", ", TAG_ESCAPES)
        if not key or not value or text[place - 1] == "\\":
            raise Unparsable(f"tag {key!r} = {value!r}")
        tags[key] = value
    fields: dict[str, float | int | str | bool] = {}
    while True:
        key, place = _scan(text, place + 1, "=", TAG_ESCAPES)
        fields[key], place = _value(text, place + 1)
        if text[place] != ",":
            break
    return (measurement, tuple(sorted(tags.items())), int(text[place + 1 :])), fields


def stored_by(lines: Iterable[str]) -> Stored:
    """What a database holds after these lines: fields of the same point are replaced one by one."""
    found: Stored = {}
    for text in lines:
        key, fields = parsed(text)
        found.setdefault(key, {}).update(fields)
    return found
