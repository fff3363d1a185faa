"""The process of the simulated drive: ``python -m instruments.simulated.drive --dir DIR``.

It makes in DIR: ``drive.sock`` (NBD, for fio), ``trace`` (for the simulated meters), ``truth/``
(for tests), ``hwmon/`` and ``nvme`` (what a host sees of the drive). :func:`start_drive` starts
it from Python and waits until it serves.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pydantic import ValidationError

from instruments.child_process import end_process, start_until_ready
from instruments.simulated.drive.drive_host_files import DriveHostFiles
from instruments.simulated.drive.ground_truth import GroundTruthWriter
from instruments.simulated.drive.model import TICK_NS, DriveModel
from instruments.simulated.drive.nbd import NbdServer
from instruments.simulated.drive.parameters import REFERENCE, Parameters, load, override
from instruments.simulated.drive.state_ring import StateWriter

_FLUSH_TICKS = 250  # truth and hwmon each 250 ms
_COMMAND_TICKS = 50  # a command waits 25 ms for it on average
_SMART_TICKS = 500
_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29  # linux/prctl.h
_START_TIMEOUT_S: Final = 20.0


class SimulatedDrive:
    """The model, and the files that follow it; the NBD server calls ``advance``.

    Files are written by a thread: on a busy disk a write has taken seconds, in which no request
    would have been answered.
    """

    def __init__(self, directory: Path, parameters: Parameters, seed: int) -> None:
        start_ns = time.monotonic_ns()
        self.ssd = DriveModel(parameters, seed, start_ns)
        self._state_ring = StateWriter(directory / "trace")
        self._ground_truth = GroundTruthWriter(directory / "truth", parameters, seed)
        self._host_files = DriveHostFiles(directory, self.ssd)
        self._ticks = 0
        self._files = ThreadPoolExecutor(1, "files")
        self._pending: dict[Callable[[], None], Future[None]] = {}

    def advance(self, now_ns: int) -> int:
        """Run the ticks that end by ``now_ns``; when the next one ends."""
        ssd = self.ssd
        while ssd.t_ns + TICK_NS <= now_ns:
            tick = ssd.tick()
            self._state_ring.append(*tick)
            self._ground_truth.append(tick)
            self._ticks += 1
            if self._ticks % _COMMAND_TICKS == 0:
                self._soon(self._host_files.read_features)
            if self._ticks % _FLUSH_TICKS == 0:
                self._soon(self._flush)
                if self._ticks % _SMART_TICKS == 0:
                    self._soon(self._host_files.update_smart_log)
        return ssd.t_ns + TICK_NS

    def _soon(self, write: Callable[[], None]) -> None:
        """Have the thread do it, unless it has not done so since the last time."""
        before = self._pending.get(write)
        if before is None or before.done():
            if before is not None:
                before.result()  # raises what went wrong
            self._pending[write] = self._files.submit(write)

    def _flush(self) -> None:
        self._ground_truth.flush(self.ssd.ended_bursts())
        self._host_files.update_temperatures()

    def close(self) -> None:
        """Write the rest of the ground truth and close the files."""
        self._files.shutdown()
        self._ground_truth.flush(self.ssd.ended_bursts())
        self._ground_truth.close()
        self._state_ring.close()


@dataclass
class DriveProcess:
    """A running drive. ``with start_drive(…) as drive:`` ends it."""

    directory: Path
    process: subprocess.Popen[bytes]

    @property
    def socket(self) -> Path:
        """Its NBD socket."""
        return self.directory / "drive.sock"

    @property
    def uri(self) -> str:
        """What fio's nbd engine takes."""
        return f"nbd+unix:///?socket={self.socket}"

    @property
    def trace(self) -> Path:
        """For ``StateReader``."""
        return self.directory / "trace"

    @property
    def truth(self) -> Path:
        """For ``GroundTruth``."""
        return self.directory / "truth"

    @property
    def hwmon(self) -> Path:
        """A directory like ``/sys/class/hwmon/hwmonN``."""
        return self.directory / "hwmon"

    @property
    def nvme(self) -> Path:
        """An executable that answers as nvme-cli does."""
        return self.directory / "nvme"

    def stop(self) -> None:
        """End the process: SIGTERM, then SIGKILL after 5 s."""
        end_process(self.process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_drive(
    directory: Path,
    parameters: Path = REFERENCE,
    overrides: Mapping[str, object] | None = None,
    seed: int = 1,
) -> DriveProcess:
    """Start a drive in ``directory`` (made if missing) and wait until it serves.

    ``overrides`` are dotted keys and values, as in :func:`.parameters.load`. The drive dies with
    the *thread* that called this: that is how the kernel has it. Raises RuntimeError when it does
    not come up; its stderr is the caller's.
    """
    command = [sys.executable, "-m", __name__, "--dir", str(directory)]
    command += ["--parameters", str(parameters), "--seed", str(seed)]
    for key, value in (overrides or {}).items():
        command += ["--set", f"{key}={json.dumps(value)}"]
    command += ["--die-with-parent", str(os.getpid())]
    process, _ = start_until_ready(command, f"the simulated drive in {directory}", _START_TIMEOUT_S)
    return DriveProcess(directory, process)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the drive until SIGTERM or SIGINT. Exit status 2: the parameters are wrong."""
    parser = argparse.ArgumentParser(prog="instruments.simulated.drive", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="where its files go")
    parser.add_argument("--parameters", type=Path, default=REFERENCE, help="a TOML file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--die-with-parent",
        type=int,
        nargs="?",
        const=os.getppid(),
        metavar="PID",
        help="end when the parent ends; PID tells it apart from one that ended already",
    )
    options = parser.parse_args(arguments)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if options.die_with_parent is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != options.die_with_parent:  # the parent ended before prctl
            return 1
    try:
        parameters = load(options.parameters, dict(override(text) for text in options.set))
    except (OSError, ValueError) as error:
        print(f"{options.parameters}: {_error_text(error)}", file=sys.stderr)
        return 2
    prctl(_PR_SET_TIMERSLACK, 1)

    directory: Path = options.dir
    directory.mkdir(parents=True, exist_ok=True)
    drive = SimulatedDrive(directory, parameters, options.seed)
    socket = directory / "drive.sock"
    size = parameters.identity.capacity_bytes
    server = NbdServer(socket, size, drive.ssd, drive.advance)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    gc.freeze()
    gc.disable()  # the loop makes no cycles, and a collection is a pause
    print(json.dumps({"pid": os.getpid(), "socket": str(socket), "bytes": size}), flush=True)
    try:
        server.serve()
    finally:
        socket.unlink(missing_ok=True)
        drive.close()
    return 0


def _error_text(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    lines = (
        f"{'.'.join(str(part) for part in mistake['loc'])}: {mistake['msg']}"
        f" (is {mistake['input']!r})"
        for mistake in error.errors()
    )
    return "; ".join(lines)


if __name__ == "__main__":
    sys.exit(main())
