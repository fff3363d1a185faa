"""``make bench-lab``: what 40 rigs at work cost their broker, their database and who looks at them.

Each rig is a run that grows on disk at a real rate (two rails with meters of 2 to 50 readings a
second, a sensor, fio) and is followed by labctl's own sinks into a real Mosquitto and a real
InfluxDB 2.x. Meanwhile ``labctl status --broker`` is called, a listener like that of
``labctl watch --broker`` runs, and Lab overview is refreshed every 10 s.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from labctl.service.runs.shipping import ship
from labctl.service.status.broker_rigs import BrokerListener
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE, InfluxSettings
from labctl.sinks.influxdb.sink import InfluxSink
from labctl.sinks.mqtt.settings import MqttSettings
from labctl.sinks.mqtt.sink import MqttSink
from tests.benchmarks.wall_screens import BUCKET, cpu_s, opened
from tests.servers.dashboard_viewer import Database
from tests.servers.influx_run import MadeRun
from tests.servers.influx_server import ORG, TOKEN, InfluxServer, influxd
from tests.servers.mqtt_server import Mosquitto, mosquitto, retained

WORKERS = 4
GROWS_EVERY_S = 0.25
WARM_S = 20
REFRESHED_EVERY_S = 10
MESSAGES_A_RIG = 2 + 1 + 2 + 0.2
"""A second: two rails, a sensor, fio's two reports, heartbeats. Where fewer come, the machine was
too busy to be forty rigs."""
COUNTERS_EVERY_S = 5
"""How often Mosquitto publishes its own counters."""


@dataclass(frozen=True)
class Counted:
    """What the servers counted since they were started."""

    at_s: float
    messages: int
    message_bytes: int
    delivered: int
    requests: int
    request_bytes: int
    broker_cpu_s: float
    database_cpu_s: float


def rigs_at_work(numbers: range, root: Path, mqtt_port: int, url: str, seconds: float) -> None:
    """The rigs of one worker, until their runs end."""
    os.environ[TOKEN_VARIABLE] = TOKEN
    asyncio.run(_at_work(numbers, root, mqtt_port, url, seconds))


async def _at_work(numbers: range, root: Path, port: int, url: str, seconds: float) -> None:
    over = asyncio.Event()
    begin_ns = time.time_ns()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    runs = [
        MadeRun(
            root,
            seconds=seconds + 60,
            rig=f"bench-{number:02d}",
            run_id=f"{stamp}_bench-{number:02d}_sweeps",
            epoch_ns=begin_ns,
            ends=False,
            seed=number,
        )
        for number in numbers
    ]

    async def follow(run: MadeRun) -> None:
        database = InfluxSettings(url=url, org=ORG, bucket=BUCKET)
        broker = MqttSettings(host="127.0.0.1", port=port)
        sinks = (
            InfluxSink(run.path, "influxdb", database, print),
            MqttSink(run.path, broker, print, live=True),
        )
        await ship(run.path, sinks, over=over)

    async with asyncio.TaskGroup() as tasks:
        for run in runs:
            run.grow(0.0)
            tasks.create_task(follow(run))
        while (elapsed_s := (time.time_ns() - begin_ns) / 1e9) < seconds:
            for run in runs:
                run.grow(elapsed_s)
                await asyncio.sleep(0)
            await asyncio.sleep(GROWS_EVERY_S)
        over.set()


@contextmanager
def lab(folder: Path, rigs: int, seconds: float) -> Iterator[tuple[Mosquitto, InfluxServer]]:
    """Broker, database, and the rigs at work."""
    lines = (f"sys_interval {COUNTERS_EVERY_S}",)
    broker, database = Mosquitto(folder / "broker", lines=lines), InfluxServer(folder / "influxdb")
    database.folder.mkdir()
    (folder / "runs").mkdir()
    processes = []
    try:
        broker.start()
        database.start()
        database.make_bucket(BUCKET)
        making = multiprocessing.get_context("spawn")
        for worker in range(WORKERS):
            numbers = range(1 + worker, rigs + 1, WORKERS)
            work = (numbers, folder / "runs", broker.port, database.url, seconds)
            processes.append(making.Process(target=rigs_at_work, args=work))
            processes[-1].start()
        yield broker, database
    finally:
        for process in processes:
            process.terminate()
            process.join()
        broker.kill()
        database.kill()


def counted(broker: Mosquitto, database: InfluxServer) -> Counted:
    """The counters of both servers now."""
    assert broker.process is not None and database.process is not None
    told = asyncio.run(retained(broker, "$SYS/#"))

    def of_broker(name: str) -> int:
        return int(float(told[f"$SYS/broker/{name}"]))

    with urllib.request.urlopen(f"{database.url}/metrics") as answer:
        text = answer.read().decode()

    def of_database(name: str) -> int:
        found = re.findall(rf"^{name}{{[^}}]*/api/v2/write[^}}]*}} (\S+)$", text, re.MULTILINE)
        return int(sum(float(one) for one in found))

    return Counted(
        time.monotonic(),
        of_broker("publish/messages/received"),
        of_broker("publish/bytes/received"),
        of_broker("publish/messages/sent"),
        of_database("http_api_requests_total"),
        of_database("http_write_request_bytes_sum") or of_database("http_write_request_bytes"),
        cpu_s(broker.process.pid),
        cpu_s(database.process.pid),
    )


def show_rates(what: str, before: Counted, after: Counted) -> None:
    seconds = after.at_s - before.at_s

    def rate(name: str) -> float:
        return float(getattr(after, name) - getattr(before, name)) / seconds

    print(
        f"{what}: broker {rate('messages'):.0f} messages/s, {rate('message_bytes') / 1e3:.1f} kB/s "
        f"in, {rate('delivered'):.0f} messages/s out, {rate('broker_cpu_s'):.2%} of a core; "
        f"database {rate('requests'):.0f} requests/s, {rate('request_bytes') / 1e3:.1f} kB/s, "
        f"{rate('database_cpu_s'):.2%} of a core",
        flush=True,
    )


def status(port: int) -> tuple[float, float, str]:
    """``labctl status --broker`` once: seconds, processor seconds, what it printed."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "labctl", "status", "--broker", f"127.0.0.1:{port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begin, taken, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lab_at_work")
    parser.add_argument("--rigs", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=60, help="of each of three measurements")
    asked = parser.parse_args()
    if influxd() is None or mosquitto() is None:
        print("it needs mosquitto and InfluxDB 2.x ($INFLUXD)", file=sys.stderr)
        return 2
    whole_s = WARM_S + 3 * asked.seconds + 60
    with (
        tempfile.TemporaryDirectory() as folder,
        lab(Path(folder), asked.rigs, whole_s) as (broker, database),
    ):
        time.sleep(WARM_S)
        measure(broker, database, asked.rigs, asked.seconds)
    return 0


def measure(broker: Mosquitto, database: InfluxServer, rigs: int, seconds: int) -> None:
    assert database.process is not None
    at_real_rate = MESSAGES_A_RIG * rigs
    print(f"load {os.getloadavg()[0]:.1f}; at the real rate {at_real_rate:.0f} messages/s")
    before = counted(broker, database)
    time.sleep(seconds)
    after = counted(broker, database)
    show_rates("rigs alone", before, after)
    kept = asyncio.run(retained(broker, "labctl/#"))
    print(f"retained: {len(kept)} messages, {sum(map(len, kept.values())) / 1e3:.1f} kB")

    listener = BrokerListener(MqttSettings(host="127.0.0.1", port=broker.port), print)
    before, own_s = counted(broker, database), time.process_time()
    time.sleep(seconds)
    own_s = (time.process_time() - own_s) / seconds
    show_rates("with a watch", before, counted(broker, database))
    heard = listener.rigs.rigs()
    listener.close()
    print(f"  the watch: {own_s:.2%} of a core; {len(heard)} rigs")

    before = counted(broker, database)
    taken = []
    for _ in range(max(seconds // REFRESHED_EVERY_S, 1)):
        begin = time.monotonic()
        now_ms = round(time.time() * 1000)
        viewed = Database(database.url, TOKEN, BUCKET, now_ms)
        taken.append(opened(viewed, "labctl-overview", database.process.pid))
        time.sleep(max(REFRESHED_EVERY_S - (time.monotonic() - begin), 0))
    show_rates("with a wall screen", before, counted(broker, database))
    one = taken[-1]
    print(f"  a refresh: {one.queries} queries, {one.last_s:.2f} s, {one.cpu_s:.2f} s of CPU")

    for _ in range(3):
        seconds_taken, processor_s, text = status(broker.port)
        print(f"labctl status --broker: {seconds_taken:.2f} s, {processor_s:.2f} s of CPU")
    print(text)


if __name__ == "__main__":
    sys.exit(main())
