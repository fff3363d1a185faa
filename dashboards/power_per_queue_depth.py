"""Power per queue depth: watts, IOPS and latency of each phase of one run, as charts."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common, xychart
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders.barchart import Panel
from grafana_foundation_sdk.builders.stat import Panel as NumberPanel
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.xychart import ScatterShow, SeriesMapping

from dashboards.influx import (
    DATASOURCE,
    Query,
    datasource_variable,
    distinct,
    matches,
    one,
    rows,
    several,
)
from dashboards.mappings import (
    BARS,
)
from dashboards.page import RIG_LIVE, page
from dashboards.palette import BAD_COLOR, BLUE, BROWN, GREEN, GREY, OK_COLOR, ORANGE, WARNING_COLOR
from dashboards.panels import (
    IN_WATTS,
    RAILS_IN_COLOUR,
    PanelText,
    Size,
    bars,
    in_color,
    legend,
    listing,
    number,
    numbers,
    prop,
    row,
    steps,
    texts_of,
    thresholds,
    tiles,
)
from dashboards.phase_tables import NO_PHASE, RAILS, every_phase
from dashboards.throttling import throttling_list
from dashboards.transformations import merged, renamed, renamed_by, sorted_by, without
from dashboards.workload import (
    MEASURE,
    OF_WORKLOAD,
    WORKLOAD_REGEX,
    measured,
    only_point,
    workloads,
)

UID = "labctl-power-per-qd"
RUN = matches("rig", "drive", "run")
MEASURED = measured("rig", "drive", "run")
OF_ALL_DRIVES = f"$timeFilter AND {matches('rig', 'run')}"
"""Events are of a run, and of all drives in it."""
OF_CHART = f"{MEASURED} AND {OF_WORKLOAD}"

BY_DEPTH = [sorted_by("qd"), without("Time", "qd")]
"""Numerically: tags would sort as text (1, 16, 32, 4)."""


def _queue_depth_title_panels() -> list[Builder[model.Panel]]:
    newest = rows(
        f'SELECT "index", "rig", "drive", "run" FROM "phase" WHERE $timeFilter AND {RUN} '
        "ORDER BY time DESC LIMIT 1"
    )

    rig, *others = texts_of(
        newest,
        NO_PHASE,
        ("Rig", "The rig of this run.", "rig", 4),
        ("Drive", "The drive: serial number, or model.", "drive", 5),
        ("Run", "The run that is shown.", "run", 8),
    )
    of_phases = f'FROM "phase" WHERE $timeFilter AND {RUN} AND'
    verdicts = numbers(
        PanelText(
            "Throttling",
            "Seconds for which heat or a power limit held the drive back; the phases for which "
            "that cannot be excluded; those in which nothing was seen and that would have been.",
            NO_PHASE,
        ),
        "none",
        Query(f'SELECT sum("throttled_s") {of_phases} "throttled_s" > 0', alias="throttled"),
        Query(
            f'SELECT count("label") {of_phases} "throttling" = \'cannot be excluded\'',
            alias="phases in doubt",
            ref="B",
        ),
        Query(
            f'SELECT count("label") {of_phases} "throttling" = \'none seen\'',
            alias="phases without",
            ref="C",
        ),
        size=Size(7, 3),
    )
    return [
        rig.override_by_name("rig", [prop("links", [RIG_LIVE])]),
        *others,
        verdicts.override_by_name(
            "throttled", [prop("unit", "s"), prop("decimals", 1), thresholds((None, BAD_COLOR))]
        ).override_by_name("phases in doubt", [thresholds((None, WARNING_COLOR))]),
    ]


def _queue_depth_headline() -> list[Builder[model.Panel]]:
    def highest(field: str) -> Query:
        return Query(f'SELECT max("{field}") FROM "phase" WHERE {MEASURED}')

    idle = (
        f'SELECT "watts_text" FROM "phase" WHERE $timeFilter AND {RUN} '
        "AND \"role\" = 'idle_before' ORDER BY time ASC LIMIT 1"
    )
    hungriest = f'SELECT max("watts"), "watts_text" FROM "phase" WHERE {MEASURED}'
    ended = (
        'SELECT "title" FROM "event" WHERE $timeFilter AND "run" =~ /^${run:regex}$/ '
        'AND "kind" =~ /^run_(started|resumed|ended)$/ ORDER BY time DESC LIMIT 1'
    )
    size = Size(4, 3)
    return [
        number(
            PanelText("Idle, W", "Mean watts of the idle phase before the work.", "No idle phase"),
            "string",
            rows(idle),
            size,
            field="watts_text",
        ),
        number(
            PanelText("Highest mean power, W", "Mean watts of the hungriest phase.", NO_PHASE),
            "string",
            rows(hungriest),
            size,
            field="watts_text",
        ),
        number(
            PanelText("Best IOPS per watt", "Most IOPS per watt of any phase.", NO_PHASE),
            "short",
            highest("iops_per_watt"),
            size,
        ).decimals(1),
        number(
            PanelText("Hottest", "Highest temperature of any sensor in a phase.", "No temperature"),
            "celsius",
            highest("celsius_max"),
            size,
        ).decimals(1),
        (
            number(
                PanelText(
                    "Alignment",
                    "Worst doubt about meter time against workload time, half-width.",
                    NO_PHASE,
                ),
                "ms",
                highest("alignment_ms"),
                size,
            )
            .decimals(2)
            .thresholds(steps((None, OK_COLOR), (5, WARNING_COLOR)))
        ),
        number(
            PanelText("Outcome", "How the run ended; or that it began, and goes on.", NO_PHASE),
            "string",
            rows(ended),
            size,
            field="title",
        ),
    ]


def _total_power_per_depth() -> NumberPanel:
    """One tile over each bar of the chart below it. A bar chart prints the part of each rail, and
    never their sum; nor can it print what U allows."""
    query = f'SELECT "qd", "bar_label", "bar_text" FROM "phase" WHERE {OF_CHART}'
    return (
        tiles(
            PanelText(
                "Total watts ± U",
                "Mean watts of all rails over the phase with the expanded uncertainty (k = 2, "
                "about 95 %). Red, ▼: the drive throttled. Orange, ?: that cannot be excluded. "
                "≥: a part of the readings is missing or over range; such a phase has no bar.",
                NO_PHASE,
            ),
            rows(query),
            Size(16, 3),
            field="bar_text",
        )
        .mappings(BARS)
        .transformations(BY_DEPTH)
    )


def _rail_power_per_depth() -> Panel:
    """Phases without a total keep their place and have no bar: the rails that are known would look
    like a smaller drive."""
    of_total = f'FROM "phase" WHERE {OF_CHART} AND "watts" > 0'
    panel = bars(
        PanelText(
            "Watts of each rail",
            "Mean watts of each rail over the phase, stacked: the height is the drive's power.",
            NO_PHASE,
        ),
        IN_WATTS,
        rows(f'SELECT "qd", "bar_label" FROM "phase" WHERE {OF_CHART}'),
        rows(f'SELECT "qd", "bar_label", /^watts_{RAILS}$/ {of_total}', "B"),
        size=Size(16, 9),
        stacked=True,
    )
    for rail, color in RAILS_IN_COLOUR:
        panel.override_by_regexp(rail, color)
    return panel.show_value(common_models.VisibilityMode.NEVER).transformations(
        [merged(), *BY_DEPTH, renamed_by("^watts_(.*)$", "$1")]
    )


def _per_workload() -> build.Row:
    def by_depth(text: PanelText, unit: str, columns: str, width: int) -> Panel:
        query = f'SELECT "qd", "bar_label", {columns} FROM "phase" WHERE {OF_CHART}'
        return bars(text, unit, rows(query), size=Size(width, 9))

    best = number(
        PanelText("Best IOPS per watt", "Of this workload.", NO_PHASE),
        "short",
        Query(f'SELECT max("iops_per_watt") FROM "phase" WHERE {OF_CHART}'),
        Size(8, 3),
    ).decimals(1)
    efficiency = by_depth(
        PanelText(
            "IOPS per watt",
            "I/O operations per second for each watt of total power.",
            NO_PHASE,
        ),
        "short",
        '"iops_per_watt"',
        8,
    ).decimals(1)
    latency = by_depth(
        PanelText(
            "Latency per queue depth",
            "Completion latency over the phase: mean, and 99th percentile of each direction.",
            NO_PHASE,
        ),
        "µs",
        '"latency_mean_us", "latency_read_p99_us", "latency_write_p99_us"',
        12,
    )
    return row(
        "$workload",
        _total_power_per_depth(),
        best,
        _rail_power_per_depth(),
        efficiency.override_by_name("IOPS/W", [in_color(BLUE)]).transformations(
            [*BY_DEPTH, renamed({"iops_per_watt": "IOPS/W"})]
        ),
        _iops_against_watts(),
        latency.override_by_name("mean", [in_color(GREY)])
        .override_by_name("p99 of reads", [in_color(BLUE)])
        .override_by_name("p99 of writes", [in_color(ORANGE)])
        .transformations(
            [
                *BY_DEPTH,
                renamed(
                    {
                        "latency_mean_us": "mean",
                        "latency_read_p99_us": "p99 of reads",
                        "latency_write_p99_us": "p99 of writes",
                    }
                ),
            ]
        ),
        _power_envelope_per_depth(),
        _laid_over("Watts of two runs", "Mean total watts of the phase.", IN_WATTS, "watts"),
        _laid_over(
            "IOPS per watt of two runs",
            "I/O operations per second for each watt of total power.",
            "short",
            "iops_per_watt",
        ),
    ).repeat("workload")


THIS, OTHER = "this run", "laid over it"


def _laid_over(title: str, description: str, unit: str, field: str) -> Panel:
    """The chosen run and the one that is laid over it, at each point that both have."""
    of_other = (
        f'FROM "phase" WHERE $timeFilter AND "part" =~ /^${{over:regex}}$/ AND {MEASURE} '
        f"AND {OF_WORKLOAD}"
    )
    panel = bars(
        PanelText(title, f"{description} The second run is chosen in Laid over it.", NO_PHASE),
        unit,
        rows(f'SELECT "qd", "label", "{field}" AS "{THIS}" FROM "phase" WHERE {OF_CHART}'),
        rows(f'SELECT "qd", "label", "{field}" AS "{OTHER}" {of_other}', "B"),
        size=Size(12, 9),
    )
    return (
        panel.override_by_name(THIS, [in_color(BLUE), prop("displayName", "${run}")])
        .override_by_name(OTHER, [in_color(ORANGE), prop("displayName", "${over}")])
        .override_by_field_type("string", only_point())
        .transformations([without("Time"), merged(), sorted_by("qd"), without("qd")])
    )


def _iops_against_watts() -> xychart.Panel:
    """Automatic mapping: the one that Grafana 9.4 and the rewritten panel of 11 read alike."""
    query = (
        'SELECT "iops", "watts", "watts" - "watts_u" AS "lower", "watts" + "watts_u" AS "upper", '
        f'"qd" FROM "phase" WHERE {OF_CHART}'
    )
    return (
        xychart.Panel()
        .title("IOPS against watts")
        .description(
            "Each point is a phase: what it did across, what it drew upwards, with the band of "
            "its uncertainty (k = 2)."
        )
        .no_value(NO_PHASE)
        .datasource(DATASOURCE)
        .height(9)
        .span(12)
        .unit(IN_WATTS)
        .with_target(rows(query))
        .transformations([*BY_DEPTH, renamed({"iops": "IOPS"})])
        .override_by_name("IOPS", [prop("unit", "iops"), prop("decimals", 0)])
        .override_by_name("watts", [in_color(BLUE)])
        .override_by_regexp(
            "/^(lower|upper)$/",
            [
                in_color(BLUE),
                prop("custom.lineStyle", {"fill": "dash", "dash": [6, 6]}),
                prop("custom.show", ScatterShow.LINES.value),
            ],
        )
        .show(ScatterShow.POINTS_AND_LINES)
        .series_mapping(SeriesMapping.AUTO)
        .dims(xychart.XYDimensionConfig().frame(0))
        .series([])
        .legend(legend())
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.SINGLE))
    )


ENVELOPE = {
    "max_watts_100us": ("100 µs", BROWN),
    "max_watts_100ms": ("100 ms", ORANGE),
    "max_watts_1s": ("1 s", BLUE),
    "max_watts_60s": ("60 s", GREEN),
    "watts": ("mean", GREY),
}
"""Lengths of windows that have a bar, and their colours."""


def _power_envelope_per_depth() -> Panel:
    columns = ", ".join(f'"{field}"' for field in ENVELOPE)
    panel = bars(
        PanelText(
            "Power envelope",
            "The largest mean of all rails over any window of the phase, by the length of the "
            "window, and the mean over all of it. Lengths that the meters are too slow for, or the "
            "phase too short, are missing.",
            NO_PHASE,
        ),
        IN_WATTS,
        rows(f'SELECT "qd", "bar_label", {columns} FROM "phase" WHERE {OF_CHART}'),
        size=Size(24, 9),
    )
    for name, colour in ENVELOPE.values():
        panel.override_by_name(name, [in_color(colour)])
    return panel.transformations(
        [*BY_DEPTH, renamed({field: name for field, (name, _) in ENVELOPE.items()})]
    )


def _of_each_meter(quantity: str) -> str:
    """The fields of a quantity of the host, one for each of its meters, without their U."""
    return f"/^host_{quantity}_(.*[^u]|.*[^_]u|u)$/"


def _host_power_per_depth() -> build.Row:
    """The drive's host beside the drive. Its watts are in no number of the drive."""

    def beside(text: PanelText, unit: str, quantity: str) -> Panel:
        columns = f'"label", "{quantity}" AS "drive", {_of_each_meter(quantity)}'
        query = rows(f'SELECT {columns} FROM "phase" WHERE {OF_CHART}')
        return (
            bars(text, unit, query, size=Size(8, 9))
            .override_by_name("drive", [in_color(BLUE)])
            .transformations([without("Time"), renamed_by(f"^host_{quantity}_(.*)$", "host, $1")])
        )

    share, work = (_of_each_meter(name) for name in ("drive_share", "bytes_per_joule"))
    shares = listing(
        PanelText(
            "Share of the drive",
            "The drive's watts in those of the host, where the drive is fed from what the meter "
            "measures; and bytes for each joule of the host.",
            NO_PHASE,
        ),
        rows(f'SELECT "label", {share}, {work} FROM "phase" WHERE {OF_CHART}'),
        size=Size(8, 9),
    )
    return row(
        "The drive's host",
        beside(
            PanelText(
                "Watts of drive and host",
                "Mean watts over the phase by each meter of the machine that the drive is in, and "
                "the drive's own. They are shown beside each other, and never added up.",
                NO_PHASE,
            ),
            IN_WATTS,
            "watts",
        ),
        beside(
            PanelText(
                "IOPS per watt of drive and host",
                "I/O operations per second for each watt of the host, and of the drive alone.",
                NO_PHASE,
            ),
            "short",
            "iops_per_watt",
        ),
        shares.override_by_regexp("/^share/", [prop("unit", "percentunit"), prop("decimals", 1)])
        .override_by_regexp("/^bytes/", [prop("unit", "short"), prop("decimals", 0)])
        .transformations(
            [
                without("Time"),
                renamed({"label": "phase"}),
                renamed_by("^host_drive_share_(.*)$", "share of $1"),
                renamed_by("^host_bytes_per_joule_(.*)$", "bytes/J of $1"),
            ]
        ),
    )


