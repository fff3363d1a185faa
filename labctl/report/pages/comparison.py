"""The page of a comparison: drives side by side, one HTML file that loads nothing."""

from __future__ import annotations

from labctl.analysis.compare.comparison import Change, Comparison
from labctl.analysis.compare.gate import GateResult
from labctl.analysis.compare.points import QUANTITIES
from labctl.analysis.compare.repeats import Basis
from labctl.analysis.results import RunSummary
from labctl.report.charts.comparison import comparison_charts
from labctl.report.charts.theme import static_svg
from labctl.report.numbers import repeatable_text
from labctl.report.pages.report import Drawn, offline_page
from labctl.report.text.comparison import change_text, width_text


def comparison_page(found: Comparison, first: RunSummary, gate: GateResult | None = None) -> str:
    """The comparison as HTML; ``first`` is the summary of run A."""
    charts = comparison_charts(found, first)
    return offline_page(
        "compare.html",
        {
            "found": found,
            "gate": gate,
            "drawn": [Drawn(chart, static_svg(chart.spec)) for chart in charts],
            "tables": [
                (quantity, found.quantity(quantity.name))
                for quantity in QUANTITIES
                if found.quantity(quantity.name)
            ],
            "change_text": change_text,
            "width_text": width_text,
            "repeatable_text": repeatable_text,
            "changes": Change,
            "single": found.basis is Basis.SINGLE,
        },
    )
