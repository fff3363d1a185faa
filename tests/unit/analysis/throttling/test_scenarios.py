"""Throttling found in drives drawn at random, judged by what the model really did.

The seeds are not those that the analysis was tuned on (0 to 59).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.run.summary import summarise
from tests.unit.throttle_scenarios import Score, scenario
from tests.unit.virtual_bench import VirtualRun, build

SEEDS = range(500, 503)


def judged(kind: str, root: Path, seeds: range = SEEDS) -> Score:
    score = Score()
    for seed in seeds:
        folder = root / str(seed)
        folder.mkdir()
        run = build(folder, scenario(kind, seed))
        score.add(f"{kind} {seed}", run, summarise(run.record))
    return score


@pytest.mark.parametrize(
    ("kind", "cause", "at_least"),
    [
        ("thermal", "thermal", 0.95),
        ("cache", "write_cache", 0.95),
        pytest.param("collection", "garbage_collection", 0.95, marks=pytest.mark.long),
        pytest.param("stall", "host_stall", 0.95, marks=pytest.mark.long),
    ],
)
def test_true_stretches_are_found_placed_and_told_apart(
    kind: str, cause: str, at_least: float, tmp_path: Path
) -> None:
    score = judged(kind, tmp_path)
    assert score.wanted[cause] >= len(SEEDS)
    assert score.recall(cause) >= at_least, score.missed
    assert score.invented == []
    assert score.accused == []


@pytest.mark.parametrize(
    "seed", [1000, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1006, 1020, 1023))]
)
def test_heat_is_found_while_the_flash_slows_down_too(seed: int, tmp_path: Path) -> None:
    score = judged("mixed", tmp_path, range(seed, seed + 1))
    assert score.wanted["thermal"] >= 1
    assert score.recall("thermal") == 1.0, score.missed
    assert score.accused == []


@pytest.mark.parametrize(
    "seeds", [range(500, 502), pytest.param(range(502, 506), marks=pytest.mark.long)]
)
def test_a_clean_drive_near_its_warning_is_never_accused(seeds: range, tmp_path: Path) -> None:
    score = judged("clean", tmp_path, seeds)
    assert score.invented == []


@pytest.mark.long
def test_what_is_unthrottled_is_what_the_drive_did_then(tmp_path: Path) -> None:
    """Watts of the unthrottled part against the true energy of the truly unthrottled time."""
    told = outside = 0
    for seed in range(500, 505):
        folder = tmp_path / str(seed)
        folder.mkdir()
        run = build(folder, scenario("thermal", seed))
        for result in summarise(run.record).measured:
            if not result.throttled or result.watts_unthrottled is None:
                continue
            free = _truly_free(run, result.phase.index)
            true = run.mean_watts(free)
            assert result.watts is not None
            told += 1
            # What a drive takes drifts with what it does: the two are not of the same seconds.
            near = abs(result.watts_unthrottled.value - true) <= max(
                result.watts_unthrottled.u, 0.02 * true
            )
            outside += not near
            assert (
                abs(result.watts_unthrottled.value - true) < 0.5 * abs(result.watts.value - true)
                or near
            )
    assert told >= 3
    assert outside <= told // 10


def _truly_free(run: VirtualRun, index: int) -> list[tuple[float, float]]:
    edges = [run.driven.begins_s[index]]
    for one in run.truth:
        if one.phase_index == index and one.cause == "thermal":
            edges += [one.begin_s, one.end_s]
    edges.append(run.driven.ends_s[index])
    return [
        (begin, end) for begin, end in np.array(edges).reshape(-1, 2).tolist() if end - begin > 0.5
    ]


def test_a_drive_that_is_hot_all_the_time_is_not_called_free(tmp_path: Path) -> None:
    """Without counters nothing excludes that a drive above its warning was slow throughout."""
    bench = scenario("clean", 100)
    run = build(tmp_path, type(bench)(**{**vars(bench), "above_warmest": -30.0}))
    summary = summarise(run.record)
    assert [item for item in summary.throttling if item.cause != "unknown"] == []
    warning = run.record.header.drive.warning_celsius
    hot = [item for item in summary.measured if item.temperatures["composite"].start > warning]
    assert hot
    for item in hot:
        assert item.throttling is not None
        assert item.throttling.verdict == "cannot be excluded"
