"""The JSON Schemas of what commands print with ``--json``."""

from __future__ import annotations

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "schemas"


def schemas_of(command: str) -> list[str]:
    """The texts of the schemas of a command; none where it has no ``--json``."""
    texts = [file.read_text("utf-8") for file in sorted(FOLDER.glob("*.json"))]
    called = re.compile(rf"\blabctl {re.escape(command)}\b(?!-)")
    return [text for text in texts if called.search(json.loads(text)["title"])]
