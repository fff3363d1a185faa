"""``make bench-screens``: how long the dashboards take to show a lab of 1,000 runs × 100 phases.

Fills a real InfluxDB 2.x with a made-up lab, through the sinks' own points and lines, and asks
what Grafana asks when a dashboard is opened: the lists of its variables one after another, then
the annotations and every panel, six at a time as a browser does. It prints for each dashboard
when the first and the last panel had its answer and the processor time of the server, which does
not depend on what else the machine does.

``--keep DIR`` keeps the database there and takes it if it is there already.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.benchmarks.lab_of_runs import Lab
from tests.servers.dashboard_viewer import DASHBOARDS, Database, Viewer, milliseconds
from tests.servers.influx_server import ORG, TOKEN, InfluxServer, influxd

BUCKET = "lab"
ANSWERS_WITHIN_S = 600.0
CONNECTIONS = 6
"""What a browser opens to one server (HTTP/1.1)."""
BATCH_LINES = 5_000
IN_FLIGHT = 3
TRIES = 20
STEPS_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600)
"""Intervals that Grafana rounds to."""
PANEL_PX = 900
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Opened:
    """A dashboard that was opened: seconds until its lists, its first and its last panel were
    there; processor seconds of the server; queries; bytes of the answers; its slowest queries."""

    lists_s: float
    first_s: float
    last_s: float
    cpu_s: float
    queries: int
    size: int
    slowest: list[tuple[float, str]]


def cpu_s(pid: int) -> float:
    """Processor time that a process has taken, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def rounded_interval(span_ms: int) -> str:
    """``$__interval`` of a panel of the usual width."""
    wanted_s = span_ms / 1000 / PANEL_PX
    return f"{min(STEPS_S, key=lambda step: abs(step - wanted_s))}s"


def panel_queries(viewer: Viewer) -> Iterator[tuple[str, str]]:
    """Every query of annotations and panels, with its panel's title; those of a row or panel that
    is repeated once for each value."""
    of_row = ""
    for annotation in viewer.dashboard["annotations"]["list"]:
        if annotation.get("enable") and "query" in annotation:
            yield annotation["name"], viewer.interpolate(annotation["query"])
    for panel in viewer.dashboard["panels"]:
        if panel["type"] == "row":
            of_row = panel.get("repeat") or ""
            continue
        repeated = panel.get("repeat") or of_row
        values = viewer.options[repeated] if repeated else [""]
        for value in values:
            shown = viewer.at(**{repeated: value}) if repeated else viewer
            for query, span_ms in _targets(panel, viewer.span_ms):
                yield panel["title"], shown.interpolate(query, span_ms)


def _targets(panel: dict[str, Any], span_ms: int) -> Iterator[tuple[str, int]]:
    own_ms = milliseconds(f"now-{panel['timeFrom']}") if "timeFrom" in panel else span_ms
    for target in panel["targets"]:
        if "query" in target:
            interval = rounded_interval(own_ms)
            yield target["query"].replace("$__interval", interval), own_ms


def opened(database: Database, uid: str, pid: int) -> Opened:
    """Open a dashboard as a browser does."""
    cpu_before, begin = cpu_s(pid), time.monotonic()
    viewer = Viewer(database, uid)
    lists_s = time.monotonic() - begin
    queries = list(panel_queries(viewer))

    def ask(item: tuple[str, str]) -> tuple[float, float, int, str]:
        asked = time.monotonic()
        # its rows are not read: that takes much of the machine
        answer = database.ask(item[1], ANSWERS_WITHIN_S)
        done = time.monotonic()
        assert b'"error"' not in answer[:200], f"{item[1]}: {answer[:200]!r}"
        return done - begin, done - asked, len(answer), item[0]

    with ThreadPoolExecutor(CONNECTIONS) as browser:
        answers = list(browser.map(ask, queries))
    ends = [end for end, *_ in answers]
    slowest = sorted(((took, title) for _, took, _, title in answers), reverse=True)[:3]
    size = sum(size for *_, size, _ in answers)
    taken = cpu_s(pid) - cpu_before
    return Opened(lists_s, min(ends), max(ends), taken, len(queries), size, slowest)


