"""The simulated drive as a process: the real fio, other NBD clients, and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from instruments.simulated.drive.ground_truth import GroundTruth
from instruments.simulated.drive.nvme_structures import IdentifyController, SmartLog
from instruments.simulated.drive.parameters import load
from instruments.simulated.drive.process import DriveProcess, start_drive
from instruments.simulated.drive.state_ring import StateReader
from labctl.record.timebase import NS_PER_S
from tests.waiting import until

pytestmark = [pytest.mark.bench]

EINVAL = 22
READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
OPTION = struct.Struct(">QII")
OPTION_MAGIC = 0x49484156454F5054


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriveProcess]:
    with start_drive(tmp_path_factory.mktemp("bench") / "drive") as process:
        yield process


class Client:
    """A bare NBD client that can also misbehave."""

    def __init__(self, drive: DriveProcess, transmission: bool = True) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5)
        self.socket.connect(str(drive.socket))
        assert self.receive(18) == b"NBDMAGICIHAVEOPT\0\3"
        if transmission:
            self.socket.sendall(struct.pack(">I", 3))
            self.option(7, struct.pack(">IH", 0, 0))
            while self.option_reply()[0] != 1:
                pass

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionResetError(f"closed after {len(data)} of {count} bytes")
            data += more
        return data

    def option(self, option: int, data: bytes = b"") -> None:
        self.socket.sendall(OPTION.pack(OPTION_MAGIC, option, len(data)) + data)

    def option_reply(self) -> tuple[int, bytes]:
        _, _, kind, length = struct.unpack(">QIII", self.receive(20))
        return kind, self.receive(length)

    def send(self, command: int, offset: int, length: int, flags: int = 0) -> None:
        self.socket.sendall(request(command, offset, length, flags))

    def reply(self) -> int:
        magic, error, handle = struct.unpack(">II8s", self.receive(16))
        assert (magic, handle) == (0x67446698, b"handle!!")
        return int(error)

    def is_closed(self) -> bool:
        with suppress(ConnectionResetError):
            return self.socket.recv(1) == b""
        return True


def request(command: int, offset: int, length: int, flags: int = 0) -> bytes:
    return struct.pack(">IHH8sQI", 0x25609513, flags, command, b"handle!!", offset, length)


def fio(drive: DriveProcess, *options: str) -> list[dict[str, Any]]:
    """Run fio to its end; its jobs."""
    command = ["fio", "--name=x", "--ioengine=nbd", f"--uri={drive.uri}", "--size=1g", *options]
    command.append("--output-format=json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[:500] + done.stderr
    jobs: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    assert all(job["error"] == 0 for job in jobs)
    return jobs


def truth_after(drive: DriveProcess, t_ns: int) -> GroundTruth:
    """The truth, as soon as it is known to 100 ms after a time."""
    until(lambda: GroundTruth(drive.truth).end_ns > t_ns + 100_000_000)
    return GroundTruth(drive.truth)


def nvme(drive: DriveProcess, *arguments: str) -> bytes:
    command = [drive.nvme, *arguments, "/dev/nvme0", "--raw-binary"]
    return subprocess.check_output(command, timeout=10)


def smart_log(drive: DriveProcess) -> SmartLog:
    return SmartLog.from_buffer_copy(nvme(drive, "get-log", "--log-id=2", "--log-len=512"))


def test_every_io_of_fio_is_in_the_truth(drive: DriveProcess) -> None:
    begin_ns = time.monotonic_ns()
    jobs = fio(
        drive, "--rw=randrw", "--bs=4k", "--iodepth=8", "--numjobs=3", "--io_size=16m", "--fsync=64"
    )
    truth = truth_after(drive, time.monotonic_ns())
    done = truth.operations(begin_ns, truth.end_ns)
    assert len(jobs) == 3
    assert done["reads"] == sum(job["read"]["total_ios"] for job in jobs)
    assert done["writes"] == sum(job["write"]["total_ios"] for job in jobs)
    assert done["read_bytes"] + done["written_bytes"] == 3 * 16 << 20
    bursts = [burst for burst in truth.bursts if burst.begin_ns > begin_ns]
    flushes = sum(job["sync"]["total_ios"] for job in jobs)
    assert sum(burst.operations for burst in bursts) == done["reads"] + done["writes"] + flushes
    watts = sum(truth.mean_watts(bursts[0].begin_ns, bursts[-1].end_ns).values())
    assert 5.5 < watts < 22


def test_large_and_small_blocks_and_trims_of_fio(drive: DriveProcess) -> None:
    for options in (
        ("--rw=read", "--bs=64m", "--io_size=256m", "--iodepth=4"),
        ("--rw=write", "--bs=4m", "--io_size=64m", "--iodepth=4"),
        ("--rw=randread", "--bs=512", "--io_size=512k", "--iodepth=64"),
        ("--rw=randtrim", "--bs=1m", "--io_size=64m", "--iodepth=4"),
    ):
        begin_ns = time.monotonic_ns()
        (job,) = fio(drive, *options)
        total = sum(job[kind]["total_ios"] for kind in ("read", "write", "trim"))
        truth = truth_after(drive, time.monotonic_ns())
        assert total == sum(b.operations for b in truth.bursts if b.begin_ns > begin_ns) > 0


def test_the_meters_view_follows_the_io(drive: DriveProcess) -> None:
    fio(drive, "--rw=read", "--bs=128k", "--iodepth=16", "--time_based", "--runtime=1")
    now = time.monotonic_ns()
    truth = truth_after(drive, now)
    burst = max(truth.bursts, key=lambda b: b.end_ns - b.begin_ns)
    # From mark to mark: within the 10 ms between two, the truth is only interpolated.
    marks = truth.ticks["t_ns"].astype(np.int64)
    edges = marks[(marks >= burst.begin_ns) & (marks <= burst.end_ns)][[0, -1]]
    assert edges[1] - edges[0] > 50_000_000
    reader = StateReader(drive.trace)
    for rail, watts in truth.mean_watts(*map(int, edges)).items():
        seen = reader.means(f"joules_{rail}", edges[:1], edges[1:])[0]
        assert seen == pytest.approx(watts, rel=0.01)


HELD_S = 0.4


def test_fio_held_before_its_first_io_costs_nothing(drive: DriveProcess, tmp_path: Path) -> None:
    """fio connects before ``exec_prerun``, and does no I/O until it is released."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command = ["fio", "--name=held", "--ioengine=nbd", f"--uri={drive.uri}", "--size=1g"]
    command += ["--rw=randread", "--io_size=1m", f"--exec_prerun=cat {gate}"]
    process = psutil.Process(drive.process.pid)
    before = process.num_fds()
    begin_ns = time.monotonic_ns()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tmp_path) as held:
        until(lambda: process.num_fds() == before + 1)
        with gate.open("wb"):  # opens when fio's shell reads it: fio is there, and waits
            opened_ns = time.monotonic_ns()
            time.sleep(HELD_S)
        assert held.wait(20) == 0
    truth = truth_after(drive, time.monotonic_ns())
    bursts = [burst for burst in truth.bursts if burst.begin_ns > begin_ns]
    assert sum(burst.operations for burst in bursts) == 256
    # the drive's own time may be some ticks behind that of a busy machine
    assert bursts[0].begin_ns > opened_ns + HELD_S * 1e9 / 2


