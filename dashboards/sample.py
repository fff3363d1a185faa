"""Sample data of an invented lab as line protocol, to try the dashboards without a bench.

``python -m dashboards.sample | influx write --bucket labctl`` fills a database. Four rigs: one
that measures, one that crashed after its run had been cut off twice and resumed, one that was
stopped, one that records while it is idle. Nothing is random.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from dashboards import HEARTBEAT_S

NS_PER_S = 1_000_000_000
PHASE_S = 20
LONGER_S = 600
"""The plan of the run that is on has its last phase so much longer."""

PLAN = "power-per-qd"
DEPTHS = (1, 2, 4, 8, 16, 32)
WARNING_CELSIUS, CRITICAL_CELSIUS = 70.0, 80.0
RAILS = {"12V": (12.0, 0.8), "3V3": (3.3, 0.2)}
"""Nominal volts, and the rail's share of the watts."""

HOST_WATTS = 180.0
"""What the machine draws besides its drive."""

Value = float | int | str


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of phase: watts and IOPS follow from the queue depth by saturation."""

    role: str
    pattern: str
    block_size: str = ""
    block_bytes: int = 0
    most_iops: float = 0.0
    most_watts: float = 4.0
    half_depth: float = 6.0

    def share(self, depth: int) -> float:
        """How far the drive is used, 0 to 1."""
        return depth / (depth + self.half_depth) if depth else 0.0


IDLE = Work("idle_before", "idle")
READ = Work("measure", "randread", "4k", 4096, 440e3, 10.0)
WRITE = Work("measure", "write", "128k", 131072, 9.2e3, 22.0, 1.5)


PHASES = (
    (IDLE, 0),
    *((READ, depth) for depth in DEPTHS),
    *((WRITE, depth) for depth in (1, 4, 32)),
)
"""The kinds and queue depths of a run's phases."""


@dataclass(slots=True)
class Lab:
    """The sample data: its lines, and the tags and fields of its phases."""

    lines: list[str] = field(default_factory=list)
    phases: list[dict[str, Value]] = field(default_factory=list)

    def add(
        self, measurement: str, tags: Mapping[str, str], fields: Mapping[str, Value], t_ns: int
    ) -> None:
        """One point."""
        head = ",".join(
            [
                measurement,
                *(f"{key}={_escaped_sample_name(value)}" for key, value in tags.items() if value),
            ]
        )
        body = ",".join(f"{key}={_sample_field_value(value)}" for key, value in fields.items())
        self.lines.append(f"{head} {body} {t_ns}")


def _escaped_sample_name(text: str) -> str:
    for special in ",= ":
        text = text.replace(special, f"\\{special}")
    return text


def _sample_field_value(value: Value) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return f"{value}i" if isinstance(value, int) else repr(value)


def lab(now_ns: int) -> Lab:
    """The last day of the lab up to ``now_ns`` (ns since the Unix epoch)."""
    made = Lab()
    now_s = now_ns // NS_PER_S
    _sample_run(made, "bench-1", "SN 001/A=1", now_s - 7200, now_s, hotter_celsius=0.0)
    live_s = now_s - 195
    _sample_run(made, "bench-1", "SN 001/A=1", live_s, now_s, hotter_celsius=14.0)
    _sample_run(
        made, "bench-2", "SN-002", now_s - 80_000, now_s - 79_880, hotter_celsius=2.0, failed=True
    )
    crashed_s, finished_s = now_s - 3600, now_s - 1800
    for rig, state, until in (
        ("bench-1", "running", now_s),
        ("bench-2", "idle", crashed_s),
        ("bench-3", "idle", finished_s),
    ):
        for second in _sample_heartbeats(until):
            last = rig == "bench-3" and second == until
            fields: dict[str, Value] = {
                "state": state,
                "alive": 0 if last else 1,
                "queue_length": 2 if rig == "bench-1" else 0,
                "meters_ok": 0 if rig == "bench-1" and second > now_s - 100 else 1,
                "journal_lag_s": 0.4 + 0.2 * math.sin(second / 300),
            }
            if rig == "bench-1" and second >= live_s:
                fields |= at_work(rig, "SN 001/A=1", live_s, second, hotter_celsius=14.0)
            made.add("rig", {"rig": rig}, fields, second * NS_PER_S)
    _idle_records(made, "bench-4", now_s)
    return made


