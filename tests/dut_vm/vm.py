"""A small virtual machine with an emulated NVMe drive, reached by ssh over loopback.

``build.sh`` makes its image once. The image is never written to: each boot begins with the same
system. The drive is a file in the test's directory and keeps what is written to it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests.dut_vm.qmp import Monitor

HOST = "dut"
USER = "lab"
USERS_HOST = "lab-on-dut"
"""The same machine, entered as a user without rights: see :meth:`DutVm.add_user`."""
DRIVE = "/dev/nvme0n1"
SECOND_NAMESPACE = "/dev/nvme0n2"
SERIAL = "DUTVM0001"
SYSTEM_SERIAL = "DUTSYSTEM"
DRIVE_BYTES = 1 << 30
SECOND_BYTES = 64 << 20
BUILD = Path(__file__).with_name("build.sh")
BOOT_WITHIN_S = 300.0
"""Without KVM the guest's processor is emulated: about a minute, more on a busy machine."""

_NVME = "/machine/peripheral/nvme0"
_FILES = ("made_by", "root.img", "vmlinuz", "initrd.img", "user_key", "host_key.pub")


class MissingPart(Exception):
    """Something that the machine is made of is not here; says what to do."""


def image_directory() -> Path:
    """Where ``make test-vm`` keeps the image."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("DUT_VM") or Path(cache) / "labctl" / "dut-vm")


class DutVm:
    """The machine, and the ssh configuration that reaches it as ``dut``."""

    def __init__(self, directory: Path, image: Path) -> None:
        """``directory`` takes the drive and the logs. Raises MissingPart."""
        if shutil.which("qemu-system-x86_64") is None:
            raise MissingPart("no QEMU here (Debian: apt install qemu-system-x86)")
        if any(not (image / name).exists() for name in _FILES):
            raise MissingPart(f"there is no image in {image}: bash {BUILD} {image}")
        directory.mkdir(parents=True)
        self.console = directory / "console.log"
        self._directory = directory
        self._image = image
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._port: int = probe.getsockname()[1]
        for name, size in (("first", DRIVE_BYTES), ("second", SECOND_BYTES)):
            with (directory / f"{name}.raw").open("wb") as file:
                file.truncate(size)
        host_key = (image / "host_key.pub").read_text()
        (directory / "known_hosts").write_text(f"[127.0.0.1]:{self._port} {host_key}")
        self.config = directory / "ssh_config"
        self.config.write_text(
            f"""Host {HOST}
  User root
Host {USERS_HOST}
  User {USER}
Host {HOST} {USERS_HOST}
  HostName 127.0.0.1
  Port {self._port}
  IdentityFile {image}/user_key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {directory}/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  UpdateHostKeys no
"""
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._monitor: Monitor | None = None

    def _command(self) -> list[str]:
        image, directory = self._image, self._directory
        # /dev/kvm may be there and not work, in a machine that is itself virtual
        accel = os.environ.get("DUT_VM_ACCEL", "tcg")
        append = "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off quiet loglevel=5"
        # One processor for all its threads. On two, I/Os of the drive have stood still for a minute
        # (QEMU 7.2), as when a doorbell in the guest's memory is missed; never seen on one.
        one = max(os.sched_getaffinity(0))
        return [
            *("taskset", "--cpu-list", str(one), "qemu-system-x86_64"),
            *("-machine", "q35", "-accel", accel, "-smp", "1", "-m", "768"),
            *("-nodefaults", "-display", "none", "-serial", f"file:{self.console}"),
            *("-kernel", f"{image}/vmlinuz", "-initrd", f"{image}/initrd.img", "-append", append),
            *("-drive", f"id=root,file={image}/root.img,format=raw,if=none,snapshot=on"),
            *("-device", f"virtio-blk-pci,drive=root,serial={SYSTEM_SERIAL}"),
            *("-device", "virtio-rng-pci"),
            *("-device", "pcie-root-port,id=port1"),  # without a slot there is no link to report
            *("-device", f"nvme,id=nvme0,serial={SERIAL},bus=port1"),
            *("-drive", f"id=first,file={directory}/first.raw,format=raw,if=none"),
            *("-device", "nvme-ns,drive=first,bus=nvme0,nsid=1"),
            *("-drive", f"id=second,file={directory}/second.raw,format=raw,if=none"),
            *("-device", "nvme-ns,drive=second,bus=nvme0,nsid=2"),
            *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self._port}-:22"),
            *("-device", "virtio-net-pci,netdev=net,romfile="),
            *("-qmp", f"unix:{self._qmp},server=on,wait=off"),
        ]

    @property
    def _qmp(self) -> Path:
        return self._directory / "qmp"

    def start(self) -> None:
        """Boot it and wait until it lets us in. Raises RuntimeError with its last words."""
        with (self._directory / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + BOOT_WITHIN_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._ssh("true", timeout_s=20.0).returncode == 0:
                self._monitor = Monitor(self._qmp)
                return
            time.sleep(1.0)
        self.kill()
        output = (self._directory / "qemu.log").read_text() + self.console.read_text(
            errors="replace"
        )
        raise RuntimeError(f"the test machine did not come up:\n{output[-2000:]}")

    def kill(self) -> None:
        """The power goes: no process in it learns of it, and nothing answers any more."""
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def run(self, command: str, *, timeout_s: float = 120.0) -> str:
        """What a shell command in it prints. Raises AssertionError when it fails."""
        done = self._ssh(command, timeout_s)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def _ssh(self, command: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        ssh = ["ssh", "-F", str(self.config), "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"]
        try:
            return subprocess.run(
                [*ssh, HOST, command],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(ssh, 255, "", f"no answer within {timeout_s:g} s")

    def add_user(self) -> None:
        """Let ``USERS_HOST`` be entered; whoever enters there owns nothing."""
        home = f"/home/{USER}"
        self.run(
            f"id {USER} 2>&1 || {{ useradd -m -s /bin/sh {USER} && cp -r /root/.ssh {home}/ && "
            f"chown -R {USER}: {home}/.ssh; }}"
        )

    def fios(self) -> set[int]:
        """Process numbers of every fio in it."""
        return {int(word) for word in self.run("pgrep -x fio || true").split()}

    def set_critical_warning(self, bits: int) -> None:
        """Let the drive's SMART log show these bits (NVMe: 02h is "too hot or too cold")."""
        assert self._monitor is not None
        self._monitor.execute("qom-set", path=_NVME, property="smart_critical_warning", value=bits)

    @contextlib.contextmanager
    def network_unplugged(self) -> Iterator[None]:
        """Nothing passes the line inside, in either direction, and neither end is notified."""
        assert self._monitor is not None
        self._monitor.execute("set_link", name="net", up=False)
        try:
            yield
        finally:
            self._monitor.execute("set_link", name="net", up=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
