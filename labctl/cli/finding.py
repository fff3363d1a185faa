"""Where rigs are found: by path (``.toml`` may be left out), or by name where rigs are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from labctl.errors import ConfigurationError, Mistake
from labctl.mistakes import is_file
from labctl.rig import Rig, load_rig


def rig_folders() -> list[Path]:
    """``./rigs``, the folders of ``$LABCTL_RIGS``, ``~/.config/labctl/rigs``."""
    configured = os.environ.get("LABCTL_RIGS", "")
    home = Path(os.environ.get("XDG_CONFIG_HOME", "~/.config")).expanduser()
    folders = [Path(part) for part in configured.split(":") if part]
    return [Path("rigs"), *folders, home / "labctl" / "rigs"]


def rig_files() -> Iterator[Path]:
    """Every rig file in those folders."""
    for folder in rig_folders():
        yield from sorted(folder.glob("*.toml"))


def find_rig(name_or_file: str) -> Rig:
    """The rig at a path or of a name. Raises ConfigurationError."""
    for file in (name_or_file, f"{name_or_file}.toml"):
        if is_file(Path(file)):
            return load_rig(file)
    by_name = {path.stem: path for path in rig_files()}
    if name_or_file in by_name:
        return load_rig(by_name[name_or_file])
    known = ", ".join(by_name) or "none"
    allowed = f"no such file, and no rig of that name where labctl rigs looks ({known})"
    raise ConfigurationError([Mistake("rig", "name", name_or_file, allowed)])
