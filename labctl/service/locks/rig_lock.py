"""One user a rig: a lock that the kernel frees when its holder ends, however it ends.

Each drive that the rig names is locked: two rig files for one drive share a lock, and two benches
of the same name do not.

The daemon holds the lock of each of its rigs for as long as it lives. A run that it starts gets
the open lock handed down (``LABCTL_RIG_LOCK``), so a run by hand is refused while the daemon's own
are not, and a rig stays taken until the last process that uses it has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from labctl.config.rig import Rig
from labctl.errors import LabctlError
from labctl.service.data_dir import Home, HomeUnusable, make_folder, read_small, write_private
from labctl.service.locks.machine_lock import canonical_target, take_on_machine
from labctl.service.locks.processes import ProcessIdentity, identity_of

HANDED_DOWN_VARIABLE = "LABCTL_RIG_LOCK"
JOB_VARIABLE = "LABCTL_JOB"
_MOST_BYTES = 16_384


class RigBusy(LabctlError):
    """Another process uses the rig."""

    exit_code = 2


class RigUse(BaseModel):
    """The run on a rig, for ``labctl status``: stored in ``rigs/<key>.json``, and not a lock."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: Annotated[int, Field(ge=1, le=1 << 31)]
    pid_ticks: Annotated[int, Field(ge=0, le=1 << 62)]
    boot_id: Annotated[str, Field(max_length=64)]
    run: Annotated[str, Field(max_length=4096)]
    """The run's directory."""
    rig: Annotated[str, Field(max_length=200)]
    plan: Annotated[str, Field(max_length=200)]
    job: Annotated[int, Field(ge=1, le=999_999)] | None = None

    @property
    def process(self) -> ProcessIdentity:
        """The process that runs it."""
        return ProcessIdentity(self.pid, self.pid_ticks, self.boot_id)


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a lock, by its own entry in the lock file."""

    process: ProcessIdentity
    what: str

    def __str__(self) -> str:
        return f"{self.what} (pid {self.process.pid})"


class RigLock:
    """The lock of one rig, held while this object lives or until :meth:`release`."""

    def __init__(self, home: Home, rig: Rig, descriptors: Sequence[int]) -> None:
        """``descriptors``: of each drive's locks, in this data directory and on this machine."""
        self.descriptors = tuple(descriptors)
        self._home = home
        self._rig = rig

    @classmethod
    def take(cls, home: Home, rig: Rig, what: str) -> Self:
        """Take it, as ``what`` ("labctl daemon").

        Raises RigBusy, which names the holder, HomeUnusable when there can be no lock at all.
        """
        make_folder(home.path)
        make_folder(home.rigs)
        descriptors: list[int] = []
        try:
            for one in _by_lock(home, rig).values():
                descriptors.append(cls._take_drive(home, one, what))
                on_machine = _take_on_machine(one)
                descriptors += [] if on_machine is None else [on_machine]
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        return cls(home, rig, descriptors)

    @staticmethod
    def _take_drive(home: Home, rig: Rig, what: str) -> int:
        """Take the lock of the only drive of ``rig``."""
        path = _lock_file(home, rig)
        handed_down = _handed_down(path)
        if handed_down is not None:
            return handed_down
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HomeUnusable(f"{path}: {error.strerror or error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            holder = holder_of(home, rig)
            raise RigBusy(
                f"rig {rig.name} is in use by {holder or 'another labctl'}: "
                + (
                    f"labctl queue add {rig.name} PLAN lets it do the work, or stop it first"
                    if holder is not None and "daemon" in holder.what
                    else "wait for its end, or stop it first"
                )
            ) from None
        me = identity_of(os.getpid())
        text = json.dumps(
            {"what": what, "pid": me.pid, "pid_ticks": me.ticks, "boot_id": me.boot_id}
        )
        with contextlib.suppress(OSError):  # a full disk: the lock holds without its label
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(), 0)
        return descriptor

    def note_run(self, run: Path, plan: str) -> None:
        """Store which run is on, for ``labctl status`` and ``labctl watch``; best effort."""
        me = identity_of(os.getpid())
        job = os.environ.get(JOB_VARIABLE, "")
        use = RigUse(
            pid=me.pid,
            pid_ticks=me.ticks,
            boot_id=me.boot_id,
            run=str(run.absolute()),
            rig=self._rig.name,
            plan=plan,
            job=int(job) if job.isdigit() else None,
        )
        with contextlib.suppress(OSError):
            write_private(_use_file(self._home, self._rig), use.model_dump_json() + "\n")

    def release(self) -> None:
        """Release the lock of each drive."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def holder_of(home: Home, rig: Rig) -> Holder | None:
    """The process that last took the lock (of several drives: the first's); None if not known."""
    try:
        first = next(iter(_by_lock(home, rig)))
        found = json.loads(read_small(first, _MOST_BYTES))
        process = ProcessIdentity(int(found["pid"]), int(found["pid_ticks"]), str(found["boot_id"]))
        return Holder(process, str(found["what"])[:200])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def use_of(home: Home, rig: Rig) -> RigUse | None:
    """The run that was begun last on a rig; it is on while its process is alive."""
    return _read_use(_use_file(home, rig))


def rigs_in_use(home: Home) -> list[RigUse]:
    """Everything of this data directory that runs now."""
    if not home.rigs.is_dir():
        return []
    uses = (_read_use(file) for file in sorted(home.rigs.glob("*.json")))
    return [use for use in uses if use is not None and use.process.alive]


def _read_use(file: Path) -> RigUse | None:
    try:
        return RigUse.model_validate_json(read_small(file, _MOST_BYTES))
    except (OSError, ValueError):
        return None


def _key(rig: Rig) -> str:
    targets = [canonical_target(rig.file.host, drive.target) for drive in rig.drives.values()]
    return hashlib.sha256("\n".join(targets).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _lock_file(home: Home, rig: Rig) -> Path:
    return home.rigs / f"{_key(rig)}.lock"


def _by_lock(home: Home, rig: Rig) -> dict[Path, Rig]:
    """The rig of each drive alone, by the drive's lock file, sorted: of two processes that want
    some of the same drives one gets all of its own."""
    found = {_lock_file(home, one): one for one in rig.each_drive().values()}
    return dict(sorted(found.items()))


def _use_file(home: Home, rig: Rig) -> Path:
    return home.rigs / f"{_key(rig)}.json"


def _given() -> list[int]:
    """The numbers of the descriptors that the daemon gave to its child."""
    numbers = os.environ.get(HANDED_DOWN_VARIABLE, "").split(",")
    return [int(number) for number in numbers if number.isdigit()]


def _handed_down(path: Path) -> int | None:
    """The open lock that the daemon gave to its child, if it is this drive's."""
    for number in _given():
        with contextlib.suppress(OSError, OverflowError):
            given, wanted = os.fstat(number), path.stat()
            if (given.st_dev, given.st_ino) == (wanted.st_dev, wanted.st_ino):
                return number
    return None


def _take_on_machine(rig: Rig) -> int | None:
    try:
        return take_on_machine(rig, _given())
    except BlockingIOError:
        raise RigBusy(
            f"rig {rig.name}: its drive is in use by a labctl of another user, or with another "
            "data directory (LABCTL_HOME): wait for its end, or stop it first"
        ) from None
