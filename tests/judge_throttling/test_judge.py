"""A small draw of the judge; all of it: ``python -m tests.judge_throttling``."""

from __future__ import annotations

import pytest

from tests.judge_throttling.judge import judge

SEEDS = range(4000, 4003)


@pytest.mark.parametrize(
    "kind",
    [
        "saw",
        "saw, writing",
        "smooth ramp",
        "straight ramp",
        "many small steps",
        "flicker",
        "cache, cool",
        "collection, cool",
        "busy host",
        "power state told",
    ],
)
def test_true_stretches_have_their_true_cause(kind: str) -> None:
    score = judge(kind, SEEDS)
    assert score.stretches["wanted"] >= len(SEEDS)
    assert score.stretches["told"] >= 0.85 * score.stretches["wanted"], score.notes
    assert score.phases["none seen"] == score.phases["accused"] == 0, score.notes


@pytest.mark.parametrize(
    "kind", ["neither", "sensor, no warning", "one lasting step", "power cap at an end"]
)
def test_what_nothing_shows_is_left_open(kind: str) -> None:
    score = judge(kind, SEEDS)
    assert score.stretches["wanted"] >= len(SEEDS)
    assert score.stretches["missed"] == score.stretches["wrong"] == 0, score.notes
    assert score.stretches["found"] >= 0.9 * score.stretches["wanted"], score.notes
    assert score.phases["none seen"] == 0, score.notes


@pytest.mark.parametrize("kind", ["clean, cool", "clean, warm", "clean, no warning"])
def test_a_clean_drive_is_not_accused(kind: str) -> None:
    score = judge(kind, SEEDS)
    assert score.phases["accused"] == score.phases["invented"] == 0, score.notes


def test_the_end_of_a_cache_is_no_heat_where_no_limit_is_known() -> None:
    score = judge("cache, no warning", range(4000, 4008))
    assert score.stretches["wrong"] == score.phases["accused"] == 0, score.notes
