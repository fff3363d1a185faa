"""The pages on a narrow screen, as a browser lays them out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, shown_page
from tests.forked_labctl import labctl
from tests.unit.synthetic_run import IDLE, Bench, Load, build

NARROWEST_PX = 500
"""A browser without a screen makes no window narrower than this."""
LIMITS = 'name = "ours"\n[[limits]]\nname = "idle"\nover = "phase"\nat = "idle"\nmax_watts = 5\n'

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium to look at a page with"),
]


DRAWN = """
document.querySelector('figure[data-chart]') &&
[...document.querySelectorAll('figure[data-chart]')].every((one) => one.querySelector('svg.marks'))
"""


def test_the_evidence_of_a_verdict_is_as_wide_as_the_screen(tmp_path: Path) -> None:
    """The words at the line of the limit stood where they are on a wide screen."""
    run = build(tmp_path, Bench([IDLE, Load(0.6, 0.5, iops=1000)])).path
    (tmp_path / "limits.toml").write_text(LIMITS)
    page = tmp_path / "judge.html"
    labctl("judge", run, "--limits", tmp_path / "limits.toml", "--html", page)
    shown = shown_page(page.as_uri(), DRAWN, tmp_path / "browser", NARROWEST_PX, 3000)
    assert "limit 5 W" in shown
    widths = [int(px) for px in re.findall(r'<svg [^>]*class="marks" width="(\d+)"', shown)]
    assert widths and max(widths) <= NARROWEST_PX
