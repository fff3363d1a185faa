"""The pictures of a chart beside the page: SVG and PNG, on request PDF, drawn where it changed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import vl_convert

from labctl.record.atomic_write import write_atomically
from labctl.record.bounded_read import read_small
from labctl.report.charts.static_svg import png_of_svg, static_svg, vegalite_version
from labctl.report.charts.theme import Chart

_MOST_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Pictures:
    """The SVG of a chart, and the files that show it."""

    svg: str
    files: tuple[Path, ...]


def write_pictures(chart: Chart, folder: Path, *, pdf: bool = False) -> Pictures:
    """Draw the chart into ``folder``, under its name. Raises OSError.

    The last line of its SVG is a comment with the SHA-256 of what it was drawn from. Where that is
    the same, and every picture is there, they stay.
    """
    svg_file, png_file, pdf_file = (
        folder / f"{chart.name}.{ending}" for ending in ("svg", "png", "pdf")
    )
    files = (svg_file, png_file, pdf_file) if pdf else (svg_file, png_file)
    mark = f"\n<!-- {_picture_digest(chart)} -->\n"
    kept = _kept_picture(svg_file, mark)
    if kept is not None and all(file.is_file() for file in files):
        return Pictures(kept, files)
    svg = static_svg(chart.spec)
    write_atomically(png_file, png_of_svg(svg))
    if pdf:
        write_atomically(pdf_file, bytes(vl_convert.svg_to_pdf(svg)))
    write_atomically(svg_file, svg + mark)
    return Pictures(svg, files)


def _picture_digest(chart: Chart) -> str:
    spec = json.dumps(chart.spec, sort_keys=True, ensure_ascii=False)
    by = f"vl-convert {version('vl-convert-python')}, Vega-Lite {vegalite_version()}"
    return hashlib.sha256(f"{by}\n{spec}".encode()).hexdigest()


def _kept_picture(file: Path, mark: str) -> str | None:
    """The SVG of a file that ends with ``mark``; None where there is none such."""
    try:
        text = read_small(file, _MOST_BYTES)
    except (OSError, ValueError):
        return None
    return text.removesuffix(mark) if text.endswith(mark) else None
