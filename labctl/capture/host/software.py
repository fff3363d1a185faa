"""The machine that the drive is in, and the fio on it."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil

from labctl.capture.host.machine import NOT_FOUND, TIMED_OUT, LocalMachine, Machine
from labctl.capture.host.ssh import LOCAL
from labctl.config.rig import Rig
from labctl.errors import ConfigurationError, LabctlError, Mistake, RunFailed
from labctl.installed import labctl_version

OLDEST_FIO = (3, 13)
"""``--status-interval`` in milliseconds and ``percentile_list`` with ``lat_percentiles`` work."""


class MissingTool(LabctlError):
    """A program that labctl needs is not installed."""

    exit_code = 2


def _run_software(machine: Machine, where: str, *command: str) -> str:
    done = machine.run(command)
    if done.exit_code == NOT_FOUND:
        raise MissingTool(
            f"{command[0]} is not installed{where}; install it (Debian and Ubuntu: sudo apt "
            f"install {command[0]}; Fedora: sudo dnf install {command[0]})"
        )
    if done.exit_code == TIMED_OUT:
        raise RunFailed(f"{' '.join(command)} did not answer within 15 s{where}")
    return done.stdout + done.stderr


def fio_version(machine: Machine, where: str = "") -> str:
    """The version of the installed fio ("fio-3.33"). Raises MissingTool.

    ``where`` is put behind what is missing (" on USER@HOST").
    """
    version = _run_software(machine, where, "fio", "--version").strip()
    number = version.removeprefix("fio-").split("-")[0].split(".")
    if number[0].isdigit() and tuple(int(p) for p in number[:2] if p.isdigit()) < OLDEST_FIO:
        wanted = ".".join(map(str, OLDEST_FIO))
        raise MissingTool(f"{version}{where} is too old: labctl needs fio {wanted} or newer")
    return version


def check_tools(rig: Rig, machine: Machine | None = None) -> str:
    """Refuse early what fio could not do later; the version of fio on the drive's host.

    Raises MissingTool (fio, or setpriv here), ConfigurationError (fio lacks the engine).
    """
    engine, host = rig.drive.engine, rig.file.host
    machine = machine or LocalMachine()
    where = "" if host == LOCAL else f" on {host}"
    version = fio_version(machine, where)
    if host == LOCAL and shutil.which("setpriv") is None:
        raise MissingTool(
            "setpriv is not installed (it ends fio when labctl dies); install util-linux"
        )
    known = _run_software(machine, where, "fio", "--enghelp").split()
    if engine not in known:
        raise ConfigurationError(
            [
                Mistake(
                    rig.path,
                    f"{rig.drive_key}.engine",
                    engine,
                    f"{version}{where} does not have it (install libfio engines of your "
                    "distribution, or choose another; 'fio --enghelp' lists them)",
                )
            ]
        )
    return version


def versions_of_host(machine: Machine, host: str) -> dict[str, str]:
    """The header's entry on a drive's host behind ssh: its kernel, and what it lacks."""
    kernel = machine.run(["uname", "-s", "-r", "-m"])
    pdeathsig = machine.run(["setpriv", "--pdeathsig", "KILL", "true"])
    found = {"host": host, "host_kernel": kernel.stdout.strip()}
    if pdeathsig.exit_code:
        found["host_lacks"] = "setpriv --pdeathsig (fio there is ended by labctl's watchdog alone)"
    return found


def versions(fio: str) -> dict[str, str]:
    """The software in a run's header."""
    found = {
        "labctl": labctl_version(),
        "python": platform.python_version(),
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "fio": fio,
    }
    for package in ("numpy", "pyvisa", "pyvisa-py", "pyserial"):
        found[package] = importlib.metadata.version(package)
    return found
