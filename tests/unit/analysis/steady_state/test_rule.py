from __future__ import annotations

import numpy as np
import pytest

from labctl.analysis.steady_state.rule import steady_throughout, steady_window

KNOWN = [22119, 21926, 23809, 24945, 25680]
FLAT = [24000, 24100, 23900, 24050, 23950]


def test_the_known_answer_of_the_standard() -> None:
    verdict = steady_window(KNOWN)
    assert verdict.range == pytest.approx(0.158, abs=0.001)
    assert verdict.line == pytest.approx(0.171, abs=0.001)
    assert not verdict.steady


def test_flat_rounds_are_steady() -> None:
    assert steady_window(FLAT).steady


def test_scatter_alone_can_fail() -> None:
    verdict = steady_window([20000, 25000, 20000, 25000, 20000])
    assert verdict.line == pytest.approx(0.0, abs=1e-12)
    assert not verdict.steady


def test_one_round_is_no_window() -> None:
    with pytest.raises(ValueError, match="two rounds"):
        steady_window([1.0])


def test_nothing_done_is_not_steady() -> None:
    assert not steady_window([0, 0, 0, 0, 0]).steady


def judged(values: list[float], end_s: float = 10.0) -> bool | None:
    t_ns = np.linspace(0.25, end_s - 0.25, len(values)) * 1e9
    return steady_throughout(t_ns.astype(np.int64), np.array(values), 0, round(end_s * 1e9))


def test_a_phase_is_steady_when_its_fifths_are() -> None:
    assert judged([100.0, 102.0] * 10) is True
    assert judged([200.0] * 10 + [100.0] * 10) is False, "throttled on the way"
    assert judged(list(np.linspace(100.0, 115.0, 20))) is False, "it drifts"


def test_scatter_within_the_fifths_does_not_count() -> None:
    assert judged([50.0, 150.0] * 10) is True


def test_a_phase_with_too_few_readings_in_any_fifth_is_not_judged() -> None:
    assert judged([100.0] * 9) is None
    assert judged([]) is None
    t_ns = np.arange(20, dtype=np.int64)
    assert steady_throughout(t_ns, np.full(20, 100.0), 0, 100) is None, "fio fell silent"
