"""How soon a reading is in InfluxDB: a real run on the simulated bench, shipped while it is on.

The database is asked again and again for the newest bin of each rail; the age of a bin when it is
first seen there is counted from its first reading, so it holds for every reading in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from instruments.simulated.bench import Bench, configure
from labctl.config.site import SITE_VARIABLE
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE
from tests.benchmarks.figures import Figure, show
from tests.servers.influx_server import ORG, InfluxServer, influxd

LABCTL = (sys.executable, "-m", "labctl.cli.main")
TARGET_S = 2.0
BIN_S = 1.0
READ_EVERY_S = 0.05
PLAN = """
name = "live"
idle_before_s = 10
idle_after_s = 5
[[sweeps]]
pattern = "randread"
queue_depth = [1, 32]
duration_s = 10
"""


def ages(server: InfluxServer, process: subprocess.Popen[bytes]) -> list[float]:
    """Seconds from the first reading of each bin until the database had it."""
    found: list[float] = []
    newest: dict[str, int] = {}
    while process.poll() is None:
        series = server.influxql('SELECT last("watts") FROM "power" GROUP BY "rail"')
        now_ns = time.time_ns()
        for one in series:
            rail, middle_ns = one["tags"]["rail"], one["values"][0][0]
            if middle_ns > newest.get(rail, 0):
                newest[rail] = middle_ns
                found.append((now_ns - middle_ns) / 1e9 + BIN_S / 2)
        time.sleep(READ_EVERY_S)
    return found


def main() -> None:
    if influxd() is None:
        show(Figure("measured until in InfluxDB, live", "", "no influxd on PATH"))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = InfluxServer(folder)
        server.start()
        (folder / "plan.toml").write_text(PLAN)
        (folder / "site.toml").write_text(
            f'[sinks.influxdb]\nurl = "{server.url}"\norg = "{ORG}"\nbucket = "main"\n'
        )
        secret = {SITE_VARIABLE: str(folder / "site.toml"), TOKEN_VARIABLE: server.token}
        try:
            with Bench(folder / "bench", configure(seed=1)) as bench:
                process = subprocess.Popen(
                    [*LABCTL, "run", bench.rig, folder / "plan.toml", "--runs", folder / "runs"],
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, **secret},
                )
                seen = np.array(ages(server, process))
                if process.wait():
                    raise SystemExit("the run failed")
        finally:
            server.kill()
    late = float(np.quantile(seen, 0.99))
    show(
        Figure("measured until in InfluxDB, live, 99 %", f"≤ {TARGET_S:.0f} s", f"{late:.2f} s",
               late <= TARGET_S,
               f"median and slowest of {len(seen)} bins: {np.median(seen):.2f}, {seen.max():.2f} s",
               "a promise to who looks at a dashboard; a second of it is the bin itself"),
    )  # fmt: skip


main()
