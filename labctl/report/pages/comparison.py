"""The page of a comparison: drives side by side, one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from labctl.analysis.compare.comparison import Change, Comparison
from labctl.analysis.compare.gate import GateResult
from labctl.analysis.compare.points import QUANTITIES
from labctl.analysis.compare.repeats import Basis
from labctl.analysis.numbers import repeatable_text
from labctl.analysis.run_summary import RunSummary
from labctl.report.charts.comparison import comparison_charts, drive_names
from labctl.report.charts.static_svg import static_svg
from labctl.report.charts.theme import signed
from labctl.report.pages.offline_page import Drawn, offline_page
from labctl.report.review_charts.drives_together import drives_together
from labctl.report.review_charts.review_chart import Figure
from labctl.report.text.comparison import change_text, width_text


def comparison_page(
    found: Comparison,
    first: RunSummary,
    gate: GateResult | None = None,
    figures: Sequence[Sequence[Figure]] = (),
) -> str:
    """The comparison as HTML; ``first`` is the summary of run A. ``figures``: the review charts of
    each side, of which those of one method become one with all drives."""
    charts = comparison_charts(found, first)
    names = tuple(drive_names(found.runs).values())
    together = drives_together(dict(zip(names, figures, strict=False)))
    methods = [signed(chart, " against ".join(names)) for chart in together]
    return offline_page(
        "compare.html",
        {
            "found": found,
            "gate": gate,
            "drawn": [Drawn(chart, static_svg(chart.spec)) for chart in charts],
            "methods": [Drawn(chart, static_svg(chart.spec)) for chart in methods],
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