def test_reads_are_zeros_and_commands_are_answered(drive: DriveProcess) -> None:
    with Client(drive) as client:
        client.send(WRITE, 8192, 4096)
        client.socket.sendall(b"x" * 4096)
        assert client.reply() == 0
        for command, offset, length in (
            (READ, 8192, 8192),
            (FLUSH, 0, 0),
            (TRIM, 0, 1 << 30),
            (WRITE_ZEROES, 4096, 4096),
        ):
            client.send(command, offset, length)
            assert client.reply() == 0
            if command == READ:
                assert client.receive(length) == bytes(length)
        client.socket.sendall(request(READ, 0, 4096) * 5 + request(DISCONNECT, 0, 0))
        for _ in range(5):  # what is in flight is still answered
            assert client.reply() == 0
            client.receive(4096)
        assert client.is_closed()


def test_impossible_requests_are_refused_and_the_connection_stays(drive: DriveProcess) -> None:
    size = 200_000_000_000
    with Client(drive) as client:
        for command, offset, length, flags in (
            (READ, size, 4096, 0),
            (READ, size - 4096, 8192, 0),
            (READ, 2**64 - 4096, 4096, 0),
            (READ, 0, 0, 0),
            (READ, 100, 4096, 0),
            (READ, 0, (64 << 20) + 512, 0),
            (READ, 0, 4096, 1 << 8),
            (TRIM, size, 4096, 0),
            (77, 0, 4096, 0),
        ):
            client.send(command, offset, length, flags)
            assert client.reply() == EINVAL, (command, offset, length)
        client.send(WRITE, size, 4096)
        client.socket.sendall(bytes(4096))
        assert client.reply() == EINVAL
        client.send(READ, 0, 512)
        assert client.reply() == 0


