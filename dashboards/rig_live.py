"""Rig live: what one rig is doing now, for the person beside it and the screen on the wall."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders.timeseries import Panel
from grafana_foundation_sdk.models import common as common_models

from dashboards.influx import (
    Query,
    datasource_variable,
    distinct,
    event_annotations,
    matches,
    one,
    rows,
    several,
)
from dashboards.mappings import METERS, text_mappings
from dashboards.page import page
from dashboards.panels import (
    BAD_COLOR,
    OK_COLOR,
    WARNING_COLOR,
    PanelText,
    Size,
    limit_line,
    listing,
    number,
    over_time,
    prop,
    row,
    severity_colors,
    states,
    steps,
)
from dashboards.workload import only_queue_depth

UID = "labctl-rig-live"
CHOSEN = matches("rig", "drive", "run")
RIG = matches("rig")
NO_RUN = "No run on this rig in the time range"
NO_DAEMON = "No heartbeat of this rig in the time range"

PHASES = (
    f'FROM "event" WHERE time > ${{__from}}ms - 1d AND time < ${{__to}}ms AND {CHOSEN} '
    'AND "kind" =~ /^(phase_started|run_ended)$/'
)
"""From a day before the time range on: a phase of an hour began before the last minutes."""


NO_LEGEND = prop("custom.hideFrom", {"viz": False, "legend": True, "tooltip": True})


def _now() -> build.Row:
    last = f"{PHASES} ORDER BY time DESC LIMIT 1"
    total = (
        'SELECT sum("watts") AS "total" FROM (SELECT last("watts") AS "watts" FROM "power" '
        f'WHERE $timeFilter AND {CHOSEN} GROUP BY "rail") WHERE $timeFilter'
    )
    margin = (
        'SELECT last("margin") FROM (SELECT "warning_celsius" - "celsius" AS "margin" '
        f'FROM "temperature" WHERE $timeFilter AND {CHOSEN})'
    )
    return row(
        "Now",
        number(
            PanelText("Phase", "The phase that is running, or how the run ended.", NO_RUN),
            "string",
            rows(f'SELECT "title" {last}'),
            Size(8, 4),
            field="title",
        ),
        number(
            PanelText("Queue depth", "Requests that fio keeps under way.", NO_RUN),
            "string",
            rows(f'SELECT "title" {last}'),
            Size(3, 4),
            field="title",
        ).mappings(only_queue_depth()),
        number(
            PanelText("Power", "Sum over the rails of their last mean over a bin.", NO_RUN),
            "watt",
            Query(total),
            Size(4, 4),
        ).decimals(3),
        (
            number(
                PanelText(
                    "Below WCTEMP",
                    "Kelvins left to the drive's warning temperature. Negative: over it.",
                    "No warning temperature known",
                ),
                "celsius",
                Query(margin),
                Size(3, 4),
            )
            .decimals(1)
            .thresholds(steps((None, BAD_COLOR), (0, WARNING_COLOR), (5, OK_COLOR)))
        ),
        number(
            PanelText("Meters", "Whether every meter of the rig yields readings.", NO_DAEMON),
            "none",
            Query(f'SELECT last("meters_ok") FROM "rig" WHERE $timeFilter AND {RIG}'),
            Size(3, 4),
        ).mappings(METERS),
        (
            number(
                PanelText(
                    "Journal lag",
                    "How far what is in this database lies behind the journal.",
                    NO_DAEMON,
                ),
                "s",
                Query(f'SELECT last("journal_lag_s") FROM "rig" WHERE $timeFilter AND {RIG}'),
                Size(3, 4),
            )
            .decimals(1)
            .thresholds(steps((None, OK_COLOR), (5, WARNING_COLOR), (60, BAD_COLOR)))
        ),
    )


def _drive() -> build.Row:
    size = Size(12, 9)
    by_bin = f"WHERE $timeFilter AND {CHOSEN} GROUP BY time($__interval)"
    power = over_time(
        PanelText(
            "Power",
            "Mean watts of each rail, stacked: the upper edge is the drive. Red regions: the "
            "drive throttled.",
            NO_RUN,
        ),
        "watt",
        Query(
            f'SELECT mean("watts") AS "watts" FROM "power" {by_bin}, "rail" fill(null)',
            alias="$tag_rail",
        ),
        size=size,
        calcs=("lastNotNull", "mean", "max"),
    ).stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL).group("rails"))
    temperature = (
        over_time(
            PanelText(
                "Temperature",
                "Each sensor, with the drive's own limits: WCTEMP (warning) and CCTEMP (critical).",
                "No temperature in the time range",
            ),
            "celsius",
            Query(
                f'SELECT mean("celsius") AS "celsius" FROM "temperature" {by_bin}, "sensor" '
                "fill(null)",
                alias="$tag_sensor",
            ),
            Query(
                f'SELECT max("warning_celsius") AS "WCTEMP" FROM "temperature" {by_bin} fill(null)',
                alias="WCTEMP",
                ref="B",
            ),
            Query(
                f'SELECT max("critical_celsius") AS "CCTEMP" FROM "temperature" {by_bin} '
                "fill(null)",
                alias="CCTEMP",
                ref="C",
            ),
            size=size,
        )
        .decimals(1)
        .fill_opacity(0)
        .override_by_name("WCTEMP", limit_line(WARNING_COLOR))
        .override_by_name("CCTEMP", limit_line(BAD_COLOR))
    )
    volts = (
        over_time(
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
            size=Size(9, 9),
            calcs=("lastNotNull", "min", "max"),
        )
        .decimals(2)
        .fill_opacity(0)
        .override_by_regexp("/ (highest|lowest)$/", [*limit_line(BAD_COLOR), NO_LEGEND])
    )
    volts_now = number(
        PanelText("Volts", "Last volts of each rail, at the drive's side.", NO_RUN),
        "volt",
        Query(
            f'SELECT last("volts") AS "volts" FROM "power" WHERE $timeFilter AND {CHOSEN} '
            'GROUP BY "rail"',
            alias="$tag_rail",
        ),
        Size(3, 9),
    ).decimals(3)
    phase = states(
        PanelText("Phases", "Which phase ran when.", NO_RUN),
        rows(f'SELECT "title" AS "phase" {PHASES}'),
        size=size,
    ).mappings(text_mappings((r"^phase \d+/\d+ (.*)$", "$1")))
    return row("Drive", power, temperature, volts, volts_now, phase)


def _workload() -> build.Row:
    def of_io(title: str, description: str, unit: str, column: str) -> Panel:
        return over_time(
            PanelText(title, description, "No I/O in the time range"),
            unit,
            Query(
                f'SELECT {column} FROM "io" WHERE $timeFilter AND {CHOSEN} '
                'GROUP BY time($__interval), "op" fill(null)',
                alias="$tag_op",
            ),
            size=Size(8, 9),
        )

    return row(
        "Workload",
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
        (
            of_io(
                "Latency",
                "Mean latency of the I/O since fio's last report, per direction. Logarithmic. "
                "Percentiles are known when a phase has ended: see Power per queue depth.",
                "µs",
                'mean("latency_mean_us") AS "mean"',
            )
            .fill_opacity(0)
            .scale_distribution(
                common.ScaleDistributionConfig().type(common_models.ScaleDistribution.LOG).log(10)
            )
        ),
    )


def _health() -> build.Row:
    size = Size(8, 8)
    heartbeats = f'FROM "rig" WHERE $timeFilter AND {RIG} GROUP BY time($__interval) fill(none)'
    return row(
        "Health",
        states(
            PanelText(
                "Meters",
                "Whether every meter of the rig yields readings. The events say which does not.",
                NO_DAEMON,
            ),
            Query(f'SELECT min("meters_ok") AS "meters" {heartbeats}', alias="meters"),
            size=size,
        ).mappings(METERS),
        over_time(
            PanelText(
                "Journal lag",
                "Seconds by which this database lies behind the journal. It grows while the "
                "database is away, and goes back when it has caught up: nothing is lost.",
                NO_DAEMON,
            ),
            "s",
            Query(
                f'SELECT max("journal_lag_s") AS "lag" {heartbeats}',
                alias="lag",
            ),
            size=size,
        ).min(0),
        (
            listing(
                PanelText("Events", "What happened on this rig, newest first.", NO_RUN),
                rows(
                    'SELECT "severity", "title", "text" FROM "event" '
                    f"WHERE $timeFilter AND {CHOSEN} ORDER BY time DESC LIMIT 200"
                ),
                size,
            )
            .override_by_name("Time", [prop("unit", "time:HH:mm:ss"), prop("custom.width", 90)])
            .override_by_name("severity", [prop("custom.width", 80), *severity_colors()])
        ),
    )


def dashboard() -> build.Dashboard:
    """The dashboard."""
    return (
        page(
            UID,
            "Rig live",
            "What one rig is doing now: watts, volts, heat, workload, health.",
            time_from="now-15m",
            refresh="5s",
        )
        .with_variable(datasource_variable())
        .with_variable(one("rig", "Rig", distinct("rig", "watts", "power")))
        .with_variable(one("drive", "Drive", distinct("drive", "watts", "power", matches("rig"))))
        .with_variable(
            several("run", "Run", distinct("run", "watts", "power", matches("rig", "drive")))
        )
        .annotations(event_annotations(CHOSEN))
        .with_row(_now())
        .with_row(_drive())
        .with_row(_workload())
        .with_row(_health())
    )
