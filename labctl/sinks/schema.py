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

COMPARED = ("watts", "iops_per_watt", "bytes_per_joule")
"""Numbers of a phase by which runs are compared in the database."""


def _schema_floats(*names: str) -> dict[str, FieldKind]:
    return dict.fromkeys(names, FieldKind.FLOAT)


def _schema_integers(*names: str) -> dict[str, FieldKind]:
    return dict.fromkeys(names, FieldKind.INTEGER)


def _schema_texts(*names: str) -> dict[str, FieldKind]:
    return dict.fromkeys(names, FieldKind.TEXT)


SCHEMA_VERSION = 2
"""Of what sinks send. A run that was sent in an older one is sent again from its start: in 1 the
axes of a phase were tags (docs/decisions/0027)."""

SCHEMA: Mapping[str, Measurement] = {
    "power": Measurement(
        tags=(*_OF_A_RUN, "rail"),
        fields={
            **_schema_floats("volts", "amps", "watts", "watts_min", "watts_max"),
            **_schema_floats("volts_nominal", "volts_tolerance_pct"),
            "n": FieldKind.INTEGER,
        },
    ),
    "temperature": Measurement(
        tags=(*_OF_A_RUN, "sensor"),
        fields=_schema_floats("celsius", "warning_celsius", "critical_celsius"),
    ),
    "host_power": Measurement(
        tags=(*_OF_A_RUN, "meter"),
        fields=_schema_floats("watts"),
    ),
    "io": Measurement(
        tags=(*_OF_A_RUN, "op"),
        fields=_schema_floats("iops", "bytes_per_s", "latency_mean_us"),
    ),
    "phase": Measurement(
        tags=(*_OF_A_RUN, "part"),
        fields={
            **_schema_integers(
                "index", "qd", "block_size_bytes", "jobs", "read_pct", "power_state"
            ),
            **_schema_texts("pattern", "block_size", "label", "role", "outcome"),
            **_schema_floats("duration_s", "watts", "watts_u", "joules", "joules_u"),
            **_schema_floats("iops", "bytes_per_s", "iops_per_watt", "iops_per_watt_u"),
            **_schema_floats(
                "bytes_per_joule", "bytes_per_joule_u", "joules_per_io", "joules_per_io_u"
            ),
            **_schema_floats(*(f"latency_{name}" for name in _LATENCIES)),
            **_schema_floats(
                *(f"latency_{op}_{name}" for op in ("read", "write") for name in _LATENCIES)
            ),
            **_schema_floats("celsius_max", "throttled_s", "alignment_ms", "power_limit_watts"),
            "steady": FieldKind.INTEGER,
            **_schema_texts("throttling", "throttling_why", "watts_text", "bar_label", "bar_text"),
            **_schema_floats("unthrottled_s", "unthrottled_watts", "unthrottled_watts_u"),
            **_schema_floats("unthrottled_iops", "unthrottled_iops_u", "at_least_watts"),
            **_schema_floats(*(f"{name}_repeatability" for name in _REPEATABLE)),
            **_schema_floats("cpu_busy_cores", "cpu_busiest_pct"),
        },
        families={**_schema_floats("watts_", "celsius_max_", "max_watts_", "host_")},
    ),
    "point": Measurement(
        tags=(*_OF_A_RUN, "part", "label"),
        fields={
            "qd": FieldKind.INTEGER,
            **_schema_floats(*COMPARED, *(f"{name}_repeatability" for name in COMPARED)),
        },
    ),
    "event": Measurement(
        tags=(*_OF_A_RUN, "kind", "severity"),
        fields={
            "title": FieldKind.TEXT,
            "text": FieldKind.TEXT,
            "phase": FieldKind.TEXT,
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
            **_schema_texts(
                "run", "drive", "plan", "phase", "load_text", "progress_text", "result_text"
            ),
            **_schema_integers("phase_number", "phases", "qd"),
            **_schema_floats("watts", "celsius", "left_s"),
        },
    ),
}
"""- Tags are what a series is chosen by, and few: a phase has those of its run. With its axes, too,
  each phase would be a series of its own, of one point in each of sixty fields.
- ``point``: what is needed of the measured phases of runs that are over to set one run against
  another. InfluxQL joins by tags alone, so ``label`` (without the round) is a tag here; all else
  about a phase is in ``phase``.
- ``qd``: the queue depth.
- ``part``: the run; for one of several drives, the run and that drive.
- ``watts_text``, ``bar_label``, ``bar_text``: for screens, since a database cannot round to the
  digits that U allows: ``8.123 ± 0.034``, and over and under a bar whether the drive throttled.
- ``load_text``, ``progress_text``: two lines of a rig's tile, since a database cannot join fields:
  ``QD8 8.12 W 41 °C``, ``4/12, 3 min left``; ``result_text``: the last point of the run that was
  measured, ``QD4 7.412 ± 0.031 W``.
- ``phase`` of an event: the label of the phase in which the drive throttled.
- ``meters_ok``: 1 when every meter gives readings, else 0.
- ``max_watts_…``: the largest mean over any window of 100us, 1ms, 10ms, 100ms, 1s, 10s, 60s or
  15min, of all rails and of each (``max_watts_1s``, ``max_watts_1s_12V``), with ``_u``.
- ``host_power``: what a meter of the drive's host reads, ``host_…_<meter>`` of a phase its mean
  (``host_watts_bmc``), the drive's share of it (0 to 1) and the work for each watt and joule of it.
  No other number has any of it.
- ``unthrottled_…``: of the part of a phase that was surely not throttled.
- ``steady``: 1 or 0; left out when the phase is idle or too short to judge.
- ``alive``: 1, and 0 in the last heartbeat of an orderly end; a rig that stops sending heartbeats
  without a 0 is lost.
- ``run`` … ``left_s`` of a heartbeat: what the rig does at that moment, as fields, so that the last
  heartbeat alone says it; ``phase_number`` counts from 1 to ``phases``; ``watts`` of all rails;
  ``celsius`` of the hottest sensor; ``left_s`` by plan.
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
    at_work: Mapping[str, Value | None] | None = None,
) -> Point:
    """A heartbeat of a rig; None: not known. Not ``alive``: the last one before an orderly end.

    ``at_work``: fields of the schema that say what the rig does now.
    """
    fields: dict[str, Value] = {"state": state, "alive": int(alive)}
    known = {} if at_work is None else at_work
    fields |= {name: value for name, value in known.items() if value is not None}
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
