"""One HTML file that needs nothing else, on any machine, for ever.

Scripts, styles, chart data and pictures are inside. A content security policy, with the hashes of
the two scripts, forbids the page to load or run anything else: what comes from a rig, a plan or
a drive is text, and stays text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from labctl.analysis import numbers
from labctl.analysis.estimate import Estimate
from labctl.analysis.latency import latency_mean_us, latency_percentile_us
from labctl.analysis.run import drives
from labctl.printable import printable_lines
from labctl.record.drive_state import counter_words
from labctl.record.phase import Role
from labctl.report import slow_stretches
from labctl.report.charts.theme import Chart, dark_css
from labctl.report.pages.chart_library import chart_library
from labctl.report.pages.template_filters import budget_lines, in_series, signed

_FOLDER = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart with its picture, for readers without scripts."""

    chart: Chart
    svg: str

    @property
    def picture(self) -> str:
        """The picture as a data address; it turns dark with the screen."""
        svg = self.svg.replace("><", f"><style>{dark_css()}</style><", 1)
        return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()

    @property
    def spec_json(self) -> Markup:
        """The specification as JSON that cannot end the script element around it."""
        return _for_script(self.chart.spec)


def offline_page(template: str, values: Mapping[str, Any]) -> str:
    """Another page of the same kind: style and scripts inside, nothing to load."""
    return _page_environment().get_template(template).render(**values, **_style_and_scripts())


def _style_and_scripts() -> dict[str, Any]:
    """What every page contains: its style, its scripts, and the hashes that let them run."""
    library, script = _chart_library_script(), _template_text("page.js")
    return {
        "style": Markup(_template_text("page.css") + dark_css()),
        "library": Markup(library),
        "script": Markup(script),
        "script_sources": " ".join(_source_hash(one) for one in (library, script)),
    }


@cache
def _page_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "printable_lines": printable_lines,
        "duration": numbers.duration,
        "pm": numbers.with_uncertainty,
        "prefixed": numbers.prefixed,
        "prefixed_parts": numbers.prefixed_parts,
        "prefixed_pm": numbers.prefixed_with_uncertainty,
        "scaled": numbers.scaled,
        "significant": numbers.significant,
        "utc": numbers.utc,
        "latency_mean_us": latency_mean_us,
        "latency_percentile_us": latency_percentile_us,
        "budget": budget_lines,
        "in_series": in_series,
        "signed": signed,
    }
    environment.globals |= {
        "causes_in": slow_stretches.causes_in,
        "by_drive": drives.by_drive,
        "own_measured": drives.own_measured,
        "Role": Role,
        "counter_words": counter_words,
        "Estimate": Estimate,
    }
    environment.tests["measured"] = lambda result: result.phase.role is Role.MEASURE
    return environment


def _template_text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _chart_library_script() -> str:
    """The charts' library as a script that cannot end its own element."""
    return chart_library().replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _for_script(value: Any) -> Markup:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026"))


def _source_hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
