"""Measured phases by workload: all points of a sweep that differ in queue depth or read share.

A phase's ``label`` has both: ``randread 4k QD8``, ``randrw 4k QD3 80% read``.
"""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue, ValueMapping

from dashboards.influx import matches
from dashboards.mappings import as_override, text_mappings

ENDED = "\"outcome\" != ''"
"""A phase that is running has no outcome yet. Nor has one during which a run was cut off: it was
done again when the run was resumed."""

MEASURE = f"\"role\" = 'measure' AND {ENDED}"
"""Only these phases are results: neither preparation nor idling."""

ALL_TOGETHER = '"part" !~ / /'
"""Of several drives in a run all together. Its verdict is the worst of theirs, with the name of the
drive in its words; beside it those of each would say the same twice."""

OF_WORKLOAD = '"label" =~ /^${workload:regex} QD/'
"""The phases of the chosen workloads."""

WORKLOAD_REGEX = "/^(.+?) QD\\d+/"
"""The part of a label that names the workload (the regex of a template variable)."""


def workloads(where: str) -> str:
    """The labels of the measured phases within the time range, for a template variable."""
    return f'SELECT distinct("label") FROM "phase" WHERE $timeFilter AND {where} AND {MEASURE}'


def only_point() -> list[DynamicConfigValue]:
    """Overrides that shorten a label to what differs within a workload: ``QD8``."""
    return [as_override(text_mappings((r"^.*?(QD\d+.*)$", "$1")))]


def only_queue_depth() -> list[ValueMapping]:
    """Mappings that shorten a label to its queue depth; a dash where there is none."""
    return text_mappings((r"^.*QD(\d+).*$", "$1"), ("^.*$", "–"))


def measured(*chosen: str) -> str:
    """Conditions for the measured phases of what is chosen in these variables."""
    return f"$timeFilter AND {matches(*chosen)} AND {MEASURE}"


def label_column() -> list[DynamicConfigValue]:
    """Overrides of a table's column of labels: only what differs within a workload."""
    return [*only_point(), DynamicConfigValue(id_val="displayName", value="point")]
