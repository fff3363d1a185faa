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

from dashboards.palette import BAD_COLOR, OK_COLOR, PINK, QUIET_COLOR, RAMP, WARNING_COLOR

NO_COLOR = "transparent"
"""Of a cell that is not to be noticed."""


def value_mappings(shown: Mapping[str, tuple[str, str]]) -> list[ValueMapping]:
    """Each value with the text and the colour it is shown in."""
    options = {
        value: ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(shown.items())
    }
    return [ValueMap(options)]


def text_mappings(*patterns: tuple[str, str] | tuple[str, str, str]) -> list[ValueMapping]:
    """Texts rewritten: (regular expression of the whole text, what is shown, its colour if it has
    one); the first that matches counts."""
    return [
        RegexMap(
            DashboardRegexMapOptions(
                pattern=f"/{pattern}/",
                result=ValueMappingResult(text=text, color=next(iter(color), None), index=index),
            )
        )
        for index, (pattern, text, *color) in enumerate(patterns)
    ]


METERS = value_mappings({"0": ("silent", BAD_COLOR), "1": ("reading", OK_COLOR)})
"""The field ``meters_ok`` of a heartbeat as text."""

STEADY = value_mappings({"0": ("no", WARNING_COLOR), "1": ("yes", NO_COLOR)})
"""The field ``steady`` of a phase as text."""


def as_override(mappings: list[ValueMapping]) -> DynamicConfigValue:
    """The mappings for some fields only."""
    return DynamicConfigValue(id_val="mappings", value=mappings)


IN_COLOUR = (
    DynamicConfigValue(id_val="custom.displayMode", value="color-background-solid"),
    DynamicConfigValue(
        id_val="custom.cellOptions", value={"type": "color-background", "mode": "basic"}
    ),
)
"""Overrides that fill a table's cell with the colour of its mapping: Grafana up to 9.4 reads the
first, later ones the second. Filled, because coloured letters are faint on the one screen or the
other, dark or light."""


def in_colour(mappings: list[ValueMapping]) -> list[DynamicConfigValue]:
    """Overrides that fill the cells of a table with the colours of these mappings."""
    return [as_override(mappings), *IN_COLOUR]


def coloured(colors: Mapping[str, str]) -> list[DynamicConfigValue]:
    """Overrides that fill the cells of a table with the colours of their texts."""
    return in_colour(value_mappings({text: (text, color) for text, color in colors.items()}))


THROTTLING_COLORS = {
    "throttled": BAD_COLOR,
    "cannot be excluded": WARNING_COLOR,
    "none seen": NO_COLOR,
}
"""The verdicts on a phase. Only what was seen or may be has a colour: no doubt looks good."""

CAUSES = text_mappings(
    ("^throttled: (.*)$", "$1", BAD_COLOR), ("^cannot be excluded$", "doubtful", WARNING_COLOR)
)
"""The titles of throttle events, and the verdict that stands among them."""

_DEPTHS = {1 << step: color for step, color in enumerate(RAMP)}

PHASES = text_mappings(
    *((rf"^phase .*(QD{depth})(?!\d).*$", "$1", color) for depth, color in _DEPTHS.items()),
    ("^phase .*(QD\\d+).*$", "$1", PINK),
    ("^phase \\d+/\\d+ (.*)$", "$1", QUIET_COLOR),
    ("^(run .*)$", "$1", QUIET_COLOR),
)
"""The titles of phases on a narrow bar: the queue depth, in a colour of its own if it is one of
1, 2, 4 … 256."""

BARS = text_mappings(
    ("^(▼ .*)$", "$1", BAD_COLOR),
    ("^(\\? .*)$", "$1", WARNING_COLOR),
    ("^(.*)$", "$1", QUIET_COLOR),
)
"""What stands over a bar (field ``bar_text``): throttled, doubtful, neither. Grey, because the
colours of rails are below it."""
