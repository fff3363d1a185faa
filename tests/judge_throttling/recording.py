"""What would have been recorded of a course, written as a run."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from instruments.reading import Block
from labctl.record import journal
from labctl.record.header import ChannelInfo, DriveInfo, Header, RailInfo
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.reader import RunRecord
from labctl.record.timebase import Anchor
from tests.judge_throttling.drives import STEP_S, Course, Drive, Floats

BEGAN_NS = 1_750_000_000_000_000_000
VOLTS, OHMS = 12.0, 0.03


@dataclass(frozen=True)
class Equipment:
    """What records the drive."""

    meter_hz: float = 10.0
    sensor: bool = True
    celsius_every_s: float = 1.0
    celsius_step: float = 1.0
    celsius_off: float = 0.0
    """What the sensor shows less than the place by which the drive is governed has."""
    warning_celsius: float | None = 80.0
    counts: bool = False
    """The drive counts its throttling; else its counters stay 0."""
    host_load: bool = True
    reports_power_state: bool = False
    status_jitter_s: float = 0.01


def ns(seconds: Floats | float) -> NDArray[np.int64]:
    return BEGAN_NS + np.rint(np.asarray(seconds) * 1e9).astype(np.int64)


def write(
    root: Path, drive: Drive, course: Course, sees: Equipment, rng: np.random.Generator
) -> Path:
    """The run's directory."""
    path = journal.create(root, _header(drive, sees))
    moments = itertools.count(BEGAN_NS)
    writer = journal.Journal(path, now_ns=lambda: next(moments))
    writer.event("run_started", BEGAN_NS)
    total = Running(course.watts)
    t = np.arange(0.5 + rng.uniform(0, 1) / sees.meter_hz, course.seconds - 0.5, 1 / sees.meter_hz)
    t = _awake(t, drive)
    watts = total.means(t - 0.4 / sees.meter_hz, t + 0.4 / sees.meter_hz)
    amps = (VOLTS - np.sqrt(VOLTS**2 - 4 * OHMS * watts)) / (2 * OHMS)
    volts = VOLTS - OHMS * amps
    writer.readings("v12", Block("voltage", ns(t), volts + rng.normal(0, 0.001, len(t))))
    writer.readings("i12", Block("current", ns(t), amps + rng.normal(0, 0.0005, len(t))))
    if sees.sensor:
        t = _awake(np.arange(0.3, course.seconds, sees.celsius_every_s), drive)
        shown = np.interp(t, np.arange(len(course.celsius)) * STEP_S, course.celsius)
        shown = np.round((shown - sees.celsius_off) / sees.celsius_step) * sees.celsius_step
        writer.readings("drive", Block("composite", ns(t), shown))
    if sees.host_load:
        t = _awake(np.arange(0.5, course.seconds, 0.5), drive)
        waiting = rng.uniform(0.0, 0.12, len(t))
        for begin, end, left in drive.outside.busy_host:
            busy = (t > begin) & (t <= end + 0.25)
            waiting[busy] = np.clip(1.1 - 0.25 * left, 0, 1) - rng.uniform(0, 0.1, busy.sum())
        writer.readings("host", Block("cpu_waiting", ns(t), waiting))
        writer.readings("host", Block("cpu_stolen", ns(t), np.zeros(len(t))))
    done = Running(course.iops)
    record = RunRecord(path)
    for index, (phase, (begin, end)) in enumerate(
        zip(record.header.phases, course.spans_s, strict=True)
    ):
        writer.event("phase_started", int(ns(begin - 0.004)), index=index)
        if index:
            statuses = np.arange(begin + 0.5, end - 0.3, 0.5)
            statuses = _awake(
                statuses + rng.exponential(sees.status_jitter_s, len(statuses)), drive
            )
            edges = np.concatenate([[begin], statuses, [end]])
            side = "write" if phase.writes else "read"
            rates = done.means(edges[:-1], edges[1:])
            writer.readings("fio", Block(f"{side}.iops", ns((edges[1:] + edges[:-1]) / 2), rates))
            mean = float(done.means(np.array([begin]), np.array([end]))[0])
            _write_fio(record.fio_dir(phase), side, mean, end - begin)
        writer.event(
            "phase_ended",
            int(ns(end + 0.01)),
            index=index,
            outcome="completed",
            begin_ns=int(ns(begin)),
            end_ns=int(ns(end)),
            boundary_u_ns=500_000,
            reason="",
        )
    _counters(writer, drive, course, sees)
    if drive.cap is not None and sees.reports_power_state:
        writer.event("power_state", int(ns(2.5)), state=0)
        watts_most = round(drive.cap.watts, 1)
        writer.event("power_state", int(ns(drive.cap.begin_s)), state=2, max_watts=watts_most)
        writer.event("power_state", int(ns(drive.cap.end_s)), state=0)
    writer.event("run_ended", int(ns(course.seconds)), outcome="completed", reason="")
    writer.close()
    return path


