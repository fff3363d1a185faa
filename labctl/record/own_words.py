"""What a person says of a run: a title and a note, in ``about.json`` beside its record.

The file may be written by hand, the note as a list of lines; nothing is computed from it.
"""

from __future__ import annotations

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
    """A title of one line and a note of any; empty where nothing was said."""

    title: str = ""
    note: str = ""


def own_words(run: Path) -> OwnWords:
    """What was said of a run; nothing where the file is missing or cannot be read."""
    try:
        said = parse_json(read_small(run / ABOUT_FILE, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return OwnWords()
    if not isinstance(said, dict):
        return OwnWords()
    note = said.get("note", "")
    lines = [str(line) for line in note] if isinstance(note, list) else [str(note)]
    return OwnWords(str(said.get("title", "")), "\n".join(lines))


def keep_own_words(run: Path, words: OwnWords) -> None:
    """Write them beside the record. Raises OSError."""
    said = {"title": printable(words.title), "note": printable_lines(words.note).splitlines()}
    write_atomically(run / ABOUT_FILE, json.dumps(said, ensure_ascii=False, indent=1) + "\n")
