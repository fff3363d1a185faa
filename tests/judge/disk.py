"""The bytes of a run, as docs/run-on-disk.md lays them out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.judge.clocks import BEGAN_NS, Times, on_timebase
from tests.judge.loads import Floats, Steps, joined, level
from tests.judge.meters import Meter, Rail, dithered, drawn, readings

LEAD_S, TAIL_S = 2.0, 2.0


@dataclass(frozen=True)
class Work:
    """One phase: watts of the whole drive from its begin, and what fio did."""

    watts: Steps
    iops: float = 0.0
    role: str = "measure"
    pace: Steps | None = None
    """By what factor the I/Os go, where they vary."""

    @property
    def seconds(self) -> float:
        return self.watts.seconds


@dataclass(frozen=True)
class Scene:
    """Everything that makes a run."""

    works: Sequence[Work]
    rails: Sequence[Rail]
    meters: Sequence[Meter]
    gap_s: float = 0.05
    gap_watts: float = 1.0
    boundary_u_s: float = 0.0003
    fio_pace: float = 1.0
    """How fast fio's own clock runs."""
    drive: dict[str, Any] = field(default_factory=dict)
    run: str = "judged"


@dataclass(frozen=True)
class PhaseTruth:
    """The truth of one phase."""

    seconds: float
    watts: float
    """Mean of all rails between the first and the last I/O."""
    ios: int
    begin_s: float

    @property
    def joules(self) -> float:
        return self.watts * self.seconds


def write(root: Path, scene: Scene, rng: np.random.Generator) -> tuple[Path, list[PhaseTruth]]:
    """The run's directory and, by phase, the truth."""
    path = root / scene.run
    (path / "channels").mkdir(parents=True)
    pause = level(scene.gap_s, scene.gap_watts)
    parts, begins, clock = [level(LEAD_S, scene.gap_watts)], [], LEAD_S
    for work in scene.works:
        begins.append(clock)
        parts += [work.watts, pause]
        clock += work.seconds + scene.gap_s
    parts.append(level(TAIL_S, scene.gap_watts))
    drawn = joined(parts)
    seconds = drawn.seconds
    total = (drawn * sum(rail.share for rail in scene.rails)).integral()
    truth = []
    for work, begin in zip(scene.works, begins, strict=True):
        end = begin + work.seconds
        ios = work.iops * work.seconds
        if work.pace is not None:
            ios *= float(work.pace.integral().mean(0.0, work.seconds))
        truth.append(PhaseTruth(work.seconds, float(total.mean(begin, end)), round(ios), begin))
    events: list[dict[str, Any]] = [_event(0.0, "run_started")]
    seen = {rail.name: rail.seen(rail.amps(drawn)) for rail in scene.rails}
    for meter in scene.meters:
        events += _channel(path / "channels", meter, seen[meter.rail][meter.sees], rng, seconds)
    phases = [_phase(index, work) for index, work in enumerate(scene.works)]
    for index, (work, true) in enumerate(zip(scene.works, truth, strict=True)):
        printed: dict[str, int] = {}
        if work.iops:
            slug = f"{index:03d}_randread-4k-qd{phases[index]['queue_depth']}"
            printed = _fio(path, slug, true, scene.fio_pace)
        events += _phase_events(index, true, scene.boundary_u_s, rng, printed)
    events.append(_event(seconds, "run_ended", outcome="completed", reason=""))
    events.sort(key=lambda item: item["t"])
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (path / "journal.jsonl").write_text(lines)
    (path / "run.json").write_text(json.dumps(_header(scene, phases), indent=1))
    _live(path, scene, begins, rng)
    return path, truth


def _event(seconds: float, kind: str, **data: Any) -> dict[str, Any]:
    return {"t": int(on_timebase(seconds)), "kind": kind, **data}


def _pairs(times: Times, values: Floats) -> bytes:
    rows = np.empty(len(times), dtype=[("t", "<i8"), ("v", "<f8")])
    rows["t"], rows["v"] = times, values
    return rows.tobytes()


def _channel(
    folder: Path, meter: Meter, truth: Any, rng: np.random.Generator, seconds: float
) -> list[dict[str, Any]]:
    shown = readings(meter, truth, rng, seconds)
    stamps = meter.clock.stamps(shown.t, rng)
    (folder / meter.channel).write_bytes(_pairs(stamps, shown.values))
    pairs = meter.clock.pairs(seconds, rng)
    if pairs is not None:
        (folder / f"{meter.channel}.clock").write_bytes(pairs.astype("<i8").tobytes())
    events = []
    for begin, end, count in shown.statuses:
        status = {"channel": meter.channel, "status": meter.beyond, "detail": ""}
        events.append(_event(begin + 0.01, "status_began", **status))
        span = {"begin_ns": int(on_timebase(begin + 0.01)), "end_ns": int(on_timebase(end + 0.01))}
        events.append(_event(end + 0.01, "status", **status, count=count, **span))
    return events


