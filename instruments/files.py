"""Small text files of a host: what hwmon drivers read, on this machine unless told otherwise.

Another object with the same two methods can stand for the files of a remote host.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Final, Protocol


class Files(Protocol):
    """The files of one host."""

    def find(self, pattern: str) -> list[str]:
        """Paths that match, sorted. Raises OSError where the host cannot be asked."""
        ...

    def read(self, path: str) -> str:
        """The content of a file. Raises OSError with the host's errno."""
        ...


class LocalFiles:
    """This machine's."""

    def find(self, pattern: str) -> list[str]:
        """Paths that match, sorted."""
        return sorted(glob.glob(pattern))  # noqa: PTH207 absolute patterns

    def read(self, path: str) -> str:
        """The content of a file."""
        return Path(path).read_text(encoding="utf-8", errors="replace")


LOCAL: Final = LocalFiles()
