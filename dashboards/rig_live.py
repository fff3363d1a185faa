"""Rig live: what one rig is doing now, for the person beside it and the screen on the wall.

Everything fits a screen of 1920 × 1080. Nothing but the rig is chosen: a screen on
the wall follows its rig from run to run, whatever drive is in it.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import common
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders.timeseries import Panel
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as model

from dashboards.heartbeat import HEARD, LATELY, NOT_HEARD, RIG, STATES, state_as
from dashboards.influx import (
    OF_A_RUN,
    THROTTLED,
    Query,
    datasource_variable,
    event_annotations,
    rig_to_watch,
    rows,
)
from dashboards.mappings import METERS, THROTTLING_COLORS, as_override, value_mappings
from dashboards.mappings import PHASES as PHASE_MAPPINGS
from dashboards.page import page
from dashboards.palette import BAD_COLOR, BLUE, GREY, OK_COLOR, ORANGE, WARNING_COLOR
from dashboards.panels import (
    IN_WATTS,
    RAILS_IN_COLOUR,
    PanelText,
    Size,
    in_color,
    letters,
    limit_line,
    listing,
    number,
    numbers,
    over_time,
    prop,
    severity_colors,
    states,
    steps,
    texts_of,
    thresholds,
)
from dashboards.throttling import throttling_list
from dashboards.workload import ALL_TOGETHER, only_queue_depth

UID = "labctl-rig-live"
NO_RUN = "No run on this rig in the time range"
NO_HEARTBEAT = "No heartbeat of this rig in the time range"

SINCE_YESTERDAY = f"time > ${{__from}}ms - 1d AND time < ${{__to}}ms AND {RIG}"
"""From a day before the time range on: a phase of an hour began before the last minutes."""

PHASES = (
    f'FROM "event" WHERE {SINCE_YESTERDAY} AND {OF_A_RUN} '
    'AND "kind" =~ /^(phase_started|run_ended)$/'
)

HOST_LINE = [
    *limit_line(GREY),
    prop("custom.stacking", {"mode": "none", "group": "host"}),
    prop("custom.axisPlacement", "right"),
]
"""Overrides of the watts of the drive's host: beside the rails, not in their stack."""

NO_LEGEND = prop("custom.hideFrom", {"viz": False, "legend": True, "tooltip": True})


def _rig_live_names() -> list[Builder[model.Panel]]:
    """Rig, drive, run and phase, from the newest event: in sight on a wall, too. Whether what is
    shown is of now says the state."""
    newest = rows(f'SELECT "rig", "drive", "run", "title" {PHASES} ORDER BY time DESC LIMIT 1')

    rig, *others = texts_of(
        newest,
        NO_RUN,
        ("Rig $rig", "The rig that is shown.", "rig", 4),
        ("Drive", "The drive of its last run: serial number, or model.", "drive", 4),
        ("Run", "Its last run.", "run", 7),
        ("Phase", "The phase that is running, or how the run ended.", "title", 6),
    )
    state = number(
        PanelText(
            "State",
            "By the last heartbeat. Silent: two are missing, and what is shown here is not of now.",
            NO_HEARTBEAT,
        ),
        "none",
        rows(state_as("state")),
        Size(3, 3),
    )
    in_colour = state.mappings(STATES).color_mode(common_models.BigValueColorMode.BACKGROUND)
    return [rig, in_colour, *others]


