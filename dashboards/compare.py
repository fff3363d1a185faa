"""Compare: several runs side by side, at each queue depth of one workload."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders.barchart import Panel
from grafana_foundation_sdk.builders.table import Panel as TablePanel
from grafana_foundation_sdk.models.dashboard import (
    DynamicConfigValue,
    VariableHide,
    VariableOption,
)

from dashboards.influx import Query, datasource_variable, distinct, matches, one, rows, several
from dashboards.mappings import THROTTLING_COLORS, coloured, in_colour, value_mappings
from dashboards.page import page, row_link
from dashboards.palette import HUES
from dashboards.panels import IN_WATTS, PanelText, Size, bars, in_color, listing, prop, row
from dashboards.transformations import merged, renamed, sorted_by, without
from dashboards.workload import (
    ENDED,
    MEASURE,
    OF_WORKLOAD,
    WORKLOAD_REGEX,
    label_column,
    only_point,
    workloads,
)

UID = "labctl-compare"
MOST = len(HUES)
"""Runs that are compared at once: as many as there are colours that anybody can tell apart."""

ALL_DRIVES = "^.*$"
"""The value of "All" in Drive. Alone it finds every drive; in :data:`NO_PART_BESIDE_ITS_SUM`
a text would have to begin in its middle, so that it finds no part of a run."""

NO_PART_BESIDE_ITS_SUM = r'"part" =~ /^(\S+|\S+ ${drive:regex})$/'
"""Runs, and of several drives in a run those that were chosen by name: with "All" their sum."""

OF_DRIVES = f"{matches('rig', 'drive')} AND {NO_PART_BESIDE_ITS_SUM}"

NEWEST = ".{0}"
"""The value of "All" in Run: an empty text, which leaves room in :data:`CHOSEN` for the newest
runs. Behind a run that was chosen by name there is none."""

CHOSEN = f'{OF_DRIVES} AND "run" =~ /^${{run:regex}}(${{newest:regex}})?$/'
FIRST_PHASE = f'"index" = 0 AND {ENDED}'
"""One phase of each run, however often it was resumed."""

NO_PHASE = "No measured phase of this workload in the chosen runs"
BYTES_PER_GB = 1_000_000_000
SLOTS = tuple(f"r{number}" for number in range(1, MOST + 1))
"""Variables, and columns: the first run, the second …, the earliest first."""

QUANTITIES = {
    "watts": "watts",
    "IOPS per watt": "iops_per_watt",
    "bytes per joule": "bytes_per_joule",
}
"""What has a repeatability, as a person and as the schema calls it."""


def _of_compared_run(slot: str) -> str:
    """The conditions for one of the chosen runs, which the slot names whole.

    By nothing else: InfluxDB tries a pattern on the names of all runs, 20 ms a query of a thousand.
    Where there is no such run the name is empty, which every point of an older labctl would be.
    """
    return f"\"part\" != '' AND {_points_of(slot)}"


def _points_of(slot: str) -> str:
    """The same in the measurement ``point``, which has a hundred times as many series, and none
    without a name."""
    return f'$timeFilter AND "part" =~ /^${{{slot}:regex}}$/'


def _in_its_colour(slot: str) -> list[DynamicConfigValue]:
    """Overrides of a run's column: its colour is its own in every chart, wherever others lack
    something."""
    color = HUES[SLOTS.index(slot)]
    return [in_color(color), prop("displayName", f"${{{slot}}}")]


def _compared_queries(*queries: str) -> list[Query]:
    return [rows(query, chr(ord("A") + place)) for place, query in enumerate(queries)]


def _compared_runs() -> TablePanel:
    queries = (
        f'SELECT "index" + {number} AS "no", "run", "drive", "rig" FROM "phase" '
        f"WHERE {_of_compared_run(slot)} AND {FIRST_PHASE} LIMIT 1"
        for number, slot in enumerate(SLOTS, start=1)
    )
    numbered = value_mappings(
        {str(number): (str(number), color) for number, color in enumerate(HUES, start=1)}
    )
    link = row_link("labctl-power-per-qd", "var-run=${__value.raw}&from=${__from}&to=${__to}")
    return (
        listing(
            PanelText(
                "Runs",
                "The runs that are compared, the earliest first, each in its colour.",
                "No run in the time range",
            ),
            *_compared_queries(*queries),
            size=Size(11, 8),
        )
        .transformations([merged(), renamed({"Time": "began"})])
        .override_by_name("began", [prop("unit", "dateTimeAsLocal"), prop("custom.width", 150)])
        .override_by_name("no", [*in_colour(numbered), prop("custom.width", 50)])
        .override_by_name("no", [prop("unit", "none"), prop("custom.minWidth", 50)])
        .override_by_name("run", [prop("links", [link])])
        .override_by_name("drive", [prop("custom.width", 150)])
        .override_by_name("rig", [prop("custom.width", 100)])
    )


def _differences() -> TablePanel:
    """InfluxQL computes them: for Grafana a value that is missing is zero, which is −100 %.

    In the measurement ``point`` the label is a tag, by which they are joined. A ratio's
    repeatability is that of both, in quadrature. That of the mean of rounds, from their scatter,
    would need Student's t, which InfluxQL has not.
    """
    value, again = '"${quantity:raw}"', '"${quantity:raw}_repeatability"'

    def against_first(slot: str) -> str:
        first = (
            f'SELECT {value} AS "a", {again} AS "ra", "qd" FROM "point" '
            f'WHERE {_points_of(SLOTS[0])} AND {OF_WORKLOAD} GROUP BY "label"'
        )
        other = (
            f'SELECT {value} AS "b", {again} AS "rb" FROM "point" '
            f'WHERE {_points_of(slot)} AND {OF_WORKLOAD} GROUP BY "label"'
        )
        both = (
            'SELECT mean("qd") AS "qd", mean("a") AS "a", mean("b") AS "b", '
            f'mean("ra") AS "ra", mean("rb") AS "rb" FROM ({first}), ({other}) GROUP BY "label"'
        )
        return (
            f'SELECT "qd", "label", ("b" / "a" - 1) * 100 AS "{slot}", '
            f'sqrt(pow("rb" / "b", 2) + pow("ra" / "a", 2)) * "b" / "a" * 100 AS "± {slot}" '
            f'FROM ({both}) WHERE "a" > 0 AND "b" > 0'
        )

    panel = listing(
        PanelText(
            "Difference against the first run, %",
            "Of the quantity that is chosen. ±: the repeatability of both within their runs (about "
            "95 %), in per cent; without ±, it is not known. Not in it: how runs of the same drive "
            "differ, and what other meters allow. So a larger difference is not yet one of drives; "
            "labctl compare judges by repeats. Of rounds: the mean of all, ± the mean of theirs.",
            "No second run with this workload",
        ),
        *_compared_queries(*(against_first(slot) for slot in SLOTS[1:])),
        size=Size(13, 8),
    ).override_by_regexp("/.*/", [prop("custom.minWidth", 80)])
    panel.override_by_name("label", label_column())
    for number, slot in enumerate(SLOTS[1:], start=2):
        panel.override_by_name(
            slot,
            [
                prop("displayName", f"run {number}"),
                prop("unit", "percent"),
                prop("decimals", 2),
                in_color(HUES[number - 1]),
                prop("custom.displayMode", "color-text"),
                prop("custom.cellOptions", {"type": "color-text"}),
            ],
        )
        panel.override_by_name(
            f"± {slot}",
            [prop("displayName", "±"), prop("unit", "percent"), prop("decimals", 2)],
        )
    return panel.transformations([without("Time"), merged(), sorted_by("qd"), without("qd")])


def _side_by_side(title: str, description: str, unit: str, value: str) -> Panel:
    """Bars per queue depth, one colour a run."""
    queries = (
        f'SELECT "qd", "label", {value} AS "{slot}" FROM "phase" '
        f"WHERE {_of_compared_run(slot)} AND {MEASURE} AND {OF_WORKLOAD}"
        for slot in SLOTS
    )
    panel = bars(
        PanelText(title, description, NO_PHASE),
        unit,
        *_compared_queries(*queries),
        size=Size(12, 9),
    )
    for slot in SLOTS:
        panel.override_by_name(slot, _in_its_colour(slot))
    return panel.override_by_field_type("string", only_point()).transformations(
        [without("Time"), merged(), sorted_by("qd"), without("qd")]
    )


def _charts_of_compared_runs() -> build.Row:
    return row(
        "Per queue depth: $workload",
        _side_by_side(
            "Watts",
            "Mean total watts of the phase. The table below has the uncertainty of each.",
            IN_WATTS,
            '"watts"',
        ),
        _side_by_side(
            "IOPS per watt",
            "I/O operations per second for each watt of total power.",
            "short",
            '"iops_per_watt"',
        ),
        _side_by_side(
            "Energy per gigabyte",
            "Joules for each 10⁹ bytes moved.",
            "suffix: J",
            f'{BYTES_PER_GB} / "bytes_per_joule"',
        ),
        _side_by_side("IOPS", "I/O operations per second.", "iops", '"iops"'),
    )


def _table_of_compared_runs() -> build.Row:
    names = {
        "run": "run",
        "drive": "drive",
        "label": "phase",
        "watts_text": "total W",
        "iops": "IOPS",
        "iops_per_watt": "IOPS/W",
        "j_per_gb": "J/GB",
        "latency_mean_us": "mean latency",
        "latency_p99_us": "p99 latency",
        "celsius_max": "hottest",
        "throttling": "throttling",
        "throttled_s": "throttled",
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
            rows(
                f'SELECT {columns}, "qd" FROM "phase" '
                f"WHERE $timeFilter AND {CHOSEN} AND {MEASURE} AND {OF_WORKLOAD}"
            ),
            size=Size(24, 12),
        )
        .transformations([sorted_by("qd"), without("Time", "qd"), renamed(names)])
        .override_by_regexp("/^IOPS/", [prop("unit", "none"), prop("decimals", 0)])
        .override_by_name("run", [prop("custom.width", 300)])
        .override_by_name("drive", [prop("custom.width", 150)])
        .override_by_name("phase", [prop("custom.width", 160)])
        .override_by_name("total W", [prop("custom.width", 140)])
        .override_by_name("J/GB", [prop("unit", "none"), prop("decimals", 3)])
        .override_by_regexp("/latency$/", [prop("unit", "µs")])
        .override_by_name("hottest", [prop("unit", "celsius"), prop("decimals", 1)])
        .override_by_name("throttling", [*coloured(THROTTLING_COLORS), prop("custom.width", 150)])
        .override_by_name("throttled", [prop("unit", "s"), prop("decimals", 1)])
    )
    return row("Numbers", table)


def _from_first_phases(tag: str, where: str, which: str) -> str:
    """The values of a tag in the first phases of runs; ``which`` of them, and in which order."""
    return (
        f'SELECT distinct("{tag}") FROM (SELECT "index", "{tag}" FROM "phase" '
        f"WHERE $timeFilter AND {where} AND {FIRST_PHASE} {which})"
    )


def _compared_run_variable(number: int, name: str) -> build.QueryVariable:
    """A hidden variable: the so-manieth of the chosen runs, which is a choice of one."""
    runs = _from_first_phases("part", CHOSEN, f"LIMIT 1 OFFSET {number}")
    return one(name, name, runs).hide(VariableHide.HIDE_VARIABLE)


def dashboard() -> build.Dashboard:
    """The dashboard."""
    first, *others = QUANTITIES.items()
    quantity = (
        build.CustomVariable("quantity")
        .label("Difference of")
        .values(", ".join(f"{label} : {name}" for label, name in QUANTITIES.items()))
        .options(
            [VariableOption(True, *first), *(VariableOption(False, *other) for other in others)]
        )
        .current(VariableOption(True, *first))
    )
    newest = _from_first_phases("run", OF_DRIVES, f"ORDER BY time DESC LIMIT {MOST}")
    newest += " ORDER BY time DESC"
    made = (
        page(
            UID,
            f"Up to {MOST} runs side by side: watts, IOPS per watt and joules per gigabyte at each "
            f"queue depth. The newest {MOST} until some are chosen. Of several drives in a run "
            "their sum, in brackets, until you choose them by name in Drive.",
            time_from="now-7d",
            refresh="",
        )
        .with_variable(datasource_variable())
        .with_variable(several("rig", "Rig", distinct("rig", "index", "phase")))
        .with_variable(
            several(
                "drive",
                "Drive",
                distinct("drive", "index", "phase", matches("rig")),
                all_value=ALL_DRIVES,
            )
        )
        .with_variable(
            several("newest", "Newest", newest, all_value="").hide(VariableHide.HIDE_VARIABLE)
        )
        .with_variable(
            several(
                "run",
                f"Run (All: the newest {MOST})",
                distinct("run", "index", "phase", matches("rig", "drive")),
                newest_first=True,
                all_value=NEWEST,
            )
        )
        .with_variable(one("workload", "Workload", workloads(CHOSEN)).regex(WORKLOAD_REGEX))
        .with_variable(quantity)
    )
    for number, name in enumerate(SLOTS):
        made.with_variable(_compared_run_variable(number, name))
    return (
        made.with_panel(_compared_runs())
        .with_panel(_differences())
        .with_row(_charts_of_compared_runs())
        .with_row(_table_of_compared_runs())
    )
