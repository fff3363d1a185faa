"""A Quarch module at 250,000 stripes a second and two rails: what reading them takes.

The server answers as fast as it is asked, with stripes that were written before: QIS itself, which
nobody here has with a module, is no part of it. The controls take the same answers from the socket
and look at their end alone, or let numpy make numbers of them, too, unchecked.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from statistics import median

import numpy as np

from instruments import drivers
from instruments.reading import Batch, Status
from tests.benchmarks.figures import Figure, core_share, in_turns, judged, show

RATE_HZ = 250_000
RAILS = ("3V3", "12V")
MOST = 3072
"""Stripes in an answer of QIS."""
ANSWERS = 244
"""Three seconds of them."""
STRIPES = MOST * ANSWERS
MODULE = "usb::QTL1999-02-020"
TAKE = f"{MODULE} stream text all\r\n".encode()
END = b"\r\n>"
TIME_AT_MOST, CPU_AT_MOST = 12.0, 3.0
"""Measured 4 to 6 and 1.6: each answer is made numbers, checked for gaps, and stamped."""


def header() -> str:
    units = [(rail, unit) for rail in RAILS for unit in ("mV", "uA")]
    channels = "".join(
        f"<channel><name>{rail}</name><units>{unit}</units><dataPosition>{place}</dataPosition>"
        "</channel>"
        for place, (rail, unit) in enumerate(units, start=1)
    )
    period = "<devicePeriod>4us</devicePeriod>"
    return f"<header><version>V3</version>{period}<channels>{channels}</channels></header>"


def written_answers() -> list[bytes]:
    """What ``stream text all`` gives, time after time."""
    rng = np.random.default_rng(1)
    found = []
    for number in range(ANSWERS):
        rows = np.empty((MOST, 1 + 2 * len(RAILS)), np.int64)
        rows[:, 0] = (np.arange(MOST) + number * MOST) * 4
        for place, (middle, swing) in enumerate(((3300, 9), (9e5, 9e5), (12_000, 20), (8e5, 8e5))):
            rows[:, 1 + place] = rng.integers(middle - swing, middle + swing, MOST)
        line = " ".join(["%d"] * rows.shape[1])
        found.append("\r\n".join([line] * MOST).encode() % tuple(rows.ravel().tolist()) + END)
    return found


def serve(server: socket.socket) -> None:
    """Each connection has the stripes from their begin."""
    answers = written_answers()
    said = {
        "$list details": f"1) {MODULE} Port:9 Stream:Yes Name:HD PPM",
        "stream?": "Stopped: User\r\nStripes Buffered: 0 of 8388608",
        "stream text header": header(),
    }
    while True:
        link, _ = server.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.sendall(b"$t v1.55.1 Mon Nov 23 16:27:23 UTC 2026\r\n")
        given = iter(answers)
        for asked in link.makefile("rb"):
            if asked == TAKE:
                link.sendall(next(given, b"eof" + END))
            else:
                command = asked.decode().strip().removeprefix(f"{MODULE} ")
                link.sendall(said.get(command, "OK").encode() + END)


def plain_socket(address: tuple[str, int], *, numbers: bool) -> tuple[float, float]:
    """Seconds, and those of the processor, to take all stripes; ``numbers``: and to read them."""
    with socket.create_connection(address) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.recv(1 << 10)
        begun, cpu = time.monotonic(), time.process_time()
        for _ in range(ANSWERS):
            link.sendall(TAKE)
            parts = [link.recv(1 << 20)]
            while not parts[-1].endswith(END):
                parts.append(link.recv(1 << 20))
            if numbers:
                np.fromstring(b"".join(parts)[: -len(END)], np.int64, sep=" ")
        return time.monotonic() - begun, time.process_time() - cpu


def through_the_driver(address: tuple[str, int]) -> tuple[float, float, int]:
    """The same of labctl's driver, and how many stripes it counts as lost or does not bring."""
    settings = {
        "resource": MODULE,
        "server": f"{address[0]}:{address[1]}",
        "rails": RAILS,
        "stripe_us": 4,
        "voltage_pct_of_reading": 1.0,
        "voltage_floor_volts": 0.001,
        "current_pct_of_reading": 1.0,
        "current_floor_amps": 0.002,
    }
    ppm = drivers.create("ppm", "quarch", settings, time.monotonic_ns)
    ppm.open()
    ppm.start()
    found = lost = 0
    begun, cpu = time.monotonic(), time.process_time()
    while found < STRIPES:
        batch: Batch = ppm.read()
        found += sum(len(one) for one in batch.blocks if one.channel == ppm.channels[0].name)
        lost += sum(one.count for one in batch.statuses if one.status is Status.LOST)
    took = time.monotonic() - begun, time.process_time() - cpu
    ppm.close()
    return *took, lost + abs(STRIPES - found)


def main() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if not child:
        serve(server)
    address = server.getsockname()
    lost: list[int] = []
    rates: list[float] = []

    def driven() -> tuple[float, float]:
        took, cpu, missing = through_the_driver(address)
        lost.append(missing)
        rates.append(STRIPES / took)
        return took, cpu

    try:
        wall = in_turns(lambda: driven()[0], lambda: plain_socket(address, numbers=False)[0])
        cpu = in_turns(lambda: driven()[1], lambda: plain_socket(address, numbers=True)[1])
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        server.close()
    what = f"Quarch {RATE_HZ // 1000} kS/s × {len(RAILS)} rails over TCP"
    why = "the same answers from a socket, looked at for their end alone"
    numpy_why = (
        "the same answers from a socket, made numbers by numpy; labctl checks and stamps them"
    )
    show(
        Figure(f"{what}: stripes lost", "0", str(sum(lost)), not any(lost)),
        Figure(f"{what}: rate", f"≥ {RATE_HZ / 1e3:.0f} kS/s", f"{median(rates) / 1e3:,.0f} kS/s",
               median(rates) >= RATE_HZ),
        judged(f"{what}: time", wall, TIME_AT_MOST,
               lambda took: f"{STRIPES / took / 1e3:,.0f} kS/s", "plain socket", why),
        judged(f"{what}: CPU", cpu, CPU_AT_MOST,
               lambda took: core_share(took / STRIPES * RATE_HZ), "plain numpy", numpy_why),
    )  # fmt: skip


main()