def _rig_live_numbers() -> list[Builder[model.Panel]]:
    total = (
        'SELECT "watts" AS "total" FROM '
        f'(SELECT last("alive") AS "alive", "watts" FROM "rig" WHERE {HEARD})'
    )
    of_sensors = (
        'SELECT max("over") AS "over" FROM (SELECT last("over") AS "over" FROM '
        '(SELECT "celsius" - "warning_celsius" AS "over" FROM "temperature" '
        f'WHERE {HEARD} GROUP BY "drive", "sensor") '
        f'WHERE {LATELY} GROUP BY "drive", "sensor") WHERE {LATELY}'
    )
    over = f'SELECT "over" AS "over WCTEMP" FROM ({of_sensors}) WHERE "over" > 0'
    below = f'SELECT "over" * -1 AS "below WCTEMP" FROM ({of_sensors}) WHERE "over" <= 0'
    heartbeat = f'FROM "rig" WHERE $timeFilter AND {RIG}'
    return [
        number(
            PanelText("Queue depth", "Requests that fio keeps under way.", NO_RUN),
            "string",
            rows(f'SELECT "title" {PHASES} ORDER BY time DESC LIMIT 1'),
            Size(2, 3),
            field="title",
        ).mappings(only_queue_depth()),
        number(
            PanelText(
                "Power now", "Sum over the rails, by the last heartbeat (every 5 s).", NOT_HEARD
            ),
            IN_WATTS,
            Query(total),
            Size(4, 3),
        ).decimals(2),
        (
            numbers(
                PanelText(
                    "Heat",
                    "Kelvins that the hottest sensor is below or over the drive's own warning "
                    "temperature (WCTEMP), within the last 15 s.",
                    "No temperature heard, or no WCTEMP known",
                ),
                "suffix: K",
                Query(over, alias="over WCTEMP"),
                Query(below, alias="below WCTEMP", ref="B"),
                size=Size(4, 3),
            )
            .decimals(1)
            .override_by_name("over WCTEMP", [thresholds((None, BAD_COLOR))])
            .override_by_name("below WCTEMP", [thresholds((None, WARNING_COLOR), (5, OK_COLOR))])
        ),
        (
            numbers(
                PanelText(
                    "Throttling",
                    "The verdict on the last phase that ended, and when the last stretch of "
                    "throttling ended. Both are known at the end of a phase.",
                    "No phase has ended",
                ),
                "string",
                rows(
                    'SELECT last("throttling") AS "last phase" FROM "phase" '
                    f"WHERE {SINCE_YESTERDAY} AND {ALL_TOGETHER}"
                ),
                rows(
                    f'SELECT last("end_ms") AS "throttled until" FROM "event" '
                    f"WHERE {SINCE_YESTERDAY} AND {THROTTLED}",
                    "B",
                ),
                size=Size(5, 3),
                fields="last phase|throttled until",
            )
            .orientation(common_models.VizOrientation.HORIZONTAL)
            .text(letters(13, 16))
            .override_by_name("last phase", [as_override(_VERDICTS)])
            .override_by_name(
                "throttled until", [prop("unit", "dateTimeFromNow"), thresholds((None, BAD_COLOR))]
            )
        ),
        numbers(
            PanelText("Volts", "Last volts of each rail, at the drive's side.", NO_RUN),
            "suffix: V",
            Query(
                f'SELECT last("volts") AS "volts" FROM "power" WHERE $timeFilter AND {RIG} '
                'GROUP BY "rail"',
                alias="$tag_rail",
            ),
            size=Size(5, 3),
        ).decimals(3),
        number(
            PanelText("Meters", "Whether every meter of the rig yields readings.", NO_HEARTBEAT),
            "none",
            Query(f'SELECT last("meters_ok") {heartbeat}'),
            Size(2, 3),
        ).mappings(METERS),
        (
            number(
                PanelText(
                    "Journal lag",
                    "How far what is in this database lies behind the journal. It grows while the "
                    "database is away, and goes back when it has caught up: nothing is lost.",
                    NO_HEARTBEAT,
                ),
                "s",
                Query(f'SELECT last("journal_lag_s") {heartbeat}'),
                Size(2, 3),
            )
            .decimals(1)
            .thresholds(steps((None, OK_COLOR), (5, WARNING_COLOR), (60, BAD_COLOR)))
        ),
    ]


_VERDICTS = value_mappings(
    {
        verdict: (verdict, "text" if verdict == "none seen" else color)
        for verdict, color in THROTTLING_COLORS.items()
    }
)


