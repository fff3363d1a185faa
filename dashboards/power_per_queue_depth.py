"""Power per queue depth: watts, IOPS and latency of each phase of one run, as charts."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common, xychart
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders.barchart import Panel
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models.dashboard import VariableHide
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
from dashboards.mappings import STEADY, as_override, colored_text
from dashboards.page import page
from dashboards.panels import (
    BAD_COLOR,
    OK_COLOR,
    WARNING_COLOR,
    PanelText,
    Size,
    bars,
    legend,
    listing,
    number,
    prop,
    row,
    steps,
)
from dashboards.transformations import renamed, renamed_by, sorted_by, without
from dashboards.workload import OF_WORKLOAD, WORKLOAD_REGEX, measured, only_point, workloads

UID = "labctl-power-per-qd"
RUN = matches("rig", "drive", "run")
MEASURED = measured("rig", "drive", "run")
RAILS = "(${rail:regex})"
NO_PHASE = "No measured phase of this run in the time range"
SLANTED = -30
"""Degrees: whole labels of neighbours do not run into each other."""

BY_DEPTH = [sorted_by("qd"), without("Time", "qd")]
"""Numerically: tags would sort as text (1, 16, 32, 4)."""


def _headline() -> build.Row:
    def highest(field: str) -> Query:
        return Query(f'SELECT max("{field}") FROM "phase" WHERE {MEASURED}')

    idle = (
        'SELECT "watts" FROM "phase" '
        f"WHERE $timeFilter AND {RUN} AND \"role\" = 'idle_before' ORDER BY time DESC LIMIT 1"
    )
    throttled = f'SELECT sum("throttled_s") FROM "phase" WHERE $timeFilter AND {RUN}'
    size = Size(4, 4)
    return row(
        "Run",
        number(
            PanelText("Idle", "Mean watts of the idle phase before the work.", "No idle phase"),
            "watt",
            Query(idle),
            size,
        ).decimals(3),
        number(
            PanelText("Highest mean power", "Mean watts of the hungriest phase.", NO_PHASE),
            "watt",
            highest("watts"),
            size,
        ).decimals(3),
        (
            number(
                PanelText("Best efficiency", "Most IOPS per watt of any phase.", NO_PHASE),
                "none",
                highest("iops_per_watt"),
                size,
            )
            .unit("suffix: IOPS/W")
            .decimals(0)
        ),
        number(
            PanelText("Hottest", "Highest temperature of any sensor in a phase.", "No temperature"),
            "celsius",
            highest("celsius_max"),
            size,
        ).decimals(1),
        (
            number(
                PanelText(
                    "Throttled", "Seconds for which the drive throttled, all phases.", NO_PHASE
                ),
                "s",
                Query(throttled),
                size,
            )
            .decimals(1)
            .thresholds(steps((None, OK_COLOR), (0.001, BAD_COLOR)))
        ),
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
    )


def _per_workload() -> build.Row:
    def by_depth(
        text: PanelText, unit: str, columns: str, width: int, stacked: bool = False
    ) -> Panel:
        query = f'SELECT "qd", "label", {columns} FROM "phase" WHERE {MEASURED} AND {OF_WORKLOAD}'
        panel = bars(text, unit, rows(query), Size(width, 9), stacked)
        return panel.override_by_field_type("string", only_point())

    watts = by_depth(
        PanelText(
            "Watts per queue depth",
            "Mean watts of each rail over the phase, stacked: the height is the drive's power.",
            NO_PHASE,
        ),
        "watt",
        f"/^watts_{RAILS}$/",
        14,
        stacked=True,
    ).decimals(3)
    uncertainty = by_depth(
        PanelText(
            "Uncertainty per queue depth",
            "Expanded uncertainty (k = 2, about 95 %) of the mean watts, in watts: of each rail "
            "and of the total. Rails that share an error add up linearly.",
            NO_PHASE,
        ),
        "watt",
        f'/^watts_{RAILS}_u$/, "watts_u"',
        10,
    )
    efficiency = by_depth(
        PanelText(
            "IOPS per watt",
            "I/O operations per second for each watt of total power.",
            NO_PHASE,
        ),
        "none",
        '"iops_per_watt"',
        8,
    ).decimals(0)
    latency = by_depth(
        PanelText(
            "Latency per queue depth",
            "Completion latency over the phase: mean and 99th percentile.",
            NO_PHASE,
        ),
        "µs",
        '"latency_mean_us", "latency_p99_us"',
        8,
    )
    return row(
        "$workload",
        watts.transformations([*BY_DEPTH, renamed_by("^watts_(.*)$", "$1")]),
        uncertainty.transformations(
            [*BY_DEPTH, renamed_by("^watts_u$", "total"), renamed_by("^watts_(.*)_u$", "$1")]
        ),
        efficiency.transformations([*BY_DEPTH, renamed({"iops_per_watt": "IOPS/W"})]),
        _iops_against_watts(),
        latency.transformations(
            [*BY_DEPTH, renamed({"latency_mean_us": "mean", "latency_p99_us": "p99"})]
        ),
    ).repeat("workload")


def _iops_against_watts() -> xychart.Panel:
    """Automatic mapping: the one that Grafana 9.4 and the rewritten panel of 11 read alike."""
    query = (
        'SELECT "iops", "watts", "watts" - "watts_u" AS "lower", "watts" + "watts_u" AS "upper", '
        f'"qd" FROM "phase" WHERE {MEASURED} AND {OF_WORKLOAD}'
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
        .span(8)
        .unit("watt")
        .with_target(rows(query))
        .transformations([*BY_DEPTH, renamed({"iops": "IOPS"})])
        .override_by_name("IOPS", [prop("unit", "iops"), prop("decimals", 0)])
        .override_by_regexp(
            "/^(lower|upper)$/",
            [
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


COLUMNS = {
    "label": "phase",
    "watts": "total W",
    "watts_u": "± W",
    "iops": "IOPS",
    "bytes_per_s": "throughput",
    "iops_per_watt": "IOPS/W",
    "throttling": "throttling",
    "throttled_s": "throttled",
    "celsius_max": "hottest",
    "latency_mean_us": "mean latency",
    "latency_p99_us": "p99 latency",
    "bytes_per_joule": "bytes/J",
    "joules": "energy",
    "joules_per_io": "energy/IO",
    "unthrottled_watts": "unthrottled W",
    "unthrottled_iops": "unthrottled IOPS",
    "alignment_ms": "alignment",
    "duration_s": "duration",
}
"""Columns of the table, by field, in their order."""


def _every_phase() -> build.Row:
    throttled = bars(
        PanelText(
            "Throttled time per phase",
            "Seconds of each phase for which the drive did less than before, because of heat or "
            "a power limit. The end of a write cache and garbage collection do not count.",
            "No throttling recorded for this run",
        ),
        "s",
        rows(f'SELECT "label", "throttled_s" FROM "phase" WHERE {MEASURED}'),
        Size(12, 10),
    ).x_tick_label_rotation(SLANTED)
    throttled.transformations([without("Time"), renamed({"throttled_s": "throttled"})])
    heat = bars(
        PanelText(
            "Temperature per phase",
            "Highest temperature of any sensor in the phase.",
            "No temperature was measured in this run",
        ),
        "celsius",
        rows(f'SELECT "label", "celsius_max" FROM "phase" WHERE {MEASURED}'),
        Size(12, 10),
    ).x_tick_label_rotation(SLANTED)
    heat.transformations([without("Time"), renamed({"celsius_max": "highest"})])
    fields = ", ".join(
        f'"{field}"' if field != "watts_u" else f'"watts_u", /^watts_{RAILS}(_u)?$/'
        for field in COLUMNS
    )
    table = (
        listing(
            PanelText(
                "Every phase",
                "The numbers of summary.json. Each watt with its expanded uncertainty (k = 2).",
                NO_PHASE,
            ),
            rows(f'SELECT {fields}, "steady" FROM "phase" WHERE $timeFilter AND {RUN}'),
            Size(24, 14),
        )
        .transformations(
            [
                without("Time"),
                renamed(COLUMNS),
                renamed_by("^watts_(.*)_u$", "± W $1"),
                renamed_by("^watts_(.*)$", "W $1"),
            ]
        )
        .override_by_name("phase", [prop("custom.width", 170)])
        .override_by_regexp(
            "/^(total W|unthrottled W|W .*)$/", [prop("unit", "none"), prop("decimals", 4)]
        )
        .override_by_regexp("/^± W/", [prop("unit", "none"), prop("decimals", 4)])
        .override_by_regexp("/^(unthrottled )?IOPS/", [prop("unit", "none"), prop("decimals", 0)])
        .override_by_name("throughput", [prop("unit", "Bps")])
        .override_by_name("bytes/J", [prop("unit", "decbytes")])
        .override_by_regexp("/^energy/", [prop("unit", "joule")])
        .override_by_regexp("/latency$/", [prop("unit", "µs")])
        .override_by_name("hottest", [prop("unit", "celsius"), prop("decimals", 1)])
        .override_by_regexp("/^(throttled|duration)$/", [prop("unit", "s"), prop("decimals", 1)])
        .override_by_name("throttling", colored_text({"throttled": BAD_COLOR}))
        .override_by_name("alignment", [prop("unit", "ms"), prop("decimals", 2)])
        .override_by_name("steady", [as_override(STEADY)])
    )
    return row("Every phase", throttled, heat, table)


def dashboard() -> build.Dashboard:
    """The dashboard."""
    return (
        page(
            UID,
            "Power per queue depth",
            "Watts of each rail, IOPS per watt and latency at each queue depth of one run, with "
            "the uncertainty of every watt.",
            time_from="now-7d",
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
        .with_variable(
            several(
                "rail", "Rail", distinct("rail", "watts", "power", matches("run")), all_value=""
            ).hide(VariableHide.HIDE_VARIABLE)
        )
        .with_row(_headline())
        .with_row(_per_workload())
        .with_row(_every_phase())
    )
