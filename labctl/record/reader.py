"""A run on disk, as it is read: the header, the events, and the readings of every channel.

```
runs/<utc time>_<rig>_<plan>/
  run.json          header (Header)
  journal.jsonl     events, one JSON object a line: {"t": ns, "kind": …}
  channels/<name>   int64 time ns, float64 value, little endian (READING)
  channels/<name>.clock   device time, host time, round trip, all int64 ns (CLOCK_PAIR)
  channels/host.wall.clock   the same for the wall clock of a drive's host behind ssh
  fio/<phase>/      what fio printed and logged, untouched
```

Reading never changes anything. What a crash tore off is dropped and said so in ``problems``; texts
are made printable (:mod:`labctl.record.json_values`).
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from instruments.reading import Channel
from labctl.config.calibration_file import UsedCalibration, Zero
from labctl.config.plan import Phase
from labctl.config.rail import NAME_PATTERN
from labctl.errors import JournalError
from labctl.record.drive_state import DriveState
from labctl.record.json_values import UNREADABLE, known, parse_json, printable_texts
from labctl.record.timebase import Anchor

FORMAT = 1
"""Version of the format on disk; a reader refuses what is newer than itself."""

READING = np.dtype([("t", "<i8"), ("v", "<f8")])
CLOCK_PAIR = np.dtype([("device_ns", "<i8"), ("host_ns", "<i8"), ("round_trip_ns", "<i8")])

HEADER_FILE = "run.json"
EVENTS_FILE = "journal.jsonl"
CHANNELS_DIR = "channels"
FIO_DIR = "fio"

RESUMED = "run_resumed"
"""The event with which a second process goes on with a run that was cut off."""

HELD_UP = "held_up"
"""The event of labctl itself having stood still: stopped, or not scheduled."""

CPU_TIMES = "cpu_times"
"""The event of a look at what each core of the drive's host did so far."""

HOST_CLOCK = "host.wall"
"""The looks at the wall clock of the drive's host, which fio there prints."""

HOST_INSTRUMENT = HOST_CLOCK.partition(".")[0]

HOST_WAITING = "host.cpu_waiting"
HOST_STOLEN = "host.cpu_stolen"
"""Channels of the drive's host: the share (0 to 1) of the time in which something waited for a
processor, and of the processors' time that other virtual machines took."""

LAST_NS = 1 << 62
"""In the year 2116: no time of a record is later, and the sum of two times fits into 64 bits."""

CHANNEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
"""``instrument.channel``, which is also the name of its file."""
_DRIVE_NAME = re.compile(NAME_PATTERN)

VERBATIM = ("rig_text", "plan_text")
"""What of a header stays as it was written: only :func:`labctl.toml_reading.parse_toml` reads them,
which refuses what is not printable, and who shows them makes them so."""


LONGEST_S = 1e7
"""No meter's interval, integration, tick or doubt is longer, in seconds: four months."""


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A channel as the header keeps it; ``name`` is ``instrument.channel``.

    ``accuracy_of_reading`` is a fraction, ``accuracy_floor`` is in ``unit``; times in seconds.
    """

    name: str
    quantity: str
    unit: str
    clock: str = "host"
    interval_s: float = 0.0
    aperture_s: float = 0.0
    accuracy_of_reading: float = 0.0
    accuracy_floor: float = 0.0
    accuracy_source: str = ""
    range: float | None = None
    clock_tick_s: float = 0.0
    time_u_s: float = 0.0
    mains_hz: float = 0.0

    @classmethod
    def of(cls, instrument: str, channel: Channel) -> ChannelInfo:
        """The header's entry for ``channel`` of ``instrument``."""
        return cls(
            name=f"{instrument}.{channel.name}",
            quantity=channel.quantity.value,
            unit=channel.unit,
            clock=channel.clock.value,
            interval_s=channel.interval_s,
            aperture_s=channel.aperture_s,
            accuracy_of_reading=channel.accuracy.of_reading,
            accuracy_floor=channel.accuracy.floor,
            accuracy_source=channel.accuracy.source,
            range=channel.range,
            clock_tick_s=channel.clock_tick_s,
            time_u_s=channel.time_u_s,
            mains_hz=channel.mains_hz,
        )


@dataclass(frozen=True, slots=True)
class RailInfo:
    """A rail as the header keeps it: which channels measure it, and through what shunt.

    ``current`` names a current channel, or the channel of the voltage across the shunt when
    ``shunt_ohm`` is given. The other keys are those of :class:`labctl.config.rail.Current`.
    """

    name: str
    nominal_volts: float
    voltage: str
    current: str
    tolerance_pct: float = 5.0
    shunt_ohm: float | None = None
    shunt_tolerance_pct: float = 0.0
    volts_at: str = "drive"
    shunt_u_ohm: float | None = None
    shunt_k: float = 2.0
    shunt_ppm_per_kelvin: float = 0.0
    shunt_ppm_per_kelvin_limit: float = 0.0
    shunt_reference_celsius: float = 25.0
    shunt_kelvin_per_watt: float = 0.0
    shunt_celsius: tuple[float, float] | None = None
    shunt_temperature: str | None = None
    burden_ohm: float = 0.0
    burden_tolerance_pct: float = 0.0

    @property
    def in_series_ohm(self) -> float:
        """Resistance that measuring the current puts into the rail, as far as it is known."""
        return self.shunt_ohm or self.burden_ohm

    @property
    def drop_ohm(self) -> float:
        """Resistance between where the volts are measured and the drive: 0 at the drive."""
        return self.in_series_ohm if self.volts_at == "supply" else 0.0

    drive: str = ""
    """Whose rail it is, where a run has several drives; empty: they share it."""


