"""How long ``labctl --help`` takes, against a bare typer program."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.figures import in_turns, judged, seconds, show

PROMISED_S = 0.25
BARE = """
import typer
app = typer.Typer()
@app.command()
def run(rig: str, plan: str) -> None:
    "Run a plan on a rig."
app()
"""


def taken_s(*command: str) -> float:
    begin = time.monotonic()
    subprocess.run([*command, "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def main() -> None:
    labctl = str(Path(sys.executable).with_name("labctl"))
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE)
        pairs = in_turns(lambda: taken_s(labctl), lambda: taken_s(sys.executable, str(bare)), 9)
    why = "the help of all commands is written without importing what they need"
    show(
        judged("labctl --help", pairs, 0.6, seconds, "a bare typer program", why,
               promised=PROMISED_S)
    )  # fmt: skip


main()