def _idle_records(made: Lab, rig: str, now_s: int) -> None:
    """A run that somebody ended yesterday; since then idle records, the newer one with
    another drive, which has no name."""
    ended_s, next_s = now_s - 90_000, now_s - 3600
    run = {"rig": rig, "drive": "SN-004", "run": _run_id(rig, ended_s - 60)}
    _sample_event(made, run, "run_ended", "warning", "run interrupted", ended_s)
    for begin_s, end_s in ((ended_s, next_s), (next_s, now_s)):
        tags = {"rig": rig, "run": _run_id(rig, begin_s, "idle")}
        _sample_event(made, tags, "run_started", "info", "run started", begin_s)
        if end_s < now_s:
            _sample_event(made, tags, "run_ended", "info", "run completed", end_s)
    for second in _sample_heartbeats(now_s):
        fields: dict[str, Value] = {
            "state": "idle",
            "alive": 1,
            "queue_length": 0,
            "meters_ok": 1,
            "journal_lag_s": 0.4,
            "run": _run_id(rig, ended_s if second < next_s else next_s, "idle"),
            **({"drive": "SN-004"} if second < next_s else {}),
            "plan": "idle",
            "watts": 1.1,
            "celsius": 38.0,
            "load_text": "1.10 W 38 °C",
            "progress_text": "",
        }
        made.add("rig", {"rig": rig}, fields, second * NS_PER_S)


def _sample_heartbeats(until: int) -> list[int]:
    """Of a day, sparser than they are but for the last ones."""
    return [*range(until - 86_400, until - 60, 30), *range(until - 60, until + 1, HEARTBEAT_S)]


def at_work(
    rig: str, drive: str, begin_s: int, second: int, hotter_celsius: float
) -> dict[str, Value]:
    """What a heartbeat says of the run that began at ``begin_s``."""
    index = min((second - begin_s) // PHASE_S, len(PHASES) - 1)
    work, depth = PHASES[index]
    watts, celsius = _sample_watts(work, depth), _sample_celsius(work, depth, hotter_celsius)
    left_s = begin_s + len(PHASES) * PHASE_S + LONGER_S - second
    label = _sample_phase_label(work, depth)
    return {
        "run": _run_id(rig, begin_s),
        "drive": drive,
        "plan": PLAN,
        "phase": label,
        "phase_number": index + 1,
        "phases": len(PHASES),
        "qd": depth,
        "watts": watts,
        "celsius": celsius,
        "left_s": float(left_s),
        "load_text": f"{f'QD{depth}' if depth else label} {watts:#.3g} W {celsius:.0f} °C",
        "progress_text": f"{index + 1}/{len(PHASES)}, {round(left_s / 60)} min left",
    }


def _run_id(rig: str, begin_s: int, plan: str = PLAN) -> str:
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(begin_s))}_{rig}_{plan}"


def _sample_phase_label(work: Work, depth: int) -> str:
    return f"{work.pattern} {work.block_size} QD{depth}" if depth else "idle before"


