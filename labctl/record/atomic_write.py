"""Write a file in one step: whoever reads it sees the old one or the new one, never half of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden path beside ``path`` to write to, which replaces ``path`` when the block ends.

    When the block raises, what it wrote is removed and ``path`` stays as it was. Each process
    writes to a path of its own. Raises OSError.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield fresh
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def write_atomically(
    path: Path, data: bytes | str, *, durable: bool = False, mode: int = 0o666
) -> Path:
    """Write a file in one step, text as UTF-8; gives ``path``.

    ``durable``: wait until the disk has it, so that after a loss of power, too, the file is the
    old one or the new one. ``mode``: its permissions, less the process's umask. Raises OSError.
    """
    content = data.encode() if isinstance(data, str) else data
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with replacing(path) as fresh, os.fdopen(os.open(fresh, flags, mode), "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        sync_folder(path.parent)
    return path


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
