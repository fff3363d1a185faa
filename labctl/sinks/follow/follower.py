"""Follows the journal of one run from a cursor: new points, and the cursor behind them.

It reads the files on disk alone, so it works beside the process that writes them, after it, and
after a crash of either. Its points depend on the journal and not on when it was read; only
incomplete bins are emitted early while a run is on, and again when they are complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.run.summary import summarise
from labctl.analysis.throttle_result import ThrottleInterval
from labctl.fio.documents import DIRECTIONS
from labctl.record.bounded_read import next_line
from labctl.record.events import Event, EventKind
from labctl.record.header import ChannelInfo
from labctl.record.json_values import UNREADABLE
from labctl.record.layout import EVENTS_FILE
from labctl.record.phase import Phase
from labctl.record.reader import RunRecord
from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.bins import BinStream, ChannelStream, RailBins
from labctl.sinks.follow.ended_phase import ended_phase
from labctl.sinks.follow.event_points import NOT_SHOWN, event_point, throttle_point, withdrawn_point
from labctl.sinks.follow.growing_channel import GrowingChannel
from labctl.sinks.follow.phase_points import (
    compared_point,
    result_point,
    result_text,
    started_point,
)
from labctl.sinks.schema import SCHEMA, Point, PointSeries, drive_tags, run_tags
from labctl.sinks.sink import Slice, StoredPoints

MOST_EVENT_BYTES = 1 << 18
MOST_RECORDS = 4_096
"""Most read at a time: bytes of events, and readings of a channel that is sent without bins."""

FULL_RATE_GRID_NS = 100_000_000
"""Step in which readings are read when each of them is sent."""

SETTLED_NS = 1_000_000_000
"""After this time the last readings of a phase are recorded, and its result is computed."""

MOST_RECENT = 256
"""Latest events that a new one is compared with, so that no two have one time."""

ABOUT_PHASES = (
    EventKind.DRIVE_STATE,
    EventKind.DRIVE_COUNTERS,
    EventKind.POWER_STATE,
    EventKind.PAUSED,
    EventKind.HOST_LOST,
    EventKind.STATUS_BEGAN,
    EventKind.STATUS,
    EventKind.RUN_RESUMED,
)
"""Events that the analysis of a phase uses, besides its own."""


class Follower:
    """Reads one run, from ``cursor`` on."""

    def __init__(self, path: Path, cursor: Cursor) -> None:
        """``cursor.bin_ns`` is the width of the bins, 0 for every reading.

        Raises JournalError when ``path`` is no run.
        """
        self.record = RunRecord(path)
        self.header = self.record.header
        self.tags = run_tags(self.header)
        self._drive_tags = drive_tags(self.header)
        self.ended = False
        """Whether the ``run_ended`` event was read."""
        self.lost_instruments: set[str] = set()
        self.problem = ""
        """Why the run could not be summarised, in words."""
        self.result_text = ""
        """The last point that was measured while the run was followed, in words."""
        self._cursor = cursor
        self._phases = {phase.index: phase for phase in self.header.phases}
        self._phase_events: list[Event] = []
        self._recent: deque[tuple[str, str, int]] = deque(maxlen=MOST_RECENT)
        self._unresolved: list[Event] = []
        self._channels: dict[str, GrowingChannel] = {}
        self._streams = self._make_streams(cursor.bin_ns)
        for stream in self._streams:
            stream.resume_at(cursor.bins.get(stream.name))
        self._events_file = path / EVENTS_FILE
        for event, _ in self._read_events(0, cursor.events):
            self._track(self._distinct(event))

    def advance(self, now_ns: int | None) -> Slice | None:
        """The next points; None when there are none (for now).

        ``now_ns`` is the present moment on the run's timebase, or None when nothing more will be
        written: then incomplete bins and the summary are emitted too.
        """
        for channel in self._channels.values():
            channel.refresh()
        points = list(self._next_events())
        if points:
            return Slice(tuple(points), (), self._cursor)
        series = [part for stream in self._streams for part in stream.advance(now_ns)]
        series += self._next_io()
        if series:
            self._cursor = replace(self._cursor, bins=self._bins())
            return Slice((), tuple(series), self._cursor, live=now_ns is not None)
        if now_ns is None:
            return self._summary()
        if self._unresolved and now_ns > self._unresolved[0].t_ns + SETTLED_NS:
            points = list(self._phase_result(self._unresolved.pop(0)))
        return Slice(tuple(points), (), self._cursor) if points else None

    @property
    def newest_ns(self) -> int | None:
        """The time of the newest reading of any meter."""
        lasts = [channel.last_ns for channel in self._channels.values()]
        return max((last for last in lasts if last is not None), default=None)

    def lag_s(self) -> float:
        """Delay of the emitted points behind the recorded readings, in seconds; the largest."""
        worst_ns = 0
        for stream in self._streams:
            newest = max((channel.last_ns or 0 for channel in stream.channels), default=0)
            if stream.emitted_ns is not None:
                worst_ns = max(worst_ns, newest - stream.emitted_ns)
        return worst_ns * 1e-9

    def progress(self) -> tuple[float, float]:
        """Seconds of the run emitted, and seconds recorded."""
        newest = self.newest_ns
        begin = self.header.anchor.wall_ns
        if newest is None:
            return 0.0, 0.0
        shown = [stream.emitted_ns for stream in self._streams if stream.emitted_ns is not None]
        done = min(min(shown, default=begin), newest)
        return max(done - begin, 0) * 1e-9, max(newest - begin, 0) * 1e-9

    def _make_streams(self, bin_ns: int) -> list[BinStream]:
        full_rate = bin_ns == 0
        grid_ns = bin_ns or FULL_RATE_GRID_NS
        infos = {info.name: info for info in self.header.channels}
        streams: list[BinStream] = []
        for rail in self.header.rails:
            if rail.voltage not in infos or rail.current not in infos:
                continue
            volts = self._channel(infos[rail.voltage], 1.0)
            scale = 1.0 / rail.shunt_ohm if rail.shunt_ohm else 1.0
            amps = self._channel(infos[rail.current], scale)
            nominal = {
                "volts_nominal": rail.nominal_volts,
                "volts_tolerance_pct": rail.tolerance_pct,
            }
            tags = {**self._tags_of(rail.drive), "rail": rail.name}
            streams.append(
                RailBins(
                    *(f"power.{rail.name}", volts, amps, tags, grid_ns),
                    *(full_rate, nominal, rail.drop_ohm),
                )
            )
        limits, owners = self._limits(), self.header.temperature_drives
        for sensor, name in self.header.temperatures.items():
            if name in infos:
                streams.append(
                    ChannelStream(
                        f"temperature.{sensor}",
                        self._channel(infos[name], 1.0),
                        ("temperature", "celsius"),
                        {**self._tags_of(owners.get(sensor, "")), "sensor": sensor},
                        grid_ns,
                        full_rate,
                        limits.get(sensor, {}),
                    )
                )
        streams += [
            ChannelStream(
                f"host_power.{meter.name}",
                self._channel(infos[meter.channel], 1.0),
                ("host_power", "watts"),
                {**self.tags, "meter": meter.name},
                grid_ns,
                full_rate,
                {},
            )
            for meter in self.header.host_power
            if meter.channel in infos
        ]
        return streams

    def _channel(self, info: ChannelInfo, scale: float) -> GrowingChannel:
        key = f"{info.name}*{scale}"
        if key not in self._channels:
            self._channels[key] = GrowingChannel(self.record, info, scale)
        return self._channels[key]

    def _tags_of(self, drive: str) -> dict[str, str]:
        """The tags of one drive, or those of all drives together."""
        return self._drive_tags.get(drive, self.tags)

    def _limits(self) -> dict[str, dict[str, float]]:
        """A drive's limits hold for its own sensors, not for one that is glued to it."""
        owners, drives = self.header.temperature_drives, self.header.drives
        found: dict[str, dict[str, float]] = {}
        for sensor in self.header.own_sensors():
            drive = drives.get(owners.get(sensor, ""), self.header.drive)
            limits = {
                "warning_celsius": drive.warning_celsius,
                "critical_celsius": drive.critical_celsius,
            }
            found[sensor] = {name: limit for name, limit in limits.items() if limit is not None}
        return found

    def _bins(self) -> dict[str, int]:
        done = {stream.name: stream.complete_ns for stream in self._streams}
        return {name: edge for name, edge in done.items() if edge is not None}

    def _read_events(self, begin: int, end: int | None) -> Iterator[tuple[Event, int]]:
        """Whole events between two offsets in the file, each with the offset behind it."""
        if not self._events_file.exists():
            return
        with self._events_file.open("rb") as file:
            file.seek(begin)
            place = begin
            while end is None or place < end:
                line = next_line(file)
                if not line.endswith(b"\n"):
                    return  # torn, or still being written
                place = file.tell()
                try:
                    yield Event.from_line(line.decode("utf-8", "replace")), place
                except UNREADABLE:
                    continue  # a torn line: RunRecord names it

    def _next_events(self) -> Iterator[Point]:
        place = self._cursor.events
        for event, behind in self._read_events(place, place + MOST_EVENT_BYTES):
            self._cursor = replace(self._cursor, events=behind)
            event = self._distinct(event)
            if event.kind not in NOT_SHOWN:
                yield event_point(event, self._phases, self.tags)
            yield from self._phase_points(event)
            self._track(event)
            if event.kind == EventKind.RUN_RESUMED:
                for stream in self._streams:
                    stream.make_last_again()
                self._cursor = replace(self._cursor, bins=self._bins())

    def _distinct(self, event: Event) -> Event:
        """The event, a nanosecond later for each like one at the same time, since it would
        replace the one before."""
        point = event_point(event, self._phases, self.tags)
        t_ns = event.t_ns
        while (event.kind, point.tags["severity"], t_ns) in self._recent:
            t_ns += 1
        self._recent.append((event.kind, point.tags["severity"], t_ns))
        return replace(event, t_ns=t_ns)

    def _phase_points(self, event: Event) -> Iterator[Point]:
        phase = self._phase_of(event)
        if event.kind == EventKind.PHASE_STARTED and phase is not None:
            yield started_point(phase, event.t_ns, self.tags)
        elif event.kind == EventKind.PHASE_ENDED and phase is not None:
            self._unresolved.append(event)

    def _phase_of(self, event: Event) -> Phase | None:
        index = event.data.get("index")
        return self._phases.get(index) if isinstance(index, int) else None

    def _track(self, event: Event) -> None:
        """Keep what later events or points need of this one."""
        if event.kind in (EventKind.PHASE_STARTED, EventKind.PHASE_ENDED):
            if self._phase_of(event) is not None:
                self._phase_events.append(event)
        elif event.kind in ABOUT_PHASES:
            self._phase_events.append(event)
        if event.kind == EventKind.RUN_ENDED:
            self.ended = True
        elif event.kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED):
            self.ended = False
            self.lost_instruments.clear()
        elif event.kind == EventKind.INSTRUMENT_LOST:
            self.lost_instruments.add(str(event.data.get("instrument")))
        elif event.kind == EventKind.INSTRUMENT_BACK:
            self.lost_instruments.discard(str(event.data.get("instrument")))

    def _next_io(self) -> list[PointSeries]:
        """New values of fio, without bins: they come twice a second."""
        found: list[PointSeries] = []
        places = dict(self._cursor.records)
        for drive, op in product(("", *self._drive_tags), DIRECTIONS):
            parts = {}
            for field in SCHEMA["io"].fields:
                name = f"fio.{drive}.{op}.{field}" if drive else f"fio.{op}.{field}"
                begin = places.get(name, 0)
                part = np.asarray(self.record.readings(name)[begin : begin + MOST_RECORDS])
                if len(part):
                    places[name] = begin + len(part)
                    parts[field] = part
            if parts:
                found.append(_side_by_side(parts, {**self._tags_of(drive), "op": op}))
        if found:
            self._cursor = replace(self._cursor, records=places)
        return found

    def _started_ns(self) -> dict[int, int]:
        """The time (ns) of each phase_started event by index: that of the phase's point."""
        return {
            int(event.data["index"]): event.t_ns
            for event in self._phase_events
            if event.kind == EventKind.PHASE_STARTED
        }

    def _phase_result(self, ended: Event) -> Iterator[Point]:
        """The result of a phase that ended, while the run is on."""
        index = int(ended.data["index"])
        try:
            results, throttling = ended_phase(
                self.record, tuple(self._phase_events), ended, self._channels.values()
            )
        except Exception:  # it is sent with the summary; readings must not wait for it
            return
        if not results:
            return
        for drive, result in results.items():
            t_ns = self._started_ns().get(index, result.begin_ns)
            tags = self._tags_of(drive)
            point = result_point(result, t_ns, tags, part=bool(drive), running=True)
            if not drive:
                self.result_text = result_text(result, point) or self.result_text
            yield point
        points = [self._throttle_point(interval) for interval in throttling]
        sent = {*self._cursor.throttling, *map(_followed_point_identity, points)}
        self._cursor = replace(self._cursor, throttling=tuple(sorted(sent)))
        yield from points

    def _summary(self) -> Slice | None:
        """Every phase and every throttle interval, as in ``summary.json``, once.

        The phases replace those that were stored while the run was on: the whole run may have shown
        that a number of one does not hold.
        """
        size = self._events_file.stat().st_size if self._events_file.exists() else 0
        if self._cursor.summarised == size:
            return None
        self._unresolved.clear()
        try:
            summary = summarise(RunRecord(self.record.path))
        except Exception as error:  # readings are sent without it
            self.problem = f"the run cannot be summarised: {type(error).__name__}: {error}"
            return None
        started = self._started_ns()
        phases, compared = [], list[Point]()
        for drive, one in {"": summary, **summary.drives}.items():
            tags = self._tags_of(drive)
            for result in one.phases:
                t_ns = started.get(result.phase.index, result.begin_ns)
                phases.append(result_point(result, t_ns, tags, part=bool(drive)))
                point = compared_point(result, t_ns, tags, part=bool(drive))
                compared += [point] if point else []
        with_result = {point.t_ns for point in phases}
        for event in self._phase_events:
            if event.kind == EventKind.PHASE_STARTED and event.t_ns not in with_result:
                phases += self._phase_points(event)
        true = [self._throttle_point(interval) for interval in summary.throttling]
        withdrawn = sorted(set(self._cursor.throttling) - set(map(_followed_point_identity, true)))
        marked = (withdrawn_point(*sent, self.tags) for sent in withdrawn)
        self._cursor = replace(self._cursor, summarised=size, throttling=())
        times = [point.t_ns for point in phases]
        replaces = tuple(
            StoredPoints(measurement, self.tags["run"], min(times), max(times))
            for measurement in ("phase", "point")
            if times
        )
        points = (*phases, *compared, *true, *marked)
        return Slice(points, (), self._cursor, replaces=replaces)

    def _throttle_point(self, interval: ThrottleInterval) -> Point:
        """Two drives may slow down at the same time: the point of the one that the rig names later
        is a nanosecond later, or it would replace the other's."""
        later = [*self._drive_tags].index(interval.drive) if interval.drive else 0
        label = self._phases[interval.phase_index].label
        return throttle_point(
            replace(interval, begin_ns=interval.begin_ns + later), label, self.tags
        )


def _followed_point_identity(point: Point) -> tuple[int, str]:
    """Begin and severity, which identify the point of a throttle interval."""
    return point.t_ns, point.tags["severity"]


def _side_by_side(parts: dict[str, NDArray[np.void]], tags: dict[str, str]) -> PointSeries:
    """Fields that fio reported at the same time, in one point."""
    times = np.unique(np.concatenate([part["t"] for part in parts.values()]))
    columns = {}
    for name, part in parts.items():
        columns[name] = np.full(len(times), np.nan)
        columns[name][np.searchsorted(times, part["t"])] = part["v"]
    return PointSeries("io", tags, times, columns)
