"""Write a file in one step: whoever reads it sees the old one or the new one, never half of it."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """An empty file beside ``path`` to write to, which replaces ``path`` when the block ends.

    It is new (O_EXCL), under a hidden name that nobody can foresee: nothing that is there already
    is written to, and no link is followed. ``mode``: its permissions, less the process's umask.
    When the block raises, it is removed and ``path`` stays as it was. Raises OSError.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(fresh, flags, mode))
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
    old one or the new one. ``mode`` as in :func:`replacing`. Raises OSError.
    """
    content = data.encode() if isinstance(data, str) else data
    with replacing(path, mode) as fresh, fresh.open("wb") as file:
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
