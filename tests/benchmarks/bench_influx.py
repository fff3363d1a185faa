"""Shipping a backlog to a real InfluxDB 2.x: against the public clients on the same server.

labctl reads the journal, maps clocks and makes watts; the others are given finished numbers. All
make their lines themselves, the others in the plainest way.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from influxdb_client import InfluxDBClient, WriteOptions
from influxdb_client.client.influxdb_client_async import InfluxDBClientAsync

from labctl.service.runs.shipping import ship
from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.follower import Follower
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE, InfluxSettings
from labctl.sinks.influxdb.sink import BATCH_LINES, IN_FLIGHT, InfluxSink
from tests.benchmarks.figures import Figure, Pairs, judged, show
from tests.servers.influx_lines import parsed
from tests.servers.influx_run import MadeRun, default_meters, drained
from tests.servers.influx_server import ORG, TOKEN, InfluxServer, influxd

SECONDS = 40.0
RATE_HZ = 1_000.0
ROUNDS = 3
CPU_S_A_LINE = 2e-6
HOURS = 8
NIGHT = """
import pathlib, re, sys
from labctl.cli.servers.ship import ship_runs
options = {"from_start": True, "full_rate": False, "json_output": True}
code = ship_runs([pathlib.Path(sys.argv[1])], [sys.argv[2]], **options)
print(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
sys.exit(code)
"""
"""Sends a run in a process of its own, and says its peak memory in KiB."""


@dataclass(frozen=True)
class Cost:
    """Of one way to send lines: seconds and client CPU seconds a line."""

    wall_s: float
    cpu_s: float


Send = Callable[[str], Coroutine[None, None, None]]


def compared(server: InfluxServer, ways: dict[str, tuple[Send, int]]) -> dict[str, list[Cost]]:
    """What each way cost in each of some rounds, in turns: the machine is not ours alone.

    Each sends so many lines into a fresh bucket. The first round warms up and does not count.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        turns = list(ways.items())
        for name, (send, count) in turns if number % 2 else reversed(turns):
            bucket = f"{name.partition(',')[0].replace(' ', '-')}-{len(costs[name])}-{len(name)}"
            server.make_bucket(bucket)
            begin, cpu = time.monotonic(), time.process_time()
            asyncio.run(send(bucket))
            took, cpu = time.monotonic() - begin, time.process_time() - cpu
            costs[name].append(Cost(took / count, cpu / count))
    return {name: found[1:] for name, found in costs.items()}


def a_line(each_s: float) -> str:
    """A time for one line, as lines a second."""
    return f"{1 / each_s / 1e3:.0f} k lines/s"


def a_million(each_s: float) -> str:
    """CPU time for one line, as seconds a million."""
    return f"{each_s * 1e6:.2f} s a million lines"


def pairs_of(own: list[Cost], control: list[Cost], what: Callable[[Cost], float]) -> Pairs:
    return Pairs.of((what(a), what(b)) for a, b in zip(own, control, strict=True))


Row = tuple[str, tuple[float, ...], int]
"""Measurement with tags, values, time."""


def rows_of(lines: list[str]) -> list[Row]:
    """The numbers of the most frequent kinds of lines."""
    rows: list[Row] = []
    for text in lines:
        (measurement, tags, t_ns), fields = parsed(text)
        if measurement == "power":
            head = ",".join([measurement, *(f"{key}={value}" for key, value in tags)])
            rows.append((head, tuple(float(str(value)) for value in fields.values()), t_ns))
    return rows


def line_of(row: Row) -> str:
    head, values, t_ns = row
    if len(values) == 3:
        nominal, tolerance, volts = values
        return (
            f"{head} volts_nominal={nominal},volts_tolerance_pct={tolerance},volts={volts} {t_ns}"
        )
    amps, watts, low, high, n = values
    return f"{head} amps={amps},watts={watts},watts_min={low},watts_max={high},n={n:.0f}i {t_ns}"


def batches(rows: list[Row]) -> Iterator[bytes]:
    for begin in range(0, len(rows), BATCH_LINES):
        yield "\n".join(map(line_of, rows[begin : begin + BATCH_LINES])).encode()


def full_rate(server: InfluxServer, folder: Path) -> None:
    meters = default_meters()
    for name in ("v12.voltage", "i12.voltage", "v3.voltage", "i3.current"):
        meters[name].rate_hz = RATE_HZ
    run = MadeRun(folder, seconds=SECONDS, meters=meters).whole()
    lines = drained(Follower(run.path, Cursor(bin_ns=0)))
    rows = [row for row in rows_of(lines) if len(row[1]) in (3, 5)]

    async def labctl(bucket: str) -> None:
        settings = InfluxSettings(url=server.url, org=ORG, bucket=bucket)
        sink = InfluxSink(run.path, bucket, settings, print, full_rate=True, from_start=True)
        (shipped,) = await ship(run.path, [sink])
        assert shipped.report.sent == len(lines), shipped

    async def client_async(bucket: str) -> None:
        async with InfluxDBClientAsync(server.url, TOKEN, ORG, timeout=60_000) as client:
            writer = client.write_api()
            for body in batches(rows):
                assert await writer.write(bucket=bucket, record=body)

    async def plain(bucket: str) -> None:
        url = f"{server.url}/api/v2/write?org={ORG}&bucket={bucket}&precision=ns"
        places = asyncio.Semaphore(IN_FLIGHT)
        async with aiohttp.ClientSession(headers={"Authorization": f"Token {TOKEN}"}) as session:

            async def post(body: bytes) -> None:
                async with session.post(url, data=body) as answer:
                    assert answer.status == 204
                places.release()

            under_way = []
            for body in batches(rows):
                await places.acquire()
                under_way.append(asyncio.create_task(post(body)))
            await asyncio.gather(*under_way)

    async def client_batching(bucket: str) -> None:
        options = WriteOptions(batch_size=BATCH_LINES)
        with (
            InfluxDBClient(server.url, TOKEN, org=ORG) as client,
            client.write_api(options) as writer,
        ):
            for row in rows:
                writer.write(bucket=bucket, record=line_of(row))

    costs = compared(
        server,
        {
            "labctl": (labctl, len(lines)),
            "influxdb-client, batching": (client_batching, len(rows)),
            "influxdb-client, async, joined lines": (client_async, len(rows)),
            "plain aiohttp": (plain, len(rows)),
        },
    )
    own, control = costs.pop("labctl"), costs.pop("plain aiohttp")
    wall = pairs_of(own, control, lambda cost: cost.wall_s)
    cpu = pairs_of(own, control, lambda cost: cost.cpu_s)
    why = "four requests in flight too, of finished numbers; labctl reads, maps clocks, makes watts"
    show(
        judged(f"ship {len(lines) / 1e3:.0f} k readings from a journal, time", wall, 1.0, a_line,
               "plain aiohttp", why),
        judged("  CPU", cpu, 1.0, a_million, "plain aiohttp", why, promised=CPU_S_A_LINE),
        *(
            Figure(f"  {name}, time", "", str(pairs_of(found, control, lambda cost: cost.wall_s)),
                   None, a_line(statistics.median(cost.wall_s for cost in found)))
            for name, found in costs.items()
        ),
    )  # fmt: skip


def night(server: InfluxServer, folder: Path) -> None:
    """A whole night in bins of a second: what ``labctl ship`` of a morning takes."""
    meters = default_meters()
    for name in ("v12.voltage", "i12.voltage", "v3.voltage", "i3.current"):
        meters[name].rate_hz = 100.0
    run = MadeRun(folder, seconds=HOURS * 3600.0, meters=meters).whole()
    readings = sum(len(data["t"]) for data in run.data.values())
    run.data.clear()
    server.make_bucket("night")
    address = f"{server.url}?org={ORG}&bucket=night"
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", NIGHT, str(run.path), address],
        check=True,
        capture_output=True,
        text=True,
    )
    took = time.monotonic() - begin
    memory_mib = int(done.stdout.split()[-1]) / 1024
    show(
        Figure(f"ship {HOURS} h in bins ({readings / 1e6:.0f} M readings)", "", f"{took:.1f} s"),
        Figure("  memory of the process", "", f"{memory_mib:.0f} MiB"),
    )


def main() -> None:
    if influxd() is None:
        show(Figure("shipping to InfluxDB", "", "no influxd on PATH"))
        return
    os.environ[TOKEN_VARIABLE] = TOKEN
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = InfluxServer(folder)
        server.start()
        try:
            night(server, folder / "night")
            full_rate(server, folder / "full")
        finally:
            server.kill()


main()
