"""Lab overview: one tile a rig, and what went wrong in the last 24 hours."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import stat
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as model

from dashboards.heartbeat import HEARD, RIG, STATES, state_as
from dashboards.influx import (
    LAST_MONTH,
    OF_A_RUN,
    RIGS,
    THROTTLED,
    Query,
    datasource_variable,
    event_annotations,
    rows,
    several,
)
from dashboards.mappings import as_override, text_mappings, value_mappings
from dashboards.page import RIG_LIVE, page, row_link
from dashboards.palette import BAD_COLOR, OK_COLOR, QUIET_COLOR, WARNING_COLOR
from dashboards.panels import (
    IN_WATTS,
    MISSING,
    PanelText,
    Size,
    letters,
    listing,
    numbers,
    over_time,
    prop,
    row,
    severity_colors,
    states,
    steps,
    thresholds,
)
from dashboards.throttling import throttling_list
from dashboards.transformations import without

UID = "labctl-overview"
NO_RIG = "No rig has sent a heartbeat in the time range"

TILES_A_LINE = 8
"""40 rigs are five lines of tiles 190 pixels high."""

HOUR_MS = 3_600_000
"""What throttled until longer ago is in the list below: red is for what is so now. A stretch is
stored with the time of its begin, which may be long before."""

OUTCOMES = text_mappings(
    ("^run (failed|aborted)$", "$1", BAD_COLOR),
    ("^run (interrupted)$", "$1", WARNING_COLOR),
    ("^run (.*)$", "$1", QUIET_COLOR),
)

STATE_COLORS = {"running": OK_COLOR, "idle": QUIET_COLOR}


def _lab_overview_tile() -> stat.Panel:
    """A rig's tile. Whether it is silent is asked of the database, whatever it last said.

    The names of the lines are those of the columns: a name that an override gives is no longer
    found by the ones behind it.
    """
    load = (
        'SELECT "now", "phase" FROM (SELECT last("alive") AS "alive", "load_text" AS "now", '
        f'"progress_text" AS "phase" FROM "rig" WHERE {HEARD})'
    )
    job = (
        'SELECT "drive", "plan" FROM (SELECT last("run") AS "run", "drive", "plan" '
        f'FROM "rig" WHERE {LAST_MONTH} AND {RIG})'
    )
    throttled = (
        'SELECT last("end_ms") AS "throttled" FROM "event" '
        f'WHERE {LAST_MONTH} AND {RIG} AND {THROTTLED} AND "end_ms" > ${{__to}} - {HOUR_MS}'
    )
    outcome = (
        'SELECT last("title") AS "last run" FROM "event" '
        f"WHERE {LAST_MONTH} AND {RIG} AND \"kind\" = 'run_ended' AND {OF_A_RUN}"
    )
    queries = (state_as("${rig:raw}"), load, job, throttled, outcome)
    tile = numbers(
        PanelText(
            "",
            "State, load, phase with the time left, drive and plan of this rig by its last "
            "heartbeat; until when it throttled, within the last hour; how its last run ended. "
            "Silent: two heartbeats are missing. A click leads to the rig, live.",
            NO_RIG,
        ),
        "string",
        *(rows(query, ref) for ref, query in zip("ABCDE", queries, strict=True)),
        size=Size(24 // TILES_A_LINE, 5),
        fields=".*",
    )
    live = row_link("labctl-rig-live", "var-rig=${rig:percentencode}")
    return (
        tile.transformations([without("Time")])
        .color_mode(common_models.BigValueColorMode.BACKGROUND)
        .orientation(common_models.VizOrientation.HORIZONTAL)
        .text(letters(15, 15))
        .thresholds(steps((None, QUIET_COLOR)))
        .mappings(STATES)
        .override_by_regexp(*MISSING)
        .override_by_regexp("/.*/", [prop("links", [live])])
        .override_by_name(
            "throttled", [prop("unit", "dateTimeFromNow"), thresholds((None, BAD_COLOR))]
        )
        .override_by_name("last run", [as_override(OUTCOMES)])
        .repeat("rig")
        .repeat_direction("h")
    )


def _last_day() -> build.Row:
    day = "24h"
    ended = f'FROM "event" WHERE $timeFilter AND "kind" = \'run_ended\' AND {OF_A_RUN}'
    runs = numbers(
        PanelText(
            "Runs", "Runs that ended, and that failed, in the last 24 hours.", "None has ended"
        ),
        "none",
        Query(f'SELECT count("title") {ended}', alias="ended"),
        Query(f'SELECT count("title") {ended} AND "severity" = \'error\'', "failed", "B"),
        size=Size(2, 7),
    )
    warnings = listing(
        PanelText(
            "Warnings and errors",
            "What went wrong on any rig in the last 24 hours, newest first; what single readings "
            "were worth is on Rig live.",
            "Nothing went wrong in the last 24 hours",
        ),
        rows(
            'SELECT "rig", "severity", "title", "text" FROM "event" '
            'WHERE $timeFilter AND "severity" =~ /^(warning|error)$/ '
            'AND "kind" !~ /^(status|throttle)/ ORDER BY time DESC LIMIT 100'
        ),
        size=Size(10, 7),
    )
    rig = [prop("links", [RIG_LIVE]), prop("custom.width", 110)]
    return row(
        "Last 24 hours",
        runs.override_by_name("failed", [thresholds((None, BAD_COLOR))]).time_from(day),
        throttling_list("$timeFilter", Size(12, 7), of_rigs=True)
        .override_by_name("rig", rig)
        .time_from(day),
        warnings.override_by_name(
            "Time", [prop("unit", "dateTimeFromNow"), prop("custom.width", 120)]
        )
        .override_by_name("rig", rig)
        .override_by_name("severity", [prop("custom.width", 80), *severity_colors()])
        .time_from(day),
    )


def _over_time() -> build.Row:
    """A rig without heartbeats has no bar: none that goes on to this day, whatever it last said."""
    state = (
        states(
            PanelText("State", "What each rig was doing while it sent heartbeats.", NO_RIG),
            Query(
                'SELECT last("state") FROM "rig" WHERE $timeFilter '
                'GROUP BY time($__interval), "rig" fill(null)',
                alias="$tag_rig",
            ),
            size=Size(12, 9),
        )
        .interval("2m")
        .mappings(value_mappings({name: (name, color) for name, color in STATE_COLORS.items()}))
    )
    power = over_time(
        PanelText(
            "Power",
            "Total watts of each rig while a run is on, by its heartbeats (every 5 s).",
            "No run in the time range",
        ),
        IN_WATTS,
        Query(
            'SELECT mean("watts") AS "watts" FROM "rig" WHERE $timeFilter '
            'GROUP BY time($__interval), "rig" fill(null)',
            alias="$tag_rig",
        ),
        size=Size(12, 9),
    )
    return row("Over time", state, power.axis_soft_min(0).interval("2m"))


def dashboard() -> build.Dashboard:
    """The dashboard."""
    rig = several("rig", "Rig", RIGS, all_value="").hide(model.VariableHide.HIDE_VARIABLE)
    return (
        page(
            UID,
            "Every rig: state, load, drive, plan, last outcome, throttling.",
            time_from="now-24h",
            refresh="10s",
            pass_rigs=False,
        )
        .with_variable(datasource_variable())
        .with_variable(rig)
        .annotations(event_annotations())
        .with_panel(_lab_overview_tile())
        .with_row(_last_day())
        .with_row(_over_time())
    )
