"""Dashboards and sinks agree: every name in a query, and in the sample, is in the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from dashboards import JSON_DIR, PROVISIONING_DIR
from dashboards.sample import lab

points = pytest.importorskip("labctl.sinks.schema")

MEASUREMENT = re.compile(r'FROM "(\w+)"')
MADE_IN_THE_QUERY = re.compile(r'AS "([^"]+)"')
QUOTED = re.compile(r'"([^"]*)"')


def _queries() -> Iterator[str]:
    for path in JSON_DIR.glob("*.json"):
        yield from _influxql(json.loads(path.read_text("utf-8")))
    text = (PROVISIONING_DIR / "alerting" / "labctl.yaml").read_text("utf-8")
    yield from _influxql(yaml.safe_load(text))


def _influxql(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("SELECT "):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _influxql(child)


@pytest.mark.parametrize("query", sorted(set(_queries())))
def test_every_name_of_a_query_is_in_the_schema(query: str) -> None:
    (measurement,) = set(MEASUREMENT.findall(query))
    schema = points.SCHEMA[measurement]
    made = {*MADE_IN_THE_QUERY.findall(query), "${by:raw}"}
    names = set(QUOTED.findall(MEASUREMENT.sub("", query))) - made
    unknown = {name for name in names if name not in schema.tags and not _is_field(schema, name)}
    assert not unknown


def _is_field(schema: Any, name: str) -> bool:
    try:
        schema.kind_of(name)
    except KeyError:
        return False
    return True


def test_the_sample_follows_the_schema() -> None:
    for line in lab(1_700_000_000_000_000_000).lines:
        head, body, _ = re.split(r"(?<!\\) (?=[^\"]*(?:\"[^\"]*\"[^\"]*)*$)", line)
        measurement, *tags = re.split(r"(?<!\\),", head)
        schema = points.SCHEMA[measurement]
        assert {tag.split("=")[0] for tag in tags} <= set(schema.tags)
        for name, value in re.findall(r'(\w+)=("[^"]*"|[^,]*)', body):
            kind = schema.kind_of(name)
            is_text, is_integer = value.startswith('"'), value.endswith("i")
            assert (kind == "text", kind == "integer") == (is_text, is_integer), name
