"""Steady state on every tracked variable, and the lines of the measurement window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.phase_result import PhaseResult, TemperatureResult
from labctl.analysis.steady_state.rounds import rounds_of, steady_reports, tracked_report
from labctl.analysis.steady_state.rule import steady_window
from labctl.analysis.steady_state.tracking import (
    CELSIUS,
    TrackedQuantity,
    measurement_window,
    steady_report,
    steady_round,
)
from labctl.config.sweeps import Sweep
from tests.unit.report_sample import estimate, plan, summary_of

KNOWN = (22119.0, 21926.0, 23809.0, 24945.0, 25680.0)


def rounds(
    iops: list[float], watts: list[float] | None = None, celsius: list[float] | None = None
) -> tuple[PhaseResult, ...]:
    """The same work as often as there are values."""
    sweep = Sweep(pattern=["randwrite"], queue_depth=[32] * len(iops), duration_s=60)
    found = []
    for number, item in enumerate(summary_of(plan(sweep)).measured):
        assert item.write is not None
        new = replace(item, iops=iops[number])
        if watts is not None:
            new = replace(new, watts=estimate(watts[number]))
        end = celsius[number] if celsius is not None else 50.0
        found.append(replace(new, temperatures={"drive": TemperatureResult(40, end, end)}))
    return tuple(found)


def test_the_window_has_the_lines_of_the_standard() -> None:
    """By hand: mean 23695.8, slope (−2·22119 − 21926 + 24945 + 2·25680) / 10 = 1014.1."""
    window = measurement_window(TrackedQuantity("IOPS", "IOPS", KNOWN), 4)
    assert window.rounds == (0, 1, 2, 3, 4)
    assert window.average == pytest.approx((23695.8, 23695.8))
    assert window.upper[0] == pytest.approx(1.1 * 23695.8)
    assert window.lower[1] == pytest.approx(0.9 * 23695.8)
    assert window.verdict.slope == pytest.approx(1014.1)
    assert window.slope == pytest.approx((23695.8 - 2 * 1014.1, 23695.8 + 2 * 1014.1))
    assert not window.verdict.steady


def test_a_window_needs_its_rounds() -> None:
    with pytest.raises(ValueError, match="no 5 rounds"):
        measurement_window(TrackedQuantity("IOPS", "IOPS", KNOWN[:4]), 3)


def test_not_reached_shows_the_last_rounds() -> None:
    report = steady_report([TrackedQuantity("IOPS", "IOPS", (90e3, 60e3, *KNOWN))])
    assert not report.reached
    assert report.windows[0].rounds == (2, 3, 4, 5, 6)
    assert report.alone_at == {"IOPS": None}


def test_iops_that_stand_while_the_drive_warms_up_are_not_steady() -> None:
    flat = [24000.0] * 8
    warming = [40.0, 48.0, 55.0, 60.0, 64.0, 64.0, 65.0, 65.0]
    cold = tracked_report(rounds(flat))
    assert cold is not None and cold.reached_at == 4
    warm = tracked_report(rounds(flat, celsius=warming))
    assert warm is not None and warm.reached_at is None
    longer = tracked_report(rounds([*flat, 24000.0], celsius=[*warming, 65.0]))
    assert longer is not None and longer.reached_at == 8
    name = "randwrite 4k QD32"
    assert longer.alone_at[f"{name}: IOPS"] == 4
    assert longer.alone_at[f"{name}: temperature"] == 8


def test_a_sweep_is_judged_by_what_its_plan_asks_to_be_steady() -> None:
    """The run ended with round 5 because the IOPS stood; the drive still warmed up."""
    warming = rounds([1e5] * 5, celsius=[50.0, 55.0, 60.0, 65.0, 70.0])
    asked = [
        replace(item, phase=replace(item.phase, round=number, steady_on=("iops",)))
        for number, item in enumerate(warming, 1)
    ]
    (report,) = steady_reports(asked)
    assert report.reached and [one.unit for one in report.tracked] == ["IOPS"]
    both = [
        replace(item, phase=replace(item.phase, steady_on=("iops", "celsius"))) for item in asked
    ]
    (report,) = steady_reports(both)
    assert not report.reached and len(report.not_steady) == 1


def test_creeping_watts_are_not_steady() -> None:
    flat = [24000.0] * 5
    report = tracked_report(rounds(flat, watts=[10.0, 10.4, 10.8, 11.2, 11.6]))
    assert report is not None and not report.reached
    watts = next(one for one in report.windows if one.unit == "W")
    assert watts.verdict.line == pytest.approx(1.6 / 10.8)
    assert watts.verdict.range == pytest.approx(1.6 / 10.8)


def test_a_failed_round_ends_the_series() -> None:
    results = list(rounds([24000.0] * 5))
    results[3] = replace(results[3], outcome="failed")
    assert [len(group) for group in rounds_of(results).values()] == [3]


def test_nothing_repeated_has_no_steady_state() -> None:
    assert tracked_report(rounds([1.0])) is None
    assert tracked_report([]) is None


def test_degrees_are_not_judged_by_a_share_of_celsius() -> None:
    """Around 5 °C a share would forbid half a degree; around 80 °C it would allow 16."""
    for middle in (5.0, 80.0):
        near = [middle, middle + 1, middle, middle, middle + 1]
        assert CELSIUS.verdict(near).steady
        assert not CELSIUS.verdict([middle + 0.6 * i for i in range(5)]).steady
    freezing = TrackedQuantity("t", "°C", (-3.0, -2.0, -3.0, -2.0, -3.0), CELSIUS)
    assert steady_round([freezing]) == 4


@given(
    st.lists(st.floats(1.0, 1e6), min_size=5, max_size=5),
    st.floats(1e-3, 1e3),
)
def test_the_verdict_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    one, other = steady_window(values), steady_window(np.array(values) * factor)
    assert other.range == pytest.approx(one.range)
    assert other.line == pytest.approx(one.line, abs=1e-9)


@given(st.lists(st.floats(1.0, 1e6), min_size=5, max_size=5))
def test_the_order_of_rounds_matters_only_to_the_line(values: list[float]) -> None:
    one, other = steady_window(values), steady_window(values[::-1])
    assert (one.range, one.average) == pytest.approx((other.range, other.average))
    assert one.slope == pytest.approx(-other.slope, abs=1e-6)
