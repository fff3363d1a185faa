"""The report of a run: one HTML file that needs nothing else, on any machine, for ever.

Scripts, styles, chart data and pictures are inside. A content security policy, with the hashes of
the two scripts, forbids the page to load or run anything else: what comes from a rig, a plan or
a drive is text, and stays text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from labctl.analysis import numbers
from labctl.analysis.latency import latency_mean_us, latency_percentile_us
from labctl.analysis.readings.imported import imported_clocks, is_imported
from labctl.analysis.results import Component, Estimate, PhaseResult, RunSummary
from labctl.analysis.run import drives
from labctl.analysis.throttling.verdict import OPEN
from labctl.printable import printable, printable_lines
from labctl.record.drive_state import counter_words
from labctl.record.header import RailInfo
from labctl.record.own_words import own_words
from labctl.record.phase import Role
from labctl.record.reader import RunRecord
from labctl.report import key_figures, slow_stretches
from labctl.report.charts.theme import Chart, dark_css
from labctl.report.pages.chart_library import chart_library
from labctl.report.panels import panels

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


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """A line of an uncertainty budget as the page shows it. ``share`` of the rail's variance."""

    component: Component
    share: float


def report_page(record: RunRecord, summary: RunSummary, drawn: Sequence[Drawn]) -> str:
    """The whole report as HTML."""
    labels = {item.phase.index: item.phase.label for item in summary.phases}
    measured = summary.measured
    return (
        _environment()
        .get_template("page.html")
        .render(
            record=record,
            header=record.header,
            own=own_words(record.path),
            is_imported=is_imported(record),
            imported_clocks=imported_clocks(record),
            summary=summary,
            drawn=drawn,
            panels=panels(summary.points),
            rails=key_figures.rail_names(summary),
            sensors=key_figures.sensor_names(summary),
            host_meters=key_figures.host_meters(summary),
            hottest=_hottest(summary),
            best=key_figures.most_efficient_phase(measured),
            highest_power=key_figures.highest_power_phase(measured),
            worst_alignment_ms=key_figures.worst_alignment_ms(measured),
            throttled=[item for item in measured if item.throttled],
            judged=[item for item in summary.phases if item.throttling is not None],
            not_excluded=sum(
                item.throttling is not None and item.throttling.verdict == OPEN for item in measured
            ),
            problems=tuple(dict.fromkeys((*summary.problems, *record.problems))),
            labels=labels,
            watched=[item for item in summary.phases if item.cpu is not None],
            notes=_notes(summary, labels),
            points_ended=key_figures.points_ended(summary),
            stated_ms=_stated_alignment_ms(summary),
            unseen=_without_lag(record, summary),
            files=_files(record.path),
            **_style_and_scripts(),
        )
    )


def offline_page(template: str, values: Mapping[str, Any]) -> str:
    """Another page of the same kind: style and scripts inside, nothing to load."""
    return _environment().get_template(template).render(**values, **_style_and_scripts())


def _style_and_scripts() -> dict[str, Any]:
    """What every page contains: its style, its scripts, and the hashes that let them run."""
    library, script = _library(), _text("page.js")
    return {
        "style": Markup(_text("page.css") + dark_css()),
        "library": Markup(library),
        "script": Markup(script),
        "script_sources": " ".join(_source_hash(one) for one in (library, script)),
    }


@cache
def _environment() -> Environment:
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
        "budget": _budget,
        "in_series": in_series,
        "signed": _signed,
    }
    environment.globals |= {
        "causes_in": slow_stretches.causes_in,
        "by_drive": drives.by_drive,
        "Role": Role,
        "counter_words": counter_words,
        "Estimate": Estimate,
    }
    environment.tests["measured"] = lambda result: result.phase.role is Role.MEASURE
    return environment


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """The charts' library as a script that cannot end its own element."""
    return chart_library().replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _for_script(value: Any) -> Markup:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026"))


