"""One user a rig: a lock that the kernel frees when its holder ends, however it ends.

Each drive and each meter that the rig names is locked, by every name that it has: two rig files for
one of them share a lock, and two benches of the same name do not.

The daemon holds the lock of each of its rigs for as long as it lives. A run that it starts gets
the open lock handed down (``LABCTL_RIG_LOCK``), so a run by hand is refused while the daemon's own
are not, and a rig stays taken until the last process that uses it has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from labctl.config.rig import Rig
from labctl.errors import NOT_NOW, LabctlError
from labctl.record.bounded_read import read_small
from labctl.record.file_lock import lock_file
from labctl.record.json_values import UNREADABLE
from labctl.service.data_dir import Home, HomeUnusable, make_folder, write_private
from labctl.service.locks.lock_keys import (
    LockKey,
    canonical_target,
    key_of_meter,
    keys_of_rig,
)
from labctl.service.locks.machine_lock import HeldByUser, take_on_machine
from labctl.service.locks.processes import ProcessIdentity, identity_of

HANDED_DOWN_VARIABLE = "LABCTL_RIG_LOCK"
JOB_VARIABLE = "LABCTL_JOB"
_MOST_BYTES = 16_384
_WAIT = "wait for its end, or stop it first"


class RigBusy(LabctlError):
    """Another process uses the rig."""

    exit_code = NOT_NOW


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

    def __init__(
        self, home: Home, rig: Rig, descriptors: Sequence[int], shared: Collection[int] = ()
    ) -> None:
        """``descriptors``: of all its locks, in this data directory and on this machine; those of
        them that are ``shared`` belong to the lock of another rig."""
        self.descriptors = tuple(descriptors)
        self._own = tuple(one for one in descriptors if one not in shared)
        self._home = home
        self._rig = rig

    @classmethod
    def take(cls, home: Home, rig: Rig, what: str, beside: Iterable[RigLock] = ()) -> Self:
        """Take it, as ``what`` ("labctl daemon").

        ``beside``: locks that this process has of other rigs; a meter of theirs may be this one's,
        too. Raises RigBusy, which names the holder, HomeUnusable when there can be no lock at all.
        """
        shared = [descriptor for lock in beside for descriptor in lock.descriptors]
        descriptors: list[int] = []
        try:
            for key in keys_of_rig(rig):
                given = [*_given_rig_locks(), *(shared if key.is_meter else ())]
                descriptors += _take_rig_lock(
                    home, key, what, given, f"labctl queue add {rig.name} PLAN"
                )
        except BaseException:
            cls(home, rig, descriptors, shared).release()
            raise
        return cls(home, rig, descriptors, shared)

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
        """Release all of it but what is shared with the lock of another rig."""
        for descriptor in self._own:
            os.close(descriptor)


@contextlib.contextmanager
def holding_meter(home: Home, address: str, what: str) -> Iterator[None]:
    """Hold the meter at ``address`` alone, of whatever rig it is. Raises RigBusy, HomeUnusable."""
    descriptors = _take_rig_lock(home, key_of_meter(address), what, [], "")
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def holder_of(home: Home, rig: Rig) -> Holder | None:
    """The process that last took the lock (of several drives: the first's); None if not known."""
    drive = next(iter(rig.drives.values()))
    return _rig_lock_holder(_lock_file(home, canonical_target(rig.file.host, drive.target)))


def _rig_lock_holder(file: Path) -> Holder | None:
    try:
        found = json.loads(read_small(file, _MOST_BYTES))
        process = ProcessIdentity(int(found["pid"]), int(found["pid_ticks"]), str(found["boot_id"]))
        return Holder(process, str(found["what"])[:200])
    except (OSError, *UNREADABLE):
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


def _use_file(home: Home, rig: Rig) -> Path:
    targets = (canonical_target(rig.file.host, drive.target) for drive in rig.drives.values())
    return home.rigs / f"{_rig_lock_digest(chr(10).join(targets))}.json"


def _lock_file(home: Home, name: str) -> Path:
    return home.rigs / f"{_rig_lock_digest(name)}.lock"


def _rig_lock_digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _given_rig_locks() -> list[int]:
    """The numbers of the descriptors that the daemon gave to its child."""
    numbers = os.environ.get(HANDED_DOWN_VARIABLE, "").split(",")
    return [int(number) for number in numbers if number.isdigit()]


def _take_rig_lock(
    home: Home, key: LockKey, what: str, given: Iterable[int], instead: str
) -> list[int]:
    """The descriptors that hold ``key``: in this data directory, and on this machine.

    ``given``: descriptors that may hold it already. ``instead``: what to do when a daemon has it.
    Raises RigBusy, HomeUnusable.
    """
    make_folder(home.rigs)
    path = _lock_file(home, key.name)
    given_lock = _already_open(path, given)
    descriptor = _open_rig_lock(path) if given_lock is None else given_lock
    with contextlib.ExitStack() as unless_held:
        if given_lock is None:
            unless_held.callback(os.close, descriptor)
        try:
            if not lock_file(descriptor):
                holder = _rig_lock_holder(path)
                queue = instead and holder is not None and "daemon" in holder.what
                raise RigBusy(
                    f"{key.what} is in use by {holder or 'another labctl'}: "
                    + (f"{instead} lets it do the work, or stop it first" if queue else _WAIT)
                )
            on_machine = take_on_machine(key, given)
        except HeldByUser as user:
            raise RigBusy(
                f"{key.what} is in use by a labctl of another user, or with another data directory "
                f"(LABCTL_HOME), of {user}: {_WAIT}"
            ) from None
        except OSError as error:
            raise HomeUnusable(f"{key.what} cannot be locked: {error.strerror or error}") from error
        unless_held.pop_all()
    if given_lock is None:
        _label_rig_lock(descriptor, what)
    return [descriptor, on_machine]


def _already_open(path: Path, given: Iterable[int]) -> int | None:
    """The open lock among ``given`` that is this one."""
    for number in given:
        with contextlib.suppress(OSError, OverflowError):
            there, wanted = os.fstat(number), path.stat()
            if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino):
                return number
    return None


def _open_rig_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HomeUnusable(f"{path}: {error.strerror or error}") from error


def _label_rig_lock(descriptor: int, what: str) -> None:
    """Write into a lock who holds it."""
    me = identity_of(os.getpid())
    text = json.dumps({"what": what, "pid": me.pid, "pid_ticks": me.ticks, "boot_id": me.boot_id})
    with contextlib.suppress(OSError):  # a full disk: the lock holds without its label
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
