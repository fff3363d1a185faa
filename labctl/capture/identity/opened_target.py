"""Give a program its targets as open files instead of names.

Each target is opened first, on the drive's host, and must be what the safety rules checked; the
program inherits the open file, and its name for it is ``/proc/self/fd/3`` (proc_pid_fd(5)),
which the kernel takes for the open file itself. See docs/decisions/0016-what-fio-opens.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath
from typing import Literal

from labctl.capture.host.machine import Machine
from labctl.capture.identity.node import DrivePlace, Node, find_place
from labctl.config.rig_file import Drive
from labctl.errors import RunFailed

NOT_WHAT_WAS_CHECKED = 66
"""Exit code of ``open_targets.sh`` (EX_NOINPUT of sysexits.h)."""
_FIRST = 3
_OF_ANY_SHELL = 7
"""Open files of one digit, beside the three that every program has (POSIX, 2.7)."""
_MAKE = (
    'cd -P -- "$1" && [ "$(stat -c %d:%i .)" = "$2" ] && umask 077 && set -C && exec 3> "./$3" && '
    "[ -f /proc/self/fd/3 ] && stat -L -c '%f %t %T %d %s %i' /proc/self/fd/3"
)
"""Makes the file in the directory that was checked. A shell with ``set -C`` makes a file with
O_EXCL or opens an existing device, so a regular file is a new one."""

Filling = Literal["data", "room"]


@dataclass(frozen=True, slots=True)
class OpenedTarget:
    """A target that a program is given as its open file ``number``.

    A file is extended to ``least_bytes`` first.
    """

    number: int
    place: DrivePlace
    node: Node
    least_bytes: int = 0

    @property
    def name(self) -> str:
        """The program's path of it."""
        return f"/proc/self/fd/{self.number}"

    @property
    def missing_bytes(self) -> int:
        """By how many bytes the file grows before the program begins."""
        return 0 if self.node.is_device else max(self.least_bytes - self.node.size_bytes, 0)


def given(
    drives: Mapping[str, Drive], places: Mapping[str, DrivePlace] | None, machine: Machine
) -> dict[str, OpenedTarget]:
    """The open target of each drive that is no NBD address, for fio. Raises RunFailed.

    ``places``: those that were checked; None: resolve them now.
    """
    files = {name: drive for name, drive in drives.items() if drive.engine != "nbd"}
    if places is None:
        places = {name: find_place(drive.target, machine) for name, drive in files.items()}
    sizes = {name: drive.size_bytes for name, drive in files.items()}
    return to_open({name: places[name] for name in files}, sizes, machine)


def to_open(
    places: Mapping[str, DrivePlace], least_bytes: Mapping[str, int | None], machine: Machine
) -> dict[str, OpenedTarget]:
    """Each place with the number that its open file will have. Raises RunFailed where there is
    none.

    A missing file that has ``least_bytes`` is made, empty.
    """
    found = {}
    for number, (name, place) in enumerate(places.items(), _FIRST):
        least = least_bytes.get(name)
        node = place.node if place.node or not least else _make_target_file(place, machine)
        if node is None or not (node.is_device or node.is_file):
            raise RunFailed(f"there is no device or file {place.path}")
        found[name] = OpenedTarget(number, place, node, least or 0)
    return found


def opening(
    targets: Iterable[OpenedTarget], argv: Sequence[str], filling: Filling = "room"
) -> tuple[str, ...]:
    """The command that opens ``targets`` and then executes ``argv`` in the same process.

    It exits with NOT_WHAT_WAS_CHECKED where a target is not the checked one any more. A file that
    is too short is extended with random data ("data") or only allocated ("room").
    """
    words: list[str] = []
    targets = tuple(targets)
    for opened in targets:
        node = opened.node
        if node.is_device:
            major, minor = map(int, node.number.split(":"))
            words += [opened.place.path, "b", f"{major:x}:{minor:x}", "0", filling]
        else:
            identity = f"{node.filesystem}:{node.inode}"
            words += [opened.place.path, "f", identity, str(opened.least_bytes), filling]
    script = (
        resources.files("labctl.capture.identity").joinpath("open_targets.sh").read_text("utf-8")
    )
    shell = "sh" if len(targets) <= _OF_ANY_SHELL else "bash"
    return (shell, "-c", script, "labctl", str(len(targets)), *words, *argv)


def _make_target_file(place: DrivePlace, machine: Machine) -> Node | None:
    """Make an empty file at ``place``; None without a directory. Raises RunFailed."""
    if place.folder is None:
        return None
    path = PurePosixPath(place.path)
    folder = f"{place.folder.filesystem}:{place.folder.inode}"
    done = machine.run(["sh", "-c", _MAKE, "sh", str(path.parent), folder, path.name])
    node = None if done.exit_code else Node.parse(done.stdout)
    if node is None:
        message = " ".join(done.stderr.split())[:200] or "something else stands there now"
        raise RunFailed(f"the scratch file {path} cannot be made: {message}")
    return node