def _sample_run(
    made: Lab,
    rig: str,
    drive: str,
    begin_s: int,
    end_s: int,
    hotter_celsius: float,
    failed: bool = False,
) -> None:
    tags = {"rig": rig, "drive": drive, "run": _run_id(rig, begin_s)}
    _sample_event(made, tags, "run_started", "info", "run started", begin_s)
    done_s = begin_s + len(PHASES) * PHASE_S
    for index in range(2 if failed else 0):
        cut_off_s = begin_s - 60 + PHASE_S * index
        marks = {**tags, "part": tags["run"]}
        made.add("phase", marks, _sample_phase_start(index), cut_off_s * NS_PER_S)
    for index, (work, depth) in enumerate(PHASES):
        start = begin_s + index * PHASE_S
        if start >= end_s:
            break
        label = _sample_phase_label(work, depth)
        title = f"phase {index + 1}/{len(PHASES)} {label}"
        _sample_event(made, tags, "phase_started", "info", title, start)
        _second_by_second(
            made, tags, work, depth, range(start, min(start + PHASE_S, end_s)), hotter_celsius
        )
        _sample_phase(made, tags, work, depth, index, label, start, hotter_celsius)
        if depth == max(DEPTHS) and work is WRITE:
            at, text = start + PHASE_S // 2, "9.0 k to 6.1 k IOPS at 71 °C"
            took: dict[str, Value] = {
                "duration_s": PHASE_S / 2,
                "end_ms": round((at + PHASE_S / 2) * 1000),
                "phase": label,
            }
            _sample_event(made, tags, "throttle", "warning", "throttled: hot", at, text, **took)
    if failed:
        _sample_event(made, tags, "run_ended", "error", "run failed", end_s, "a meter was away")
    elif done_s < end_s:
        _sample_event(made, tags, "run_ended", "info", "run completed", done_s)


def _sample_event(
    made: Lab,
    tags: Mapping[str, str],
    kind: str,
    severity: str,
    title: str,
    second: int,
    text: str = "",
    **fields: Value,
) -> None:
    marks = {**tags, "kind": kind, "severity": severity}
    made.add("event", marks, {"title": title, "text": text, **fields}, second * NS_PER_S)


def _sample_watts(work: Work, depth: int) -> float:
    return 4.0 + (work.most_watts - 4.0) * work.share(depth)


def _sample_celsius(work: Work, depth: int, hotter_celsius: float) -> float:
    return 38.0 + 1.5 * _sample_watts(work, depth) + hotter_celsius


def _second_by_second(
    made: Lab,
    tags: Mapping[str, str],
    work: Work,
    depth: int,
    seconds: range,
    hotter_celsius: float,
) -> None:
    for second in seconds:
        wave = 1 + 0.01 * math.sin(second)
        for rail, (nominal, share) in RAILS.items():
            watts = _sample_watts(work, depth) * share * wave
            volts = nominal * (1 - 0.001 * watts)
            fields: dict[str, Value] = {
                "volts": volts,
                "amps": watts / volts,
                "watts": watts,
                "watts_min": watts * 0.97,
                "watts_max": watts * 1.04,
                "n": 10,
                "volts_nominal": nominal,
                "volts_tolerance_pct": 5.0,
            }
            made.add("power", {**tags, "rail": rail}, fields, second * NS_PER_S)
        made.add(
            "host_power",
            {**tags, "meter": "bmc"},
            {"watts": HOST_WATTS + _sample_watts(work, depth) * wave},
            second * NS_PER_S,
        )
        heat: dict[str, Value] = {
            "celsius": _sample_celsius(work, depth, hotter_celsius) + 0.2 * math.sin(second / 5),
            "warning_celsius": WARNING_CELSIUS,
            "critical_celsius": CRITICAL_CELSIUS,
        }
        made.add("temperature", {**tags, "sensor": "composite"}, heat, second * NS_PER_S)
        if depth:
            iops = work.most_iops * work.share(depth) * wave
            mean_us = depth / iops * 1e6
            done: dict[str, Value] = {
                "iops": iops,
                "bytes_per_s": iops * work.block_bytes,
                "latency_mean_us": mean_us,
            }
            op = "write" if work is WRITE else "read"
            made.add("io", {**tags, "op": op}, done, second * NS_PER_S)


def _sample_phase_start(index: int) -> dict[str, Value]:
    """What is known of a phase from its start on."""
    work, depth = PHASES[index]
    return {
        "index": index,
        "qd": depth,
        "label": _sample_phase_label(work, depth),
        "role": work.role,
        "pattern": work.pattern,
    }