@dataclass(frozen=True, slots=True)
class DriveInfo:
    """The drive under test as the rig names it; of several drives, all of them in one."""

    model: str = ""
    serial: str = ""
    target: str = ""
    engine: str = ""
    size_bytes: int | None = None
    warning_celsius: float | None = None
    critical_celsius: float | None = None

    @classmethod
    def together(cls, drives: Sequence[DriveInfo]) -> DriveInfo:
        """Several drives as one: their names joined, the smallest size, the lowest limits."""
        models = [drive.model or "drive" for drive in drives]
        alike = len(set(models)) == 1
        return cls(
            model=f"{len(models)} × {models[0]}" if alike else " + ".join(models),
            serial=" + ".join(filter(None, (drive.serial for drive in drives))),
            target=" ".join(drive.target for drive in drives),
            engine=" ".join(dict.fromkeys(drive.engine for drive in drives)),
            size_bytes=_least([drive.size_bytes for drive in drives]),
            warning_celsius=_least([drive.warning_celsius for drive in drives]),
            critical_celsius=_least([drive.critical_celsius for drive in drives]),
        )


N = TypeVar("N", int, float)


def _least(values: Sequence[N | None]) -> N | None:
    return min((value for value in values if value is not None), default=None)


@dataclass(frozen=True, slots=True)
class Header:
    """What a run is: written once, before the first phase."""

    run_id: str
    rig_name: str
    plan_name: str
    rig_text: str
    plan_text: str
    phases: tuple[Phase, ...]
    channels: tuple[ChannelInfo, ...]
    rails: tuple[RailInfo, ...]
    temperatures: dict[str, str]
    drive: DriveInfo
    anchor: Anchor
    versions: dict[str, str]
    identities: dict[str, str] = field(default_factory=dict)
    drive_state: DriveState | None = None
    """What the drive and its host were; None in runs that did not ask. Of several drives only
    what they have in common: the host, and what they share of it."""
    drives: dict[str, DriveInfo] = field(default_factory=dict)
    """Where several drives worked at once: each, by its name in the rig."""
    drive_states: dict[str, DriveState] = field(default_factory=dict)
    temperature_drives: dict[str, str] = field(default_factory=dict)
    """Whose sensor it is, by the sensor, of those that are one drive's."""
    calibration: UsedCalibration | None = None
    """Zeros that the analysis subtracts; None where the rig had no calibration."""
    format: int = FORMAT

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; :meth:`from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Header:
        """The header that :meth:`to_json` wrote. Raises JournalError when it is newer, one of
        UNREADABLE when it is none: a channel's name is that of a file, a drive's begins that of
        files, and both leave no folder.

        Texts are printable afterwards, but for those that are VERBATIM. Keys that a newer labctl
        added within the same format are left out.
        """
        verbatim = {key: data[key] for key in VERBATIM if key in data}
        data = {**printable_texts(data), **verbatim}
        if data["format"] > FORMAT:
            raise JournalError(
                f"the run was written in format {data['format']}, this labctl reads up to "
                f"{FORMAT}: update labctl"
            )
        header = known(cls, data)
        for number, phase in enumerate(header.phases):
            if phase.index != number:
                raise ValueError(f"phase {number} says that it is phase {phase.index}")
        names = [channel.name for channel in header.channels]
        names += [name for rail in header.rails for name in (rail.voltage, rail.current)]
        for name in (*names, *header.temperatures.values()):
            if not CHANNEL_NAME.fullmatch(name):
                raise ValueError(f"{name[:40]!r} is no name of a channel")
        for name in header.drives:
            if not _DRIVE_NAME.fullmatch(name):
                raise ValueError(f"{name[:40]!r} is no name of a drive")
        for channel in header.channels:
            spans = (channel.interval_s, channel.aperture_s, channel.clock_tick_s, channel.time_u_s)
            if not all(0 <= seconds <= LONGEST_S for seconds in spans):
                raise ValueError(f"{channel.name} takes readings for longer than there is time")
        return header


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, at ``t_ns`` on the run's timebase."""

    t_ns: int
    kind: str
    data: dict[str, Any]

    def to_line(self) -> str:
        """One line of ``journal.jsonl``, with its newline."""
        return json.dumps({"t": self.t_ns, "kind": self.kind, **self.data}) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Event:
        """The event of one line, its texts printable. Raises one of UNREADABLE when it is none."""
        data = parse_json(line)
        t_ns = int(data.pop("t"))
        if not 0 <= t_ns < LAST_NS:
            raise ValueError("a time that is none")
        return cls(t_ns=t_ns, kind=str(data.pop("kind")), data=data)


def written_records(rows: NDArray[np.void]) -> int:
    """How many records there are before those at the end that are nothing but zeros: a file system
    may leave a file that long after a loss of power, and never have had the data."""
    if not len(rows) or rows[-1].tobytes().strip(b"\0"):
        return len(rows)
    words = rows.view(np.int64).reshape(len(rows), -1)
    written = np.flatnonzero(words.any(axis=1))
    return int(written[-1]) + 1 if len(written) else 0


class RunRecord:
    """A run directory, open for reading (also while the run is still being written)."""

    drive_name = ""
    """Of several drives the one whose run this is; empty: of all of them together."""

    def __init__(self, path: Path) -> None:
        """Read the header and the events. Raises JournalError when this is no run."""
        self.path = path
        self.problems: list[str] = []
        try:
            self.header = Header.from_json(json.loads((path / HEADER_FILE).read_text("utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            raise JournalError(f"{path}: not a run (there is no {HEADER_FILE} in it)") from None
        except (OSError, *UNREADABLE) as error:
            raise JournalError(f"{path / HEADER_FILE} cannot be read: {error}") from error
        self.events = self._read_events()

    def _read_events(self) -> tuple[Event, ...]:
        file = self.path / EVENTS_FILE
        if not file.is_file():
            self.problems.append(f"{EVENTS_FILE} is missing")
            return ()
        events: list[Event] = []
        with file.open(encoding="utf-8", errors="replace", newline="\n") as stream:
            lines = stream.readlines()
        for number, line in enumerate(lines, start=1):
            try:
                if not line.endswith("\n"):
                    raise ValueError
                events.append(Event.from_line(line))
            except UNREADABLE:
                where = "torn last line" if number == len(lines) else f"unreadable line {number}"
                self.problems.append(f"{EVENTS_FILE}: {where} dropped")
        return tuple(events)

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Every channel of the header."""
        return tuple(channel.name for channel in self.header.channels)

    def channel(self, name: str) -> ChannelInfo:
        """The description of a channel. Raises KeyError."""
        for channel in self.header.channels:
            if channel.name == name:
                return channel
        raise KeyError(name)

    def zero_of(self, name: str) -> Zero | None:
        """What is to be subtracted from a channel's readings."""
        used = self.header.calibration
        return None if used is None else used.zero_of(name)

    def readings(self, name: str) -> NDArray[np.void]:
        """All readings of a channel, dtype READING, mapped from the file (never copied)."""
        return self._mapped(name, READING)

    def clock_pairs(self, name: str) -> NDArray[np.void]:
        """The looks at a channel's device clock, dtype CLOCK_PAIR; empty for a host clock."""
        looks = self._mapped(f"{name}.clock", CLOCK_PAIR)
        good = looks["round_trip_ns"] >= 0
        for times in ("device_ns", "host_ns", "round_trip_ns"):
            good &= (looks[times] > -LAST_NS) & (looks[times] < LAST_NS)
        if good.all():
            return looks
        self._problem(f"{CHANNELS_DIR}/{name}.clock: {int((~good).sum())} spoilt looks dropped")
        return looks[good]

    def _mapped(self, name: str, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        file = self.path / CHANNELS_DIR / name
        size = file.stat().st_size if file.is_file() else 0
        count, torn = divmod(size, dtype.itemsize)
        if torn:
            self._problem(f"{CHANNELS_DIR}/{name}: torn last record dropped")
        if not count:
            return np.empty(0, dtype)
        rows: NDArray[np.void] = np.memmap(file, dtype=dtype, mode="r", shape=(count,))
        written = written_records(rows)
        if written < count:
            told = f"{count - written} last records dropped that were never written"
            self._problem(f"{CHANNELS_DIR}/{name}: {told}")
        return rows[:written]

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)

    def fio_dir(self, phase: Phase) -> Path:
        """Where fio's own files of a phase are."""
        return self.path / FIO_DIR / phase.slug

    @property
    def end(self) -> Event | None:
        """The last ``run_ended`` event, or None when the run was cut off or is on."""
        marks = [event for event in self.events if event.kind in ("run_ended", RESUMED)]
        return marks[-1] if marks and marks[-1].kind != RESUMED else None

    @property
    def anchor(self) -> Anchor:
        """The anchor of the process that recorded last: another than the header's after a reboot.

        Times before the last ``run_resumed`` may be on another one.
        """
        for event in reversed(self.events):
            if event.kind == RESUMED:
                with contextlib.suppress(*UNREADABLE):
                    return known(Anchor, event.data["anchor"])
        return self.header.anchor


def find_runs(root: Path) -> list[Path]:
    """The run directories under ``root``, oldest first."""
    if not root.is_dir():
        return []
    return sorted(path.parent for path in root.glob(f"*/{HEADER_FILE}"))
