"""Runs made by hand for the tests of the report, and that they are what they should be."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from labctl.analysis.estimate import Component, Estimate, Series
from labctl.analysis.phase_result import PhaseResult, RailResult, TemperatureResult
from labctl.analysis.run_summary import ClockResult, EdgeLag, RunSummary
from labctl.analysis.throttle_result import THROTTLING, Cause, ThrottleInterval, ThrottleVerdict
from labctl.config.plan import Plan
from labctl.config.sweeps import Sweep
from labctl.fio.results import Direction
from labctl.record.events import Event
from labctl.record.header import ChannelInfo, DriveInfo, Header, RailInfo
from labctl.record.journal import create
from labctl.record.layout import CHANNELS_DIR, EVENTS_FILE, READING
from labctl.record.phase import Pattern, Phase
from labctl.record.reader import RunRecord
from labctl.record.timebase import Anchor

BEGIN_NS = 1_760_000_000_000_000_000
DEPTHS = (1, 2, 4, 8, 16, 32)
HOSTILE = '<script>alert("x")</script> & Ünï™ 驱动器'


def plan(*sweeps: Sweep, idle_s: float = 10.0) -> Plan:
    return Plan(name="sample", idle_before_s=idle_s, idle_after_s=idle_s, sweeps=list(sweeps))


def qd_sweep(pattern: str = "randread", block_size: str = "4k", duration_s: float = 20.0) -> Sweep:
    return Sweep(
        name=f"{block_size} {pattern}",
        pattern=[pattern],
        block_size=[block_size],
        queue_depth=list(DEPTHS),
        duration_s=duration_s,
    )


def estimate(value: float, relative_u: float = 0.004) -> Estimate:
    return Estimate(value, abs(value) * relative_u)


def series(mean: float, n: int = 200) -> Series:
    return Series(
        mean=mean, min=mean * 0.9, max=mean * 1.2, std=mean * 0.03, n=n, n_effective=n / 3
    )


def rail(watts: float, volts: float, seconds: float) -> RailResult:
    return RailResult(
        volts=series(volts),
        amps=series(watts / volts),
        watts=estimate(watts),
        watts_series=series(watts),
        joules=estimate(watts * seconds),
        budget=(
            Component("scatter", "A", watts * 0.0007, "66 effective readings of 200"),
            Component(
                "current accuracy", "B", watts * 0.0012, "0.1 % + 0.02 % of 3 A, rectangular"
            ),
            Component(
                "voltage accuracy", "B", watts * 0.0009, "0.05 % + 0.01 % of 20 V, rectangular"
            ),
            Component("alignment", "B", watts * 0.0011, "1.9 ms of a step of 8.1 W"),
        ),
        alignment_ms=1.9,
        covered=0.995,
    )


def direction(iops: float, block: int, seconds: float, depth: int) -> Direction:
    mean = depth / iops * 1e6
    return Direction(
        iops=iops,
        bytes_per_s=iops * block,
        total_ios=int(iops * seconds),
        latency_mean_us=mean,
        latency_max_us=mean * 40,
        latency_percentiles_us={
            "50": mean * 0.9,
            "95": mean * 1.5,
            "99": mean * 2.1,
            "99.9": mean * 5,
            "99.99": mean * 11,
        },
    )


def work_of(phase: Phase) -> tuple[float, float]:
    """IOPS and watts that a made-up drive has at this phase."""
    if phase.pattern is Pattern.IDLE:
        return 0.0, 4.0
    ceiling = 440e3 if phase.read_pct > 50 else 290e3
    iops = ceiling * (1 - math.exp(-phase.queue_depth * phase.jobs / 14))
    iops *= min(1.0, 5400 / phase.block_size_bytes)
    watts = 4 + (6 if phase.read_pct > 50 else 14) * (1 - math.exp(-phase.queue_depth / 9))
    return iops, watts


def result_of(
    phase: Phase, begin_ns: int, *, rails: tuple[str, ...] = ("12V", "3.3V")
) -> PhaseResult:
    seconds = phase.duration_s or 60.0
    iops, watts = work_of(phase)
    shares = {"12V": 0.88, "3.3V": 0.12, "5V": 0.3}
    measured = {
        name: rail(
            watts if len(rails) == 1 else watts * shares[name],
            float(name.removesuffix("V")),
            seconds,
        )
        for name in rails
    }
    total = sum(one.watts.value for one in measured.values())
    idle = phase.pattern is Pattern.IDLE
    share = phase.read_pct / 100
    read = write = None
    if not idle and share > 0:
        read = direction(iops * share, phase.block_size_bytes, seconds, phase.queue_depth)
    if not idle and share < 1:
        write = direction(iops * (1 - share), phase.block_size_bytes, seconds, phase.queue_depth)
    known = bool(measured)
    return PhaseResult(
        phase=phase,
        outcome="completed",
        begin_ns=begin_ns,
        end_ns=begin_ns + round(seconds * 1e9),
        gap_before_ms=None if idle else 8.4,
        rails=measured,
        watts=estimate(total) if known else None,
        watts_series=series(total) if known else None,
        joules=estimate(total * seconds) if known else None,
        marginal_watts=estimate(total - 4, 0.01) if known else None,
        read=read,
        write=write,
        iops=None if idle else iops,
        bytes_per_s=None if idle else iops * phase.block_size_bytes,
        iops_per_watt=estimate(iops / total) if known and not idle else None,
        bytes_per_joule=(
            estimate(iops * phase.block_size_bytes / total) if known and not idle else None
        ),
        joules_per_io=estimate(total / iops) if known and not idle else None,
        temperatures={"drive": TemperatureResult(41.0, 41.0 + watts, 40.0 + watts)},
        throttled_s=0.0,
        alignment_ms=1.9 if known else None,
        notes=("peaks are not measurable at 10 readings a second",) if known else ("no watts",),
    )


def summary_of(
    one: Plan, *, rails: tuple[str, ...] = ("12V", "3.3V"), begin_ns: int = BEGIN_NS
) -> RunSummary:
    at = begin_ns
    results = []
    for phase in one.expand(1 << 40):
        results.append(result_of(phase, at, rails=rails))
        at = results[-1].end_ns + 8_400_000
    return RunSummary(
        run_id="20251009T085320Z_bench_sample",
        rig_name="bench",
        plan_name=one.name,
        drive_model="DC P3600 1.2TB",
        drive_serial="CVMD4391003L1P2HGN",
        outcome="completed",
        reason="",
        begin_ns=begin_ns,
        end_ns=at,
        idle_watts=Estimate(4.0213, 0.0182) if rails else None,
        phases=tuple(results),
        throttling=(),
        clocks=(
            ClockResult("dmm12.current", 48.72, 1.31, 1, 412),
            ClockResult("dmm3.current", -11.9, 0.84, 2, 407),
        ),
        edge_lags=(
            EdgeLag("12V", "dmm12.current", 0.92, 1.7, 12, True, 0.4),
            EdgeLag("3.3V", "dmm3.shunt", 6.4, 2.1, 12, False, 0.4),
        ),
        gap_median_ms=8.4,
        problems=(),
        labctl_version="0.1.0",
    )


def throttled(summary: RunSummary, *positions: int, cause: Cause = Cause.THERMAL) -> RunSummary:
    """The same run, with the measured phases at ``positions`` slowed down in their second half."""
    phases = list(summary.phases)
    found = list(summary.throttling)
    for position in positions:
        target = summary.measured[position]
        index = phases.index(target)
        middle = (target.begin_ns + target.end_ns) // 2
        real = cause in THROTTLING
        if real:
            phases[index] = replace(
                target,
                throttled_s=target.duration_s / 2,
                throttling=ThrottleVerdict("throttled", "thermal: IOPS −38 %"),
                unthrottled_s=target.duration_s / 2 - 1,
                watts_unthrottled=Estimate(10.1, 0.03),
                iops_unthrottled=Estimate(400e3, 2e3),
            )
        found.append(
            ThrottleInterval(
                begin_ns=middle,
                end_ns=target.end_ns,
                phase_index=target.phase.index,
                cause=cause,
                evidence="IOPS −38 %, watts −31 % within 2.0 s at 79.8 °C (warning at 80 °C)",
                iops_before=400e3,
                iops_during=250e3,
                watts_before=10.1,
                watts_during=7.0,
                celsius=79.8,
            )
        )
    return replace(summary, phases=tuple(phases), throttling=tuple(found))


def record_of(root: Path, summary: RunSummary, *, silent: bool = True) -> RunRecord:
    """A run directory with readings that fit the summary: 10 S/s, fio each half second."""
    rails = (
        RailInfo("12V", 12.0, "dmm12.voltage", "dmm12.current"),
        RailInfo("3.3V", 3.3, "dmm3.voltage", "dmm3.shunt", shunt_ohm=0.01),
    )
    meters = [
        ChannelInfo(name, quantity, unit, "host", 0.1, 0.02, 5e-4, 2e-3, "data sheet, 1 year", 3.0)
        for name, quantity, unit in (
            ("dmm12.voltage", "voltage", "V"),
            ("dmm12.current", "current", "A"),
            ("dmm3.voltage", "voltage", "V"),
            ("dmm3.shunt", "voltage", "V"),
            ("host.drive", "temperature", "°C"),
        )
    ]
    work = [
        ChannelInfo(f"fio.{op}.{name}", name, unit, interval_s=0.5)
        for op in ("read", "write")
        for name, unit in (("iops", "1/s"), ("bytes_per_s", "B/s"))
    ]
    header = Header(
        run_id=summary.run_id,
        rig_name=summary.rig_name,
        plan_name=summary.plan_name,
        rig_text=f"# the rig\nname = 'bench'\n# {HOSTILE}\n",
        plan_text="name = 'sample'\n",
        phases=tuple(item.phase for item in summary.phases),
        channels=(*meters, *work),
        rails=rails,
        temperatures={"drive": "host.drive"},
        drive=DriveInfo(
            summary.drive_model,
            summary.drive_serial,
            "/dev/nvme0n1",
            "io_uring",
            1 << 40,
            70.0,
            80.0,
        ),
        anchor=Anchor(BEGIN_NS, 5_000_000_000, "boot"),
        versions={"labctl": "0.1.0", "fio": "fio-3.33", "python": "3.11"},
        identities={"dmm12": "Keysight 34465A MY1", "dmm3": HOSTILE},
    )
    path = create(root, header)
    for name, t_ns, values in _readings(summary, silent=silent):
        data = np.empty(len(t_ns), READING)
        data["t"], data["v"] = t_ns, values
        data.tofile(path / CHANNELS_DIR / name)
    events = [Event(summary.begin_ns, "run_started", {}).to_line()]
    (path / EVENTS_FILE).write_text("".join(events), encoding="utf-8")
    return RunRecord(path)


def block_at(summary: RunSummary, t_ns: int) -> int:
    """The block size of the phase at a time."""
    return next(item.phase.block_size_bytes for item in summary.phases if t_ns < item.end_ns)


def _readings(summary: RunSummary, *, silent: bool) -> list[tuple[str, np.ndarray, np.ndarray]]:
    random = np.random.default_rng(7)
    t_ns = np.arange(summary.begin_ns, summary.end_ns, 100_000_000)
    watts = np.full(len(t_ns), 4.0)
    found = []
    iops: dict[str, list[tuple[int, float]]] = {"read": [], "write": []}
    for item in summary.phases:
        within = (t_ns >= item.begin_ns) & (t_ns < item.end_ns)
        watts[within] = item.watts.value if item.watts else 4.0
        for op, one in (("read", item.read), ("write", item.write)):
            if one is not None:
                steps = np.arange(item.begin_ns, item.end_ns, 500_000_000)
                iops[op] += [(int(t), one.iops * random.normal(1, 0.01)) for t in steps]
    for stretch in summary.throttling:
        within = (t_ns >= stretch.begin_ns) & (t_ns < stretch.end_ns)
        watts[within] *= 0.7
        for op, points in iops.items():
            iops[op] = [
                (t, v * 0.62 if stretch.begin_ns <= t < stretch.end_ns else v) for t, v in points
            ]
    watts *= random.normal(1, 0.02, len(t_ns))
    heat = 40 + np.convolve(watts, np.exp(-np.arange(600) / 200) / 200 * 3, "full")[: len(t_ns)]
    keep = np.ones(len(t_ns), bool)
    if silent:
        keep[len(t_ns) // 3 : len(t_ns) // 3 + len(t_ns) // 20] = False
    found.append(("dmm12.voltage", t_ns + 31_000_000, np.full(len(t_ns), 12.02)))
    found.append(("dmm12.current", t_ns[keep], (watts * 0.88 / 12.02)[keep]))
    found.append(("dmm3.voltage", t_ns + 12_000_000, np.full(len(t_ns), 3.31)))
    found.append(("dmm3.shunt", t_ns, watts * 0.12 / 3.31 * 0.01))
    found.append(("host.drive", t_ns[::10], np.round(heat[::10])))
    for op, points in iops.items():
        if points:
            times, values = zip(*points, strict=True)
            sizes = [block_at(summary, t) for t in times]
            found.append((f"fio.{op}.iops", np.array(times), np.array(values)))
            found.append((f"fio.{op}.bytes_per_s", np.array(times), np.array(values) * sizes))
    return found
