"""Reads what a person wrote, and turns what is wrong with it into mistakes to act on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from labctl.errors import ConfigurationError, Mistake
from labctl.printable import ALLOWED, printable, printable_lines

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LIKE_DEEPER = 0.8
"""How alike a key of a table below must be to be the one that was meant (difflib's ratio)."""
_PIECE = re.compile(r"\[((?:\\.|[^\]\\])+)\]([*+]|\{\d+,(\d+)\})?")
"""A class of characters in a pattern, and how many of them."""

SEVERAL_LINES = frozenset({"summary", "source"})
"""Keys whose text is for people and may have line breaks; every other text is on one line."""

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], data: object, file: str, prefix: str = "") -> Model:
    """``data`` (below the key ``prefix``) of a file. Raises ConfigurationError: every mistake."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigurationError(mistakes_of(error, file, prefix, model)) from error


def mistakes_of(
    error: ValidationError, file: str, prefix: str = "", model: type[BaseModel] | None = None
) -> list[Mistake]:
    """Every mistake of ``error``: file, key, the value that stands there, what is allowed.

    ``model``: what was validated, so that a key that it does not have leads to one that it has.
    """
    return [
        Mistake(
            file=file,
            key=_toml_key(prefix, item["loc"]),
            value=None if item["type"] == "missing" or _is_large(item["input"]) else item["input"],
            allowed=_allowed_in_toml(item, model),
        )
        for item in error.errors(include_url=False)
    ]


def _toml_key(prefix: str, location: tuple[int | str, ...]) -> str:
    key = prefix
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        else:
            key += f".{part}" if key else part
    return key or "(whole file)"


def _is_large(value: object) -> bool:
    return isinstance(value, dict | list)


def _allowed_in_toml(item: ErrorDetails, model: type[BaseModel] | None) -> str:
    context = item.get("ctx", {})
    match item["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            *above, key = item["loc"]
            return "no such key here" + ("" if model is None else meant_key(str(key), model, above))
        case "string_pattern_mismatch":
            return pattern_in_words(context["pattern"])
        case "literal_error":
            words = re.findall(r"'([^']*)'", str(context["expected"]))
            return f"must be {context['expected']}{meant(str(item['input']), words)}"
    plain = item["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return plain.replace("String should", "must")


def meant(text: str, known: Iterable[str]) -> str:
    """A question after the word that was meant; empty where none is like it."""
    cases = {word.casefold(): word for word in known}
    found = get_close_matches(text.casefold(), cases, 1)
    return f": is {cases[found[0]]!r} meant?" if found else ""


def meant_key(key: str, model: type[BaseModel], above: Sequence[int | str] = ()) -> str:
    """The key that was meant below ``above`` in ``model``, or those that there are."""
    kinds: list[Any] = [model]
    for part in above:
        kinds = [below for kind in kinds for below in _below_toml_key(kind, part)]
    models = [found for kind in kinds for found in _models_in(kind)]
    keys = [name for one in models for name in one.model_fields]
    deeper = {
        name: f"{field}.{name}"
        for one in models
        for field, info in one.model_fields.items()
        for inner in _models_in(info.annotation)
        for name in inner.model_fields
    }
    if key not in deeper and (found := get_close_matches(key, keys, 1)):
        return f": is {found[0]!r} meant?"
    if found := get_close_matches(key, deeper, 1, _LIKE_DEEPER):
        return f": is {deeper[found[0]]!r} meant?"
    return f"; there are: {', '.join(keys)}" if keys else ""


def _below_toml_key(kind: Any, part: int | str) -> Iterator[Any]:
    """What may stand below ``part`` of a type: a model's field, an item of a table or list."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if part in kind.model_fields:
            yield kind.model_fields[str(part)].annotation
    elif get_origin(kind) is dict:
        yield get_args(kind)[1]
    elif get_origin(kind) in (list, tuple):
        yield get_args(kind)[0]
    else:
        for inner in get_args(kind):
            yield from _below_toml_key(inner, part)


def _models_in(kind: Any) -> Iterator[type[BaseModel]]:
    """The models that a type is, or may be (``X | None``, ``Annotated``)."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    elif get_origin(kind) not in (dict, list, tuple):
        for inner in get_args(kind):
            yield from _models_in(inner)


def pattern_in_words(pattern: str) -> str:
    """What a text may be that has to match ``pattern``, of the form ``^[first][rest]{0,9}$``."""
    (first, *_), *rest = pieces = _PIECE.findall(pattern)
    marks, _, most = pieces[-1]
    words = f"must be made of {_toml_pattern_characters(marks)}"
    if rest and first != marks:
        words += f", and begin with one of {_toml_pattern_characters(first)}"
    return words + (f"; at most {int(most) + len(rest)} characters" if most else "")


def _toml_pattern_characters(marks: str) -> str:
    """A class of characters in words."""
    kinds = {
        "A-Za-z": "letters",
        "a-z": "lower-case letters",
        "0-9": "digits",
    }
    left, found = marks, []
    for span, name in kinds.items():
        if span in left:
            left = left.replace(span, "")
            found.append(name)
    alone = " ".join(dict.fromkeys(left.replace("\\", "")))
    return ", ".join([*found, *([alone] if alone else [])])


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
            below = _toml_key(key, (name,))
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


FOLDER = "is a folder: name a file in it"
"""What is wrong with a folder where a rig or plan is named."""


def is_there(path: Path) -> bool:
    """Whether there is anything at a path; a name that no filesystem takes is nothing."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether there is such a folder."""
    return is_there(path) and path.is_dir()


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
