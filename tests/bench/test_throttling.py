"""Throttling on the bench, in real time and with the real fio: found where the drive did it.

One run, whose drive shows three causes one after the other. How often throttling is found in other
drives is judged on a virtual clock: see :mod:`tests.unit.analysis.throttling.test_scenarios`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from instruments.simulated.bench import Bench, configure
from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.throttle_result import ThrottleInterval
from labctl.analysis.throttling.repeated_falls import NO_PAUSE_S
from labctl.record.reader import RunRecord, find_runs

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

LABCTL = (sys.executable, "-m", "labctl.cli.main")
TOLERANCE_S = 2.0

PLAN = """
name = "three-causes"
idle_before_s = 2
idle_after_s = 0
[[sweeps]]
name = "cache"
pattern = "write"
block_size = "128k"
queue_depth = 16
duration_s = 9
[[sweeps]]
name = "collection"
pattern = "randwrite"
queue_depth = 32
duration_s = 21
[[sweeps]]
name = "heat"
pattern = "read"
block_size = "128k"
queue_depth = 16
duration_s = 18
"""
CACHE_BYTES = 90_000_000
DIP_S, PERIOD_S = 3.0, 7.0
DRIVE: dict[str, object] = {
    # So slow that it is as fast as that on a busy machine, too.
    "speed_divisor": 60.0,
    # Reads take most, so that heat comes last, and with nothing else.
    "power.read_byte_nj": 8.0,
    "power.write_byte_nj": 4.0,
    "thermal.ambient_celsius": 38.0,
    "thermal.composite_joules_per_kelvin": 12.0,
    "thermal.case_joules_per_kelvin": 20.0,
    "throttle.light.leave_celsius": 69.0,
    "throttle.light.speed_share": 0.15,
    "write_cache.capacity_bytes": CACHE_BYTES,
    "write_cache.drain_bytes_per_s": 0.0,
    "garbage_collection.spare_bytes": 0,
    "garbage_collection.dip_s": DIP_S,
    "garbage_collection.dip_period_s": PERIOD_S,
}


def carry_out(folder: Path) -> tuple[RunRecord, RunSummary, GroundTruth]:
    (folder / "plan.toml").write_text(PLAN)
    with Bench(folder / "bench", configure(5, DRIVE)) as bench:
        done = subprocess.run(
            [*LABCTL, "run", bench.rig, folder / "plan.toml", "--runs", folder / "runs", "--json"],
            capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = find_runs(folder / "runs")
    record = RunRecord(path)
    return record, summarise(record), GroundTruth(bench.directory / "truth")


@pytest.mark.long
def test_three_causes_are_distinguished_and_placed(tmp_path: Path) -> None:
    record, summary, truth = carry_out(tmp_path)
    to_monotonic = record.header.anchor.to_monotonic_ns
    causes: dict[int, set[str]] = {item.phase.index: set() for item in summary.measured}
    for item in summary.throttling:
        causes[item.phase_index].add(item.cause)
    # A busy machine slows the drive's software down besides: that may be reported, but not as heat.
    wanted_causes = ("write_cache", "garbage_collection", "thermal")
    for wanted_cause, reported in zip(wanted_causes, causes.values(), strict=True):
        assert wanted_cause in reported
        assert "thermal" not in reported or wanted_cause == "thermal"
    cache, collection, heat = (
        [item for item in summary.throttling if (item.phase_index, item.cause) == one]
        for one in zip(causes, wanted_causes, strict=True)
    )

    written = truth.ticks["written_bytes"]
    full_ns = int(truth.ticks["t_ns"][int(np.searchsorted(written, CACHE_BYTES))])
    assert abs(to_monotonic(cache[0].begin_ns) - full_ns) <= TOLERANCE_S * 1e9

    dips_are_where_less_was_written(collection, truth, to_monotonic)

    wanted = 0
    _, _, hot = summary.measured
    for low, high in joined_levels(truth, to_monotonic(hot.begin_ns), to_monotonic(hot.end_ns)):
        if high - low <= 3_000_000_000:
            continue
        wanted += 1
        # Throttling that pauses for a second or two may be reported as several.
        there = [item for item in heat if low < to_monotonic(item.end_ns) < high + 2e9]
        assert there, (low, high, heat)
        assert abs(to_monotonic(there[0].begin_ns) - low) <= TOLERANCE_S * 1e9, (low, heat)
        assert abs(to_monotonic(there[-1].end_ns) - high) <= TOLERANCE_S * 1e9, (high, heat)
        assert sum(item.duration_s for item in there) >= 0.8 * throttled_s(truth, low, high), heat
    assert wanted >= 1

    cool = [item for item in summary.measured if item is not hot]
    assert [item.throttled_s for item in cool] == [0, 0]
    assert hot.throttling is not None and hot.throttling.verdict == "throttled"
    assert hot.watts is not None and hot.watts_unthrottled is not None, hot.notes
    assert hot.watts_unthrottled.value > hot.watts.value


def dips_are_where_less_was_written(
    dips: list[ThrottleInterval], truth: GroundTruth, to_monotonic: Callable[[int], int]
) -> None:
    placed = 0
    for item in dips:
        # The drive counts its periods in time that it writes in: a busy machine stretches them,
        # and its own dips may be reported besides.
        low, high = to_monotonic(item.begin_ns), to_monotonic(item.end_ns)
        inside = truth.operations(low + 1_000_000_000, high - 1_000_000_000)["writes"]
        before = truth.operations(low - 3_000_000_000, low - 1_000_000_000)["writes"]
        less = inside / (item.duration_s - 2) < 0.7 * before / 2 if item.duration_s > 2 else False
        placed += less and abs(item.duration_s - DIP_S) <= TOLERANCE_S
    assert placed >= max(2, len(dips) - 1), dips
    assert dips[0].period_s == pytest.approx(PERIOD_S, abs=2.0)


def throttled_s(truth: GroundTruth, low: int, high: int) -> float:
    """Seconds between two moments in which the drive was at any level, pauses not counted."""
    stretches = truth.throttle_intervals()
    return sum(max(min(s.end_ns, high) - max(s.begin_ns, low), 0) for s in stretches) * 1e-9


def joined_levels(truth: GroundTruth, begin: int, end: int) -> list[tuple[int, int]]:
    """Throttling of any level inside a stretch; levels that follow one another as one, and those
    between which the drive was let go for so short a time that it may be reported as one."""
    spans: list[tuple[int, int]] = []
    for item in truth.throttle_intervals():
        low, high = max(item.begin_ns, begin), min(item.end_ns, end)
        if high <= low:
            continue
        if spans and (low - spans[-1][1]) / 1e9 < NO_PAUSE_S + 0.4:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    return spans
