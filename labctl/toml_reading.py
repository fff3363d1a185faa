"""Reads what a person wrote, and turns what is wrong with it into mistakes to act on."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labctl.errors import ConfigurationError, Mistake
from labctl.printable import ALLOWED, printable, printable_lines

SEVERAL_LINES = frozenset({"summary", "source"})
"""Keys whose text is for people and may have line breaks; every other text is on one line."""


def mistakes_of(error: ValidationError, file: str, prefix: str = "") -> list[Mistake]:
    """Every mistake of ``error``: file, key, the value that stands there, what is allowed."""
    return [
        Mistake(
            file=file,
            key=_key(prefix, item["loc"]),
            value=None if item["type"] == "missing" or _is_large(item["input"]) else item["input"],
            allowed=_allowed(item["type"], item["msg"]),
        )
        for item in error.errors(include_url=False, include_context=False)
    ]


def _key(prefix: str, location: tuple[int | str, ...]) -> str:
    key = prefix
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        else:
            key += f".{part}" if key else part
    return key or "(whole file)"


def _is_large(value: object) -> bool:
    return isinstance(value, dict | list)


def _allowed(kind: str, message: str) -> str:
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "no such key here"
    plain = message.removeprefix("Value error, ").replace("Input should be", "must be")
    return plain.replace("String should", "must")


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """What ``text`` says, whatever it is.

    Everything that people write comes through here: what is not printable in any key or text of it
    is a mistake. Raises ConfigurationError.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise ConfigurationError([Mistake(file, "TOML", None, str(error))]) from error
    mistakes = [Mistake(file, key, value, ALLOWED) for key, value in _not_printable(data, "")]
    if mistakes:
        raise ConfigurationError(mistakes)
    return data


def _not_printable(value: object, key: str) -> Iterator[tuple[str, str | None]]:
    """Every key, and every key with its text, that is not printable."""
    if isinstance(value, dict):
        for name, item in value.items():
            below = _key(key, (name,))
            if printable(name) != name:
                yield below, None
            yield from _not_printable(item, below)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _not_printable(item, f"{key}[{number}]")
    elif isinstance(value, str):
        safe = printable_lines if key in SEVERAL_LINES else printable
        if safe(value) != value:
            yield key, value


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that no filesystem takes is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_configuration(path: Path) -> str:
    """The text of a rig or plan file. Raises ConfigurationError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError([Mistake(str(path), "file", None, reason)]) from error
    except UnicodeDecodeError as error:
        allowed = f"must be UTF-8 (byte {error.start} is not)"
        raise ConfigurationError([Mistake(str(path), "encoding", None, allowed)]) from error
