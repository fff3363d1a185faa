"""The command line that adds a library to the Python environment of this program."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path


def install_command(*requirements: str) -> str:
    """The command line that installs ``requirements`` (PEP 508) where this program finds them.

    Environments of pipx have a ``pipx_metadata.json`` and are added to by their name; those of uv
    (``uv venv``, ``uv tool install``) have no pip, and name uv in their ``pyvenv.cfg``.
    """
    wanted = shlex.join(requirements)
    environment = Path(sys.prefix)
    own = sys.prefix != sys.base_prefix
    sudo = "sudo " if own and not os.access(environment, os.W_OK) else ""
    if (environment / "pipx_metadata.json").is_file():
        home = environment.parent.parent
        usual = not sudo and home.resolve() in _pipx_homes()
        place = "" if usual else f"PIPX_HOME={shlex.quote(str(home))} "
        return f"{sudo}{place}pipx inject {shlex.quote(environment.name)} {wanted}"
    python = shlex.quote(sys.executable)
    if _made_by_uv(environment):
        return f"{sudo}uv pip install --python {python} {wanted}"
    return f"{sudo}{python} -m pip install {wanted}"


def _pipx_homes() -> list[Path]:
    """The directories where pipx searches: ``$PIPX_HOME``, else the usual ones.

    Before pipx 1.3 that was ``~/.local/pipx``; since then it is in the user's data directory.
    """
    chosen = os.environ.get("PIPX_HOME")
    data = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share")
    homes = [Path(chosen)] if chosen else [Path("~/.local/pipx"), data / "pipx"]
    return [home.expanduser().resolve() for home in homes]


def _made_by_uv(environment: Path) -> bool:
    try:
        text = (environment / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(line.partition("=")[0].strip() == "uv" for line in text.splitlines())
