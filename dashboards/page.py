"""A dashboard's frame, and its way to JSON."""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

TAG = "labctl"
SCHEMA_VERSION = 37
"""The highest that Grafana 9.4 knows; later versions migrate it when they load it."""

_NOT_OF_A_VARIABLE = ("id", "auto", "auto_min", "auto_count")
"""What the SDK adds: Grafana 9 takes ``id`` for the key, so all variables would be one."""


def page(
    uid: str, title: str, description: str, *, time_from: str, refresh: str = ""
) -> build.Dashboard:
    """An empty dashboard that links to the others and hands them its variables."""
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
        for key in _NOT_OF_A_VARIABLE:
            variable.pop(key, None)
    panels: list[dict[str, Any]] = []
    for panel in data["panels"]:
        panels.append(panel)
        # An open row stands before its panels, it does not hold them: Grafana's own layout.
        panels += panel.pop("panels", [])
        if panel["type"] == "row":
            panel |= {"panels": [], "collapsed": False}
    for panel in panels:
        if "timeFrom" in panel:  # its row says so; on a narrow panel the badge covers the title
            panel["hideTimeOverride"] = True
    data["panels"] = [{**panel, "id": number} for number, panel in enumerate(panels, start=1)]
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
