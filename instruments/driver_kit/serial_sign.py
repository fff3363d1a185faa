"""How a driver's meter is told from others at a serial port that somebody named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from instruments.transports.lines import SerialFormat


@dataclass(frozen=True, slots=True)
class SerialSign:
    """What is listened for at a port, after ``question`` was sent (empty: it sends by itself).

    A question goes to whatever is connected there: it must be harmless to other meters.
    """

    identity: str
    """What the meter is called where it is found."""
    line_format: SerialFormat
    question: bytes
    recognised: Callable[[bytes], object]
    """What it finds of the meter in the bytes so far; something false: nothing yet."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What is known of the rig's keys by this sign; ``{port}`` in a value is the port's path."""
