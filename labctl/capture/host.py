"""The machine that the drive is in, and the fio on it."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess

from labctl.errors import ConfigurationError, LabctlError, Mistake, RunFailed

OLDEST_FIO = (3, 13)
"""``--status-interval`` in milliseconds and ``percentile_list`` with ``lat_percentiles`` work."""


class MissingTool(LabctlError):
    """A program that labctl needs is not installed."""

    exit_code = 2


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    except FileNotFoundError:
        raise MissingTool(
            f"{command[0]} is not installed; install it (Debian and Ubuntu: sudo apt install "
            f"{command[0]}; Fedora: sudo dnf install {command[0]})"
        ) from None
    except subprocess.TimeoutExpired:
        raise RunFailed(f"{' '.join(command)} did not answer within 15 s") from None
    return done.stdout + done.stderr


def fio_version() -> str:
    """The version of the installed fio ("fio-3.33"). Raises MissingTool."""
    version = _run("fio", "--version").strip()
    number = version.removeprefix("fio-").split("-")[0].split(".")
    if number[0].isdigit() and tuple(int(p) for p in number[:2] if p.isdigit()) < OLDEST_FIO:
        wanted = ".".join(map(str, OLDEST_FIO))
        raise MissingTool(f"{version} is too old: labctl needs fio {wanted} or newer")
    return version


def check_tools(engine: str, rig_path: str) -> str:
    """Refuse early what fio could not do later; fio's version.

    Raises MissingTool (fio or setpriv), ConfigurationError (fio lacks the engine).
    """
    version = fio_version()
    if shutil.which("setpriv") is None:
        raise MissingTool(
            "setpriv is not installed (it ends fio when labctl dies); install util-linux"
        )
    known = _run("fio", "--enghelp").split()
    if engine not in known:
        raise ConfigurationError(
            [
                Mistake(
                    rig_path,
                    "drive.engine",
                    engine,
                    f"this {version} does not have it (install libfio engines of your "
                    "distribution, or choose another; 'fio --enghelp' lists them)",
                )
            ]
        )
    return version


def versions(fio: str) -> dict[str, str]:
    """What a run's header says about the software."""
    found = {
        "labctl": importlib.metadata.version("labctl"),
        "python": platform.python_version(),
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "fio": fio,
    }
    for package in ("numpy", "pyvisa", "pyvisa-py", "pyserial"):
        found[package] = importlib.metadata.version(package)
    return found
