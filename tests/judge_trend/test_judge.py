"""A small draw with a fixed seed; the whole one is ``python -m tests.judge_trend``."""

from __future__ import annotations

from collections import Counter

import pytest
from scipy.stats import binom

from labctl.analysis.stats import series_changes
from tests.judge_trend.judge import alarm, power, shape

SEED = 20_261_123


@pytest.fixture(autouse=True)
def _few_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_changes, "ORDERS", 199)
    monkeypatch.setattr(series_changes, "_SEED", 0)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["normal", "Student's t, 3 degrees of freedom"])
def test_few_series_without_a_change_show_one(kind: str) -> None:
    trials = 60
    counts = sum((alarm((kind, SEED, number)) for number in range(trials)), Counter[str]())
    assert counts["alarms"] <= binom.isf(1e-3, trials, 0.05)


@pytest.mark.long
def test_a_step_of_four_standard_deviations_is_found_where_it_is() -> None:
    place = "30 runs, half way, all points"
    counts = sum((power((place, 4.0, SEED, number)) for number in range(5)), Counter[str]())
    assert counts["found"] == 5
    assert counts["points found"] >= 0.9 * counts["points"]
    assert counts["within 1"] == 5


def test_meters_and_a_firmware_are_told_apart() -> None:
    found = shape(("other meters within their limits, then a firmware, 5 σ", SEED, 0))
    assert any(word.startswith("step at run 24, firmware") for word in found)
