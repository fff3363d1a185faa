"""Lab overview: the state of every rig, and links to the other dashboards."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from dashboards.influx import THROTTLED, Query, datasource_variable, event_annotations, rows
from dashboards.mappings import IN_COLOUR, METERS, as_override, colored_text, value_mappings
from dashboards.page import page
from dashboards.panels import (
    BAD_COLOR,
    OK_COLOR,
    WARNING_COLOR,
    PanelText,
    Size,
    gauge_bars,
    listing,
    number,
    over_time,
    prop,
    row,
    severity_colors,
    states,
    steps,
)
from dashboards.transformations import renamed

UID = "labctl-overview"
NO_RIG = "No rig has sent a heartbeat in the time range"
STATE_COLORS = {
    "idle": "blue",
    "running": OK_COLOR,
    "paused": WARNING_COLOR,
    "failed": BAD_COLOR,
    "offline": BAD_COLOR,
}


def _link(title: str, dashboard: str, variable: str) -> DynamicConfigValue:
    url = f"/d/{dashboard}?var-{variable}=${{__value.raw}}"
    return prop("links", [{"title": title, "url": url}])


def _rigs() -> build.Row:
    rigs = (
        listing(
            PanelText(
                "Rigs",
                "Last heartbeat of every rig. The name leads to the rig, live.",
                NO_RIG,
            ),
            rows(
                'SELECT "rig", "state", "queue_length", "meters_ok", "journal_lag_s" '
                'FROM (SELECT last("state") AS "state", "queue_length", "meters_ok", '
                '"journal_lag_s" FROM "rig" WHERE $timeFilter GROUP BY "rig")'
            ),
            Size(13, 8),
        )
        .transformations(
            [
                renamed(
                    {
                        "Time": "last heartbeat",
                        "queue_length": "queue",
                        "meters_ok": "meters",
                        "journal_lag_s": "journal lag",
                    }
                )
            ]
        )
        .override_by_name(
            "last heartbeat", [prop("unit", "dateTimeFromNow"), prop("custom.width", 130)]
        )
        .override_by_name("rig", [_link("Rig live", "labctl-rig-live", "rig")])
        .override_by_name("state", colored_text(STATE_COLORS))
        .override_by_name("queue", [prop("unit", "none"), prop("decimals", 0)])
        .override_by_name("meters", [as_override(METERS), *IN_COLOUR])
        .override_by_name("journal lag", [prop("unit", "s"), prop("decimals", 1)])
    )
    outcomes = (
        listing(
            PanelText(
                "Last outcome",
                "How the last run of each rig ended. The run leads to its power per queue depth.",
                "No run has ended in the time range",
            ),
            rows(
                'SELECT "rig", "run", "severity", "title" FROM (SELECT last("title") AS "title", '
                '"run", "severity" FROM "event" WHERE $timeFilter AND "kind" = \'run_ended\' '
                'GROUP BY "rig")'
            ),
            Size(11, 8),
        )
        .transformations([renamed({"Time": "ended", "title": "outcome"})])
        .override_by_name("ended", [prop("unit", "dateTimeFromNow"), prop("custom.width", 120)])
        .override_by_name("run", [_link("Power per queue depth", "labctl-power-per-qd", "run")])
        .override_by_name("severity", [prop("custom.width", 80), *severity_colors()])
    )
    return row("Rigs", rigs, outcomes)


def _last_day() -> build.Row:
    day = "24h"
    size = Size(6, 7)
    failed = (
        'SELECT count("title") FROM "event" WHERE $timeFilter AND "kind" = \'run_ended\' '
        "AND \"severity\" = 'error'"
    )
    ended = 'SELECT count("title") FROM "event" WHERE $timeFilter AND "kind" = \'run_ended\''
    throttled = (
        f'SELECT sum("duration_s") FROM "event" WHERE $timeFilter AND {THROTTLED} GROUP BY "rig"'
    )
    warnings = (
        'SELECT "rig", "severity", "title", "text" FROM "event" '
        'WHERE $timeFilter AND "severity" =~ /^(warning|error)$/ ORDER BY time DESC LIMIT 100'
    )
    return row(
        "Last 24 hours",
        (
            gauge_bars(
                PanelText(
                    "Throttling",
                    "Seconds for which the drive of each rig throttled in the last 24 hours.",
                    "No throttling in the last 24 hours",
                ),
                "s",
                Query(throttled, alias="$tag_rig"),
                size,
            )
            .decimals(1)
            .thresholds(steps((None, OK_COLOR), (1, WARNING_COLOR), (60, BAD_COLOR)))
            .time_from(day)
        ),
        number(
            PanelText("Runs ended", "Runs that ended in the last 24 hours.", "None"),
            "none",
            Query(ended),
            Size(3, 7),
        ).time_from(day),
        (
            number(
                PanelText("Runs failed", "Runs that failed in the last 24 hours.", "None"),
                "none",
                Query(failed),
                Size(3, 7),
            )
            .thresholds(steps((None, OK_COLOR), (1, BAD_COLOR)))
            .time_from(day)
        ),
        (
            listing(
                PanelText(
                    "Warnings and errors",
                    "What went wrong on any rig in the last 24 hours, newest first.",
                    "Nothing went wrong in the last 24 hours",
                ),
                rows(warnings),
                Size(12, 7),
            )
            .override_by_name("Time", [prop("unit", "dateTimeFromNow"), prop("custom.width", 120)])
            .override_by_name(
                "rig", [_link("Rig live", "labctl-rig-live", "rig"), prop("custom.width", 110)]
            )
            .override_by_name("severity", [prop("custom.width", 80), *severity_colors()])
            .time_from(day)
        ),
    )


def _over_time() -> build.Row:
    state = states(
        PanelText("State", "What each rig was doing.", NO_RIG),
        Query(
            'SELECT last("state") FROM "rig" WHERE $timeFilter '
            'GROUP BY time($__interval), "rig" fill(none)',
            alias="$tag_rig",
        ),
        size=Size(12, 9),
    ).mappings(value_mappings({state: (state, color) for state, color in STATE_COLORS.items()}))
    power = over_time(
        PanelText(
            "Power",
            "Total watts of each rig's drive while a run is on.",
            "No run in the time range",
        ),
        "watt",
        Query(
            'SELECT sum("watts") AS "watts" FROM (SELECT mean("watts") AS "watts" FROM "power" '
            'WHERE $timeFilter GROUP BY time($__interval), "rig", "rail" fill(none)) '
            'WHERE $timeFilter GROUP BY time($__interval), "rig" fill(null)',
            alias="$tag_rig",
        ),
        size=Size(12, 9),
        calcs=("lastNotNull", "mean", "max"),
    )
    return row("Over time", state, power)


def dashboard() -> build.Dashboard:
    """The dashboard."""
    return (
        page(
            UID,
            "Lab overview",
            "Every rig: state, last heartbeat, queue, last outcome, throttling.",
            time_from="now-24h",
            refresh="10s",
        )
        .with_variable(datasource_variable())
        .annotations(event_annotations())
        .with_row(_rigs())
        .with_row(_last_day())
        .with_row(_over_time())
    )
