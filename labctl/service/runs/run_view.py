"""The present state of a run, read from its files: for ``labctl status`` and ``watch``.

Works for every run of this machine, without contact to its process.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.clock_fit import EPOCH_NS
from labctl.capture.meters.acquisition import State
from labctl.capture.meters.live_values import (
    MOST_RECENT,
    STALE_S,
    LiveRail,
    RecentValues,
    View,
    live_rail,
    recent,
)
from labctl.config.rig_file import FIO_INSTRUMENT
from labctl.fio.documents import DIRECTIONS
from labctl.fio.status import LiveRates
from labctl.record.events import Event, EventKind, Outcome
from labctl.record.json_values import UNREADABLE, known
from labctl.record.layout import CHANNELS_DIR, CLOCK_PAIR, HOST_INSTRUMENT, READING
from labctl.record.phase import Phase, planned_s
from labctl.record.point_end import PointState, point_state
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S, Anchor
from labctl.service.runs.event_tail import EventTail
from labctl.service.runs.run_clock import RunClock

EVENTS_KEPT = 50
OF_EACH_PHASE = (EventKind.CPU_TIMES, EventKind.SETTINGS_FOUND, EventKind.POINT_STATE)
"""Kinds of events that come in every phase: not kept among the latest."""


class RunView:
    """One run, whose files are read at each call."""

    def __init__(self, run: Path) -> None:
        """Raises JournalError when ``run`` is no run directory."""
        record = RunRecord(run)
        self.header = record.header
        self.now_ns = RunClock(record.anchor).now_ns
        """The present moment on the run's timebase."""
        self.ended: Event | None = None
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._done: set[int] = set()
        self._path = run
        self._tail = EventTail(run)
        self._phase: Phase | None = None
        self._begin_ns = 0
        self._point: PointState | None = None
        self._statuses: dict[str, str] = {}
        instruments = {channel.name.partition(".")[0] for channel in self.header.channels}
        meters = instruments - {FIO_INSTRUMENT, HOST_INSTRUMENT}
        self._states = dict.fromkeys(meters, State.READING)
        self._channels = {channel.name: channel for channel in self.header.channels}

    def view(self) -> View:
        """The present values."""
        for event in self._tail.new_events():
            self._apply(event)
        return View(
            phase=None if self.ended else self._phase,
            phase_begin_ns=self._begin_ns,
            phases_total=len(self.header.phases),
            ends_ns=self._ends_ns(),
            rails=self._rails(),
            celsius=self._celsius(),
            host_watts=self._host_watts(),
            rates=self._rates(),
            instruments=dict(self._states),
            statuses=dict(self._statuses),
            point=self._point,
        )

    @property
    def phases_done(self) -> int:
        """How many phases are completed."""
        return len(self._done)

    @property
    def share_done(self) -> float:
        """The fraction of the run's planned time that has passed, 0 to 1."""
        total_s = planned_s(self.header.phases)
        if self._phase is None or not total_s:
            return 0.0
        before_s = sum(phase.planned_s for phase in self.header.phases[: self._phase.index])
        inside_s = (self.now_ns() - self._begin_ns) / NS_PER_S
        return min((before_s + min(max(inside_s, 0.0), self._phase.planned_s)) / total_s, 1.0)

    def _apply(self, event: Event) -> None:
        if event.kind not in OF_EACH_PHASE:
            self.events.append(event)
        data = event.data
        index = data.get("index")
        match event.kind:
            case EventKind.PHASE_STARTED:
                if isinstance(index, int) and 0 <= index < len(self.header.phases):
                    self._phase, self._begin_ns = self.header.phases[index], event.t_ns
                    self._point = None
            case EventKind.POINT_STATE:
                self._point = point_state(data)
            case EventKind.PHASE_ENDED:
                if isinstance(index, int) and data.get("outcome") == Outcome.COMPLETED:
                    self._done.add(index)
            case EventKind.INSTRUMENT_LOST:
                self._states[str(data.get("instrument"))] = State.LOST
            case EventKind.INSTRUMENT_BACK:
                self._states[str(data.get("instrument"))] = State.READING
            case EventKind.STATUS_BEGAN:
                self._statuses[str(data.get("channel"))] = str(data.get("status"))
            case EventKind.STATUS:
                self._statuses.pop(str(data.get("channel")), None)
            case EventKind.RUN_RESUMED:
                self.ended, self._phase = None, None
                self._states = dict.fromkeys(self._states, State.READING)
                self._statuses.clear()
                with contextlib.suppress(*UNREADABLE):
                    self.now_ns = RunClock(known(Anchor, data["anchor"])).now_ns
            case EventKind.RUN_ENDED:
                self.ended = event

    def _ends_ns(self) -> int | None:
        if self._phase is None:
            return None
        left_s = planned_s(self.header.phases[self._phase.index :])
        return None if left_s is None else self._begin_ns + round(left_s * NS_PER_S)

    def _newest(self, name: str) -> float | None:
        """The present value of a channel; None when it is not known."""
        found = self._recent(name)
        return None if found is None else found.newest

    def _recent(self, name: str) -> RecentValues | None:
        """What a channel shows now, on the run's timebase; None when it is not known."""
        file = self._path / CHANNELS_DIR / name
        channel = self._channels.get(name)
        interval_s = 0.0 if channel is None else channel.interval_s
        try:
            found = file.stat()
            if abs(time.time() - found.st_mtime) > max(STALE_S, 3 * interval_s):
                return None
            readings = _run_view_last_rows(file, READING, found.st_size, MOST_RECENT)
        except OSError:
            return None
        t_ns = np.ascontiguousarray(readings["t"])
        if len(t_ns) and channel is not None and channel.clock == "device":
            t_ns += self._ahead_ns(file, int(t_ns[-1]))
        return recent(t_ns, np.ascontiguousarray(readings["v"]), interval_s)

    def _ahead_ns(self, file: Path, device_ns: int) -> int:
        """How far the run's timebase is ahead of a device clock, by its last clock sample. Without
        one, its last reading ``device_ns`` is of now."""
        clock = file.with_name(f"{file.name}.clock")
        with contextlib.suppress(OSError):
            for pair in _run_view_last_rows(clock, CLOCK_PAIR, clock.stat().st_size, 1):
                if int(pair["device_ns"]) // EPOCH_NS == device_ns // EPOCH_NS:
                    return int(pair["host_ns"] - pair["round_trip_ns"] // 2 - pair["device_ns"])
        return self.now_ns() - device_ns

    def _rails(self) -> dict[str, LiveRail]:
        return {
            rail.name: live_rail(rail, self._recent(rail.voltage), self._recent(rail.current))
            for rail in self.header.rails
        }

    def _celsius(self) -> dict[str, float]:
        values = {name: self._newest(of) for name, of in self.header.temperatures.items()}
        return {name: value for name, value in values.items() if value is not None}

    def _host_watts(self) -> dict[str, float]:
        found = {one.name: self._recent(one.channel) for one in self.header.host_power}
        return {name: values.mean for name, values in found.items() if values is not None}

    def _rates(self) -> LiveRates | None:
        iops, bytes_per_s, waited = 0.0, 0.0, 0.0
        known = False
        for side in DIRECTIONS:
            count = self._newest(f"{FIO_INSTRUMENT}.{side}.iops")
            size = self._newest(f"{FIO_INSTRUMENT}.{side}.bytes_per_s")
            latency_us = self._newest(f"{FIO_INSTRUMENT}.{side}.latency_mean_us")
            if count is None or size is None:
                continue
            known = True
            iops, bytes_per_s = iops + count, bytes_per_s + size
            waited += count * (latency_us or 0.0)
        if not known:
            return None
        return LiveRates(iops, bytes_per_s, waited / iops if iops and waited else None)


def _run_view_last_rows(
    file: Path, kind: np.dtype[np.void], size: int, most: int
) -> NDArray[np.void]:
    count = size // kind.itemsize
    first = max(count - most, 0)
    return np.fromfile(file, kind, count - first, offset=first * kind.itemsize)
