"""Grafana's transformations of a table between the query and the panel."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models.dashboard import DataTransformerConfig


def sorted_by(column: str, descending: bool = False) -> DataTransformerConfig:
    """Rows in the order of a column; rows that are equal in it keep their order."""
    return DataTransformerConfig(
        id_val="sortBy", options={"fields": {}, "sort": [{"field": column, "desc": descending}]}
    )


def merged() -> DataTransformerConfig:
    """The rows of several queries in one table; rows that are equal in all columns that every query
    has become one."""
    return DataTransformerConfig(id_val="merge", options={})


def without(*columns: str) -> DataTransformerConfig:
    """Everything but these columns.

    A bar chart that sees a time sorts by it, so ``Time`` must go where the order matters.
    """
    return DataTransformerConfig(
        id_val="filterFieldsByName", options={"exclude": {"names": list(columns)}}
    )


def ordered(*columns: str) -> DataTransformerConfig:
    """Columns in this order, and no others' place changed."""
    return DataTransformerConfig(
        id_val="organize",
        options={
            "excludeByName": {},
            "indexByName": {name: place for place, name in enumerate(columns)},
            "renameByName": {},
        },
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
