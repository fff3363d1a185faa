"""The systemd unit of the daemon for the place where labctl is installed.

``labctl.service`` is that of a service of the system; it gets the paths, groups and devices of this
machine. A user's own service has what of it needs no further right.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from instruments.process_environment import environment_without_secrets
from labctl.errors import LabctlError, Refused
from labctl.record.atomic_write import write_atomically

UNIT = "labctl.service"
TEMPLATE = Path(__file__).with_name(UNIT)
SYSTEM_FOLDER = Path("/etc/systemd/system")
SYSTEM_RIGS = Path("/etc/labctl/rigs")
ACCOUNT = "labctl"
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
"""What ``ProtectHome=`` hides (systemd.exec(5))."""
DRIVES = "disk"
SERIAL_PORTS = ("dialout", "uucp")
"""Groups. The first that there is has the serial ports (Arch has no dialout); one that does not
exist would keep the service from starting."""
USB_METER = re.compile(r"""["']USB\d*::""")
VERIFY_WITHIN_S = 30.0
MOST_LINKS = 40
"""The kernel follows no more on the way to a file."""
_OF_A_USER = (
    "Type", "ExecStart", "ExecReload", "Restart", "RestartSec", "WatchdogSec", "KillMode",
    "TimeoutStopSec", "UMask", "NoNewPrivileges", "LockPersonality", "RestrictRealtime",
    "RestrictSUIDSGID", "SystemCallArchitectures", "Description", "StartLimitIntervalSec",
)  # fmt: skip
"""Settings that need no right that a user's systemd does not have."""


