"""How far a sink has come in a run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from labctl.record.json_values import known
from labctl.record.layout import LAST_NS
from labctl.sinks.schema import SCHEMA_VERSION

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """Everything before it has been stored by the sink.

    It is valid for this ``destination`` and width of bins (``bin_ns`` 0: every reading) only.
    """

    destination: str = ""
    bin_ns: int = 1_000_000_000
    events: int = 0
    """Bytes of the journal's events."""
    bins: dict[str, int] = field(default_factory=dict)
    """By stream: the moment (ns) up to which every bin was complete."""
    records: dict[str, int] = field(default_factory=dict)
    """By channel that is sent without bins: number of readings."""
    throttling: tuple[tuple[int, str], ...] = ()
    """Begin (ns) and severity of the throttle intervals that were sent while the run was on."""
    summarised: int = 0
    """Size of the events' file when the summary was sent; 0: not yet."""
    schema: int = SCHEMA_VERSION
    """That of what was sent."""

    @classmethod
    def from_json(cls, text: str) -> Cursor:
        """What :func:`save` wrote. Raises ValueError when it is something else."""
        try:
            data = json.loads(text)
        except RecursionError as error:
            raise ValueError(str(error)) from error
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise ValueError(f"not a cursor of format {FORMAT}")
        data.setdefault("schema", 1)  # before it was kept
        try:
            cursor = known(cls, data)
        except (TypeError, KeyError) as error:
            raise ValueError(str(error)) from error
        places = (cursor.events, cursor.bin_ns, *cursor.bins.values(), *cursor.records.values())
        if not all(0 <= place < LAST_NS for place in places):
            raise ValueError("an offset out of range")
        return cursor
