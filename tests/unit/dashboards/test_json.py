"""The committed dashboards: what the code makes, and only what Grafana 9.4 to today understands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dashboards import HOME_DASHBOARD, JSON_DIR

ALLOWED_PANELS = {
    "barchart",
    "bargauge",
    "gauge",
    "row",
    "stat",
    "state-timeline",
    "status-history",
    "table",
    "text",
    "timeseries",
    "xychart",
}
ALLOWED_TRANSFORMATIONS = {
    "filterFieldsByName",
    "merge",
    "organize",
    "renameByRegex",
    "sortBy",
}
ALLOWED_COLOR_MODES = {"fixed", "thresholds"}
"""Not "palette-classic", which has red for the fifth series of any panel."""
FILES = sorted(JSON_DIR.glob("*.json"))
RIGS = 'SHOW TAG VALUES FROM "rig" WITH KEY = "rig" WHERE time > now() - 30d'
"""The one list that is of no time range: a rig that is silent stays in it."""
QUANTITIES = "watts : watts, IOPS per watt : iops_per_watt, bytes per joule : bytes_per_joule"
UIDS = ["labctl-compare", "labctl-overview", "labctl-power-per-qd", "labctl-rig-live"]


def _dashboard(uid: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((JSON_DIR / f"{uid}.json").read_text("utf-8"))
    return data


def _panels(uid: str) -> Iterator[dict[str, Any]]:
    return (panel for panel in _dashboard(uid)["panels"] if panel["type"] != "row")


def _nested(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (item for name, item in value.items() if name == key)
    children = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        for child in children:
            yield from _nested(child, key)


def test_the_json_is_what_the_code_makes() -> None:
    pytest.importorskip("grafana_foundation_sdk")
    from dashboards.every import every_dashboard

    committed = {path.stem: path.read_text("utf-8") for path in FILES}
    assert committed == every_dashboard(), "run: python -m dashboards"


def test_there_are_the_four_and_the_overview_is_home() -> None:
    assert [path.stem for path in FILES] == UIDS
    assert HOME_DASHBOARD.is_file()


@pytest.mark.parametrize("uid", UIDS)
def test_every_panel_says_what_it_shows(uid: str) -> None:
    for panel in _panels(uid):
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["type"] in ALLOWED_PANELS
        assert panel["title"] or panel["repeat"], "a tile's first line names its rig"
        assert panel["description"], panel["title"]
        assert defaults["unit"], panel["title"]
        assert defaults["noValue"], panel["title"]
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert target["rawQuery"] is True
            assert target["datasource"] == {"type": "influxdb", "uid": "${datasource}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)


@pytest.mark.parametrize("uid", UIDS)
def test_a_missing_value_among_others_is_a_dash(uid: str) -> None:
    """And not the text that says why a whole panel is empty."""
    for panel in _panels(uid):
        if panel["type"] in ("table", "barchart", "timeseries"):
            first = panel["fieldConfig"]["overrides"][0]
            assert first["matcher"] == {"id": "byRegexp", "options": "/.*/"}, panel["title"]
            assert first["properties"] == [{"id": "noValue", "value": "–"}]


@pytest.mark.parametrize("uid", UIDS)
def test_nothing_is_used_that_grafana_9_4_does_not_have(uid: str) -> None:
    data = _dashboard(uid)
    assert data["schemaVersion"] <= 37
    for panel in _panels(uid):
        used = {item["id"] for item in panel["transformations"]}
        assert used <= ALLOWED_TRANSFORMATIONS
        modes = {color["mode"] for color in _nested(panel, "color") if isinstance(color, dict)}
        assert modes <= ALLOWED_COLOR_MODES, panel["title"]


@pytest.mark.parametrize("uid", UIDS)
def test_the_frame_is_whole(uid: str) -> None:
    data = _dashboard(uid)
    assert data["uid"] == uid
    assert "style" not in data, "dark or light is for the viewer"
    assert data["time"]["from"].startswith("now-")
    others = {link["url"].partition("?")[0].removeprefix("/d/") for link in data["links"]}
    assert others == {*UIDS} - {uid}
    assert not any(link["includeVars"] for link in data["links"]), "All is no choice of one"
    assert "labctl" in data["tags"]
    ids = [panel["id"] for panel in data["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(not panel["collapsed"] for panel in data["panels"] if panel["type"] == "row")


@pytest.mark.parametrize("uid", UIDS)
def test_no_two_panels_lie_on_each_other(uid: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in _dashboard(uid)["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("uid", UIDS)
def test_variables_have_names_of_their_own_and_follow_the_time_range(uid: str) -> None:
    for variable in _dashboard(uid)["templating"]["list"]:
        assert "id" not in variable, "Grafana 9 would take it for the key of all of them"
        if variable["type"] != "query":
            continue
        if variable["query"] == RIGS:
            continue
        assert variable["refresh"] == 2
        assert variable["query"].count("$timeFilter") == 1, "Grafana 9 replaces the first only"
        assert "SHOW" not in variable["query"]


@pytest.mark.parametrize("uid", UIDS)
def test_variables_stand_in_queries_in_the_one_safe_form(uid: str) -> None:
    data = _dashboard(uid)
    known = {variable["name"] for variable in data["templating"]["list"]}
    queries = [*_nested(data["panels"], "query"), *_nested(data["templating"], "query")]
    queries += list(_nested(data["annotations"], "query"))
    for query in queries:
        bounds = ("$timeFilter", "${__from}", "now()")
        assert any(bound in query for bound in bounds) or query in _NOT_INFLUXQL
        for name, form in re.findall(r"\$\{(\w+):?(\w*)\}", query):
            if name.startswith("__"):
                continue
            assert name in known
            assert form == "regex" or f'"${{{name}:{form}}}' in query, "or it is a name of a column"


_NOT_INFLUXQL = ("influxdb", QUANTITIES)


@pytest.mark.parametrize("uid", UIDS)
def test_bars_come_in_numeric_order_of_queue_depth(uid: str) -> None:
    for panel in _panels(uid):
        query = panel["targets"][0]["query"]
        if panel["type"] not in ("barchart", "xychart") or '"qd"' not in query:
            continue
        used = [(item["id"], item["options"]) for item in panel["transformations"]]
        by_depth = ("sortBy", {"fields": {}, "sort": [{"field": "qd", "desc": False}]})
        assert by_depth in used
        hidden = [item["exclude"]["names"] for kind, item in used if kind == "filterFieldsByName"]
        assert {"Time", "qd"} <= {name for names in hidden for name in names}
        assert ("merge", {}) in used[: used.index(by_depth)] or len(panel["targets"]) == 1


LINK = re.compile(r"/d/([\w-]+)\?\$\{datasource:queryparam\}(?:&(?:var-(\w+)=.*|\$\{(\w+):.*))?")


def test_links_lead_to_dashboards_that_exist_with_values_that_can_be_chosen_there() -> None:
    """ "All", or several, is no value of a variable with one: the page would be empty."""
    for uid in UIDS:
        data = _dashboard(uid)
        several_here = {item["name"] for item in _variables(data) if item.get("multi")}
        for url in filter(None, _nested(data, "url")):
            match = LINK.fullmatch(url)
            assert match and match[1] in UIDS, url
            there = {item["name"]: item for item in _variables(_dashboard(match[1]))}
            if match[2]:
                assert match[2] in there, "of one row"
            if match[3]:
                assert there[match[3]]["multi"] or match[3] not in several_here, url


def _variables(data: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = data["templating"]["list"]
    return found