class ServiceOf(StrEnum):
    """Whose service it is."""

    SYSTEM = "system"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a unit depends on: the absolute path of the command, the groups that there are, and
    whether a rig has a meter on USB."""

    command: Path
    groups: tuple[str, ...] = ()
    usb: bool = False

    @classmethod
    def here(cls, rigs: Iterable[str]) -> Surroundings:
        """This machine; ``rigs``: the texts of those that the service will have."""
        known = {one.gr_name for one in grp.getgrall()}
        ports = next((one for one in SERIAL_PORTS if one in known), "")
        command = Path(sys.executable).with_name("labctl")
        if not command.is_file():
            command = Path(shutil.which("labctl") or sys.argv[0]).absolute()
        return cls(
            command=command,
            groups=tuple(one for one in (DRIVES, ports) if one in known),
            usb=any(USB_METER.search(text) for text in rigs),
        )


def unit_text(of: ServiceOf, place: Surroundings) -> str:
    """The unit for ``place``."""
    lines = TEMPLATE.read_text("utf-8").splitlines()
    started = f"ExecStart={_quoted_unit_path(place.command)} daemon"
    lines = [started if line.startswith("ExecStart=") else line for line in lines]
    text = "\n".join(lines) + "\n"
    return _of_system(text, place) if of is ServiceOf.SYSTEM else _of_user(text)


def _of_system(text: str, place: Surroundings) -> str:
    groups = " ".join(place.groups)
    text = re.sub(r"^SupplementaryGroups=.*$", f"SupplementaryGroups={groups}", text, flags=re.M)
    if any(place.command.is_relative_to(home) for home in HOMES):
        text = text.replace("ProtectHome=yes", "ProtectHome=read-only")
    if place.usb:
        port = "DeviceAllow=char-ttyS rw"
        text = text.replace(port, f"{port}\nDeviceAllow=char-usb_device rw")
    return text


def _of_user(text: str) -> str:
    kept = [
        line
        for line in text.splitlines()
        if line.startswith("[") or not line or line.partition("=")[0] in _OF_A_USER
    ]
    head = (
        "# labctl as a service of this user. What you add goes into: systemctl --user edit labctl\n"
    )
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return f"{head}\n\n{body}\nWantedBy=default.target\n"


def _quoted_unit_path(path: Path) -> str:
    """A path as a word of ExecStart= (systemd.service(5), systemd.unit(5))."""
    text = str(path).replace("\\", r"\\").replace('"', r"\"").replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if re.search(r"[\s\"'\\;]", str(path)) else text


def problems_of(of: ServiceOf, text: str) -> str:
    """What ``systemd-analyze verify`` says against a unit; empty where it says nothing, or is not
    there."""
    program = shutil.which("systemd-analyze")
    if program is None:
        return ""
    with tempfile.TemporaryDirectory(prefix="labctl-unit-") as folder:
        file = Path(folder) / UNIT
        file.write_text(text, encoding="utf-8")
        runtime = os.environ.get("XDG_RUNTIME_DIR", folder)  # a user's systemd asks for one
        try:
            done = subprocess.run(
                [program, f"--{of}", "verify", str(file)], capture_output=True, text=True,
                errors="replace", timeout=VERIFY_WITHIN_S, check=False,
                env=environment_without_secrets(XDG_RUNTIME_DIR=runtime),
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ""
    lines = [line for line in done.stderr.splitlines() if UNIT in line]
    return "\n".join(lines)


def install(of: ServiceOf, place: Surroundings) -> tuple[Path, list[str]]:
    """Write the unit; where it is, and the commands that a person runs next.

    Raises Refused where it is another's to write, LabctlError where systemd does not take it or it
    cannot be written.
    """
    if of is ServiceOf.SYSTEM and os.geteuid() != 0:
        raise Refused(
            "a service of the system is installed by root: "
            f"sudo {shlex.quote(str(place.command))} daemon --install-service system"
        )
    text = unit_text(of, place)
    if problems := problems_of(of, text):
        raise LabctlError(f"systemd does not take the unit:\n{problems}")
    file = _unit_folder(of) / UNIT
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_symlink() or (file.exists() and "labctl as a service" not in file.read_text()):
            raise Refused(f"{file} is there already and is not labctl's: move it away first")
        write_atomically(file, text.encode())
        file.chmod(0o644)
    except (OSError, UnicodeDecodeError) as error:
        raise LabctlError(f"cannot write {file}: {error}") from error
    return file, _next_steps(of, place)


def _unit_folder(of: ServiceOf) -> Path:
    if of is ServiceOf.SYSTEM:
        return SYSTEM_FOLDER
    configuration = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(configuration) / "systemd" / "user"


def changeable(program: Path) -> Path | None:
    """The file or folder through which somebody but root can replace a program: its own file, or
    one of the folders that it and its links are in. None: root alone can."""
    for one in reversed(list(_way_to(program))):
        try:
            found = one.lstat()
        except OSError:
            continue
        # in a sticky folder nobody replaces what is another's (/tmp); a link has no mode
        is_open = not (stat.S_ISLNK(found.st_mode) or found.st_mode & stat.S_ISVTX)
        writable = found.st_mode if is_open else 0
        of_group = writable & stat.S_IWGRP and found.st_gid != 0
        if found.st_uid != 0 or of_group or writable & stat.S_IWOTH:
            return one
    return None


def _way_to(path: Path) -> Iterator[Path]:
    """Each folder and each link through which the kernel comes to a file, and the file
    (path_resolution(7))."""
    here, *left = path.absolute().parts
    at, links = Path(here), 0
    yield at
    while left and links <= MOST_LINKS:
        part, *left = left
        if part == "..":
            at = at.parent
            continue
        yield at / part
        try:
            target = (at / part).readlink()
        except OSError:  # no link
            at /= part
            continue
        links += 1
        at, left = at / target.anchor, [*target.relative_to(target.anchor).parts, *left]


def _next_steps(of: ServiceOf, place: Surroundings) -> list[str]:
    if of is ServiceOf.USER:
        return [
            "systemctl --user daemon-reload",
            "systemctl --user enable --now labctl",
            "loginctl enable-linger    # it goes on when you are not logged in",
        ]
    steps = []
    programs = (place.command, Path(sys.executable), Path(__file__))
    if open_to_others := next(filter(None, map(changeable, programs)), None):
        steps.append(
            f"# {open_to_others} can be changed by others than root, who then have the rights of "
            "the service (drives to write, any file to read): install labctl as root elsewhere"
        )
    try:
        pwd.getpwnam(ACCOUNT)
    except KeyError:
        steps.append(f"useradd --system --home-dir /var/lib/labctl {ACCOUNT}")
    steps += [] if SYSTEM_RIGS.is_dir() else [f"mkdir -p {SYSTEM_RIGS}    # your rigs go there"]
    return [*steps, "systemctl daemon-reload", "systemctl enable --now labctl"]
