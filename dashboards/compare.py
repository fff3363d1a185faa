"""Compare: several runs or drives side by side, at each queue depth of one workload."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders.barchart import Panel
from grafana_foundation_sdk.models.dashboard import VariableOption

from dashboards.influx import datasource_variable, distinct, matches, one, rows, several
from dashboards.page import page
from dashboards.panels import PanelText, Size, bars, listing, prop, row
from dashboards.transformations import pivoted, renamed, sorted_by, without
from dashboards.workload import OF_WORKLOAD, WORKLOAD_REGEX, measured, only_point, workloads

UID = "labctl-compare"
ALL_DRIVES = "^.*$"
"""The value of "All" in Drive. Alone it finds every drive; in :data:`NO_PART_BESIDE_ITS_SUM`
a text would have to begin in its middle, so that it finds no part of a run."""

NO_PART_BESIDE_ITS_SUM = r'"run_part" =~ /^(\S+|\S+ ${drive:regex})$/'
"""Runs, and of several drives in a run those that were chosen by name: with "All" their sum."""

CHOSEN = f"{measured('rig', 'drive', 'run')} AND {OF_WORKLOAD} AND {NO_PART_BESIDE_ITS_SUM}"
NO_PHASE = "No measured phase of this workload in the chosen runs"
BYTES_PER_GB = 1_000_000_000
SERIES = "series"


def _side_by_side(title: str, description: str, unit: str, value: str) -> Panel:
    """Bars per queue depth, one colour a run or drive.

    Only values above zero: Grafana's arithmetic would make a missing one 0.
    """
    query = (
        f'SELECT * FROM (SELECT "qd", "label", "${{by:raw}}" AS "{SERIES}", {value} AS "value" '
        f'FROM "phase" WHERE {CHOSEN}) WHERE "value" > 0'
    )
    return (
        bars(PanelText(title, description, NO_PHASE), unit, rows(query), Size(12, 10))
        .transformations([sorted_by("qd"), *pivoted("label", SERIES, "value")])
        .override_by_field_type("string", only_point())
    )


def _charts() -> build.Row:
    return row(
        "Per queue depth",
        _side_by_side(
            "Watts",
            "Mean total watts of the phase. The table below has the uncertainty of each.",
            "watt",
            '"watts"',
        ).decimals(3),
        _side_by_side(
            "IOPS per watt",
            "I/O operations per second for each watt of total power.",
            "none",
            '"iops_per_watt"',
        ).decimals(0),
        _side_by_side(
            "Energy per gigabyte",
            "Joules for each 10⁹ bytes moved.",
            "joule",
            f'{BYTES_PER_GB} / "bytes_per_joule"',
        ).decimals(2),
        _side_by_side("IOPS", "I/O operations per second.", "iops", '"iops"'),
    )


def _table() -> build.Row:
    names = {
        "run": "run",
        "drive": "drive",
        "label": "phase",
        "watts": "total W",
        "watts_u": "± W",
        "iops": "IOPS",
        "iops_per_watt": "IOPS/W",
        "j_per_gb": "J/GB",
        "latency_mean_us": "mean latency",
        "latency_p99_us": "p99 latency",
        "celsius_max": "hottest",
        "throttled_s": "throttled",
        "unthrottled_watts": "unthrottled W",
        "unthrottled_iops": "unthrottled IOPS",
    }
    energy = f'{BYTES_PER_GB} / "bytes_per_joule" AS "j_per_gb"'
    columns = ", ".join(energy if name == "j_per_gb" else f'"{name}"' for name in names)
    table = (
        listing(
            PanelText(
                "Numbers",
                "Every phase of the chosen runs, in order of queue depth. ± is the expanded "
                "uncertainty (k = 2).",
                NO_PHASE,
            ),
            rows(f'SELECT {columns}, "qd" FROM "phase" WHERE {CHOSEN}'),
            Size(24, 12),
        )
        .transformations([sorted_by("qd"), without("Time", "qd"), renamed(names)])
        .override_by_regexp(
            "/^(total W|± W|unthrottled W)$/", [prop("unit", "none"), prop("decimals", 4)]
        )
        .override_by_regexp("/^(unthrottled )?IOPS/", [prop("unit", "none"), prop("decimals", 0)])
        .override_by_name("drive", [prop("custom.width", 150)])
        .override_by_name("phase", [prop("custom.width", 160)])
        .override_by_name("J/GB", [prop("unit", "none"), prop("decimals", 3)])
        .override_by_regexp("/latency$/", [prop("unit", "µs")])
        .override_by_name("hottest", [prop("unit", "celsius"), prop("decimals", 1)])
        .override_by_name("throttled", [prop("unit", "s"), prop("decimals", 1)])
        .override_by_name(
            "run",
            [
                prop("custom.width", 260),
                prop(
                    "links",
                    [
                        {
                            "title": "Power per queue depth of this run",
                            "url": "/d/labctl-power-per-qd?var-run=${__value.raw}"
                            "&from=${__from}&to=${__to}",
                        }
                    ],
                ),
            ],
        )
    )
    return row("Numbers", table)


def dashboard() -> build.Dashboard:
    """The dashboard."""
    by = (
        build.CustomVariable("by")
        .label("Side by side")
        .values("run : run_part,drive")
        .options(
            [
                VariableOption(True, "run", "run_part"),
                VariableOption(False, "drive", "drive"),
            ]
        )
        .current(VariableOption(True, "run", "run_part"))
    )
    runs = distinct("run", "index", "phase", matches("rig", "drive"))
    return (
        page(
            UID,
            "Compare",
            "Several runs or drives side by side: watts, IOPS per watt and joules per gigabyte "
            "at each queue depth. Of several runs of one drive, the newest counts. Of several "
            "drives in a run their sum, in brackets, until you choose them by name in Drive.",
            time_from="now-7d",
        )
        .with_variable(datasource_variable())
        .with_variable(by)
        .with_variable(several("rig", "Rig", distinct("rig", "index", "phase")))
        .with_variable(
            several(
                "drive",
                "Drive",
                distinct("drive", "index", "phase", matches("rig")),
                all_value=ALL_DRIVES,
            )
        )
        .with_variable(several("run", "Run", runs, newest_first=True))
        .with_variable(
            one("workload", "Workload", workloads(matches("rig", "drive", "run"))).regex(
                WORKLOAD_REGEX
            )
        )
        .with_row(_charts())
        .with_row(_table())
    )
