"""What is done to the drive and its host besides I/O: purge, power state, CPU governor.

Nothing here asks whether it may be done: see :mod:`labctl.capture.drive.target`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from labctl.capture.host.machine import NOT_FOUND, Machine, run_tool
from labctl.errors import RunFailed
from labctl.phase import Phase
from labctl.rig import Drive

GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
POLL_EVERY_S = 2.0
QUICKLY_S = 30.0

_NVME = re.compile(r"^(/dev/nvme\d+)n\d+$")
_POWER_MANAGEMENT = "2"
"""NVMe base specification 2.0, Set Features: feature identifier 02h, the state in bits 4:0."""
_USER_DATA_ERASE = "1"
"""Format NVM: secure erase settings 001b."""
_BLOCK_ERASE = "2"
"""Sanitize: sanitize action 010b."""
_SANITIZE_OVER = 65535
"""Sanitize progress (SPROG) when no sanitize is in progress."""
_SUCCESSFUL = (1, 4)
"""Sanitize status (SSTAT bits 2:0): completed; completed without deallocation."""


class DriveControl:
    """Acts on one drive, and puts back what it changed: see :meth:`restore`.

    Every method may take long and raises RunFailed with what to do about it.
    """

    def __init__(self, machine: Machine, drive: Drive) -> None:
        self._machine = machine
        self._drive = drive
        self._power_state_before: int | None = None
        self._governors_before: dict[str, str] = {}

    @property
    def _device(self) -> str:
        return self._machine.resolve(self._drive.target) or self._drive.target

    @property
    def _controller(self) -> str:
        """Whose power state it is: asked by namespace, a strict drive refuses (status 10Fh)."""
        found = _NVME.match(self._device)
        return found[1] if found else self._device

    def purge(self, phase: Phase, stopped: Callable[[], bool] = lambda: False) -> str:
        """Take the drive back to fresh by ``phase.purge_method``; the method that was used."""
        method = phase.purge_method
        controller = _NVME.match(self._device)
        if method == "auto":
            method = "format" if controller else "discard"
        if method in ("format", "sanitize") and controller is None:
            raise RunFailed(
                f"purge by {method} needs an NVMe drive; {self._drive.target} is none: use "
                'method = "discard"'
            )
        if method == "format":
            self._run(["nvme", "format", self._device, f"--ses={_USER_DATA_ERASE}"], phase)
        elif method == "sanitize":
            assert controller is not None
            self._sanitize(controller[1], phase, stopped)
        else:
            self._run(self._discarding(), phase)
        return method

    def _discarding(self) -> list[str]:
        drive = self._drive
        if drive.engine == "nbd":
            size = [f"--size={drive.size_bytes}"] if drive.size_bytes else []
            job = ["--name=purge", "--rw=trim", "--bs=1m", "--iodepth=8", *size]
            return ["fio", "--ioengine=nbd", f"--uri={drive.target}", *job]
        if self._device.startswith("/dev/"):
            return ["blkdiscard", self._device]
        return ["fallocate", "--punch-hole", "--length", str(drive.size_bytes or 0), self._device]

    def _sanitize(self, controller: str, phase: Phase, stopped: Callable[[], bool]) -> None:
        deadline = time.monotonic() + phase.duration_s
        self._run(["nvme", "sanitize", controller, f"--sanact={_BLOCK_ERASE}"], phase)
        while True:
            done = run_tool(self._machine, ["nvme", "sanitize-log", controller, "-o", "json"])
            progress, status = sanitize_state(done.stdout)
            if progress == _SANITIZE_OVER and status in _SUCCESSFUL:
                return
            if progress == _SANITIZE_OVER and status not in (None, 2):
                raise RunFailed(f"sanitize of {controller} failed (status {status})")
            if time.monotonic() > deadline:
                raise RunFailed(
                    f"sanitize of {controller} has not ended after {phase.duration_s:.0f} s; it "
                    "goes on in the drive: raise within_s of the purge"
                )
            if stopped():
                raise RunFailed(f"sanitize of {controller} goes on in the drive")
            time.sleep(POLL_EVERY_S)

    def _run(self, argv: list[str], phase: Phase) -> None:
        done = run_tool(self._machine, argv, phase.duration_s)
        if done.exit_code == 0:
            return
        if done.exit_code == NOT_FOUND:
            raise RunFailed(f"{argv[0]} is not installed on the drive's host: install it")
        said = " ".join((done.stderr or done.stdout).split())[:300]
        raise RunFailed(f"{' '.join(argv[:2])} of {self._drive.target} failed: {said}")

    def set_power_state(self, state: int) -> None:
        """Choose NVMe power state ``state`` and see that the drive took it."""
        if self._power_state_before is None:
            self._power_state_before = self.power_state()
        self._set_power_state(state)

    def _set_power_state(self, state: int) -> None:
        command = [
            "nvme",
            "set-feature",
            self._controller,
            "-f",
            _POWER_MANAGEMENT,
            "-v",
            str(state),
        ]
        done = run_tool(self._machine, command, QUICKLY_S)
        if done.exit_code:
            said = " ".join((done.stderr or done.stdout).split())[:300]
            raise RunFailed(
                f"power state {state} of {self._drive.target} cannot be set: {said}; 'nvme "
                "id-ctrl' lists the states that the drive has, and root is needed"
            )
        taken = self.power_state()
        if taken != state:
            raise RunFailed(f"{self._drive.target} stays in power state {taken}, not {state}")

    def power_state(self) -> int:
        """The power state that the drive is in."""
        command = ["nvme", "get-feature", self._controller, "-f", _POWER_MANAGEMENT]
        done = run_tool(self._machine, command, QUICKLY_S)
        found = re.search(r"value\s*:\s*(?:0x)?([0-9a-fA-F]+)", done.stdout)
        if done.exit_code or found is None:
            said = " ".join((done.stderr or done.stdout).split())[:300]
            raise RunFailed(
                f"the power state of {self._drive.target} cannot be read: {said or 'no nvme-cli'}; "
                "install nvme-cli and run as root"
            )
        return int(found[1], 16) & 0x1F

    def set_governor(self, governor: str) -> None:
        """Choose the CPU frequency governor of every core."""
        before = {
            path: text.strip() for path, text in self._machine.read_texts([GOVERNORS]).items()
        }
        if not before:
            raise RunFailed("the drive's host has no CPU governors to set; leave governor out")
        self._write_governors(dict.fromkeys(before, governor))
        self._governors_before = before

    def _write_governors(self, wanted: dict[str, str]) -> None:
        script = 'while [ $# -gt 1 ]; do echo "$2" > "$1" || exit 1; shift 2; done'
        pairs = [word for path, governor in wanted.items() for word in (path, governor)]
        done = self._machine.run(["sh", "-c", script, "sh", *pairs])
        if done.exit_code:
            available = self._machine.read_texts(
                [GOVERNORS.replace("scaling_governor", "scaling_available_governors")]
            )
            there = ", ".join(
                sorted({word for text in available.values() for word in text.split()})
            )
            raise RunFailed(
                f"the CPU governor cannot be set ({' '.join(done.stderr.split())[:200]}); root is "
                f"needed; the host has: {there or 'unknown'}"
            )

    def restore(self) -> list[str]:
        """Put back what was changed; what could not be, in words. Never raises."""
        problems = []
        if self._power_state_before is not None:
            try:
                self._set_power_state(self._power_state_before)
                self._power_state_before = None
            except RunFailed as error:
                problems.append(str(error))
        if self._governors_before:
            try:
                self._write_governors(self._governors_before)
                self._governors_before = {}
            except RunFailed as error:
                problems.append(str(error))
        return problems


def sanitize_state(text: str) -> tuple[int | None, int | None]:
    """Progress (0 to 65535) and status of ``nvme sanitize-log -o json``, in all its variants.

    The log is an object by the drive's name or stands alone; the status is a number (bits 2:0) or
    an object whose ``status`` begins with it in brackets.
    """
    try:
        data = json.loads(text)
    except ValueError:
        return None, None
    found = {key.lower(): value for key, value in _entries(data)}
    status = found.get("sstat")
    if isinstance(status, dict):
        number = re.search(r"\d+", str(status.get("status", "")))
        status = int(number[0]) if number else None
    elif isinstance(status, str):
        status = int(status, 0) if re.fullmatch(r"(0x)?[0-9a-fA-F]+", status) else None
    progress = found.get("sprog")
    return (
        progress if isinstance(progress, int) else None,
        status & 7 if isinstance(status, int) else None,
    )


def _entries(data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield key, value
            if key.lower() != "sstat":
                yield from _entries(value)
