"""What a process prints, kept in a file: all of it, or its reader learns why not."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path


class KeptFile:
    """A file that is written as it comes. After the first failure nothing more is written.

    ``problem`` is what failed (a full disk, a quota, a limit of the process), or is empty.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError when it cannot be made."""
        self.problem = ""
        self._path = path
        self._file = FileIO(path, "w")

    def write(self, data: bytes) -> None:
        """Append ``data``, all of it: a write at a limit takes a part, and fails the next time."""
        left = memoryview(data)
        try:
            while left and not self.problem:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._failed(error)

    def close(self) -> None:
        """Put it on the disk: only then is it known to be kept (a quota of a network file system
        may be reported here). Takes as long as the disk does."""
        if self._file.closed:
            return
        try:
            with self._file:
                os.fsync(self._file.fileno())
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self.problem = self.problem or f"cannot write {self._path}: {error.strerror or error}"
