"""What chaos happens to: a bench, a daemon on a small disk, servers, and a host behind ssh."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from instruments.simulated.bench import Bench, configure
from instruments.transports.ssh import CONFIG_VARIABLE
from labctl.errors import NOT_NOW
from labctl.service.data_dir import HOME_VARIABLE, Home
from labctl.service.locks.rig_lock import RigUse, rigs_in_use
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE
from tests.faults.conftest import SLOW
from tests.faults.daemon_run import DaemonProcess
from tests.faults.stepped_clock import SteppedClock
from tests.servers.influx_server import ORG, InfluxServer, InfluxServer1, influxd, influxd1
from tests.servers.mqtt_server import Mosquitto, mosquitto
from tests.ssh.sshd import HOST, Sshd

DISK_BYTES = 4 << 30
"""Of memory, and only as far as it is used. With less, runs would wait for room."""
DISCARD = "http://127.0.0.1:9"
"""Where there is no InfluxDB: nobody listens on the discard port."""
BEGIN_AGAIN_S = 1.0
"""Pause before a daemon that has ended is started again, as systemd does."""

Made = TypeVar("Made")


@dataclass
class Place:
    """``with Place.made(folder) as place:``; what is missing on this machine is None."""

    folder: Path
    bench: Bench
    daemon: DaemonProcess
    rig: Path
    sshd: Sshd | None
    influx: InfluxServer | None
    broker: Mosquitto | None
    clock: SteppedClock | None
    disk: Path | None
    """The data directory, where it is a small disk of its own."""
    wrong: list[str] = field(default_factory=list)
    _killed_s: float = 0.0

    @classmethod
    @contextlib.contextmanager
    def made(cls, folder: Path) -> Iterator[Place]:
        with contextlib.ExitStack() as stack:
            bench = stack.enter_context(Bench(folder / "bench", configure(overrides=SLOW)))
            home = folder / "home"
            home.mkdir(mode=0o700)
            disk = home if _mounted(home) else None
            if disk is not None:
                stack.callback(subprocess.run, ["umount", "-l", str(home)], check=False)
            hosted = folder / "tmp-of-host"
            hosted.mkdir()
            sshd = _or_none(lambda: Sshd(folder / "sshd", {"TMPDIR": str(hosted)}))
            if sshd is not None:
                stack.enter_context(sshd)
            influx = _influx(folder / "influx")
            broker = Mosquitto(folder / "broker") if mosquitto() else None
            for server in (influx, broker):
                if server is not None:
                    server.start()
                    stack.callback(server.kill)
            clock = _or_none(lambda: SteppedClock(folder))
            variables = dict(clock.variables) if clock is not None else {}
            variables[TOKEN_VARIABLE] = influx.token if influx is not None else "nobody asks"
            if sshd is not None:
                variables[CONFIG_VARIABLE] = str(sshd.config)
            os.environ |= {name: variables[name] for name in (TOKEN_VARIABLE, CONFIG_VARIABLE)
                           if name in variables}  # fmt: skip
            rig = folder / "rig.toml"
            variables[HOME_VARIABLE] = str(home)
            daemon = DaemonProcess(home, rig, **variables)
            place = cls(folder, bench, daemon, rig, sshd, influx, broker, clock, disk)
            place.write_rig(remote=False, bucket="main")
            yield stack.enter_context(_ended(place))

    @property
    def home(self) -> Home:
        return self.daemon.home

    def missing(self) -> list[str]:
        """What cannot be done on this machine."""
        needed = {
            "no sshd": self.sshd,
            "no influxd": self.influx,
            "no mosquitto": self.broker,
            "no C compiler, so no steps of the wall clock": self.clock,
            "no right to mount a small disk, so no full one": self.disk,
        }
        return [words for words, found in needed.items() if found is None]

    def write_rig(self, *, remote: bool, bucket: str) -> None:
        """The rig of the next jobs: its drive here or behind ssh, its database."""
        text = self.bench.rig.read_text()
        if remote:
            text = text.replace('host = "local"', f'host = "{HOST}"')
        url = self.influx.url if self.influx is not None else DISCARD
        text += f'\n[sinks.influxdb]\nurl = "{url}"\norg = "{ORG}"\nbucket = "{bucket}"\n'
        if self.broker is not None:
            text += f'\n[sinks.mqtt]\nhost = "127.0.0.1"\nport = {self.broker.port}\n'
        self.rig.write_text(text)

    def run_on(self) -> RigUse | None:
        """The job's run that is on."""
        return next((use for use in rigs_in_use(self.home) if use.job is not None), None)

    def kill_daemon(self) -> None:
        self.daemon.end(signal.SIGKILL)
        self._killed_s = time.monotonic()

    def keep_daemon_up(self) -> None:
        """Start a daemon that has ended again, as systemd does. One that ended by itself is wrong,
        unless the rig is still held by a run of the one before."""
        process = self.daemon.process
        if process is not None and process.poll() is None:
            return
        if process is not None:
            killed = process.returncode == -signal.SIGKILL
            if not killed and process.returncode != NOT_NOW:
                self.wrong.append(f"the daemon ended by itself with {process.returncode}")
            if process.returncode == NOT_NOW and time.monotonic() - self._killed_s > 90:
                self.wrong.append("the daemon is refused although no run can be left")
                self._killed_s = time.monotonic()
            time.sleep(0.0 if killed else BEGIN_AGAIN_S)
        self.daemon.start()

    def start_daemon_anew(self) -> None:
        """End the daemon as a person does, and start it with the rig as it is now."""
        process = self.daemon.process
        if process is not None and process.poll() is None and self.daemon.end() != 0:
            self.wrong.append("the daemon did not end with 0 after SIGTERM")
        self.daemon.process = None
        self.daemon.start()

    def power_state(self) -> str:
        """Of the drive."""
        return (self.bench.directory / "nvme-state" / "power-state").read_text().strip()

    def processes(self) -> list[psutil.Process]:
        """Everything that labctl started and that is there now, here or on the drive's host."""
        found = []
        mark = str(self.folder)
        for process in psutil.process_iter():
            try:
                ours = process.environ().get(HOME_VARIABLE) == str(self.home.path)
                hosted = process.cwd().startswith(f"{mark}/tmp-of-host/")
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            if ours or hosted:
                found.append(process)
        return found


@contextlib.contextmanager
def _ended(place: Place) -> Iterator[Place]:
    try:
        yield place
    finally:
        process = place.daemon.process
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait(90)


def _mounted(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def make_full(disk: Path) -> None:
    """Leave no room on a disk."""
    about = os.statvfs(disk)
    _resize(disk, (about.f_blocks - about.f_bfree) * about.f_frsize)


def make_room(disk: Path) -> None:
    """Give it back what it had."""
    _resize(disk, DISK_BYTES)


def _resize(disk: Path, size_bytes: int) -> None:
    command = ["mount", "-o", f"remount,size={size_bytes}", str(disk)]
    subprocess.run(command, check=True, capture_output=True)


def _or_none(make: Callable[[], Made]) -> Made | None:
    """What a test would be skipped without."""
    try:
        return make()
    except pytest.skip.Exception:
        return None


def _influx(folder: Path) -> InfluxServer | None:
    folder.mkdir()
    if influxd() is not None:
        return InfluxServer(folder)
    return InfluxServer1(folder) if influxd1() is not None else None
