"""What ± covers, against closed forms and against a brute Monte Carlo."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm, t

from labctl.analysis.estimate import Component
from labctl.analysis.stats.coverage import COVERED, half_width
from labctl.analysis.stats.uncertainty import expanded_u, limit_component

DRAWS = 200_000


@pytest.mark.parametrize(
    ("u", "limits", "amplitudes", "standing", "expected"),
    [
        (1.0, [], [], 0.0, 2.0),
        (0.0, [1.0], [], 0.0, COVERED),
        (0.0, [1.0, 1.0], [], 0.0, 2 * (1 - math.sqrt(1 - COVERED))),
        (0.0, [], [1.0], 0.0, math.sin(math.pi / 2 * COVERED)),
        (0.1, [], [], 5.0, 5.0 + 0.1 * norm.ppf(COVERED)),
        (0.0, [0.1], [], 5.0, 5.0 + 0.1 * (2 * COVERED - 1)),
        (0.0, [], [], 0.7, 0.7),
        (0.0, [], [], 0.0, 0.0),
    ],
)
def test_closed_forms(
    u: float, limits: list[float], amplitudes: list[float], standing: float, expected: float
) -> None:
    """Normal, rectangular, triangular (two equal rectangular ones), U-shaped, and a limit that is
    used up, where only one side of the rest can lead beyond ±U."""
    assert half_width(u, limits, amplitudes, standing) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("seed", range(6))
def test_any_mixture_is_covered_as_often_as_a_monte_carlo_says(seed: int) -> None:
    draw = np.random.default_rng(seed)
    u, standing = draw.uniform(0, 1), draw.choice([0.0, 0.5, 3.0])
    limits, amplitudes = draw.uniform(0, 2, 4), draw.uniform(0, 1, 1)
    errors = standing + u * draw.standard_normal(DRAWS)
    errors += sum(a * draw.uniform(-1, 1, DRAWS) for a in limits)
    errors += sum(a * np.sin(2 * np.pi * draw.random(DRAWS)) for a in amplitudes)
    width = half_width(u, limits.tolist(), amplitudes.tolist(), standing)
    assert float(np.mean(np.abs(errors) <= width)) == pytest.approx(COVERED, abs=0.003)


def test_the_limit_of_the_only_error_of_a_meter_is_u_and_no_more() -> None:
    line = limit_component("gain", 0.3, "", source="v gain")
    assert expanded_u([line]) == pytest.approx(0.3)
    shared = [line, limit_component("gain", 0.2, "", source="v gain")]
    assert expanded_u(shared) == pytest.approx(0.5)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.9, 0.99])
def test_u_holds_where_the_gain_of_a_logger_stands_at_its_limit(share: float) -> None:
    """``share``: of the variance. k = 2 would cover 88 % at 0.4 and 50 % at 0.9."""
    limit, u = math.sqrt(3 * share), math.sqrt((1 - share) / 2)
    lines = [
        limit_component("gain", limit / 2, "", source="daq gain"),
        limit_component("gain", limit / 2, "", source="daq gain"),
        limit_component("floor", math.sqrt(3) * u, "", source="daq floor"),
        Component("scatter", "A", u, "", 1000),
    ]
    draw = np.random.default_rng(7)
    rest = u * draw.standard_normal(DRAWS) + math.sqrt(3) * u * draw.uniform(-1, 1, DRAWS)
    width = expanded_u(lines)
    assert float(np.mean(np.abs(limit + rest) <= width)) >= 0.95
    anywhere = limit * draw.uniform(-1, 1, DRAWS) + rest
    assert float(np.mean(np.abs(anywhere) <= width)) >= 0.95
    assert width < 1.25 * 2.0


@pytest.mark.parametrize("dof", [3, 5, 10])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0])
def test_few_readings_beside_a_limit_are_covered(dof: int, ratio: float) -> None:
    """The scatter is estimated anew in each of many runs: ± holds over all of them."""
    draw = np.random.default_rng(dof)
    limit, runs = ratio * math.sqrt(3.0), 4000
    estimated = np.sqrt(draw.chisquare(dof, runs) / dof)
    errors = draw.standard_normal(runs) + limit * draw.uniform(-1, 1, runs)
    gain = limit_component("gain", limit, "", source="v gain")
    widths = [expanded_u([gain, Component("scatter", "A", u, "", dof)]) for u in estimated]
    assert float(np.mean(np.abs(errors) <= widths)) >= 0.945


def test_a_scatter_alone_has_students_factor() -> None:
    line = Component("scatter", "A", 0.4, "", 4.0)
    assert expanded_u([line]) == pytest.approx(0.4 * t.ppf(0.5 + COVERED / 2, 4), rel=0.01)
