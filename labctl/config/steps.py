"""Steps of preparation: what is done to the drive before it is measured.

They are named by ``step``::

    [[prepare]]
    step = "purge"

    [[prepare]]
    step = "fill"
    times = 2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from labctl.record.phase import Pattern, parse_size

Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, le=30 * 86400, strict=True)]

PurgeMethod = Literal["auto", "format", "sanitize", "discard"]

STEADY_ROUNDS_AT_MOST = 25
"""SNIA PTS 2.0.2: a test that is not steady by then is reported as such."""


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Purge(_Step):
    """Take the drive back to fresh: NVMe format with user-data erase, sanitize, or discard.

    ``auto`` is format on NVMe, discard elsewhere.
    """

    step: Literal["purge"]
    method: PurgeMethod = "auto"
    within_s: Seconds = 3600.0

    def phases(self, drive_bytes: int | None) -> Iterator[dict[str, Any]]:
        """The axes of its one phase."""
        yield {
            "sweep": "purge",
            "pattern": Pattern.PURGE,
            "duration_s": self.within_s,
            "purge_method": self.method,
            "read_pct": 0,
        }


class Fill(_Step):
    """Write the drive sequentially, ``times`` over (the whole of it by default)."""

    step: Literal["fill"] = "fill"
    times: Annotated[int, Field(ge=1, le=10)] = 1
    block_size: Size = 128 * 1024
    queue_depth: Annotated[int, Field(ge=1, le=1024)] = 32
    span: Size | None = None
    buffer_compress_pct: Annotated[int, Field(ge=0, le=100)] = 0

    def phases(self, drive_bytes: int | None) -> Iterator[dict[str, Any]]:
        """The axes of one phase each time."""
        for _ in range(self.times):
            span = self.span or drive_bytes
            if span and drive_bytes:
                span = min(span, drive_bytes)
            yield {
                "sweep": "fill",
                "pattern": Pattern.WRITE,
                "duration_s": 0.0,
                "block_size_bytes": self.block_size,
                "queue_depth": self.queue_depth,
                "jobs": 1,
                "read_pct": 0,
                "span_bytes": span,
                "fill_bytes": span,
                "buffer_compress_pct": self.buffer_compress_pct,
            }


class Precondition(_Step):
    """Random writes in rounds until IOPS are steady (SNIA PTS: five rounds, 20 % and 10 %)."""

    step: Literal["precondition"]
    block_size: Size = 4096
    queue_depth: Annotated[int, Field(ge=1, le=65536)] = 32
    jobs: Annotated[int, Field(ge=1, le=1024)] = 1
    read_pct: Annotated[int, Field(ge=0, le=99)] = 0
    span: Size | None = None
    round_s: Seconds = 60.0
    rounds: Annotated[int, Field(ge=2, le=1440)] = STEADY_ROUNDS_AT_MOST

    def phases(self, drive_bytes: int | None) -> Iterator[dict[str, Any]]:
        """The axes of every round that there may be."""
        for number in range(1, self.rounds + 1):
            yield {
                "sweep": "precondition",
                "pattern": Pattern.RANDRW if self.read_pct else Pattern.RANDWRITE,
                "duration_s": self.round_s,
                "block_size_bytes": self.block_size,
                "queue_depth": self.queue_depth,
                "jobs": self.jobs,
                "read_pct": self.read_pct,
                "span_bytes": self.span,
                "round": number,
            }


class CoolDown(_Step):
    """Leave the drive alone until it is cool, for at most ``within_s``."""

    step: Literal["cool_down"]
    celsius: Annotated[float, Field(ge=-40, le=120)]
    within_s: Seconds = 1800.0

    def phases(self, drive_bytes: int | None) -> Iterator[dict[str, Any]]:
        """The axes of its one phase."""
        yield {
            "sweep": "cool down",
            "pattern": Pattern.COOL,
            "duration_s": self.within_s,
            "until_celsius": self.celsius,
        }


class Rest(_Step):
    """Leave the drive alone for a while, so that its own housekeeping comes to an end."""

    step: Literal["rest"]
    duration_s: Seconds

    def phases(self, drive_bytes: int | None) -> Iterator[dict[str, Any]]:
        """The axes of its one phase."""
        yield {"sweep": "rest", "pattern": Pattern.IDLE, "duration_s": self.duration_s}


BURSTS = 5
BURST_S = 0.5


def sync_burst() -> Iterator[dict[str, Any]]:
    """The axes of a short on/off load: sharp edges, by which the data check the clocks.

    Reads at a queue depth of 1 need no permission, and every engine does them.
    """
    load = {"pattern": Pattern.READ, "block_size_bytes": 128 * 1024, "queue_depth": 1, "jobs": 1}
    for _ in range(BURSTS):
        yield {"sweep": "sync burst", "duration_s": BURST_S, **load}
        yield {"sweep": "sync burst", "duration_s": BURST_S, "pattern": Pattern.IDLE}


Step = Annotated[Purge | Fill | Precondition | CoolDown | Rest, Field(discriminator="step")]
