"""``make bench``: every figure beside its target, one module after another.

``--page`` writes the table of docs/figures.md anew from what was measured; names (``demo record``)
choose modules.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.figures import FIGURES_VARIABLE, HEADING, Figure, show

PAGE = Path(__file__).parents[2] / "docs" / "figures.md"
BEGIN, END = "<!-- figures: made by make bench -->", "<!-- end of figures -->"


def main() -> int:
    names = [name for name in sys.argv[1:] if name != "--page"]
    begun = f"load {os.getloadavg()[0]:.1f} when it began"
    modules = [path.stem for path in sorted(Path(__file__).parent.glob("bench_*.py"))]
    chosen = [f"bench_{name}" for name in names] or modules
    print(f"{HEADING}\n{'-' * len(HEADING)}", flush=True)
    failed = 0
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as kept:
        os.environ[FIGURES_VARIABLE] = kept.name
        for module in chosen:
            done = subprocess.run([sys.executable, "-m", f"tests.benchmarks.{module}"], check=False)
            if done.returncode:
                show(Figure(module, "runs", f"exit {done.returncode}", False))
                failed = 1
        figures = [Figure(**json.loads(line)) for line in kept]
    if "--page" in sys.argv:
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), figures, begun), encoding="utf-8")
    return failed


def renewed(page: str, figures: list[Figure], begun: str) -> str:
    """The page with the table of these figures in place of the one it has; ``begun`` says what
    else the machine did."""
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    machine = f"{os.cpu_count()} processors, {system}, Python {platform.python_version()}"
    lines = [BEGIN, "", f"Measured with {machine}, {begun}.", ""]
    lines += ["| what | target | measured | absolute | control, and why this target |"]
    lines += ["|---|---|---|---|---|"]
    for figure in figures:
        missed = " **missed**" if figure.reached is False else ""
        cells = (figure.what, figure.target, figure.measured + missed, figure.absolute, figure.why)
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    table = "\n".join([*lines, "", END])
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: table, page, flags=re.DOTALL)


sys.exit(main())
