"""The colours of rails, runs and states: those of the reports, for any colour vision.

A name always has its colour: it is fixed by an override, not by the place of a series.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#a05a2c")
"""Told apart with any colour vision (after Okabe and Ito, 2008)."""

BLUE, ORANGE, GREEN, PINK, SKY, BROWN = HUES
RED = "#c8102e"
"""Only what failed, throttled or is silent."""

GREY = "#59636e"

RAMP = (
    *("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c"),
    *("#28ae80", "#5ec962", "#addc30", "#fde725"),
)
"""Of what has an order, from low to high: matplotlib's viridis in nine steps."""

OK_COLOR, WARNING_COLOR, BAD_COLOR, QUIET_COLOR = GREEN, ORANGE, RED, GREY

RAIL_COLORS = {"12V": BLUE, "5V": GREEN, "3V3": ORANGE, "3V3AUX": PINK}
"""By the usual names of rails. Of one of several drives they end so (``left_12V``)."""


def by_threshold() -> build.FieldColor:
    """Colour a value by its threshold."""
    return build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS)


def in_grey() -> build.FieldColor:
    """What no override gives a colour of its own is grey."""
    return build.FieldColor().mode(model.FieldColorModeId.FIXED).fixed_color(GREY)
