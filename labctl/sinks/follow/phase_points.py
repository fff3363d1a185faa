"""Phases as points. Their time is always that of the ``phase_started`` event, so that what is
known at the start, at the end and after the run is one and the same point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labctl.analysis.estimate import Estimate
from labctl.analysis.numbers import significant, with_uncertainty
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.throttling.verdict import OPEN, THROTTLED
from labctl.fio.documents import DIRECTIONS
from labctl.fio.results import Direction
from labctl.record.phase import Phase, Role, format_size
from labctl.sinks.schema import COMPARED, Point, Value, shortened

_PERCENTILES = {
    "50": "p50",
    "90": "p90",
    "95": "p95",
    "99": "p99",
    "99.9": "p99_9",
    "99.99": "p99_99",
}


def _known_at_start(phase: Phase) -> dict[str, Value]:
    fields: dict[str, Value] = {
        "index": phase.index,
        "qd": phase.queue_depth,
        "block_size_bytes": phase.block_size_bytes,
        "label": phase.label,
        "role": phase.role.value,
        "pattern": phase.pattern.value,
    }
    if phase.pattern.io:
        fields |= {
            "block_size": format_size(phase.block_size_bytes),
            "jobs": phase.jobs,
            "read_pct": phase.read_pct,
        }
    if phase.power_state is not None:
        fields["power_state"] = phase.power_state
    if phase.power_limit_watts is not None:
        fields["power_limit_watts"] = phase.power_limit_watts
    return fields


def started_point(phase: Phase, t_ns: int, tags: Mapping[str, str]) -> Point:
    """A phase that has begun: its parameters, without any result."""
    return Point("phase", _part_tags(tags), t_ns, _known_at_start(phase))


def result_point(
    result: PhaseResult,
    t_ns: int,
    tags: Mapping[str, str],
    part: bool = False,
    running: bool = False,
) -> Point:
    """A phase with everything that ``summary.json`` has about it.

    ``part``: of one of several drives that worked at once, which its tag ``drive`` names.
    ``running``: the run goes on, and what comes may show that the whole phase was throttled. Then
    there is no number of the unthrottled part. So it is only sent when the run is over.
    """
    fields = _known_at_start(result.phase)
    fields["outcome"] = result.outcome
    fields["duration_s"] = result.duration_s
    fields["throttled_s"] = result.throttled_s
    for name, estimate in (
        ("watts", result.watts),
        ("joules", result.joules),
        ("iops_per_watt", result.iops_per_watt),
        ("bytes_per_joule", result.bytes_per_joule),
        ("joules_per_io", result.joules_per_io),
        ("unthrottled_watts", None if running else result.watts_unthrottled),
        ("unthrottled_iops", None if running else result.iops_unthrottled),
        *((f"watts_{rail}", found.watts) for rail, found in result.rails.items()),
    ):
        fields |= _with_u(name, estimate)
    for name, value in (
        ("iops", result.iops),
        ("bytes_per_s", result.bytes_per_s),
        ("alignment_ms", result.alignment_ms),
        ("at_least_watts", result.at_least_watts),
        ("unthrottled_s", result.unthrottled_s),
    ):
        if value is not None:
            fields[name] = value
    if result.throttling is not None:
        fields["throttling"] = result.throttling.verdict
        fields["throttling_why"] = shortened(result.throttling.why)
    if result.steady is not None:
        fields["steady"] = int(result.steady)
    if result.celsius_max is not None:
        fields["celsius_max"] = result.celsius_max
    for sensor, found in result.temperatures.items():
        fields[f"celsius_max_{sensor}"] = found.max
    envelopes = {"": result.power_envelope}
    envelopes |= {f"_{rail}": found.power_envelope for rail, found in result.rails.items()}
    for rail, envelope in envelopes.items():
        for one in envelope:
            if one.watts is not None:
                fields[f"max_watts_{one.name}{rail}"] = one.watts.value
                fields[f"max_watts_{one.name}{rail}_u"] = one.watts.u
    for meter, host in result.host_power.items():
        for name, estimate in (
            ("watts", host.watts),
            ("drive_share", host.drive_share),
            ("iops_per_watt", host.iops_per_watt),
            ("bytes_per_joule", host.bytes_per_joule),
        ):
            if estimate is not None:
                fields[f"host_{name}_{meter}"] = estimate.value
                fields[f"host_{name}_{meter}_u"] = estimate.u
    if result.cpu is not None:
        fields["cpu_busy_cores"] = result.cpu.busy_cores
        fields["cpu_busiest_pct"] = result.cpu.busiest[1]
    fields |= _phase_point_latencies(result) | _phase_point_texts(result)
    return Point("phase", _part_tags(tags, part), t_ns, fields)


def compared_point(
    result: PhaseResult, t_ns: int, tags: Mapping[str, str], part: bool = False
) -> Point | None:
    """What other runs are compared with, under the same label in every run and round; None of a
    phase that is no result or has no watts."""
    if result.phase.role is not Role.MEASURE:
        return None
    fields: dict[str, Value] = {}
    for name in COMPARED:
        estimate: Estimate | None = getattr(result, name)
        if estimate is not None:
            fields[name] = estimate.value
            if estimate.repeatability is not None:
                fields[f"{name}_repeatability"] = estimate.repeatability
    if not fields:
        return None
    fields["qd"] = result.phase.queue_depth
    label = replace(result.phase, round=0).label
    return Point("point", {**_part_tags(tags, part), "label": label}, t_ns, fields)


def result_text(result: PhaseResult, point: Point) -> str:
    """What was measured, in a few words: ``QD8 8.123 ± 0.034 W``; empty for a phase that is no
    result. ``point`` is that of :func:`result_point`."""
    if result.phase.role is not Role.MEASURE:
        return ""
    return f"{_short_label(result)} {point.fields['bar_text']}"


def _short_label(result: PhaseResult) -> str:
    label = result.phase.label
    from_depth = label.rpartition(f"QD{result.phase.queue_depth}")[1:]
    return "".join(from_depth) if result.phase.pattern.io else label


def _part_tags(tags: Mapping[str, str], part: bool = False) -> dict[str, str]:
    """The tags with ``part``: the run, or of one of several drives in it the run and the drive."""
    return {**tags, "part": f"{tags['run']} {tags['drive']}" if part else tags["run"]}


_MARKS = {THROTTLED: ("▼ ", " throttled"), OPEN: ("? ", " throttled?")}
"""Before the watts over a bar and behind the name under it, by verdict."""


def _phase_point_texts(result: PhaseResult) -> dict[str, Value]:
    """What stands over and under the bar of a phase: a sum without one of its rails is no total,
    and whoever sees the watts sees whether they are those of a drive that throttled."""
    verdict = "" if result.throttling is None else result.throttling.verdict
    before, behind = _MARKS.get(verdict, ("", ""))
    fields: dict[str, Value] = {"bar_label": f"{_short_label(result)}{behind}"}
    if result.watts is not None:
        fields["watts_text"] = with_uncertainty(result.watts)
        fields["bar_text"] = f"{before}{fields['watts_text']} W"
    elif result.at_least_watts is not None:
        fields["bar_text"] = f"{before}≥ {significant(result.at_least_watts)} W"
    else:
        fields["bar_text"] = f"{before}no total"
    return fields


def _with_u(name: str, estimate: Estimate | None) -> dict[str, Value]:
    if estimate is None:
        return {}
    fields: dict[str, Value] = {name: estimate.value, f"{name}_u": estimate.u}
    if estimate.repeatability is not None:
        fields[f"{name}_repeatability"] = estimate.repeatability
    return fields


def _phase_point_latencies(result: PhaseResult) -> dict[str, Value]:
    """Of each direction, and of the phase where that is defined: a percentile over both
    directions does not follow from the percentiles of each."""
    sides = dict(zip(DIRECTIONS, (result.read, result.write), strict=True))
    present = {name: side for name, side in sides.items() if side is not None}
    fields: dict[str, Value] = {}
    for name, side in present.items():
        fields |= _of_direction(f"latency_{name}", side)
    if len(present) == 1:
        fields |= _of_direction("latency", *present.values())
    elif present:
        both = list(present.values())
        ios = sum(side.total_ios for side in both)
        if ios:
            total_us = sum(side.latency_mean_us * side.total_ios for side in both)
            fields["latency_mean_us"] = total_us / ios
        fields["latency_max_us"] = max(side.latency_max_us for side in both)
    return fields


def _of_direction(prefix: str, side: Direction) -> dict[str, Value]:
    fields: dict[str, Value] = {
        f"{prefix}_mean_us": side.latency_mean_us,
        f"{prefix}_max_us": side.latency_max_us,
    }
    for percentile, name in _PERCENTILES.items():
        if percentile in side.latency_percentiles_us:
            fields[f"{prefix}_{name}_us"] = side.latency_percentiles_us[percentile]
    return fields