def _phase(index: int, work: Work) -> dict[str, Any]:
    works = work.iops > 0
    return {
        "index": index, "role": work.role, "sweep": "judged" if works else "idle",
        "pattern": "randread" if works else "idle", "duration_s": round(work.seconds, 3),
        "block_size_bytes": 4096 if works else 0, "queue_depth": 1 + index if works else 0,
        "jobs": 1 if works else 0, "read_pct": 100, "sweep_number": 1 if works else 0,
    }  # fmt: skip


def _phase_events(
    index: int, true: PhaseTruth, u_s: float, rng: np.random.Generator, printed: dict[str, int]
) -> list[dict[str, Any]]:
    begin, end = true.begin_s, true.begin_s + true.seconds
    edges = [at + rng.uniform(-1, 1) * u_s for at in (begin, end)]
    ended = {
        "index": index, "outcome": "completed", "reason": "",
        "begin_ns": int(on_timebase(edges[0])), "end_ns": int(on_timebase(edges[1])),
        "boundary_u_ns": round(u_s * 1e9), **printed,
    }  # fmt: skip
    started = _event(begin - 0.004, "phase_started", index=index)
    return [started, _event(end + 0.01, "phase_ended", **ended)]


def _fio(path: Path, slug: str, true: PhaseTruth, pace: float) -> dict[str, int]:
    """What fio printed; and what the phase's end says of it."""
    runtime_ms = round(true.seconds * pace * 1000)
    side = {
        "io_bytes": true.ios * 4096, "io_kbytes": true.ios * 4, "total_ios": true.ios,
        "iops": true.ios / runtime_ms * 1000, "runtime": runtime_ms,
        "lat_ns": {"min": 20_000, "max": 900_000, "mean": 80_000.0, "N": true.ios},
        "clat_ns": {"min": 19_000, "max": 899_000, "mean": 79_000.0, "N": true.ios},
    }  # fmt: skip
    job = {"jobname": "phase", "error": 0, "job_runtime": runtime_ms, "read": side}
    folder = path / "fio" / slug
    folder.mkdir(parents=True)
    text = json.dumps({"fio version": "fio-3.33", "jobs": [job]})
    (folder / "stdout").write_text(text)
    return {"stdout_bytes": len(text), "runtime_ms": runtime_ms, "total_ios": true.ios}


def _live(path: Path, scene: Scene, begins: Sequence[float], rng: np.random.Generator) -> None:
    """IOPS as fio tells them each half second."""
    times, rates = [], []
    for work, begin in zip(scene.works, begins, strict=True):
        if work.iops:
            t = np.arange(0.25, work.seconds - 0.25, 0.5)
            times.append(begin + t)
            paces = np.ones(len(t))
            if work.pace is not None:
                paces = work.pace.integral().mean(t - 0.25, t + 0.25)
            rates.append(work.iops * paces * (1 + rng.normal(0, 0.002, len(t))))
    if times:
        stamps = on_timebase(np.concatenate(times))
        (path / "channels" / "fio.read.iops").write_bytes(_pairs(stamps, np.concatenate(rates)))


def _header(scene: Scene, phases: list[dict[str, Any]]) -> dict[str, Any]:
    channels = [
        {
            "name": meter.channel,
            "quantity": "current" if meter.unit == "A" else "voltage",
            "unit": meter.unit,
            "clock": meter.clock.name,
            "interval_s": meter.interval_s,
            "aperture_s": meter.aperture_s,
            "accuracy_of_reading": meter.gain_limit,
            "accuracy_floor": meter.floor_limit,
            "accuracy_source": "its data sheet",
            "range": meter.full_scale,
            "clock_tick_s": meter.clock.tick_s,
            "time_u_s": meter.clock.u_s,
            "mains_hz": 50.0,
            "dither": 1.0 if meter.pace in (dithered, drawn) else 0.0,
        }
        for meter in scene.meters
    ]
    rails = []
    for rail in scene.rails:
        by = {meter.sees: meter.channel for meter in scene.meters if meter.rail == rail.name}
        declared = {"volts_at": "supply"} if "supply" in by else {}
        rails.append({
            "name": rail.name, "nominal_volts": rail.volts,
            "voltage": by.get("volts") or by["supply"],
            "current": by.get("amps") or by["drop"], "tolerance_pct": 10.0,
            **declared, **rail.declared,
        })  # fmt: skip
    return {
        "format": 1, "run_id": scene.run, "rig_name": "judge", "plan_name": "judged",
        "rig_text": "", "plan_text": "", "phases": phases, "channels": channels, "rails": rails,
        "temperatures": {}, "drive": {"model": "judged", "serial": "S1", **scene.drive},
        "anchor": {"wall_ns": BEGAN_NS, "monotonic_ns": 0, "boot_id": ""},
        "versions": {"labctl": "0.1.0"},
    }  # fmt: skip
