"""The frame of a dashboard, and its JSON text."""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

TAG = "labctl"
SCHEMA_VERSION = 37
"""The highest that Grafana 9.4 knows; later versions migrate it when they load it."""

_KEYS_ADDED_BY_SDK = ("id", "auto", "auto_min", "auto_count")
"""Keys to remove from a variable: Grafana 9 takes ``id`` for its name, so all would be one."""


def page(
    uid: str, title: str, description: str, *, time_from: str, refresh: str = ""
) -> build.Dashboard:
    """An empty dashboard that links to the others and passes them its variables."""
    frame = (
        build.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .time(time_from, "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(
            build.DashboardLink("labctl")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(False)
        )
    )
    return frame.refresh(refresh) if refresh else frame


def to_json(dashboard: build.Dashboard) -> str:
    """The dashboard's JSON text, panels numbered from 1 in reading order."""
    data: dict[str, Any] = json.loads(json.dumps(dashboard.build(), cls=JSONEncoder))
    data["schemaVersion"] = SCHEMA_VERSION
    data.pop("style")  # dark or light is for the viewer to choose
    data.setdefault("refresh", "")
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
    data["panels"] = [{**panel, "id": number} for number, panel in enumerate(panels, start=1)]
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
