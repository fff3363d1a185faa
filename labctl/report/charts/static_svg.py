"""A chart as SVG or PNG, drawn here: no browser, no network."""

from __future__ import annotations

from functools import cache

import altair as alt
import vl_convert

from labctl.report.charts.theme import Spec

PNG_SCALE = 2.0
"""Pixels of a picture per pixel of the chart."""


@cache
def vegalite_version() -> str:
    """The Vega-Lite that draws: that of altair, or the newest that vl-convert has."""
    known: list[str] = vl_convert.get_vegalite_versions()
    wanted = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return wanted if wanted in known else known[-1]


def static_svg(spec: Spec) -> str:
    """The chart as SVG, drawn here: no browser, no network.

    Without what a mouse selects: that is clipped by an area which Vega numbers anew each time.
    """
    still = {key: value for key, value in spec.items() if key != "params"}
    return str(vl_convert.vegalite_to_svg(still, vl_version=vegalite_version()))


def png_of_svg(svg: str) -> bytes:
    """An SVG as PNG, sharp enough for print."""
    return bytes(vl_convert.svg_to_png(svg, scale=PNG_SCALE))
