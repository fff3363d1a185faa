"""Dashboards and sinks agree: every name in a query, and in the sample, is in the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from dashboards import HEARTBEAT_S, JSON_DIR, PROVISIONING_DIR
from dashboards.sample import PHASE_S, at_work, lab
from labctl.analysis.estimate import Estimate
from labctl.analysis.throttle_result import ThrottleVerdict
from labctl.capture.meters.live_values import LiveRail, View
from labctl.record.phase import Pattern, Phase, Role
from labctl.service.runs import shipping
from labctl.sinks import schema as points
from labctl.sinks.follow.phase_points import result_point
from tests.unit.sinks.test_schema import result as phase_result

MEASUREMENT = re.compile(r'FROM "(\w+)"')
MADE_IN_THE_QUERY = re.compile(r'AS "([^"]+)"')
OF_A_VARIABLE = ("${quantity:raw}", "${quantity:raw}_repeatability")
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
    made = {*MADE_IN_THE_QUERY.findall(query), *OF_A_VARIABLE}
    names = set(QUOTED.findall(MEASUREMENT.sub("", query))) - made
    unknown = {name for name in names if name not in schema.tags and not _is_field(schema, name)}
    assert not unknown


def _is_field(schema: Any, name: str) -> bool:
    try:
        schema.kind_of(name)
    except KeyError:
        return False
    return True


def test_a_rig_is_silent_after_heartbeats_that_labctl_sends_so_often() -> None:
    assert shipping.HEARTBEAT_EVERY_S == HEARTBEAT_S


def test_the_texts_of_the_sample_are_those_that_labctl_sends() -> None:
    """Dashboards stand alone, so that the sample has words of its own."""
    found = lab(1_700_000_000_000_000_000)
    for sent in found.phases:
        known = sent.get("watts"), sent.get("watts_u"), sent.get("throttling")
        result = replace(
            phase_result(None, None),
            phase=phase_of(sent),
            watts=None if known[0] is None else Estimate(*known[:2]),
            at_least_watts=sent["watts_3V3"] if known[0] is None else None,
            throttling=ThrottleVerdict(known[2], "") if known[2] else None,
        )
        fields = result_point(result, 5, {"run": "r"}).fields
        for name in ("label", "role", "watts_text", "bar_label", "bar_text"):
            assert fields.get(name) == sent.get(name)
    for second in range(0, 201, 5):
        sent = at_work("bench", "SN-1", 0, second, hotter_celsius=0.0)
        view = View(
            phase_of({**sent, **found.phases[sent["phase_number"] - 1]}),
            phases_total=sent["phases"],
            rails={"12V": LiveRail(None, None, sent["watts"])},
            celsius={"composite": sent["celsius"]},
        )
        tags = {name: sent[name] for name in ("run", "drive")}
        assert shipping.at_work(view, tags, sent["plan"], sent["left_s"]) == sent


def phase_of(sent: dict[str, Any]) -> Phase:
    """A phase of the sample as labctl has it."""
    size = {"4k": 4096, "128k": 131072}.get(sent.get("block_size", ""), 0)
    pattern = Pattern(sent["pattern"])
    return Phase(
        sent["index"], Role(sent["role"]), "s", pattern, PHASE_S, size, sent["qd"], 1,
        read_pct=sent.get("read_pct", 100),
    )  # fmt: skip


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
