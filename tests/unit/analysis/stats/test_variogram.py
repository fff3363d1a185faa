from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.signal import lfilter

from labctl.analysis.stats.time_mean import TimeMean
from labctl.analysis.stats.variogram import LEFT_OF_SLOPE, Variogram


def variogram(*parts: list[float]) -> Variogram:
    found = Variogram()
    for part in parts:
        found.add(np.array(part))
    return found


def differences(values: np.ndarray, part: int = 1000) -> Iterator[np.ndarray]:
    apart = np.diff(values)
    for begin in range(0, len(apart), part):
        yield apart[begin : begin + part]


def test_white_noise_has_no_slope_and_a_random_walk_nothing_else() -> None:
    white = np.random.default_rng(1).normal(size=20_000)
    noise, walk = Variogram(), Variogram()
    for part in differences(white):
        noise.add(part)
    for part in differences(np.cumsum(white)):
        walk.add(part)
    assert noise.slope_share < 0.02
    assert walk.slope_share > 0.9
    assert walk.left == pytest.approx(LEFT_OF_SLOPE, abs=0.1)


@pytest.mark.parametrize("cuts", [(), (1,), (3, 4), (1, 2, 3, 4, 5, 6, 7)])
def test_parts_give_what_the_whole_gives(cuts: tuple[int, ...]) -> None:
    apart = np.array([1.0, 0.8, math.nan, 0.2, 1.0, -0.5, 0.9, 1.1, math.nan, 1.2])
    known = [(1.0, 0.8), (0.2, 1.0), (1.0, -0.5), (-0.5, 0.9), (0.9, 1.1)]
    near = [(a * a + b * b) / 4 for a, b in known]
    grown = [(a * a + b * b) / 4 + a * b for a, b in known]
    surely = sum(grown) - math.sqrt(3 * len(grown) * np.var(grown))
    found = Variogram()
    for part in np.split(apart, cuts):
        found.add(part)
    assert found.slope_share == pytest.approx(max(surely, 0) / sum(near))
    assert 0 < found.slope_share < 1


def test_a_single_step_few_readings_and_none_have_no_share() -> None:
    step = np.zeros(600)
    step[300] = 7.2
    assert variogram(step.tolist()).slope_share == 0
    assert variogram([1.0], [1.0]).slope_share == 0
    assert variogram([0.0] * 10).slope_share == 0
    assert variogram([], []).left == 1


def test_the_examples_of_the_page() -> None:
    """docs/how-a-number-is-made.md, "U of the phase"."""
    t = (np.arange(600) + 0.5) * 0.1
    for watts, before, after in (
        (np.where(np.arange(600) // 5 % 2 == 0, 9.0, 15.0), 0.069, 0.034),
        (np.where(t < 30, 7.2, 14.4), 0.0076, 0.0076),
    ):
        mean = TimeMean(60.0, 0.1, 600)
        mean.add(t, watts)
        u = mean.scatter_of_phase(0.2, 0.0).u
        steps = np.diff(watts)
        assert math.sqrt(0.8 * float(steps @ steps) / 2) / 600 == pytest.approx(before, rel=0.01)
        assert u == pytest.approx(after, rel=0.01)


def brownian(rng: np.random.Generator, keep: float, size: int) -> np.ndarray:
    return lfilter([1.0], [1.0, -keep], rng.normal(size=size))


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("white", 0.97, 1.0), ("0.3 s", 0.0, 0.8), ("5 s", 0.0, 0.65), ("switches", 0.0, 0.6)],
)
@pytest.mark.parametrize("random", [False, True])
def test_u_holds_and_is_narrower_where_the_load_goes_on(
    kind: str, least: float, most: float, random: bool
) -> None:
    """300 readings of 20 ms each 100 ms, at regular or random moments of their intervals."""
    rng = np.random.default_rng(3)
    fine, n, held, narrowed = 50, 300, [], []
    for _ in range(100):
        if kind == "white":
            load = rng.normal(size=n * fine)
        elif kind == "switches":
            lasts = rng.uniform(0.4, 0.6, 200) / 0.1 * fine
            load = np.repeat(np.arange(200) % 2.0, lasts.astype(int))[: n * fine]
        else:
            load = brownian(rng, math.exp(-0.1 / fine / float(kind.split()[0])), n * fine)
        sums = np.concatenate([[0.0], np.cumsum(load)])
        begins = rng.integers(0, fine * 4 // 5 + 1, n if random else 1) + np.arange(n) * fine
        values = (sums[begins + fine // 5] - sums[begins]) / (fine // 5)
        mean = TimeMean(n * 0.1, 0.1, n, dither=1.0 if random else 0.0)
        mean.add((begins + fine / 10) * 0.1 / fine, values)
        u = mean.scatter_of_phase(0.0 if random else 0.2, 0.0).expanded_u
        held.append(abs(mean.mean - sums[-1] / len(load)) <= u)
        narrowed.append(math.sqrt(variogram(np.diff(values).tolist()).left))
    assert np.mean(held) >= 0.9
    assert least <= np.median(narrowed) <= most
