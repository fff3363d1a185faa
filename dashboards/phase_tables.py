"""The phases of one run as two tables, with all numbers of ``summary.json``."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table

from dashboards.influx import rows
from dashboards.mappings import STEADY, THROTTLING_COLORS, as_override, coloured
from dashboards.panels import PanelText, Size, listing, prop, row
from dashboards.transformations import renamed, renamed_by, without
from dashboards.workload import ENDED

RAILS = "(${rail:regex})"
NO_PHASE = "No measured phase of this run in the time range"

RESULTS = {
    "label": "phase",
    "watts_text": "total W",
    "iops": "IOPS",
    "bytes_per_s": "throughput",
    "iops_per_watt": "IOPS/W",
    "latency_mean_us": "mean latency",
    "latency_p99_us": "p99 latency",
    "throttling": "throttling",
    "throttled_s": "throttled",
    "celsius_max": "hottest",
    "steady": "steady",
    "duration_s": "duration",
}
"""Columns of the first table, by field, in their order."""

MORE = {
    "label": "phase",
    "bytes_per_joule": "bytes/J",
    "joules": "energy",
    "joules_per_io": "energy/IO",
    "unthrottled_watts": "unthrottled W",
    "unthrottled_iops": "unthrottled IOPS",
    "latency_read_p99_us": "p99 read latency",
    "latency_write_p99_us": "p99 write latency",
    "alignment_ms": "alignment",
}
"""Columns of the second table; behind them come the rails'."""


def _phase_table(
    title: str, description: str, columns: Mapping[str, str], run: str, more: str = ""
) -> table.Panel:
    fields = ", ".join(f'"{field}"' for field in columns)
    return (
        listing(
            PanelText(title, description, NO_PHASE),
            rows(f'SELECT {fields}{more} FROM "phase" WHERE $timeFilter AND {run} AND {ENDED}'),
            size=Size(24, 12),
        )
        .override_by_name("phase", [prop("custom.width", 210)])
        .override_by_regexp("/^(unthrottled )?IOPS/", [prop("unit", "none"), prop("decimals", 0)])
        .override_by_regexp("/latency$/", [prop("unit", "µs")])
    )


def every_phase(run: str) -> build.Row:
    """Both tables of the phases of a run; ``run``: the condition that chooses it."""
    results = (
        _phase_table(
            "Every phase",
            "The numbers of summary.json, ± the expanded uncertainty (k = 2) of the watts.",
            RESULTS,
            run,
        )
        .transformations([without("Time"), renamed(RESULTS)])
        .override_by_name("total W", [prop("custom.width", 150)])
        .override_by_name("throughput", [prop("unit", "Bps")])
        .override_by_name("hottest", [prop("unit", "celsius"), prop("decimals", 1)])
        .override_by_regexp("/^(throttled|duration)$/", [prop("unit", "s"), prop("decimals", 1)])
        .override_by_name("throttling", [*coloured(THROTTLING_COLORS), prop("custom.width", 150)])
        .override_by_name("steady", [as_override(STEADY)])
    )
    more = (
        _phase_table(
            "More of every phase",
            "Energy, what the drive did where it surely was not throttled, and the watts of each "
            "rail with their expanded uncertainty (k = 2).",
            MORE,
            run,
            f", /^watts_{RAILS}(_u)?$/",
        )
        .transformations(
            [
                without("Time"),
                renamed(MORE),
                renamed_by("^watts_(.*)_u$", "± W $1"),
                renamed_by("^watts_(.*)$", "W $1"),
            ]
        )
        .override_by_regexp(
            "/^(unthrottled W|(± )?W .*)$/", [prop("unit", "none"), prop("decimals", 4)]
        )
        .override_by_name("bytes/J", [prop("unit", "decbytes")])
        .override_by_regexp("/^energy/", [prop("unit", "joule")])
        .override_by_name("alignment", [prop("unit", "ms"), prop("decimals", 2)])
    )
    return row("Every phase", results, more)