async def fill(server: InfluxServer, lab: Lab) -> int:
    """Write a lab; how many lines."""
    url = f"{server.url}/api/v2/write?org={ORG}&bucket={BUCKET}&precision=ns"
    places, count = asyncio.Semaphore(IN_FLIGHT), 0
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Token {TOKEN}"}) as session,
        asyncio.TaskGroup() as tasks,
    ):

        async def post(body: bytes) -> None:
            try:
                for _ in range(TRIES):
                    async with session.post(url, data=body) as answer:
                        if answer.status == 204:
                            return
                        words = await answer.text()
                        assert answer.status >= 500, words  # "timeout": the machine is busy
                raise AssertionError(words)
            finally:
                places.release()

        for number, texts in enumerate(lab.lines(), start=1):
            for begin in range(0, len(texts), BATCH_LINES):
                await places.acquire()
                tasks.create_task(post("\n".join(texts[begin : begin + BATCH_LINES]).encode()))
            count += len(texts)
            if number % 100 == 0:
                print(f"{number} runs, {count / 1e6:.1f} M points", file=sys.stderr, flush=True)
    return count


def disk_mb(folder: Path) -> float:
    """What the files of a folder take, 10⁶ bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def series_of(server: InfluxServer, measurement: str) -> int:
    """How many series a measurement has."""
    found = server.influxql(f'SHOW SERIES EXACT CARDINALITY FROM "{measurement}"', BUCKET)
    return sum(int(values[-1]) for series in found for values in series["values"])


@contextlib.contextmanager
def filled(folder: Path, size: dict[str, int]) -> Iterator[tuple[InfluxServer, int]]:
    """A server with the lab in it, and the second at which the lab is looked at."""
    stamp = folder / "filled-at"
    server = InfluxServer(folder)
    server.start()
    try:
        if not stamp.exists():
            now_s = int(time.time())
            begin = time.monotonic()
            server.make_bucket(BUCKET)
            count = asyncio.run(fill(server, Lab(now_s, **size)))
            stamp.write_text(str(now_s))
            print(f"filled with {count / 1e6:.1f} M points in {time.monotonic() - begin:.0f} s")
        yield server, int(stamp.read_text())
    finally:
        server.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.wall_screens")
    for name, default in (("rigs", 40), ("runs", 1000), ("phases", 100), ("phase-s", 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("dashboards", nargs="*", default=DASHBOARDS)
    asked = parser.parse_args()
    if influxd() is None:
        print("no InfluxDB 2.x: put influxd on PATH or name it in $INFLUXD", file=sys.stderr)
        return 2
    size = {name: getattr(asked, name) for name in ("rigs", "runs", "phases", "phase_s")}
    with tempfile.TemporaryDirectory() as passing:
        folder = asked.keep or Path(passing)
        folder.mkdir(parents=True, exist_ok=True)
        with filled(folder, size) as (server, now_s):
            assert server.process is not None
            show_size(server, folder)
            database = Database(server.url, TOKEN, BUCKET, now_s * 1000)
            print(f"load {os.getloadavg()[0]:.1f}; seconds; cpu is the server's")
            print(f"{'dashboard':22} round   lists  first   last    cpu  asked     kB  slowest")
            for uid in asked.dashboards:
                for number in range(asked.rounds):
                    show(uid, number + 1, opened(database, uid, server.process.pid))
    return 0


def show(uid: str, number: int, found: Opened) -> None:
    slowest = ", ".join(f"{title} {took:.2f}" for took, title in found.slowest)
    print(
        f"{uid:22} {number:5} {found.lists_s:7.2f} {found.first_s:6.2f} {found.last_s:6.2f} "
        f"{found.cpu_s:6.2f} {found.queries:6} {found.size / 1000:6.0f}  {slowest}",
        flush=True,
    )


def show_size(server: InfluxServer, folder: Path) -> None:
    counts = {}
    for name in ("power", "temperature", "io", "phase", "point", "event", "rig"):
        counts[name] = series_of(server, name)
    words = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    print(f"{disk_mb(folder / 'engine'):.0f} MB on disk; series: {words}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
