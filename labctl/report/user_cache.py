"""The user's cache: ``$XDG_CACHE_HOME/labctl``, else ``~/.cache/labctl``. What is in it can be made
again, and may be deleted at any time."""

from __future__ import annotations

import os
import stat
from pathlib import Path

OTHERS_WRITE = 0o022


def user_cache() -> Path | None:
    """The folder, which need not be there; None for a user without a home."""
    asked = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # the standard has relative paths ignored
        base = Path(asked) if asked.startswith("/") else Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "labctl"


def private_folder(folder: Path) -> Path | None:
    """A folder, made where it is missing with those above it; None where there can be none that
    only this user writes to."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.lstat()
    except OSError:
        return None
    mine = about.st_uid == os.geteuid() and not about.st_mode & OTHERS_WRITE
    return folder if mine and stat.S_ISDIR(about.st_mode) else None
