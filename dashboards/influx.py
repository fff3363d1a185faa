"""InfluxQL in Grafana: queries, annotations and template variables.

Raw InfluxQL is answered by InfluxDB 1.x and 2.x alike, and by 3 according to its documentation.
``$timeFilter``, ``$__interval``, ``${__from}`` and ``${__to}`` are Grafana's. A variable stands in
a pattern as ``${name:regex}``, mostly ``/^${name:regex}$/``: the explicit format escapes what has a
meaning in a regular expression and joins several values with ``|``, in every version. Only the
quoted name of a column is ``"${name:raw}"``.
"""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import dashboard as model

from dashboards.palette import BLUE, ORANGE, PINK, RED

DATASOURCE_NAME = "labctl"
"""Name and uid of the data source alike: Grafana 9 keeps the name in a variable, 10 the uid."""

DATASOURCE = model.DataSourceRef(type_val="influxdb", uid="${datasource}")

ALL = "$__all"

THROTTLED = '"kind" = \'throttle\' AND "severity" = \'warning\' AND "duration_s" > 0'
"""Intervals in which heat or a power limit throttled the drive: not the end of a write cache or
garbage collection (severity "info"), nor what was withdrawn after the run (no duration)."""

OF_A_RUN = '"run" !~ /_idle(-\\d+)?$/'
"""Not of an idle record, which is named so: that one ended is no outcome."""


def matches(*tags: str) -> str:
    """Conditions that each tag (or string field) is one of those chosen in its variable."""
    return " AND ".join(f'"{tag}" =~ /^${{{tag}:regex}}$/' for tag in tags)


@dataclass(frozen=True)
class Query(Dataquery, Builder[Dataquery]):
    """An InfluxQL query of a panel. ``alias`` names the series, such as ``$tag_rail``."""

    query: str
    alias: str = ""
    ref: str = "A"
    result: str = "time_series"

    def build(self) -> Dataquery:
        """The query itself, for the builder of a panel."""
        return self

    def to_json(self) -> dict[str, object]:
        """The target as in a panel's JSON."""
        return {
            "datasource": DATASOURCE,
            "refId": self.ref,
            "rawQuery": True,
            "query": self.query,
            "resultFormat": self.result,
            "alias": self.alias,
        }


def rows(query: str, ref: str = "A") -> Query:
    """A query whose rows are wanted as they are.

    Tags are selected as columns, never grouped by: Grafana's versions differ in what they make
    of several series in a table.
    """
    return Query(query, ref=ref, result="table")


class Annotation(model.AnnotationQuery, Builder[model.AnnotationQuery]):
    """An annotation query; the SDK knows only those of Grafana's own data source."""

    def __init__(self, name: str, color: str, query: str, enabled: bool = True) -> None:
        super().__init__(name=name, datasource=DATASOURCE, enable=enabled, icon_color=color)
        self.query = query

    def build(self) -> model.AnnotationQuery:
        """The annotation itself, for the builder of a dashboard."""
        return self

    def to_json(self) -> dict[str, object]:
        """Columns in both places: Grafana before 9.4 reads them beside ``target``."""
        columns: dict[str, object] = {
            "query": self.query,
            "titleColumn": "title",
            "textColumn": "text",
            "tagsColumn": "kind",
            "timeEndColumn": "end_ms",
        }
        target = {
            "refId": "Anno",
            "rawQuery": True,
            "textEditor": True,
            "fromAnnotations": True,
            "datasource": DATASOURCE,
            **columns,
        }
        return {**super().to_json(), **columns, "target": target}


def event_annotations(where: str = "") -> list[Builder[model.AnnotationQuery]]:
    """Throttling as red regions, lost meters in orange, marks in pink, phases on request."""

    condition = f" AND {where}" if where else ""

    def events(name: str, color: str, which: str, enabled: bool = True) -> Annotation:
        query = (
            'SELECT "title", "text", "kind", "end_ms" FROM "event" '
            f"WHERE $timeFilter{condition} AND {which}"
        )
        return Annotation(name, color, query, enabled)

    return [
        events("Throttling", RED, THROTTLED),
        events("Meters", ORANGE, '"kind" =~ /^instrument_(lost|back|stuck)$/'),
        events("Marks", PINK, "\"kind\" = 'mark'"),
        events("Phases", BLUE, "\"kind\" = 'phase_started'", enabled=False),
    ]


def datasource_variable() -> build.DatasourceVariable:
    """The database. Hidden: ``?var-datasource=NAME`` chooses another one."""
    return (
        build.DatasourceVariable("datasource")
        .label("Database")
        .type("influxdb")
        .current(model.VariableOption(False, DATASOURCE_NAME, DATASOURCE_NAME))
        .hide(model.VariableHide.HIDE_VARIABLE)
    )


def distinct(tag: str, field: str, measurement: str, where: str = "") -> str:
    """The values of a tag within the time range, and no others.

    ``SHOW TAG VALUES … WHERE time`` reads whole shards (a week); a tag taken along in a
    subselect is exact. ``first`` reads one point of each series, not all of them.
    """
    condition = f"$timeFilter AND {where}" if where else "$timeFilter"
    return (
        f'SELECT distinct("{tag}") FROM (SELECT first("{field}") FROM "{measurement}" '
        f'WHERE {condition} AND "{tag}" != \'\' GROUP BY "{tag}")'
    )


LAST_MONTH = "time > now() - 30d"
"""For what was last, whatever the time range: a rig that is silent for days is still a rig."""

RIGS = f'SHOW TAG VALUES FROM "rig" WITH KEY = "rig" WHERE {LAST_MONTH}'
"""Every rig with a heartbeat in the last month or so (whole shards are read: the index alone)."""


def rig_to_watch() -> build.QueryVariable:
    """The rig, chosen once, when the dashboard is loaded.

    A list that followed the time range would lose a rig that is silent, and Grafana would show the
    first rig of the list in its place.
    """
    return one("rig", "Rig", RIGS).refresh(model.VariableRefresh.ON_DASHBOARD_LOAD)


def one(name: str, label: str, query: str, newest_first: bool = False) -> build.QueryVariable:
    """A variable with one value; the first one when nothing is chosen."""
    sort = (
        model.VariableSort.ALPHABETICAL_DESC
        if newest_first
        else model.VariableSort.ALPHABETICAL_ASC
    )
    return (
        build.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(sort)
    )


def several(
    name: str, label: str, query: str, *, newest_first: bool = False, all_value: str = ".*"
) -> build.QueryVariable:
    """A variable with any number of values; all of them when nothing is chosen.

    "All" is ``.*``, which finds points without that tag too (a drive that nobody named).
    """
    return (
        one(name, label, query, newest_first)
        .multi(True)
        .include_all(True)
        .all_value(all_value)
        .current(model.VariableOption(True, ["All"], [ALL]))
    )