def check_alive(drive: DriveProcess) -> None:
    with Client(drive) as client:
        client.send(READ, 4096, 4096)
        assert client.reply() == 0
        assert client.receive(4096) == bytes(4096)


def test_messages_may_arrive_byte_by_byte(drive: DriveProcess) -> None:
    go = OPTION.pack(OPTION_MAGIC, 7, 6) + bytes(6)
    message = struct.pack(">I", 3) + go + request(WRITE, 0, 512) + bytes(512)
    with Client(drive, transmission=False) as client:
        for byte in message:
            client.socket.sendall(bytes([byte]))
        while client.option_reply()[0] != 1:
            pass
        assert client.reply() == 0


@pytest.mark.parametrize(
    "message",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 0),  # not fixed newstyle
        struct.pack(">I", 3) + bytes(16),
        struct.pack(">I", 3) + OPTION.pack(OPTION_MAGIC, 7, 1 << 30),
        struct.pack(">I", 3) + OPTION.pack(OPTION_MAGIC, 1, 4) + b"name",
        struct.pack(">I", 3) + OPTION.pack(OPTION_MAGIC, 1, 0) + bytes(28),
        struct.pack(">I", 3) + OPTION.pack(OPTION_MAGIC, 1, 0) + request(WRITE, 0, 1 << 31),
    ],
)
def test_garbage_closes_the_connection_and_nothing_else(
    drive: DriveProcess, message: bytes
) -> None:
    with Client(drive, transmission=False) as client:
        client.socket.sendall(message)
        while not client.is_closed():
            pass
    check_alive(drive)


def test_a_client_may_die_at_any_moment(drive: DriveProcess) -> None:
    unfetched, half = request(READ, 0, 4 << 20) * 50, request(READ, 0, 4096)[:10]
    for message in (unfetched, request(WRITE, 0, 1 << 20) + bytes(1000), half):
        with Client(drive) as client:
            client.socket.sendall(message)
            time.sleep(0.01)
        check_alive(drive)


def test_a_client_that_fetches_nothing_is_not_served_without_end(drive: DriveProcess) -> None:
    process = psutil.Process(drive.process.pid)
    before = process.memory_info().rss
    with Client(drive) as client:
        client.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            for _ in range(100_000):
                client.socket.sendall(request(READ, 0, 65536) * 100)
        check_alive(drive)
    assert process.memory_info().rss - before < 64 << 20


def test_options_of_the_negotiation(drive: DriveProcess) -> None:
    unsupported, invalid, unknown = 0x80000001, 0x80000003, 0x80000006
    with Client(drive, transmission=False) as client:
        client.socket.sendall(struct.pack(">I", 3))
        for option, data, kind in (
            (8, b"", unsupported),  # structured replies
            (5, b"", unsupported),  # TLS
            (7, b"\0", invalid),
            (7, struct.pack(">I", 5) + b"other" + bytes(2), unknown),
        ):
            client.option(option, data)
            assert client.option_reply() == (kind, b"")
        client.option(3)
        assert client.option_reply() == (2, bytes(4))
        assert client.option_reply() == (1, b"")
        client.option(6, bytes(6))
        kind, info = client.option_reply()
        _, size, flags = struct.unpack(">HQH", info)
        assert (kind, size) == (3, 200_000_000_000)
        assert flags & 0x100  # several connections see one drive
        assert client.option_reply() == (3, struct.pack(">HIII", 3, 512, 4096, 64 << 20))
        assert client.option_reply()[0] == 1
        client.option(2)
        assert client.option_reply() == (1, b"")
        assert client.is_closed()