class Running:
    """Means over any stretch of what is known at each step."""

    def __init__(self, values: Floats) -> None:
        self.sums = np.concatenate([[0.0], np.cumsum(values)]) * STEP_S
        self.edges = np.arange(len(self.sums)) * STEP_S

    def means(self, begins: Floats, ends: Floats) -> Floats:
        high, low = (np.interp(at, self.edges, self.sums) for at in (ends, begins))
        return np.asarray((high - low) / (ends - begins))


def _awake(t: Floats, drive: Drive) -> Floats:
    for begin, end in drive.outside.frozen_host:
        t = t[(t < begin) | (t >= end)]
    return t


def _write_fio(folder: Path, side: str, iops: float, seconds: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ios = round(iops * seconds)
    of_side = {
        "io_bytes": ios * 4096,
        "io_kbytes": ios * 4,
        "total_ios": ios,
        "iops": iops,
        "runtime": round(seconds * 1000),
        "lat_ns": {"max": 900_000, "mean": 80_000.0, "N": ios},
    }
    job = {"jobname": "p", "error": 0, "job_runtime": round(seconds * 1000), side: of_side}
    (folder / "stdout").write_text(json.dumps({"fio version": "fio-3.33", "jobs": [job]}))


def _counters(writer: journal.Journal, drive: Drive, course: Course, sees: Equipment) -> None:
    """Sampled each 10 s; recorded at the begin, at the end, and when something moved."""
    held = course.held_back & sees.counts
    count = np.concatenate([[0], np.cumsum(np.diff(held.astype(int), prepend=0) > 0)])
    seconds = np.concatenate([[0.0], np.cumsum(held)]) * STEP_S

    def at(t_s: float) -> dict[str, int]:
        step = min(int(t_s / STEP_S), len(held))
        return {
            "thm_temp1_trans_count": int(count[step]),
            "thm_temp2_trans_count": 0,
            "thm_temp1_total_time": int(seconds[step]),
            "thm_temp2_total_time": 0,
        }

    samples = _awake(np.arange(1.0, course.seconds, 10.0), drive).tolist()
    writer.event("drive_state", int(ns(samples[0])), when="before", smart=at(samples[0]))
    for one, two in itertools.pairwise(samples):
        before, now = at(one), at(two)
        moved = {name: [before[name], now[name]] for name in now if now[name] != before[name]}
        if moved:
            change = {"since_ns": int(ns(one)), "moved": moved, "counters": now}
            writer.event("drive_counters", int(ns(two)), **change)
    writer.event("drive_state", int(ns(course.seconds)), when="after", smart=at(course.seconds))


def _header(drive: Drive, sees: Equipment) -> Header:
    phases = [Phase(0, Role.IDLE_BEFORE, "idle", Pattern.IDLE, drive.idle_s, 0, 0, 0, 0)]
    phases += [
        Phase(
            index=number,
            role=Role.MEASURE,
            sweep="judge",
            pattern=Pattern.RANDWRITE if work.writes else Pattern.RANDREAD,
            duration_s=work.seconds,
            block_size_bytes=4096,
            queue_depth=work.queue_depth,
            jobs=1,
            read_pct=0 if work.writes else 100,
        )
        for number, work in enumerate(drive.works, 1)
    ]
    interval_s = 1 / sees.meter_hz
    channels = [
        ChannelInfo(
            name=name,
            quantity=quantity,
            unit=unit,
            clock="host",
            interval_s=interval_s,
            aperture_s=0.8 * interval_s,
            accuracy_of_reading=0.0005,
            accuracy_floor=0.0005,
            accuracy_source="judge",
        )
        for name, quantity, unit in (
            ("v12.voltage", "voltage", "V"),
            ("i12.current", "current", "A"),
        )
    ]
    if sees.sensor:
        every_s = sees.celsius_every_s
        channels.append(
            ChannelInfo("drive.composite", "temperature", "°C", interval_s=every_s, aperture_s=0.0)
        )
    return Header(
        run_id="2026-01-01T00-00-00Z_judge_throttling",
        rig_name="judge",
        plan_name="throttling",
        rig_text="",
        plan_text="",
        phases=tuple(phases),
        channels=tuple(channels),
        rails=(RailInfo("12V", VOLTS, "v12.voltage", "i12.current"),),
        temperatures={"composite": "drive.composite"} if sees.sensor else {},
        drive=DriveInfo("judged", "S1", warning_celsius=sees.warning_celsius),
        anchor=Anchor(BEGAN_NS, 0, ""),
        versions={"labctl": "0.1.0"},
    )
