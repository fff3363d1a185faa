"""Files that a reader never sees half written."""

from __future__ import annotations

from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Put a new file with ``text`` in the place of the old one, at once."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="ascii")
    new.replace(path)