def test_what_the_host_sees(drive: DriveProcess) -> None:
    def read(name: str) -> str:
        return (drive.hwmon / name).read_text().strip()

    assert (read("name"), read("temp1_label"), read("temp1_max")) == ("nvme", "Composite", "70000")
    began_s = time.time()
    log = drive.directory / "nvme-state" / "log-2.bin"
    until(lambda: log.stat().st_mtime > began_s)  # written since the tests before
    before = smart_log(drive)
    fio(drive, "--rw=write", "--bs=128k", "--iodepth=8", "--io_size=128m")
    until(lambda: smart_log(drive).host_writes[0] == before.host_writes[0] + 1024)
    after = smart_log(drive)
    units = after.data_units_written[0] - before.data_units_written[0]
    assert units == pytest.approx((128 << 20) / 512_000, abs=1)
    truth = truth_after(drive, time.monotonic_ns())
    celsius = float(truth.celsius(truth.end_ns))
    assert int(read("temp1_input")) / 1000 == pytest.approx(celsius, abs=3)
    assert after.composite_kelvin - 273.15 == pytest.approx(celsius, abs=3)
    identity = IdentifyController.from_buffer_copy(nvme(drive, "id-ctrl"))
    assert (identity.warning_kelvin, identity.critical_kelvin) == (343, 353)
    assert identity.serial_number.strip() == b"SIM0000000000001"
    powers = [state.maximum_power for state in identity.power_states]
    assert powers == [2500, 1200, 650, *[0] * 29]
    power = ["/dev/nvme0", "--feature-id=2"]
    for value, good in (("2", True), ("3", False), ("", False)):
        done = subprocess.run([drive.nvme, "set-feature", *power, f"--value={value}"], timeout=10)
        assert (done.returncode == 0) == good
    output = subprocess.check_output([drive.nvme, "get-feature", *power], text=True, timeout=10)
    assert output == "get-feature:0x02 (Feature), Current value:0x00000002\n"
    assert subprocess.run([drive.nvme, "id-ctrl", "/dev/nvme0"]).returncode != 0  # in words


def test_heat_slows_fio_down_and_the_truth_says_when(tmp_path: Path) -> None:
    hot = {
        "thermal.composite_joules_per_kelvin": 0.15,
        "thermal.case_joules_per_kelvin": 0.25,
        "speed_divisor": 60.0,  # as hot as a fast one, however busy this machine is
    }
    with start_drive(tmp_path / "hot", overrides=hot) as drive:
        fio(drive, "--rw=write", "--bs=128k", "--iodepth=8", "--time_based", "--runtime=3")
        truth = truth_after(drive, time.monotonic_ns())
    levels = {interval.level for interval in truth.throttle_intervals()}
    assert levels == {1, 2}
    parameters = load(overrides=hot)
    first = truth.throttle_intervals()[0]
    seconds = (first.end_ns - first.begin_ns) / NS_PER_S
    bytes_per_s = parameters.controller.write_bytes_per_s / parameters.speed_divisor
    most = parameters.throttle.light.speed_share * bytes_per_s * seconds / (128 << 10)
    in_the_queue = 8
    assert truth.operations(first.begin_ns, first.end_ns)["writes"] <= most + in_the_queue


def test_a_drive_that_is_given_nonsense_says_what_and_where(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "instruments.simulated.drive",
        "--dir",
        str(tmp_path / "x"),
    ]
    done = subprocess.run([*command, "--set", "nand.dies=0"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "nand.dies" in done.stderr
    with pytest.raises(RuntimeError, match="did not start"):
        start_drive(tmp_path / "y", overrides={"nand.nothing": 1})


def test_sigterm_ends_it_and_leaves_a_whole_truth(tmp_path: Path) -> None:
    with start_drive(tmp_path / "drive", seed=5) as drive:
        with Client(drive) as client:
            for _ in range(10):
                client.send(READ, 0, 4096)
                assert client.reply() == 0
                client.receive(4096)
            time.sleep(0.05)
            drive.process.send_signal(signal.SIGTERM)
            assert drive.process.wait(5) == 0
            assert client.is_closed()
        assert not drive.socket.exists()
    truth = GroundTruth(drive.truth)
    assert truth.description["seed"] == 5
    assert truth.ticks["reads"][-1] == 10
    assert sum(burst.operations for burst in truth.bursts) == 10


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from instruments.simulated.drive.process import start_drive\n"
        "print(start_drive(Path(sys.argv[1])).process.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "drive")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")
