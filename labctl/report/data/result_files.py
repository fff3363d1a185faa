"""The results as files for other programs: ``phases.csv`` and ``summary.json``.

The columns of ``phases.csv`` are a contract, written down in ``docs/report.md``. An empty field
means "not measured", never zero. Every ``_u`` is the expanded uncertainty (about 95 %) of the
column before it, every ``_repeatability`` how it would come out again, in the same unit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from labctl.analysis.estimate import Series
from labctl.analysis.latency import (
    latency_bounds_us,
    latency_max_us,
    latency_mean_us,
    latency_percentile_us,
)
from labctl.analysis.numbers import estimate_columns, repeatable_columns
from labctl.analysis.phase_result import CpuUse, OwnMeasurement, PhaseResult, WindowMaximum
from labctl.analysis.power.sliding_maxima import WINDOWS_S
from labctl.analysis.run import drives
from labctl.analysis.run_summary import RunSummary
from labctl.fio.results import Direction
from labctl.record.point_end import PointEnd
from labctl.report import key_figures, slow_stretches
from labctl.report.csv_text import csv_text

Field = str | int | float | None

PERCENTILES = ("50", "95", "99", "99.9", "99.99", "99.999")


def phases_csv(summary: RunSummary) -> str:
    """One row a phase (preparation and idling too), with a heading row."""
    return _result_file_csv(phase_rows(summary))


def _result_file_csv(rows: Sequence[Mapping[str, Field]]) -> str:
    return csv_text(tuple(rows[0] if rows else ()), (tuple(row.values()) for row in rows))


def points_csv(summary: RunSummary) -> str:
    """One row a point that was measured in rounds: its mean over the measurement window."""
    rails = key_figures.rail_names(summary)
    sensors = key_figures.sensor_names(summary)
    meters = key_figures.host_meters(summary)
    by_number = {one.sweep_number: one for one in summary.steady_rounds}
    rows = []
    for item in summary.window_means:
        ended = by_number[item.phase.sweep_number]
        row = phase_row(summary, item, rails, sensors) | _host_power(item, meters)
        window = {"window_first": ended.window[0], "window_last": ended.window[1]}
        rows.append({**row, "steady_reached": ended.reached, **window})
    return _result_file_csv(rows)


def drives_csv(summary: RunSummary) -> str:
    """One row a drive a phase, where several drives worked at once: the columns of phases.csv,
    and which drive it is."""
    return _result_file_csv(drive_rows(summary))


def drive_rows(summary: RunSummary) -> list[dict[str, Field]]:
    """One row a drive a phase, all with the same columns; phases in their order."""
    rails = key_figures.rail_names(summary)
    sensors = key_figures.sensor_names(summary)
    return [
        {
            "drive": drive,
            "drive_model": one.drive_model,
            "drive_serial": one.drive_serial,
            **phase_row(one, own, rails, sensors),
        }
        for item in summary.phases
        for drive, one, own in drives.by_drive(summary, item)
    ]


def cpu_csv(summary: RunSummary) -> str:
    """One row a core a phase: how busy it was, in per cent."""
    return _result_file_csv(
        [
            {
                "run": summary.run_id,
                "index": item.phase.index,
                "label": item.phase.label,
                "queue_depth": item.phase.queue_depth or None,
                "jobs": item.phase.jobs or None,
                "core": core,
                "busy_pct": busy,
            }
            for item in summary.phases
            if item.cpu is not None
            for core, busy in item.cpu.cores_pct.items()
        ]
    )


def phase_rows(summary: RunSummary) -> list[dict[str, Field]]:
    """One row a phase, all with the same columns."""
    rails = key_figures.rail_names(summary)
    sensors = key_figures.sensor_names(summary)
    meters = key_figures.host_meters(summary)
    return [
        {**phase_row(summary, item, rails, sensors), **_host_power(item, meters)}
        for item in summary.phases
    ]


def summary_json(summary: RunSummary) -> str:
    """Everything the analysis finds, as JSON."""
    return json.dumps(summary.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def phase_row(
    summary: RunSummary, result: PhaseResult, rails: tuple[str, ...], sensors: tuple[str, ...]
) -> dict[str, Field]:
    """The row of one phase, by column name."""
    phase = result.phase
    p99_us = latency_bounds_us(result, "99") or (None, None)
    row: dict[str, Field] = {
        "run": summary.run_id,
        "index": phase.index,
        "role": phase.role.value,
        "sweep": phase.sweep,
        "round": phase.round or None,
        "label": phase.label,
        "pattern": phase.pattern.value,
        "block_size_bytes": phase.block_size_bytes or None,
        "queue_depth": phase.queue_depth or None,
        "jobs": phase.jobs or None,
        "read_pct": phase.read_pct if phase.jobs else None,
        "outcome": result.outcome,
        "begin_ns": result.begin_ns,
        "end_ns": result.end_ns,
        "duration_s": result.duration_s,
        "gap_before_ms": result.gap_before_ms,
        **repeatable_columns("watts", result.watts),
        "at_least_watts": result.at_least_watts,
        **_spread_result_columns("watts", result.watts_series),
        **_envelope_result_columns(result.power_envelope),
        **repeatable_columns("marginal_watts", result.marginal_watts),
        **repeatable_columns("joules", result.joules),
    }
    for name in rails:
        row |= _rail_result_columns(result, name)
    row |= {
        "iops": result.iops,
        "bytes_per_s": result.bytes_per_s,
        **repeatable_columns("iops_per_watt", result.iops_per_watt),
        **repeatable_columns("bytes_per_joule", result.bytes_per_joule),
        **repeatable_columns("joules_per_io", result.joules_per_io),
        "latency_mean_us": latency_mean_us(result),
        "latency_p99_us": latency_percentile_us(result, "99"),
        "latency_p99_low_us": p99_us[0],
        "latency_p99_high_us": p99_us[1],
        "latency_max_us": latency_max_us(result),
        **_direction_result_columns("read", result.read),
        **_direction_result_columns("write", result.write),
        "celsius_max": result.celsius_max,
    }
    for sensor in sensors:
        temperature = result.temperatures.get(sensor)
        row[f"celsius_start_{sensor}"] = None if temperature is None else temperature.start
        row[f"celsius_max_{sensor}"] = None if temperature is None else temperature.max
        row[f"celsius_end_{sensor}"] = None if temperature is None else temperature.end
    row |= {
        "throttling": None if result.throttling is None else result.throttling.verdict,
        "throttling_why": None if result.throttling is None else result.throttling.why,
        "throttled_s": result.throttled_s,
        "unthrottled_s": result.unthrottled_s,
        **repeatable_columns("watts_unthrottled", result.watts_unthrottled),
        **repeatable_columns("iops_unthrottled", result.iops_unthrottled),
        "slowed_by": "; ".join(slow_stretches.causes_in(summary, result)),
        "alignment_ms": result.alignment_ms,
        **_cpu_result_columns(result.cpu),
        "notes": "; ".join(result.notes),
        "scale": summary.scale,
        **_point_end(result.point_end),
        **_own_measurement(result.own_measurement),
    }
    return {name: _result_file_value(value) for name, value in row.items()}


def _result_file_value(value: Field) -> Field:
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    # a numpy float prints as its type in some versions; a Python float never does
    return float(value) if isinstance(value, float) else value


def _point_end(end: PointEnd | None) -> dict[str, Field]:
    watts, iops = (None, None) if end is None else (end.state.watts, end.state.iops)
    return {
        "point_ended": None if end is None else end.ended.value,
        "point_kept_by": None if end is None else "; ".join(end.state.keeps),
        "point_kept_for": None if end is None else end.kept_words,
        "point_watts_u_pct": None if watts is None else watts.u_pct,
        "point_iops_u_pct": None if iops is None else iops.u_pct,
    }


def _own_measurement(own: OwnMeasurement | None) -> dict[str, Field]:
    return {
        "drive_watts": None if own is None else own.drive_watts,
        "drive_watts_max": None if own is None else own.drive_most_watts,
        "drive_watts_apart_pct": None if own is None else own.difference_pct,
        "drive_watts_error_pct": None if own is None else own.percent_error,
        "drive_watts_error": None if own is None else own.kept.value,
    }


def _host_power(result: PhaseResult, meters: Sequence[str]) -> dict[str, Field]:
    row: dict[str, Field] = {}
    for name in meters:
        found = result.host_power.get(name)
        row |= repeatable_columns(f"host_watts_{name}", None if found is None else found.watts)
        for column in ("drive_share", "iops_per_watt", "bytes_per_joule"):
            estimate = None if found is None else getattr(found, column)
            row |= estimate_columns(f"host_{column}_{name}", estimate)
    return {name: _result_file_value(value) for name, value in row.items()}


def _cpu_result_columns(cpu: CpuUse | None) -> dict[str, Field]:
    return {
        "cpu_busy_cores": None if cpu is None else cpu.busy_cores,
        "cpu_busiest_pct": None if cpu is None else cpu.busiest[1],
        "cpu_user_pct": None if cpu is None else cpu.user_pct,
        "cpu_system_pct": None if cpu is None else cpu.system_pct,
        "fio_user_pct": None if cpu is None else cpu.fio_user_pct,
        "fio_system_pct": None if cpu is None else cpu.fio_system_pct,
    }


def _spread_result_columns(name: str, series: Series | None, suffix: str = "") -> dict[str, Field]:
    return {
        f"{name}_min{suffix}": None if series is None else series.min,
        f"{name}_max{suffix}": None if series is None else series.max,
        f"{name}_std{suffix}": None if series is None else series.std,
    }


def _envelope_result_columns(found: Sequence[WindowMaximum], suffix: str = "") -> dict[str, Field]:
    by_length = {one.window_s: one.watts for one in found}
    row: dict[str, Field] = {}
    for window_s in WINDOWS_S:
        name = f"max_watts_{WindowMaximum(window_s, None, None).name}{suffix}"
        watts = by_length.get(window_s)
        row[name] = None if watts is None else watts.value
        row[f"{name}_u"] = None if watts is None else watts.u
    return row


def _rail_result_columns(result: PhaseResult, name: str) -> dict[str, Field]:
    rail = result.rails.get(name)
    return {
        **repeatable_columns(f"watts_{name}", None if rail is None else rail.watts),
        **_spread_result_columns("watts", None if rail is None else rail.watts_series, f"_{name}"),
        **repeatable_columns(f"joules_{name}", None if rail is None else rail.joules),
        **_envelope_result_columns(() if rail is None else rail.power_envelope, f"_{name}"),
        f"volts_{name}": None if rail is None else rail.volts.mean,
        f"amps_{name}": None if rail is None else rail.amps.mean,
        f"covered_{name}": None if rail is None else rail.covered,
    }


def _direction_result_columns(name: str, direction: Direction | None) -> dict[str, Field]:
    latencies: dict[str, float] = {} if direction is None else direction.latency_percentiles_us
    return {
        f"{name}_iops": None if direction is None else direction.iops,
        f"{name}_bytes_per_s": None if direction is None else direction.bytes_per_s,
        f"{name}_ios": None if direction is None else direction.total_ios,
        f"{name}_latency_mean_us": None if direction is None else direction.latency_mean_us,
        **{f"{name}_latency_p{key}_us": latencies.get(key) for key in PERCENTILES},
        f"{name}_latency_max_us": None if direction is None else direction.latency_max_us,
    }
