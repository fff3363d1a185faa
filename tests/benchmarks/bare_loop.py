"""A control: a program that only wakes up, asks over a socket, and appends the answer to a file.

It has one thread for each meter, as labctl has, and does for each reading what cannot be left out:
sleep, send, wait, receive, write; and it syncs each file once a second. Its CPU time says what a
wake-up costs on this machine, at this hour.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ANSWER_AFTER_S = 0.02
"""What a meter takes for an answer."""


def cpu_s(pid: int) -> float:
    """CPU time that a process has used, to the ns (the kernel's clock of a process: clock_getcpu
    clockid(3), whose number is made of the process's as the C library does it)."""
    return time.clock_gettime((~pid << 3) | 2)


@contextlib.contextmanager
def bare_loop(rates_hz: list[float]) -> Iterator[int]:
    """Run it with a thread for each of ``rates_hz``; gives its process id."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.bare_loop", folder]
        process = subprocess.Popen(
            [*command, *map(str, rates_hz)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout is not None and process.stdin is not None
        try:
            process.stdout.readline()
            yield process.pid
        finally:
            process.stdin.close()
            process.kill()
            process.wait()


def _meter(peers: list[socket.socket]) -> None:
    """Answers, in a process of its own."""
    while True:
        for peer in select.select(peers, [], [])[0]:
            if not peer.recv(64):
                return
            time.sleep(ANSWER_AFTER_S / len(peers))
            peer.send(b"+1.234567890E+01\n")


def _ask(peer: socket.socket, file: int, rate_hz: float) -> None:
    due, sync_at = time.monotonic(), 0.0
    while True:
        due += 1 / rate_hz
        time.sleep(max(due - time.monotonic(), 0.0))
        peer.sendall(b"READ?\n")
        select.select([peer], [], [], 1.0)
        os.write(file, peer.recv(64).ljust(16)[:16])
        if time.monotonic() > sync_at:
            os.fdatasync(file)
            sync_at = time.monotonic() + 1


def main() -> None:
    folder, rates = Path(sys.argv[1]), [float(text) for text in sys.argv[2:]]
    pairs = [socket.socketpair() for _ in rates]
    if not os.fork():
        for own, _ in pairs:
            own.close()
        with contextlib.suppress(OSError):  # who asks is gone
            _meter([peer for _, peer in pairs])
        os._exit(0)
    for number, ((own, peer), rate_hz) in enumerate(zip(pairs, rates, strict=True)):
        peer.close()
        file = os.open(folder / str(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        threading.Thread(target=_ask, args=(own, file, rate_hz), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
