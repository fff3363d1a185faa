"""Dashboards as Grafana asks for them: variables resolved, panels' queries sent to a database."""

from __future__ import annotations

import copy
import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dashboards import JSON_DIR

DASHBOARDS = sorted(path.stem for path in JSON_DIR.glob("*.json"))
DAY_MS = 86_400_000

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Database:
    """An InfluxDB of any version, read with InfluxQL as it was at ``now_ms``."""

    url: str
    token: str
    name: str
    now_ms: int

    def rows(self, query: str) -> Rows:
        """Every row with its tags. Raises AssertionError when the answer is an error."""
        (result,) = json.loads(self.ask(query))["results"]
        assert "error" not in result, f"{query}: {result['error']}"
        return [
            {**series.get("tags", {}), **dict(zip(series["columns"], values, strict=True))}
            for series in result.get("series", [])
            for values in series["values"]
        ]

    def ask(self, query: str, within_s: float = 30.0) -> bytes:
        """The text of the answer."""
        data = urllib.parse.urlencode({"db": self.name, "q": query, "epoch": "ms"})
        request = urllib.request.Request(
            f"{self.url}/query", data.encode(), {"Authorization": f"Token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=within_s) as response:
            answer: bytes = response.read()
        return answer


class Viewer:
    """A dashboard as Grafana shows it: a time range, and a value for every variable."""

    def __init__(self, database: Database, uid: str, **chosen: list[str]) -> None:
        self.dashboard = json.loads((JSON_DIR / f"{uid}.json").read_text("utf-8"))
        self.database = database
        self.span_ms = milliseconds(self.dashboard["time"]["from"])
        self.options: dict[str, list[str]] = {}
        self.values: dict[str, str] = {}
        for variable in self.dashboard["templating"]["list"]:
            self._resolve(variable, chosen.get(variable["name"]))

    def _resolve(self, variable: dict[str, Any], chosen: list[str] | None) -> None:
        name = variable["name"]
        if variable["type"] != "query":
            self.values[name] = str(variable["current"]["value"])
            return
        rows = self.database.rows(self.interpolate(variable["query"]))
        found = [row["value" if "value" in row else "distinct"] for row in rows]
        if variable.get("regex"):
            pattern = re.compile(variable["regex"].strip("/"))
            found = [match[1] for match in map(pattern.search, found) if match]
        options = sorted(set(found), reverse=variable["sort"] == 2)
        self.options[name] = options
        if chosen is None and variable["includeAll"] and variable["allValue"]:
            self.values[name] = variable["allValue"]
            return
        picked = chosen or (options if variable["includeAll"] else options[:1])
        self._choose(name, picked)

    def _choose(self, name: str, picked: list[str]) -> None:
        escaped = [re.sub(r"[\\^$*+?.()|\[\]{}/]", r"\\\g<0>", value) for value in picked]
        self.values[name] = escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"

    def at(self, **chosen: str) -> Viewer:
        """The same page with other values, as a repeated panel has its own."""
        other = copy.copy(self)
        other.values = dict(self.values)
        for name, value in chosen.items():
            other._choose(name, [value])
        return other

    def interpolate(self, query: str, span_ms: int | None = None) -> str:
        to_ms = self.database.now_ms + 1000
        from_ms = to_ms - (span_ms or self.span_ms)
        query = query.replace("$timeFilter", f"time >= {from_ms}ms and time <= {to_ms}ms")
        query = query.replace("${__from}", str(from_ms)).replace("${__to}", str(to_ms))
        query = query.replace("$__interval", "10s").replace("now()", f"{to_ms - 1000}ms")
        for name, value in self.values.items():
            query = query.replace(f"${{{name}:regex}}", value).replace(f"${{{name}:raw}}", value)
        assert "${" not in query, query
        return query

    def panels(self) -> Iterator[dict[str, Any]]:
        return (panel for panel in self.dashboard["panels"] if panel["type"] != "row")

    def rows(self, title: str, ref: str = "A", kind: str = "") -> Rows:
        """What one query of a panel brings. ``kind``: of two panels with that title, which."""
        (panel,) = (
            panel
            for panel in self.panels()
            if panel["title"] == title and kind in ("", panel["type"])
        )
        (query,) = (item["query"] for item in panel["targets"] if item["refId"] == ref)
        return self.database.rows(self.interpolate(query))


def milliseconds(since: str) -> int:
    match = re.fullmatch(r"now-(\d+)([mhd])", since)
    assert match, since
    return int(match[1]) * {"m": 60_000, "h": 3_600_000, "d": DAY_MS}[match[2]]


def missing_columns(viewer: Viewer) -> list[str]:
    """The columns that have no value in any row, and the queries that bring no rows: the panel's
    title, the query's letter, and the column."""
    missing = []
    for panel in viewer.panels():
        span_ms = milliseconds(f"now-{panel['timeFrom']}") if "timeFrom" in panel else None
        for target in panel["targets"]:
            rows = viewer.database.rows(viewer.interpolate(target["query"], span_ms))
            columns = {name for row in rows for name in row} or {"no rows"}
            known = {name for row in rows for name, value in row.items() if value is not None}
            which = f"{panel['title']} {target['refId']}"
            missing += [f"{which}: {column}" for column in sorted(columns - known)]
    return missing
