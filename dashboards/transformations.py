"""Grafana's transformations of a table between the query and the panel."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models.dashboard import DataTransformerConfig


def sorted_by(column: str) -> DataTransformerConfig:
    """Rows in ascending order of a column; rows that are equal in it keep their order."""
    return DataTransformerConfig(
        id_val="sortBy", options={"fields": {}, "sort": [{"field": column, "desc": False}]}
    )


def without(*columns: str) -> DataTransformerConfig:
    """Everything but these columns.

    A bar chart that sees a time sorts by it, so ``Time`` must go where the order matters.
    """
    return DataTransformerConfig(
        id_val="filterFieldsByName", options={"exclude": {"names": list(columns)}}
    )


def renamed(names: Mapping[str, str]) -> DataTransformerConfig:
    """Columns under other names."""
    return DataTransformerConfig(
        id_val="organize",
        options={"excludeByName": {}, "indexByName": {}, "renameByName": dict(names)},
    )


def renamed_by(pattern: str, replacement: str) -> DataTransformerConfig:
    """Columns whose name matches a regular expression under another name."""
    return DataTransformerConfig(
        id_val="renameByRegex", options={"regex": pattern, "renamePattern": replacement}
    )


def pivoted(row: str, column: str, value: str) -> list[DataTransformerConfig]:
    """One row for each ``row``, one column for each ``column``, ``value`` in the cells.

    The value is copied by a calculation first: Grafana from 10 on gives a column that comes from
    the InfluxDB backend a fixed display name, which groupingToMatrix would put over every column.
    """
    copied = "cell"
    return [
        DataTransformerConfig(
            id_val="calculateField",
            options={
                "mode": "binary",
                "alias": copied,
                "binary": {"left": value, "operator": "*", "reducer": "sum", "right": "1"},
                "replaceFields": False,
            },
        ),
        DataTransformerConfig(
            id_val="groupingToMatrix",
            options={
                "columnField": column,
                "rowField": row,
                "valueField": copied,
                "emptyValue": "null",
            },
        ),
    ]
