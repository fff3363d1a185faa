"""What each core of the drive's host did in a phase, from samples of ``/proc/stat`` around it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labctl.analysis.phase_result import CpuUse
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.fio.results import FioResult
from labctl.record.events import Event, EventKind

OFF_BY_AT_MOST = 0.1
"""Share of a phase by which both samples together may miss its edges: so much of the result
is of the time around the phase."""

FEWEST_TICKS = 20
"""Of a core between two samples. A tick is 10 ms; with fewer, each is more than 5 %."""

_USER, _SYSTEM, _IDLE = (0, 1), (2, 5, 6), (3, 4)
"""Columns of /proc/stat (proc_stat(5)): user and nice; system, irq and softirq; idle and iowait. A
core that waits for I/O is free for other work. What is left is steal: another virtual machine."""


MOST_TICKS = 1 << 63


@dataclass(frozen=True, slots=True)
class CpuSample:
    """The counters of each core, by its number, at a moment of the run's timebase."""

    t_ns: int
    cores: dict[str, tuple[int, ...]]


def cpu_samples(events: Iterable[Event]) -> tuple[CpuSample, ...]:
    """Every CPU sample of a run, in order of time; malformed ones are left out."""
    samples = []
    for event in events:
        cores = event.data.get("cores") if event.kind == EventKind.CPU_TIMES else None
        if not isinstance(cores, dict):
            continue
        counted = {
            str(core): tuple(ticks)
            for core, ticks in cores.items()
            if isinstance(ticks, list)
            and len(ticks) > 6
            and all(type(n) is int and 0 <= n < MOST_TICKS for n in ticks)
        }
        if counted:
            samples.append(CpuSample(event.t_ns, counted))
    return tuple(sorted(samples, key=lambda sample: sample.t_ns))


def cpu_use(samples: Sequence[CpuSample], span: PhaseSpan, fio: FioResult | None) -> CpuUse | None:
    """What each core did in a phase. None without samples near enough to both of its edges.

    A core that was not there all the time (hot-plugged), or whose counters did not move, is left
    out.
    """
    begin, end = (
        _nearest_cpu_use_sample(samples, span.begin_ns),
        _nearest_cpu_use_sample(samples, span.end_ns),
    )
    if begin is None or end is None or end.t_ns <= begin.t_ns:
        return None
    off_ns = abs(begin.t_ns - span.begin_ns) + abs(end.t_ns - span.end_ns)
    if off_ns > OFF_BY_AT_MOST * span.duration_ns:
        return None
    cores: dict[str, float] = {}
    user = system = total = 0
    for core in sorted(begin.cores.keys() & end.cores.keys(), key=_cpu_use_core_order):
        # idle and iowait may count backwards (proc_stat(5)): never less than nothing
        done = [max(b - a, 0) for a, b in zip(begin.cores[core], end.cores[core], strict=False)]
        ticks = sum(done)
        if ticks < FEWEST_TICKS:
            continue
        cores[core] = 100.0 * (1.0 - sum(done[column] for column in _IDLE) / ticks)
        user += sum(done[column] for column in _USER)
        system += sum(done[column] for column in _SYSTEM)
        total += ticks
    if not cores:
        return None
    return CpuUse(
        cores_pct=cores,
        user_pct=100.0 * user / total,
        system_pct=100.0 * system / total,
        fio_user_pct=fio.user_cpu_pct if fio is not None else None,
        fio_system_pct=fio.system_cpu_pct if fio is not None else None,
    )


def mean_cpu_use(parts: Sequence[CpuUse | None]) -> CpuUse | None:
    """Several phases of the same work as one; None where one of them does not know."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None

    def mean(values: Sequence[float | None]) -> float | None:
        known_values = [value for value in values if value is not None]
        return (
            sum(known_values) / len(known_values)
            if known_values and len(known_values) == len(values)
            else None
        )

    cores = [core for core in known[0].cores_pct if all(core in one.cores_pct for one in known)]
    return CpuUse(
        cores_pct={core: sum(one.cores_pct[core] for one in known) / len(known) for core in cores},
        user_pct=sum(one.user_pct for one in known) / len(known),
        system_pct=sum(one.system_pct for one in known) / len(known),
        fio_user_pct=mean([one.fio_user_pct for one in known]),
        fio_system_pct=mean([one.fio_system_pct for one in known]),
    )


def _cpu_use_core_order(core: str) -> tuple[int, str]:
    return (int(core), core) if core.isdecimal() else (1 << 30, core)


def _nearest_cpu_use_sample(samples: Sequence[CpuSample], t_ns: int) -> CpuSample | None:
    place = bisect_left(samples, t_ns, key=lambda sample: sample.t_ns)
    beside = samples[max(place - 1, 0) : place + 1]
    return min(beside, key=lambda sample: abs(sample.t_ns - t_ns), default=None)
