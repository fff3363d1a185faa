"""The page of a trend: every series with its charts, one HTML file that loads nothing."""

from __future__ import annotations

from dataclasses import dataclass

from labctl.analysis.compare.gate import GateResult
from labctl.analysis.compare.series_table import WATCHED
from labctl.analysis.compare.trend_results import Trend, TrendSeries, TrendVerdict
from labctl.report.charts.static_svg import static_svg
from labctl.report.charts.trend import trend_charts
from labctl.report.pages.offline_page import Drawn, offline_page
from labctl.report.trend_words import (
    by_quantity,
    chance,
    change_heading,
    outlier_text,
    percent,
    points_of,
    reasons_of,
    span_of,
    title_of,
    trend_words_with_u,
)


@dataclass(frozen=True, slots=True)
class SeriesShown:
    """A series and its charts."""

    series: TrendSeries
    title: str
    span: str
    drawn: tuple[Drawn, ...]


def trend_page(found: Trend, gate: GateResult | None = None) -> str:
    """The trend as HTML: charts, what moved at every point, and the runs."""
    shown = [
        SeriesShown(
            series,
            title_of(series),
            span_of(series),
            tuple(
                Drawn(chart, static_svg(chart.spec))
                for chart in trend_charts(series, f"series-{number}")
            ),
        )
        for number, series in enumerate(found.series, start=1)
    ]
    return offline_page(
        "trend.html",
        {
            "shown_series": shown,
            "gate": gate,
            "verdicts": TrendVerdict,
            "quantities": WATCHED,
            "by_quantity": by_quantity,
            "chance": chance,
            "change_heading": change_heading,
            "outlier_text": outlier_text,
            "percent": percent,
            "points_of": points_of,
            "reasons_of": reasons_of,
            "trend_words_with_u": trend_words_with_u,
        },
    )
