"""The pages on a narrow screen, as a browser lays them out."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forked_labctl import labctl
from tests.unit.synthetic_run import IDLE, Bench, Load, build

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NARROWEST_PX = 500
"""A browser without a screen makes no window narrower than this."""
LIMITS = 'name = "ours"\n[[limits]]\nname = "idle"\nover = "phase"\nat = "idle"\nmax_watts = 5\n'

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium to look at a page with"),
]


def laid_out(page: Path, folder: Path) -> str:
    """The page's elements once its charts are drawn, in a narrow window."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu",
        f"--window-size={NARROWEST_PX},3000", "--virtual-time-budget=60000",
        "--run-all-compositor-stages-before-draw",
        f"--user-data-dir={folder}", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=True)
    assert "<svg" in done.stdout
    return done.stdout


def test_the_evidence_of_a_verdict_is_as_wide_as_the_screen(tmp_path: Path) -> None:
    """The words at the line of the limit stood where they are on a wide screen."""
    run = build(tmp_path, Bench([IDLE, Load(0.6, 0.5, iops=1000)])).path
    (tmp_path / "limits.toml").write_text(LIMITS)
    page = tmp_path / "judge.html"
    labctl("judge", run, "--limits", tmp_path / "limits.toml", "--html", page)
    shown = laid_out(page, tmp_path / "browser")
    assert "limit 5 W" in shown
    widths = [int(px) for px in re.findall(r'<svg [^>]*class="marks" width="(\d+)"', shown)]
    assert widths and max(widths) <= NARROWEST_PX