def _rig_live_charts() -> list[Builder[model.Panel]]:
    by_bin = f"WHERE $timeFilter AND {RIG} GROUP BY time($__interval)"
    power = over_time(
        PanelText(
            "Power",
            "Mean watts of each rail, stacked: the upper edge is the total. Red regions: the "
            "drive throttled. Dashed, on the right: the drive's host, by its own meters, where "
            "the rig has some.",
            NO_RUN,
        ),
        IN_WATTS,
        Query(
            f'SELECT mean("watts") AS "watts" FROM "power" {by_bin}, "rail" fill(null)',
            alias="$tag_rail",
        ),
        Query(
            f'SELECT mean("watts") AS "watts" FROM "host_power" {by_bin}, "meter" fill(null)',
            alias="host, $tag_meter",
            ref="B",
        ),
        size=Size(12, 7),
        calcs=("lastNotNull", "mean", "max"),
    ).stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL).group("rails"))
    power.override_by_regexp("/^host, /", HOST_LINE)
    temperature = over_time(
        PanelText(
            "Temperature",
            "Each sensor, with the drive's own limits: WCTEMP (warning) and CCTEMP (critical).",
            "No temperature in the time range",
        ),
        "celsius",
        Query(
            f'SELECT mean("celsius") AS "celsius" FROM "temperature" {by_bin}, "sensor" fill(null)',
            alias="$tag_sensor",
        ),
        Query(
            f'SELECT max("warning_celsius") AS "WCTEMP" FROM "temperature" {by_bin} fill(null)',
            alias="WCTEMP",
            ref="B",
        ),
        Query(
            f'SELECT max("critical_celsius") AS "CCTEMP" FROM "temperature" {by_bin} fill(null)',
            alias="CCTEMP",
            ref="C",
        ),
        size=Size(12, 7),
    )
    temperature = (
        temperature.decimals(1)
        .fill_opacity(0)
        .override_by_name("composite", [in_color(BLUE)])
        .override_by_name("WCTEMP", limit_line(WARNING_COLOR))
        .override_by_name("CCTEMP", limit_line(BAD_COLOR))
    )
    volts = over_time(
        PanelText(
            "Volts off nominal",
            "Each rail against its nominal voltage, with the rig's tolerance as dashed lines.",
            NO_RUN,
        ),
        "percent",
        Query(
            'SELECT (mean("volts") / mean("volts_nominal") - 1) * 100 AS "off" FROM "power" '
            f'{by_bin}, "rail" fill(null)',
            alias="$tag_rail",
        ),
        Query(
            f'SELECT max("volts_tolerance_pct") AS "highest" FROM "power" {by_bin}, "rail" '
            "fill(null)",
            alias="$tag_rail highest",
            ref="B",
        ),
        Query(
            'SELECT max("volts_tolerance_pct") * -1 AS "lowest" FROM "power" '
            f'{by_bin}, "rail" fill(null)',
            alias="$tag_rail lowest",
            ref="C",
        ),
        size=Size(6, 6),
    )
    volts = (
        volts.decimals(2)
        .fill_opacity(0)
        .override_by_regexp("/ (highest|lowest)$/", [*limit_line(BAD_COLOR), NO_LEGEND])
    )
    for panel in (power, volts):
        for rail, color in RAILS_IN_COLOUR:
            panel.override_by_regexp(rail, color)
    return [power.axis_soft_min(0), temperature, *_rig_live_workload(), volts]


def _rig_live_workload() -> list[Builder[model.Panel]]:
    def of_io(title: str, description: str, unit: str, column: str) -> Panel:
        panel = over_time(
            PanelText(title, description, "No I/O in the time range"),
            unit,
            Query(
                f'SELECT {column} FROM "io" WHERE $timeFilter AND {RIG} '
                'GROUP BY time($__interval), "op", "drive" fill(null)',
                alias="$tag_op $tag_drive",
            ),
            size=Size(6, 6),
        )
        return (
            panel.axis_soft_min(0)
            .override_by_regexp("/^read/", [in_color(BLUE)])
            .override_by_regexp("/^write/", [in_color(ORANGE)])
        )

    latency = of_io(
        "Latency",
        "Mean latency of the I/O since fio's last report, per direction. Logarithmic. "
        "Percentiles are known when a phase has ended: see Power per queue depth.",
        "µs",
        'mean("latency_mean_us") AS "mean"',
    )
    logarithmic = common.ScaleDistributionConfig().type(common_models.ScaleDistribution.LOG).log(10)
    return [
        of_io(
            "IOPS",
            "I/O operations per second, as fio counts them, per direction.",
            "iops",
            'mean("iops") AS "iops"',
        ),
        of_io(
            "Throughput",
            "Bytes per second, per direction.",
            "Bps",
            'mean("bytes_per_s") AS "bytes_per_s"',
        ),
        latency.fill_opacity(0).scale_distribution(logarithmic),
    ]


def _what_happened() -> list[Builder[model.Panel]]:
    phases = states(
        PanelText("Phases", "Which phase ran when, by queue depth.", NO_RUN),
        rows(f'SELECT "title" AS "phase" {PHASES}'),
        size=Size(6, 6),
    ).mappings(PHASE_MAPPINGS)
    events = listing(
        PanelText(
            "Events",
            "What happened on this rig, newest first; phases and throttling are beside it.",
            "Nothing happened in the time range",
        ),
        rows(
            'SELECT "severity", "title", "text" FROM "event" '
            f'WHERE $timeFilter AND {RIG} AND "kind" !~ /^(phase_|throttle)/ '
            "ORDER BY time DESC LIMIT 100"
        ),
        size=Size(8, 6),
    )
    return [
        throttling_list(SINCE_YESTERDAY, Size(10, 6)),
        phases,
        events.override_by_name(
            "Time", [prop("unit", "time:HH:mm:ss"), prop("custom.width", 90)]
        ).override_by_name("severity", [prop("custom.width", 80), *severity_colors()]),
    ]


def dashboard() -> build.Dashboard:
    """The dashboard."""
    made = (
        page(
            UID,
            "What one rig is doing now: watts, volts, heat, workload, throttling.",
            time_from="now-15m",
            refresh="10s",
        )
        .with_variable(datasource_variable())
        .with_variable(rig_to_watch())
        .annotations(event_annotations(RIG))
    )
    for panel in (*_rig_live_names(), *_rig_live_numbers(), *_rig_live_charts(), *_what_happened()):
        made.with_panel(panel)
    return made
