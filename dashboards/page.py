"""The frame of a dashboard, and its JSON text."""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

TAG = "labctl"
SCHEMA_VERSION = 37
"""The highest that Grafana 9.4 knows; later versions migrate it when they load it."""

_KEYS_ADDED_BY_SDK = ("id", "auto", "auto_min", "auto_count")
"""Keys to remove from a variable: Grafana 9 takes ``id`` for its name, so all would be one."""


PAGES = {
    "labctl-overview": "Lab overview",
    "labctl-rig-live": "Rig live",
    "labctl-power-per-qd": "Power per queue depth",
    "labctl-compare": "Compare",
}
"""The dashboards by uid, in the order of the links at the top."""

TAKES_RIGS = ("labctl-power-per-qd", "labctl-compare")
"""Dashboards where any number of rigs can be chosen, so that one rig can, too."""


def _dashboard_page_links(uid: str, rigs: str) -> list[Builder[model.DashboardLink]]:
    """To the other dashboards, with the rigs where they can take them.

    One by one and not all variables: "All", or several, would be a value that is not there where
    only one can be chosen, and the page would be empty.
    """
    return [
        build.DashboardLink(title)
        .type(model.DashboardLinkType.LINK)
        .icon("dashboard")
        .url(f"/d/{other}?${{datasource:queryparam}}{rigs if other in TAKES_RIGS else ''}")
        for other, title in PAGES.items()
        if other != uid
    ]


def row_link(uid: str, query: str) -> dict[str, str]:
    """A link of a name to another dashboard, in the database that is shown here."""
    return {"title": PAGES[uid], "url": f"/d/{uid}?${{datasource:queryparam}}&{query}"}


RIG_LIVE = row_link("labctl-rig-live", "var-rig=${__value.raw}")
"""Of the name of a rig."""


def page(
    uid: str, description: str, *, time_from: str, refresh: str, pass_rigs: bool = True
) -> build.Dashboard:
    """An empty dashboard with links to the others, which take its rigs along with ``pass_rigs``."""
    return (
        build.Dashboard(PAGES[uid])
        .uid(uid)
        .description(description)
        .tags([TAG])
        .time(time_from, "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .links(_dashboard_page_links(uid, "&${rig:queryparam}" if pass_rigs else ""))
        .refresh(refresh)
    )


def to_json(dashboard: build.Dashboard) -> str:
    """The dashboard's JSON text, panels numbered from 1 in reading order."""
    data: dict[str, Any] = json.loads(json.dumps(dashboard.build(), cls=JSONEncoder))
    data["schemaVersion"] = SCHEMA_VERSION
    data.pop("style")  # dark or light is for the viewer to choose
    data["annotations"].setdefault("list", [])
    for variable in data["templating"]["list"]:
        for key in _KEYS_ADDED_BY_SDK:
            variable.pop(key, None)
    panels: list[dict[str, Any]] = []
    for panel in data["panels"]:
        panels.append(panel)
        # In Grafana's own layout an open row precedes its panels and does not contain them.
        panels += panel.pop("panels", [])
        if panel["type"] == "row":
            panel |= {"panels": [], "collapsed": False}
    for panel in panels:
        if "timeFrom" in panel:  # the row names the time; the badge may cover a narrow title
            panel["hideTimeOverride"] = True
        if panel.get("repeatDirection") == "h":  # the SDK does not know it; Grafana's own is 4
            panel["maxPerRow"] = 24 // panel["gridPos"]["w"]
    data["panels"] = [{**panel, "id": number} for number, panel in enumerate(panels, start=1)]
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