def dashboard() -> build.Dashboard:
    """The dashboard."""
    made = (
        page(
            UID,
            "Watts of each rail, IOPS per watt and latency at each queue depth of one run, with "
            "the uncertainty of every watt.",
            time_from="now-7d",
            refresh="1m",
        )
        .with_variable(datasource_variable())
        .with_variable(several("rig", "Rig", distinct("rig", "index", "phase")))
        .with_variable(one("run", "Run", distinct("run", "index", "phase", matches("rig")), True))
        # In a run of several drives their sum, which is in brackets, comes first.
        .with_variable(
            one("drive", "Drive", distinct("drive", "index", "phase", matches("rig", "run")))
        )
        .with_variable(
            several("workload", "Workload", workloads(RUN), all_value="").regex(WORKLOAD_REGEX)
        )
        .with_variable(one("over", "Laid over it", distinct("part", "index", "phase")))
        .with_variable(
            several(
                "rail", "Rail", distinct("rail", "watts", "power", matches("run")), all_value=""
            ).hide(model.VariableHide.HIDE_VARIABLE)
        )
    )
    for panel in (
        *_queue_depth_title_panels(),
        *_queue_depth_headline(),
        throttling_list(OF_ALL_DRIVES, Size(24, 5)),
    ):
        made.with_panel(panel)
    return (
        made.with_row(_per_workload()).with_row(_host_power_per_depth()).with_row(every_phase(RUN))
    )
