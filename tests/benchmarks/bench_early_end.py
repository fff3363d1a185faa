"""The gap behind a phase that ended when its numbers were good enough, here and over ssh."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from instruments.simulated.bench import Bench, configure
from instruments.transports.ssh import CONFIG_VARIABLE
from tests.bench.test_end_of_points import EVEN
from tests.benchmarks.figures import Figure, show
from tests.ssh.sshd import Sshd, rig_on_host

TARGET_MS = 20.0
PLAN = """
name = "gaps"
idle_before_s = 2
idle_after_s = 0
until_pct = { watts = 5 }
min_duration_s = 3
[[sweeps]]
pattern = "randread"
queue_depth = [1, 2, 3, 4, 5, 6, 7, 8]
duration_s = 60
"""


def gaps_ms(rig: Path, folder: Path) -> list[float]:
    """From the last I/O of each point that ended early to the first of the next."""
    plan, runs = folder / "gaps.toml", folder / "runs"
    plan.write_text(PLAN)
    words = ["run", str(rig), str(plan), "--runs", str(runs)]
    command = [sys.executable, "-m", "labctl.cli.main", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (summary,) = runs.glob("*/summary.json")
    points = [
        one
        for one in json.loads(summary.read_text())["phases"]
        if one["phase"]["role"] == "measure"
    ]
    early = [one["point_end"]["ended"] == "target" for one in points]
    return [
        after["gap_before_ms"]
        for ended, after in zip(early, points[1:], strict=False)
        if ended and after["gap_before_ms"] is not None
    ]


def figure(where: str, found: list[float]) -> Figure:
    """Of all ends together the median; the longest beside it."""
    median = statistics.median(found)
    return Figure(
        f"gap after an end that was not planned, {where}", f"≤ {TARGET_MS:.0f} ms",
        f"{median:.1f} ms", median <= TARGET_MS,
        f"{len(found)} ends, the longest gap {max(found):.1f} ms",
        "the next fio is held ready before a point is ended, and released at once",
    )  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Bench(folder / "bench", configure(1, EVEN)) as bench:
            show(figure("here", gaps_ms(bench.rig, folder)))
            there = folder / "there"
            there.mkdir()
            with Sshd(folder / "sshd") as server:
                os.environ[CONFIG_VARIABLE] = str(server.config)
                show(figure("over ssh", gaps_ms(rig_on_host(bench, there), there)))


if __name__ == "__main__":
    main()