def _source_hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _signed(number: float, digits: int = 3) -> str:
    text = numbers.significant(number, digits)
    return text if number <= 0 else f"+{text}"


def in_series(rail: RailInfo) -> str:
    """The shunt or ammeter of a rail in words, as given in the rig."""
    if rail.shunt_ohm is None:
        if not rail.burden_ohm:
            return numbers.NOTHING
        return f"{rail.burden_ohm:g} Ω ± {rail.burden_tolerance_pct:g} %"
    parts = [f"{rail.shunt_ohm * 1e3:g} mΩ ± {rail.shunt_tolerance_pct:g} %"]
    if rail.shunt_u_ohm is not None:
        u = f"U = {rail.shunt_u_ohm * 1e3:.3g} mΩ (k = {rail.shunt_k:g})"
        parts = [f"{rail.shunt_ohm * 1e3:g} mΩ, {u}"]
    parts[0] += f" at {rail.shunt_reference_celsius:g} °C"
    if rail.shunt_ppm_per_kelvin:
        parts.append(f"{rail.shunt_ppm_per_kelvin:+g} ppm/K")
    if rail.shunt_ppm_per_kelvin_limit:
        parts.append(f"±{rail.shunt_ppm_per_kelvin_limit:g} ppm/K")
    if rail.shunt_kelvin_per_watt:
        parts.append(f"{rail.shunt_kelvin_per_watt:g} K/W")
    if rail.shunt_temperature is not None:
        parts.append(f"temperature from {rail.shunt_temperature}")
    elif rail.shunt_celsius is not None:
        parts.append("in {:g} to {:g} °C".format(*rail.shunt_celsius))
    return ", ".join(parts)


def _budget(components: Sequence[Component]) -> list[BudgetLine]:
    """The lines of a budget, the largest first, each with its share of the sum of squares."""
    whole = sum(item.watts**2 for item in components)
    lines = [BudgetLine(item, item.watts**2 / whole if whole else 0.0) for item in components]
    return sorted(lines, key=lambda line: -line.share)


def _notes(summary: RunSummary, labels: Mapping[int, str]) -> list[tuple[str, str]]:
    """Each note once, with the phases it is about in words."""
    words = []
    for note, indices in key_figures.shared_notes(summary).items():
        named = ", ".join(labels[index] for index in indices[:4])
        if len(indices) == len(summary.phases) > 1:
            named = "every phase"
        elif len(indices) > 4:
            named = f"{named} and {len(indices) - 4} more"
        words.append((note, named))
    return words


def _hottest(summary: RunSummary) -> tuple[float, PhaseResult] | None:
    known = [
        (celsius, item) for item in summary.phases if (celsius := item.celsius_max) is not None
    ]
    return max(known, key=lambda pair: pair[0], default=None)


def _stated_alignment_ms(summary: RunSummary) -> Mapping[str, float]:
    """The largest alignment doubt of each rail."""
    stated: dict[str, float] = {}
    for item in summary.phases:
        for name, rail in item.rails.items():
            stated[name] = max(stated.get(name, 0.0), rail.alignment_ms)
    return stated


def _without_lag(record: RunRecord, summary: RunSummary) -> list[str]:
    """Channels of rails in which no edge shows a lag."""
    channels = [name for rail in record.header.rails for name in (rail.current, rail.voltage)]
    seen = {lag.channel for lag in summary.edge_lags}
    return [name for name in dict.fromkeys(channels) if name not in seen]


def _files(path: Path) -> list[tuple[str, int]]:
    """Every file of the run with its size, without what the report itself makes."""
    derived = (
        "report.html", "summary.json", "phases.csv", "points.csv", "cpu.csv", "drives.csv",
        "charts", "review.html", "review", "phases.parquet", "run.parquet", "drives.parquet",
    )  # fmt: skip
    found = (file for file in path.rglob("*") if file.is_file())
    names = ((file.relative_to(path), file.stat().st_size) for file in found)
    return sorted(
        (printable(str(name)), size) for name, size in names if name.parts[0] not in derived
    )
