"""The list of throttling: since when, in which phase, why, how long, and what was seen."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from dashboards.influx import THROTTLED, rows
from dashboards.mappings import CAUSES, in_colour
from dashboards.panels import PanelText, Size, listing, prop
from dashboards.transformations import merged, ordered, renamed, sorted_by
from dashboards.workload import ALL_TOGETHER

MOST = 50
COLUMNS = {
    "Time": "since",
    "phase": "phase",
    "title": "cause",
    "duration_s": "lasted",
    "text": "evidence",
}
RIG_COLUMNS = {"Time": "since", "rig": "rig", **COLUMNS}


def throttling_list(condition: str, size: Size, of_rigs: bool = False) -> table.Panel:
    """Every stretch of throttling and every phase for which it cannot be excluded, newest first.

    ``of_rigs``: with the name of the rig.
    """
    rig, columns = ('"rig", ', RIG_COLUMNS) if of_rigs else ("", COLUMNS)
    newest = f"ORDER BY time DESC LIMIT {MOST}"
    stretches = (
        f'SELECT {rig}"phase", "title", "duration_s", "text" FROM "event" '
        f"WHERE {condition} AND {THROTTLED} {newest}"
    )
    doubtful = (
        f'SELECT {rig}"label" AS "phase", "throttling" AS "title", "throttling_why" AS "text" '
        f'FROM "phase" WHERE {condition} AND {ALL_TOGETHER} '
        f"AND \"throttling\" = 'cannot be excluded' {newest}"
    )
    panel = listing(
        PanelText(
            "Throttling",
            "Stretches in which heat or a power limit held the drive back, and phases for which "
            "that cannot be excluded. Known at the end of each phase.",
            "No throttling seen, and no doubt, in the phases that have ended",
        ),
        rows(stretches),
        rows(doubtful, "B"),
        size=size,
    )
    return (
        panel.transformations(
            [merged(), sorted_by("Time", descending=True), ordered(*columns), renamed(columns)]
        )
        .override_by_name(
            "since", [prop("unit", "dateTimeAsIsoNoDateIfToday"), _throttling_column_width(160)]
        )
        .override_by_name("phase", [_throttling_column_width(200)])
        .override_by_name("cause", [*in_colour(CAUSES), _throttling_column_width(110)])
        .override_by_name(
            "lasted", [prop("unit", "s"), prop("decimals", 1), _throttling_column_width(80)]
        )
    )


def _throttling_column_width(pixels: int) -> DynamicConfigValue:
    return prop("custom.width", pixels)
