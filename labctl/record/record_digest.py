"""One digest over a record: whether two copies of a run are the same, and which one goes on."""

from __future__ import annotations

import hashlib
from pathlib import Path

from labctl.record.layout import EVENTS_FILE, raw_files

_CHUNK = 1 << 20


def record_sha256(run: Path) -> str:
    """The SHA-256 of a line a file of the record (its SHA-256, two spaces, its path), sorted by
    path, as ``sha256sum`` prints them. Raises OSError."""
    lines = sorted(
        (str(file.relative_to(run)), file_sha256(file).hexdigest()) for file in raw_files(run)
    )
    text = "".join(f"{digest}  {name}\n" for name, digest in lines)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def journal_sha256(run: Path, size: int) -> str:
    """The SHA-256 of the first ``size`` bytes of the journal; empty where it is shorter. Raises
    OSError."""
    file = run / EVENTS_FILE
    return "" if file.stat().st_size < size else file_sha256(file, size).hexdigest()


def file_sha256(file: Path, size: int = 1 << 62) -> hashlib._Hash:
    """The SHA-256 of the first ``size`` bytes of a file. Raises OSError."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while size > 0 and (chunk := stream.read(min(size, _CHUNK))):
            digest.update(chunk)
            size -= len(chunk)
    return digest
