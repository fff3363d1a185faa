"""Values and texts shown as other texts, or in a colour."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models.dashboard import (
    DashboardRegexMapOptions,
    DynamicConfigValue,
    RegexMap,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)


def value_mappings(shown: Mapping[str, tuple[str, str]]) -> list[ValueMapping]:
    """Each value with the text and the colour it is shown in."""
    options = {
        value: ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(shown.items())
    }
    return [ValueMap(options)]


def text_mappings(*patterns: tuple[str, str]) -> list[ValueMapping]:
    """Texts rewritten: (regular expression of the whole text, what is shown); the first counts."""
    return [
        RegexMap(
            DashboardRegexMapOptions(
                pattern=f"/{pattern}/", result=ValueMappingResult(text=text, index=index)
            )
        )
        for index, (pattern, text) in enumerate(patterns)
    ]


METERS = value_mappings({"0": ("silent", "red"), "1": ("reading", "green")})
"""The field ``meters_ok`` of a heartbeat as text."""


STEADY = value_mappings({"0": ("no", "orange"), "1": ("yes", "text")})
"""The field ``steady`` of a phase as text."""


def as_override(mappings: list[ValueMapping]) -> DynamicConfigValue:
    """The mappings for some fields only."""
    return DynamicConfigValue(id_val="mappings", value=mappings)


IN_COLOUR = (
    DynamicConfigValue(id_val="custom.displayMode", value="color-text"),
    DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
)
"""Overrides that show a table's cell in the colour of its mapping: Grafana up to 9.4 reads the
first, later ones the second."""


def colored_text(colors: Mapping[str, str]) -> list[DynamicConfigValue]:
    """Overrides that show a table's texts in colours."""
    mappings = value_mappings({text: (text, color) for text, color in colors.items()})
    return [as_override(mappings), *IN_COLOUR]
