"""The host's watts beside the drive's, as text."""

from __future__ import annotations

from collections.abc import Iterator

from labctl.analysis.estimate import Estimate
from labctl.analysis.numbers import (
    NOTHING,
    prefixed_value,
    scaled,
    value_only,
    with_uncertainty,
)
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.throttling.run_signals import IDLE_ROLES
from labctl.report import key_figures
from labctl.report.panels import LARGE_BLOCK_BYTES
from labctl.report.text.programs import aligned


def host_tables(summary: RunSummary) -> Iterator[list[str]]:
    """The lines of a table for each meter of the host, its headings first. A row an idle phase or
    point: what it read, the drive's share of it, and the work for each watt of host and drive."""
    idle = [item for item in summary.phases if item.phase.role in IDLE_ROLES]
    for name in key_figures.host_meters(summary):
        rows = [[f"host: {name}", "W ± U", "drive %", "per host W", "per drive W"]]
        for item in [*idle, *summary.points]:
            host = item.host_power.get(name)
            if host is None:
                continue
            rows.append(
                [
                    item.phase.label,
                    with_uncertainty(host.watts),
                    value_only(scaled(host.drive_share, 100.0)),
                    _host_power_work_text(item, host.iops_per_watt, host.bytes_per_joule),
                    _host_power_work_text(item, item.iops_per_watt, item.bytes_per_joule),
                ]
            )
        yield list(aligned(rows))


def _host_power_work_text(item: PhaseResult, iops: Estimate | None, data: Estimate | None) -> str:
    """IOPS for each watt; of large blocks MB/s."""
    if item.phase.block_size_bytes >= LARGE_BLOCK_BYTES:
        return NOTHING if data is None else f"{value_only(scaled(data, 1e-6))} MB/s"
    return NOTHING if iops is None else f"{prefixed_value(iops)} IOPS"
