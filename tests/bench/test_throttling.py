"""Throttling on the bench, in real time and with the real fio: found where the drive did it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from instruments.simulated.bench import Bench, configure
from instruments.simulated.truth import Truth
from labctl.analysis.results import RunSummary, ThrottleInterval
from labctl.analysis.summary import summarise
from labctl.record import RunRecord, find_runs

pytestmark = pytest.mark.bench

LABCTL = (sys.executable, "-m", "labctl.cli.main")
TOLERANCE_S = 2.0


def carry_out(
    folder: Path, plan: str, overrides: dict[str, object]
) -> tuple[RunRecord, RunSummary, Truth]:
    (folder / "plan.toml").write_text(plan)
    with Bench(folder / "bench", configure(5, overrides)) as bench:
        done = subprocess.run(
            [*LABCTL, "run", bench.rig, folder / "plan.toml", "--runs", folder / "runs", "--json"],
            capture_output=True, text=True, timeout=170, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = find_runs(folder / "runs")
    record = RunRecord(path)
    return record, summarise(record), Truth(bench.directory / "truth")


def test_heat_with_two_levels(tmp_path: Path) -> None:
    record, summary, truth = carry_out(
        tmp_path,
        """
        name = "thermal"
        idle_before_s = 4
        idle_after_s = 1
        [[sweeps]]
        pattern = "read"
        block_size = "128k"
        queue_depth = [16, 32]
        duration_s = 30
        """,
        {"thermal.ambient_celsius": 42.0, "throttle.light.leave_celsius": 65.0},
    )
    to_monotonic = record.header.anchor.to_monotonic_ns
    found = [item for item in summary.throttling if item.cause == "thermal"]
    wanted = 0
    for result in summary.measured:
        begin, end = to_monotonic(result.begin_ns), to_monotonic(result.end_ns)
        for low, high in joined_levels(truth, begin, end):
            if high - low <= 3_000_000_000:
                continue
            wanted += 1
            assert any(
                abs(to_monotonic(item.begin_ns) - low) <= TOLERANCE_S * 1e9
                and abs(to_monotonic(item.end_ns) - high) <= TOLERANCE_S * 1e9
                for item in found
            ), (low, high, summary.throttling)
    assert wanted >= 2
    assert {item.cause for item in summary.throttling} == {"thermal"}
    for result in summary.measured:
        assert result.throttling is not None and result.throttling.verdict == "throttled"
    free = [
        (one.watts, one.watts_unthrottled)
        for one in summary.measured
        if one.watts is not None and one.watts_unthrottled is not None
    ]
    assert free
    assert all(left.value > measured.value for measured, left in free)


def joined_levels(truth: Truth, begin: int, end: int) -> list[tuple[int, int]]:
    """Throttling of any level inside a stretch, levels that follow one another as one."""
    spans: list[tuple[int, int]] = []
    for item in truth.throttle_intervals():
        low, high = max(item.begin_ns, begin), min(item.end_ns, end)
        if high <= low:
            continue
        if spans and low - spans[-1][1] < 1_000_000_000:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    return spans


def test_a_write_cache_that_ends_and_garbage_that_is_collected(tmp_path: Path) -> None:
    cache_bytes, dip_s, period_s = 900_000_000, 4.0, 12.0
    record, summary, truth = carry_out(
        tmp_path,
        """
        name = "writes"
        idle_before_s = 4
        idle_after_s = 1
        [[sweeps]]
        name = "cache"
        pattern = "write"
        block_size = "128k"
        queue_depth = 16
        duration_s = 20
        [[sweeps]]
        name = "collection"
        pattern = "randwrite"
        queue_depth = 32
        duration_s = 45
        """,
        {
            "thermal.ambient_celsius": -20.0,
            "write_cache.capacity_bytes": cache_bytes,
            "write_cache.drain_bytes_per_s": 0.0,
            "garbage_collection.spare_bytes": 0,
            "garbage_collection.dip_s": dip_s,
            "garbage_collection.dip_period_s": period_s,
        },
    )
    to_monotonic = record.header.anchor.to_monotonic_ns
    assert {item.cause for item in summary.throttling} == {"write_cache", "garbage_collection"}
    written = truth.ticks["written_bytes"]
    full_ns = int(truth.ticks["t_ns"][int(np.searchsorted(written, cache_bytes))])
    (step,) = (item for item in summary.throttling if item.cause == "write_cache")
    assert abs(to_monotonic(step.begin_ns) - full_ns) <= TOLERANCE_S * 1e9
    dips: list[ThrottleInterval] = [
        item for item in summary.throttling if item.cause == "garbage_collection"
    ]
    assert len(dips) >= 3
    for item in dips[:3]:
        # The drive counts its periods in time that it writes in: a busy machine stretches them.
        low, high = to_monotonic(item.begin_ns), to_monotonic(item.end_ns)
        inside = truth.operations(low + 1_000_000_000, high - 1_000_000_000)["writes"]
        before = truth.operations(low - 3_000_000_000, low - 1_000_000_000)["writes"]
        assert inside / (item.duration_s - 2) < 0.7 * before / 2, item
        assert item.duration_s >= dip_s - TOLERANCE_S
    assert dips[0].period_s is not None and dips[0].period_s >= period_s - 2.0
    assert all(item.throttled_s == 0 for item in summary.measured)
