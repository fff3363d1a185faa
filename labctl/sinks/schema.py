"""The schema of everything that sinks send, as data, and the points that follow it.

Names and types are a contract with the dashboards: the line protocol is written by this table,
and a test checks the dashboards' queries against it. A field that is not known is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from labctl.record.header import Header

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Value = float | int | str
K = TypeVar("K")


class FieldKind(StrEnum):
    """The type of a field; it never changes, or the database refuses the point."""

    FLOAT = "float"
    INTEGER = "integer"
    TEXT = "text"


def kind_in(fields: Mapping[str, K], families: Mapping[str, K], name: str) -> K:
    """The kind of a field by its name, or by the family that its name begins with. Raises KeyError
    when there is neither."""
    if name in fields:
        return fields[name]
    for prefix, kind in families.items():
        if name.startswith(prefix):
            return kind
    raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement: its tags, its fields, and families of fields named after rails or sensors.

    A family is a prefix: ``watts_`` stands for ``watts_12V``, ``watts_12V_u`` …
    """

    tags: tuple[str, ...]
    fields: Mapping[str, FieldKind]
    families: Mapping[str, FieldKind] = field(default_factory=dict)

    def kind_of(self, name: str) -> FieldKind:
        """The type of a field. Raises KeyError when the schema does not have it."""
        return kind_in(self.fields, self.families, name)


_OF_A_RUN = ("rig", "drive", "run")
_LATENCIES = tuple(
    f"{name}_us" for name in ("mean", "max", "p50", "p90", "p95", "p99", "p99_9", "p99_99")
)

_REPEATABLE = (
    *("watts", "joules", "iops_per_watt", "bytes_per_joule", "joules_per_io"),
    *("unthrottled_watts", "unthrottled_iops"),
)
"""Numbers of a phase that have a repeatability where it is known."""


def _floats(*names: str) -> dict[str, FieldKind]:
    return dict.fromkeys(names, FieldKind.FLOAT)


SCHEMA: Mapping[str, Measurement] = {
    "power": Measurement(
        tags=(*_OF_A_RUN, "rail"),
        fields={
            **_floats("volts", "amps", "watts", "watts_min", "watts_max"),
            **_floats("volts_nominal", "volts_tolerance_pct"),
            "n": FieldKind.INTEGER,
        },
    ),
    "temperature": Measurement(
        tags=(*_OF_A_RUN, "sensor"),
        fields=_floats("celsius", "warning_celsius", "critical_celsius"),
    ),
    "io": Measurement(
        tags=(*_OF_A_RUN, "op"),
        fields=_floats("iops", "bytes_per_s", "latency_mean_us"),
    ),
    "phase": Measurement(
        tags=(
            *_OF_A_RUN,
            "pattern",
            "block_size",
            "queue_depth",
            "jobs",
            "read_pct",
            "power_state",
        ),
        fields={
            "index": FieldKind.INTEGER,
            "qd": FieldKind.INTEGER,
            "block_size_bytes": FieldKind.INTEGER,
            "label": FieldKind.TEXT,
            "run_part": FieldKind.TEXT,
            "role": FieldKind.TEXT,
            "outcome": FieldKind.TEXT,
            **_floats("duration_s", "watts", "watts_u", "joules", "joules_u"),
            **_floats("iops", "bytes_per_s", "iops_per_watt", "iops_per_watt_u"),
            **_floats("bytes_per_joule", "bytes_per_joule_u", "joules_per_io", "joules_per_io_u"),
            **_floats(*(f"latency_{name}" for name in _LATENCIES)),
            **_floats(*(f"latency_{op}_{name}" for op in ("read", "write") for name in _LATENCIES)),
            **_floats("celsius_max", "throttled_s", "alignment_ms"),
            "steady": FieldKind.INTEGER,
            "throttling": FieldKind.TEXT,
            **_floats("unthrottled_s", "unthrottled_watts", "unthrottled_watts_u"),
            **_floats("unthrottled_iops", "unthrottled_iops_u", "at_least_watts"),
            **_floats(*(f"{name}_repeatability" for name in _REPEATABLE)),
            **_floats("cpu_busy_cores", "cpu_busiest_pct"),
        },
        families={**_floats("watts_", "celsius_max_")},
    ),
    "event": Measurement(
        tags=(*_OF_A_RUN, "kind", "severity"),
        fields={
            "title": FieldKind.TEXT,
            "text": FieldKind.TEXT,
            "duration_s": FieldKind.FLOAT,
            "end_ms": FieldKind.INTEGER,
        },
    ),
    "rig": Measurement(
        tags=("rig",),
        fields={
            "state": FieldKind.TEXT,
            "queue_length": FieldKind.INTEGER,
            "meters_ok": FieldKind.INTEGER,
            "journal_lag_s": FieldKind.FLOAT,
            "alive": FieldKind.INTEGER,
        },
    ),
}
"""- ``qd``: the queue depth as a number (the tag sorts as text: 1, 16, 32, 4).
- ``run_part``: the run; for one of several drives, the run and that drive.
- ``meters_ok``: 1 when every meter gives readings, else 0.
- ``unthrottled_…``: of the part of a phase that was surely not throttled.
- ``steady``: 1 or 0; left out when the phase is idle or too short to judge.
- ``alive``: 1, and 0 in the last heartbeat of an orderly end; a rig that stops sending heartbeats
  without a 0 is lost.
- ``n``: number of readings that the watts are the mean of.
- ``end_ms``: end of a region in a chart, ms since the epoch.
- Nominal volts and limits are beside the values so that one query draws both."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point: of a measurement, at ``t_ns`` (ns since the Unix epoch)."""

    measurement: str
    tags: Mapping[str, str]
    t_ns: int
    fields: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class PointSeries:
    """Many points of one series, in columns; NaN stands for "not known" and is not sent."""

    measurement: str
    tags: Mapping[str, str]
    t_ns: Ints
    columns: Mapping[str, Floats | Ints]
    constants: Mapping[str, float] = field(default_factory=dict)
    """Fields that are the same in each point."""

    def __len__(self) -> int:
        return len(self.t_ns)