def _sample_phase(
    made: Lab,
    tags: Mapping[str, str],
    work: Work,
    depth: int,
    index: int,
    label: str,
    start: int,
    hotter_celsius: float,
) -> None:
    watts = _sample_watts(work, depth)
    fields = _sample_phase_start(index) | {
        "outcome": "completed",
        "duration_s": float(PHASE_S),
        "watts": watts,
        "watts_u": watts * 0.004,
        "joules": watts * PHASE_S,
        "celsius_max": _sample_celsius(work, depth, hotter_celsius) + 0.2,
        "throttled_s": PHASE_S / 2 if work is WRITE and depth == max(DEPTHS) else 0.0,
        "alignment_ms": 0.8,
    }
    for length, more in (("100us", 1.6), ("100ms", 1.25), ("1s", 1.08), ("60s", 1.02)):
        fields |= {f"max_watts_{length}": watts * more, f"max_watts_{length}_u": watts * 0.01}
    for rail, (_, share) in RAILS.items():
        fields |= {f"watts_{rail}": watts * share, f"watts_{rail}_u": watts * share * 0.005}
    if depth:
        iops = work.most_iops * work.share(depth)
        mean_us = depth / iops * 1e6
        fields |= {
            "iops": iops,
            "bytes_per_s": iops * work.block_bytes,
            "iops_per_watt": iops / watts,
            "iops_per_watt_repeatability": iops / watts * 0.006,
            "watts_repeatability": watts * 0.005,
            "bytes_per_joule": iops * work.block_bytes / watts,
            "joules_per_io": watts / iops,
            "latency_mean_us": mean_us,
            "latency_p99_us": mean_us * 3,
            "steady": 1,
        }
        host_watts = HOST_WATTS + watts
        fields |= {
            "host_watts_bmc": host_watts,
            "host_watts_bmc_u": host_watts * 0.02,
            "host_drive_share_bmc": watts / host_watts,
            "host_iops_per_watt_bmc": iops / host_watts,
            "host_bytes_per_joule_bmc": iops * work.block_bytes / host_watts,
        }
        throttled = bool(fields["throttled_s"])
        verdict = "throttled" if throttled else _DOUBTS.get(label, "none seen")
        fields |= {
            "throttling": verdict,
            "throttling_why": "at 71 °C the drive is near its warning temperature",
            "latency_read_p99_us" if work is READ else "latency_write_p99_us": mean_us * 3,
            "unthrottled_s": PHASE_S / 2 if throttled else float(PHASE_S),
            "unthrottled_watts": watts * (1.1 if throttled else 1.0),
            "unthrottled_iops": iops * (1.2 if throttled else 1.0),
        }
        fields |= {
            "block_size": work.block_size,
            "jobs": 1,
            "read_pct": 0 if work is WRITE else 100,
        }
    fields |= _sample_phase_texts(label, watts, str(fields.get("throttling")))
    if tags["rig"] == "bench-2" and depth == DEPTHS[1]:
        for name in _NOT_WITHOUT_12V:
            del fields[name]
        fields["bar_text"] = f"≥ {fields['watts_3V3']:.3f} W"
    marks = {**tags, "part": tags["run"]}
    made.add("phase", marks, fields, start * NS_PER_S)
    made.phases.append({**tags, **fields})
    if depth and "watts" in fields:
        compared = ("qd", "watts", "iops_per_watt", "bytes_per_joule", "watts_repeatability")
        known = {name: fields[name] for name in compared}
        made.add("point", {**marks, "label": label}, known, start * NS_PER_S)


_DOUBTS = {"randread 4k QD16": "cannot be excluded"}
_MARKS = {"throttled": ("▼ ", " throttled"), "cannot be excluded": ("? ", " throttled?")}
_NOT_WITHOUT_12V = (
    *("watts", "watts_u", "watts_text", "watts_12V", "watts_12V_u", "joules"),
    *("iops_per_watt", "bytes_per_joule", "joules_per_io", "unthrottled_watts"),
)


def _sample_phase_texts(label: str, watts: float, verdict: str) -> dict[str, Value]:
    before, behind = _MARKS.get(verdict, ("", ""))
    known = f"{watts:.3f} ± {watts * 0.004:.3f}"
    return {
        "watts_text": known,
        "bar_label": f"{label.rpartition(' ')[2] if 'QD' in label else label}{behind}",
        "bar_text": f"{before}{known} W",
    }


if __name__ == "__main__":
    sys.stdout.write("\n".join(lab(time.time_ns()).lines) + "\n")
