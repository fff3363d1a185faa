"""What a person says of a run: a title and a note, in ``about.json`` beside its record.

The file may be written by hand, the note as a list of lines; nothing is computed from it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from labctl.printable import printable, printable_lines
from labctl.record.atomic_write import write_atomically
from labctl.record.bounded_read import read_small
from labctl.record.json_values import parse_json
from labctl.record.layout import ABOUT_FILE

_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class OwnWords:
    """A title of one line and a note of any; empty where nothing was written."""

    title: str = ""
    note: str = ""

    @property
    def fingerprint(self) -> str:
        """Tells them from any others: on a page it says which words the page was made with."""
        return hashlib.sha256(f"{self.title}\0{self.note}".encode(errors="replace")).hexdigest()


def own_words(run: Path) -> OwnWords:
    """What a person wrote of a run; nothing where the file is missing or cannot be read."""
    try:
        stored = parse_json(read_small(run / ABOUT_FILE, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return OwnWords()
    if not isinstance(stored, dict):
        return OwnWords()
    note = stored.get("note")
    lines = note if isinstance(note, list) else [note]
    return OwnWords(_own_words_text(stored.get("title")), "\n".join(map(_own_words_text, lines)))


def _own_words_text(value: object) -> str:
    return "" if value is None else str(value)


def keep_own_words(run: Path, words: OwnWords) -> None:
    """Write them beside the record. Raises OSError."""
    stored = {"title": printable(words.title), "note": printable_lines(words.note).splitlines()}
    write_atomically(run / ABOUT_FILE, json.dumps(stored, ensure_ascii=False, indent=1) + "\n")