def run_tags(header: Header) -> dict[str, str]:
    """The tags of everything of one run. ``drive`` is its serial, or its model without one.

    Several drives together are put in brackets: sorted before each drive, and not mistaken for
    one.
    """
    drive = header.drive.serial or header.drive.model
    return {
        "rig": header.rig_name,
        "drive": f"({drive})" if header.drives and drive else drive,
        "run": header.run_id,
    }


def drive_tags(header: Header) -> dict[str, dict[str, str]]:
    """The tags of what is one drive's alone, by the drive's name; empty where there is one drive.

    A drive without serial and model goes by its name in the rig; two of the same model without
    serials have their names behind it.
    """
    names = {name: info.serial or info.model or name for name, info in header.drives.items()}
    repeated = {text for text, count in Counter(names.values()).items() if count > 1}
    return {
        name: {**run_tags(header), "drive": f"{text} ({name})" if text in repeated else text}
        for name, text in names.items()
    }


def rig_point(
    rig: str,
    t_ns: int,
    state: str,
    queue_length: int | None = None,
    meters_ok: bool | None = None,
    journal_lag_s: float | None = None,
    alive: bool = True,
) -> Point:
    """A heartbeat of a rig; None: not known. Not ``alive``: the last one before an orderly end."""
    fields: dict[str, Value] = {"state": state, "alive": int(alive)}
    if queue_length is not None:
        fields["queue_length"] = queue_length
    if meters_ok is not None:
        fields["meters_ok"] = int(meters_ok)
    if journal_lag_s is not None:
        fields["journal_lag_s"] = journal_lag_s
    return Point("rig", {"rig": rig}, t_ns, fields)


LONGEST_TEXT_BYTES = 4096
"""Of a text field, UTF-8. A server takes 64 KiB; an annotation shows a few lines."""


def shortened(text: str) -> str:
    """``text`` in at most ``LONGEST_TEXT_BYTES`` bytes, with a note where it was cut."""
    data = text.encode("utf-8")
    if len(data) <= LONGEST_TEXT_BYTES:
        return text
    ending = f" … ({len(text):,} characters in the journal)"
    kept = data[: LONGEST_TEXT_BYTES - len(ending.encode("utf-8"))]
    return kept.decode("utf-8", "ignore") + ending
