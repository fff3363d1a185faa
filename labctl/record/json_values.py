"""Back from JSON: dataclasses as they were written, and what stands where it should not.

A reader takes what it knows and leaves out what a newer labctl has added. Whoever wrote a record,
its texts are made printable here, once for all readers.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import types
import typing
from collections.abc import Hashable
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from typing import Any, TypeGuard, TypeVar

import numpy as np

from labctl.printable import printable

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading JSON raises that is not what it should be."""

MOST = 1e30
"""What is larger was never measured, and squares and sums of it would overflow."""

_MOST_INT = 1 << 63

_SUSPECT = re.compile(r"\\(?:[bfnrt]|u(?:00[0189]|007[fF]|061[cC]|20[026]|[dD]|[fF]{3}))")
"""Escapes that may stand for a character that no text may hold; as they are, JSON has none of them
but DEL and what is not ASCII."""

T = TypeVar("T")


def parse_json(text: str) -> Any:
    """What a JSON text says, every text in it printable. Raises ValueError, RecursionError."""
    data = json.loads(text)
    harmless = text.isascii() and "\x7f" not in text
    if harmless and ("\\" not in text or not _SUSPECT.search(text)):
        return data  # a journal has a hundred thousand lines, and almost all end here
    return printable_texts(data)


def printable_texts(data: Any) -> Any:
    """The same data, every text and key in it printable (:mod:`labctl.printable`)."""
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, dict):
        return {printable(key): printable_texts(value) for key, value in data.items()}
    if isinstance(data, list):
        return [printable_texts(item) for item in data]
    return data


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether something is a number that a quantity may have."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MOST


def known(cls: type[T], data: dict[str, Any]) -> T:
    """A dataclass from a dictionary: nested ones too, and without the keys it does not know.

    Raises TypeError when a required key is missing, or a value is of another type than declared,
    ValueError when it is none of an enumeration.
    """
    hints = _hints(typing.cast(Hashable, cls))
    assert is_dataclass(cls)
    names = {item.name for item in fields(cls)}
    found = {
        name: _json_value_as(hints[name], value) for name, value in data.items() if name in names
    }
    return cls(**found)


_hints = functools.cache(typing.get_type_hints)


def _json_value_as(hint: Any, value: Any) -> Any:
    """``value`` as read from JSON, as the type that a field is declared with.

    Raises TypeError, ValueError.
    """
    options = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        for option in options:
            with contextlib.suppress(TypeError, ValueError):
                return _json_value_as(option, value)
    elif origin is tuple and isinstance(value, list | tuple):
        if options[-1] is Ellipsis:
            return tuple(_json_value_as(options[0], item) for item in value)
        return tuple(_json_value_as(*pair) for pair in zip(options, value, strict=True))
    elif origin is dict and isinstance(value, dict):
        return {
            _json_value_as(options[0], key): _json_value_as(options[1], item)
            for key, item in value.items()
        }
    elif isinstance(hint, type) and is_dataclass(hint) and isinstance(value, dict):
        return known(hint, value)
    elif isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    elif _is_of(origin or hint, value):
        return value
    raise TypeError(f"{str(value)[:40]!r} is there for {getattr(hint, '__name__', hint)}")


def _is_of(hint: Any, value: Any) -> bool:
    """Whether a value may stand in such a field; what no quantity is so large as may not."""
    if hint is Any:
        return True
    if hint is float:
        return is_number(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST_INT
    return isinstance(value, hint)


def plain_json(value: Any) -> Any:
    """Dataclasses, tuples and numpy's numbers as dictionaries, lists and Python's own.

    A number that is none (infinite, not a number) becomes None: JSON has no word for it.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain_json(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
