"""Kinds of events: what is documented, and what another version may have written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from labctl.record.events import Event, EventKind

DOCS = Path(__file__).parents[3] / "docs" / "run-on-disk.md"


def test_docs_list_every_kind_that_labctl_writes() -> None:
    rows = re.findall(
        r"^\| (`[a-z_`, ]+`) \|", DOCS.read_text().split("## Events")[1], re.MULTILINE
    )
    assert sorted(re.findall(r"\w+", " ".join(rows))) == sorted(EventKind)


@pytest.mark.parametrize("kind", [EventKind.STATUS_BEGAN, "kind_of_a_later_version"])
def test_a_line_is_read_as_it_was_written(kind: str) -> None:
    event = Event(5, kind, {"channel": "v12.voltage"})
    line = event.to_line()
    assert json.loads(line) == {"t": 5, "kind": str(kind), "channel": "v12.voltage"}
    assert Event.from_line(line) == event
