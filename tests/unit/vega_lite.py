"""Whether a chart is what Vega-Lite allows: the report does not check what it draws."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from altair.vegalite.v6.schema.core import load_schema
from jsonschema import Draft7Validator


def assert_valid(spec: dict[str, Any]) -> None:
    """The specification keeps Vega-Lite's schema, and every number in it is finite.

    Of a list of data the schema asks only that each datum is an object, a text or a number, for
    which a validator takes seconds: that is asked here, and the first of them validated.
    """
    _schema().validate(_with_first_datum(spec))
    json.dumps(spec, allow_nan=False)


@cache
def _schema() -> Draft7Validator:
    return Draft7Validator(load_schema())


def _with_first_datum(part: Any) -> Any:
    if isinstance(part, list):
        return [_with_first_datum(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: _first_datum(value)
        if key == "data"
        else {name: _first_of(data) for name, data in value.items()}
        if key == "datasets"
        else _with_first_datum(value)
        for key, value in part.items()
    }


def _first_datum(data: Any) -> Any:
    if not isinstance(data, dict) or "values" not in data:
        return data
    return {**data, "values": _first_of(data["values"])}


def _first_of(values: Any) -> Any:
    if not isinstance(values, list):
        return values
    assert all(isinstance(datum, dict | str | int | float) for datum in values)
    return values[:1]
