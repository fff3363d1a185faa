"""The JSON Schemas of what commands print with ``--json``, made from ``tests.json_outputs``.

``python -m tests.json_schemas`` writes ``labctl/cli/schemas/*.v1.json`` anew; ``runs.v1.json`` is
written by hand. Within a version keys are only added.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import jsonschema
from pydantic import BaseModel, TypeAdapter
from typing_extensions import is_typeddict

from labctl.cli.terminal.schemas import FOLDER
from tests.json_outputs import OUTPUTS

DRAFT = "https://json-schema.org/draft/2020-12/schema"
RULE = "New keys may come within a version; a key that goes or changes its meaning makes a new one."
SOMETIMES = {"gate"}
"""Keys of dataclasses of ``tests.json_outputs`` that are not always there."""
_NOISE = ("title", "default", "additionalProperties")


def file_of(name: str) -> Path:
    """Where the schema of an output is."""
    return FOLDER / f"{name}.v1.json"


def schema(name: str) -> dict[str, Any]:
    """The schema of an output."""
    output = OUTPUTS[name]
    made = TypeAdapter(output.type).json_schema(mode="serialization")
    classes = {cls.__name__: cls for cls in _classes(output.type, set())}
    definitions = made.pop("$defs", {})
    for title, part in [*definitions.items(), (made.get("title", ""), made)]:
        if title in classes and "properties" in part:
            _complete(part, classes[title])
    each = " Each line is one of these." if output.lines else ""
    about = made.pop("description", "")
    if output.plain:
        made, definitions = _nullable(made), _nullable(definitions)
    return {
        "$schema": DRAFT,
        "$id": f"labctl/{name}.v1.json",
        "title": output.call,
        "description": f"{about} {RULE}{each}".strip(),
        **_quiet(made),
        **({"$defs": _quiet(definitions)} if definitions else {}),
    }


def _complete(part: dict[str, Any], cls: type) -> None:
    """Say of each key what its class says of it, and that it is always there."""
    words = _words_of(cls)
    for key, value in part["properties"].items():
        if key in words:
            value["description"] = words[key]
    if not is_typeddict(cls):
        part["required"] = [key for key in part["properties"] if key not in SOMETIMES]


def _nullable(value: Any) -> Any:
    """With null for every number that is not whole."""
    if isinstance(value, list):
        return [_nullable(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _nullable(item) for key, item in value.items()}
    return {**kept, "type": ["number", "null"]} if value.get("type") == "number" else kept


def _quiet(value: Any, names: bool = False) -> Any:
    """Without titles and defaults, which say nothing of an output. ``names``: keys are names."""
    if isinstance(value, dict):
        return {
            key: _quiet(item, key in ("properties", "$defs"))
            for key, item in value.items()
            if names or key not in _NOISE or (key == "additionalProperties" and item is not False)
        }
    return [_quiet(item) for item in value] if isinstance(value, list) else value


def _classes(kind: Any, seen: set[type]) -> Iterator[type]:
    """The dataclasses, models and dictionaries with known keys in a type."""
    for part in typing.get_args(kind):
        yield from _classes(part, seen)
    known = isinstance(kind, type) and (
        is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, BaseModel)
    )
    if known and kind not in seen:
        seen.add(kind)
        yield kind
        for hint in typing.get_type_hints(kind, include_extras=True).values():
            yield from _classes(hint, seen)


def _words_of(cls: type) -> dict[str, str]:
    """The docstrings below the fields of a class and of those that it is made of."""
    words: dict[str, str] = {}
    for one in reversed([*getattr(cls, "__mro__", ()), *getattr(cls, "__orig_bases__", ()), cls]):
        if getattr(one, "__module__", "builtins").partition(".")[0] not in ("labctl", "tests"):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                words[field.target.id] = inspect.cleandoc(below.value.value)
    return words


def validate(name: str, data: Any) -> None:
    """Hold an output against its file: what is not described may not be there. Raises
    ValidationError."""
    said = json.loads(file_of(name).read_text("utf-8"))
    jsonschema.Draft202012Validator(_closed(said)).validate(data)
    if isinstance(data, dict) and name in ("run", "demo", "range") and "summary" in data:
        validate("report", data["summary"])


def _closed(value: Any) -> Any:
    if isinstance(value, list):
        return [_closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    closed = {key: _closed(item) for key, item in value.items()}
    if isinstance(value.get("properties"), dict) and "additionalProperties" not in value:
        closed["additionalProperties"] = False
    return closed


if __name__ == "__main__":
    for each in OUTPUTS:
        text = json.dumps(schema(each), indent=1, ensure_ascii=False)
        file_of(each).write_text(f"{text}\n", encoding="utf-8")
