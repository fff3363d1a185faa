"""The largest mean over any window: known answers, and a judge that shares no code with it."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labctl.analysis.power import sliding_maxima
from labctl.analysis.power.reading_energy import EnergyOfAll, EnergyOfReadings
from labctl.analysis.power.sliding_maxima import Searched, WindowSearch

MS = 1_000_000


@dataclass(frozen=True)
class Judged:
    watts: float
    begin_ns: float


def in_parts(
    t: list[int], watts: list[float], windows: list[int], nominal: int, span: int, size: int
) -> Searched:
    readings = EnergyOfReadings(float(span), float(nominal))
    search = WindowSearch([float(window) for window in windows], float(nominal), len(t))
    for low in range(0, len(t), size):
        part = slice(low, low + size)
        search.add(readings.add(np.array(t[part], float), np.array(watts[part])))
    search.add(readings.ended())
    return search.result()


def by_brute_force(
    t: list[int], watts: list[float], window: int, nominal: int, span: int, gaps: set[int]
) -> Judged | None:
    """Every window that begins or ends where a reading's time does, in exact arithmetic.
    ``gaps``: numbers of the readings behind which there is a gap."""
    half = Fraction(nominal, 2)
    pieces: list[list[tuple[Fraction, Fraction, Fraction]]] = [[]]
    for number, (moment, value) in enumerate(zip(t, watts, strict=True)):
        begin = (
            max(moment - half, Fraction(0)) if not number else Fraction(t[number - 1] + moment, 2)
        )
        end = Fraction(moment + t[number + 1], 2) if number + 1 < len(t) else None
        if number - 1 in gaps:
            pieces.append([])
            begin = moment - half
        if end is None:
            end = min(moment + half, Fraction(max(span, moment)))
        elif number in gaps:
            end = moment + half
        pieces[-1].append((begin, end, Fraction(value)))
    best: tuple[Fraction, Fraction] | None = None
    for piece in pieces:
        if not piece:
            continue
        edges = [piece[0][0], *(end for _, end, _ in piece)]
        sums = [Fraction(0)]
        for begin, end, value in piece:
            sums.append(sums[-1] + (end - begin) * value)

        def energy(
            at: Fraction,
            edges: list[Fraction] = edges,
            sums: list[Fraction] = sums,
            piece: list[tuple[Fraction, Fraction, Fraction]] = piece,
        ) -> Fraction:
            number = min(max(bisect_right(edges, at) - 1, 0), len(piece) - 1)
            return sums[number] + (at - edges[number]) * piece[number][2]

        for start in [*edges, *(edge - window for edge in edges)]:
            if start >= edges[0] and start + window <= edges[-1]:
                mean = (energy(start + window) - energy(start)) / window
                if best is None or mean > best[0]:
                    best = mean, start
    return None if best is None else Judged(float(best[0]), float(best[1]))


def test_a_burst_is_found_in_windows_of_every_length() -> None:
    """5 W, and 15 W from 4.0 to 4.5 s, read each millisecond: a window of 10 ms is all burst, one
    of 1 s half of it, one of 5 s a tenth."""
    t = [number * MS for number in range(10_000)]
    watts = [15.0 if 4000 <= number < 4500 else 5.0 for number in range(10_000)]
    found = in_parts(t, watts, [10 * MS, 1000 * MS, 5000 * MS], MS, 10_000 * MS, 777).found
    means = [found[window].watts for window in (1e7, 1e9, 5e9)]
    assert means == pytest.approx([15.0, 10.0, 6.0], abs=1e-9)
    begin_s = found[1e7].begin_ns * 1e-9
    assert 3.9994 < begin_s < 4.4901


def test_a_window_between_two_readings_has_a_part_of_each() -> None:
    """Readings each 100 ms: 10, 20, 10 W. The largest 150 ms hold all of the middle one and half of
    a neighbour: (0.1 · 20 + 0.05 · 10) / 0.15 = 16.667 W."""
    found = in_parts(
        [50 * MS, 150 * MS, 250 * MS], [10.0, 20.0, 10.0], [150 * MS], 100 * MS, 300 * MS, 3
    )
    assert found.found[150e6].watts == pytest.approx(50 / 3)


def test_a_window_over_a_gap_is_none() -> None:
    """Readings each 10 ms for 2 s but from 0.5 to 1.2 s: no second without the gap is left but for
    0.8 s behind it, and the half seconds before and behind are."""
    t = [number * 10 * MS for number in range(200) if not 50 <= number < 120]
    watts = [9.0 if number < 40 else 6.0 for number in range(len(t))]
    found = in_parts(t, watts, [400 * MS, 1000 * MS], 10 * MS, 2000 * MS, 33)
    assert found.found[400e6].watts == pytest.approx(9.0, abs=0.12)
    assert 1e9 not in found.found
    assert found.blocked_s[1e9] == pytest.approx(found.tried_s[1e9], rel=0.01)
    # windows of 0.4 s that begin from 0.095 to 1.195 s reach over it
    assert found.blocked_s[400e6] == pytest.approx(1.1, abs=0.02)


@pytest.mark.parametrize("size", [1, 2, 3, 200])
def test_a_gap_is_one_however_few_readings_come_at_a_time(size: int) -> None:
    """A slow rail beside a fast one has a reading or two in each part."""
    t = [number * 250 * MS for number in range(240) if not 120 <= number < 160]
    searched = in_parts(t, [6.0] * 200, [10_000 * MS], 250 * MS, 60_000 * MS, size)
    assert searched.blocked_s[1e10] == pytest.approx(20.0, abs=0.3)


def test_a_reading_that_is_lost_in_a_long_window_is_bridged_and_counted() -> None:
    t = [number * 10 * MS for number in range(1000) if number != 500]
    found = in_parts(t, [7.0] * 999, [100 * MS, 5000 * MS], 10 * MS, 10_000 * MS, 100)
    assert found.found[5e9].watts == pytest.approx(7.0)
    assert found.blocked_s[5e9] == 0.0
    assert found.blocked_s[100e6] > 0.1  # the stretch is a fifth of such a window


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 16), st.integers(-3, 25)), min_size=2, max_size=60),
    st.integers(10, 1500),
    st.integers(1, 17),
)
def test_it_agrees_with_brute_force(drawn: list[tuple[int, int]], window: int, size: int) -> None:
    """Steps of 60 to 75 ns (no gap), any watts, windows of any length, any parts."""
    t, at = [], 30
    for step, _ in drawn:
        t.append(at)
        at += 59 + step
    watts = [float(value) for _, value in drawn]
    span = t[-1] + 20
    judged = by_brute_force(t, watts, window, 60, span, set())
    found = in_parts(t, watts, [window], 60, span, size).found.get(float(window))
    assert (found is None) == (judged is None)
    if found is not None and judged is not None:
        assert found.watts == pytest.approx(judged.watts, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 25)), min_size=12, max_size=80),
    st.integers(30, 1500),
    st.integers(1, 17),
)
def test_it_agrees_with_brute_force_over_gaps(
    drawn: list[tuple[bool, int]], window: int, size: int
) -> None:
    """Readings each 60 ns, of which any may be missing: every hole is a gap for windows below a
    hundred times of it."""
    kept = [number for number, (there, _) in enumerate(drawn) if there or number < 6]
    t = [30 + 60 * number for number in kept]
    watts = [float(drawn[number][1]) for number in kept]
    gaps = {i for i, number in enumerate(kept[:-1]) if kept[i + 1] != number + 1}
    span = 60 * len(drawn)
    readings = EnergyOfReadings(float(span), 60.0, dither=0.01)  # the usual interval is known
    search = WindowSearch([float(window)], 60.0, len(t))
    for low in range(0, len(t), size):
        part = slice(low, low + size)
        search.add(readings.add(np.array(t[part], float), np.array(watts[part])))
    search.add(readings.ended())
    found = search.result().found.get(float(window))
    judged = by_brute_force(t, watts, window, 60, span, gaps)
    assert (found is None) == (judged is None)
    if found is not None and judged is not None:
        assert found.watts == pytest.approx(judged.watts, abs=1e-9)


def test_long_windows_of_a_phase_with_very_many_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a phase with more readings than are kept, what is found differs from what is there by no
    more than it says."""
    monkeypatch.setattr(sliding_maxima, "KEPT", 500)
    monkeypatch.setattr(sliding_maxima, "STREAMED", 64)
    rng = np.random.default_rng(8)
    n = 6000
    t = [number * 100 for number in range(n)]
    watts = (10 + np.cumsum(rng.normal(size=n)) * 0.2).tolist()
    found = in_parts(t, watts, [1000, 100_000], 100, n * 100, 512).found
    for window in (1000, 100_000):
        judged = by_brute_force(t, watts, window, 100, n * 100, set())
        assert judged is not None
        assert abs(judged.watts - found[float(window)].watts) <= found[float(window)].coarse + 1e-9
    assert found[1000.0].coarse == 0.0


def test_the_sum_of_rails_on_one_clock_is_exact() -> None:
    rng = np.random.default_rng(3)
    t = [number * 100 + 50 for number in range(900)]
    one, other = rng.uniform(0, 9, 900).tolist(), rng.uniform(0, 3, 900).tolist()
    found = of_all([(t, one), (t, other)], 1000, 100, 90_000)
    both = [a + b for a, b in zip(one, other, strict=True)]
    judged = by_brute_force(t, both, 1000, 100, 90_000, set())
    assert judged is not None
    assert found.found[1000.0].watts == pytest.approx(judged.watts, abs=1e-9)


def test_the_sum_of_rails_on_clocks_of_their_own() -> None:
    """Rails read at other moments, one of them less often: the sum of their energies, not of
    readings that were never made together. It is known at the edges of the faster one; between two
    of them the slower one's kink is missed by no more than ``edges`` says."""
    rng = np.random.default_rng(5)
    for slower in (100, 130, 1000):
        fast_t = [number * 100 + 50 for number in range(2000)]
        slow_t = [number * slower + 17 for number in range(200_000 // slower)]
        fast = rng.uniform(0, 9, len(fast_t)).tolist()
        slow = rng.uniform(0, 9, len(slow_t)).tolist()
        found = of_all([(fast_t, fast), (slow_t, slow)], 5000, 100, 200_000).found[5000.0]
        # both as steps on a grid of 1 ns, summed
        grid = steps(fast_t, fast, 200_000) + steps(slow_t, slow, 200_000)
        energy = np.concatenate([[0.0], np.cumsum(grid)])
        truth = float(np.nanmax(energy[5000:] - energy[:-5000])) / 5000
        assert abs(found.watts - truth) <= found.edges + 0.01
        assert truth - found.watts < 0.1


def steps(t: list[int], watts: list[float], span: int) -> np.ndarray:
    edges = [0, *(math.floor((a + b) / 2) for a, b in pairwise(t)), span]
    return np.repeat(watts, np.diff(edges))


def of_all(
    rails: list[tuple[list[int], list[float]]], window: int, nominal: int, span: int
) -> Searched:
    readings = [EnergyOfReadings(float(span), float(np.median(np.diff(t)))) for t, _ in rails]
    together = EnergyOfAll(0)
    search = WindowSearch([float(window)], float(nominal), len(rails[0][0]))
    for begin in range(0, span, 7000):
        parts = []
        for one, (t, watts) in zip(readings, rails, strict=True):
            part = slice(bisect_left(t, begin), bisect_left(t, begin + 7000))
            parts.append(one.add(np.array(t[part], float), np.array(watts[part])))
        search.add(together.add(parts))
    search.add(together.add([one.ended() for one in readings]))
    return search.result()


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32 - 1),
    load=st.sampled_from(["bursts", "bursts", "noise", "plateaus", "period", "walk", "levels"]),
    readings=st.integers(3, 200),
    size=st.integers(20, 200),
    of_best=st.sampled_from([1 / 3, 0.9]),
    crowded=st.sampled_from([0, 16]),
)
def test_a_coarse_first_look_misses_nothing(
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    load: str,
    readings: int,
    size: int,
    of_best: float,
    crowded: int,
) -> None:
    """However coarse the first look is, and where it is taken always (``crowded`` 0): the best
    window is the one that a look at all windows finds. Bursts that are as long as the window, each
    a little higher than the one before, are seen by the window that begins with them alone."""
    monkeypatch.setattr(sliding_maxima, "OF_BEST", of_best)
    monkeypatch.setattr(sliding_maxima, "CROWDED", crowded)
    rng = np.random.default_rng(seed)
    n = 4000
    at = np.arange(n)
    noise = rng.normal(size=n)
    bursts = np.full(n, 2.0)
    for number, begin in enumerate(np.cumsum(rng.integers(2 * readings, 4 * readings, 700))):
        bursts[begin : begin + readings] = 9.0 + 1e-4 * number
    watts = {
        "bursts": bursts,
        "noise": noise,
        "plateaus": np.where((rng.random(n) < 1 / 150).cumsum() % 2, 9.0, 2.0) + 0.1 * noise,
        "period": np.where(at // 50 % 2, 9.0, 2.0) + 0.1 * noise,
        "walk": np.cumsum(noise),
        "levels": np.round(2 * noise) / 2,
    }[load]
    t = np.cumsum(rng.integers(60, 60 + rng.choice([1, 1, 16]), n))
    window = readings * 60
    found = in_parts(t.tolist(), watts.tolist(), [window], 60, int(t[-1]) + 20, size).found
    edges = np.concatenate([[t[0] - 30], (t[1:] + t[:-1]) / 2, [t[-1] + 20]])
    sums = np.concatenate([[0.0], np.cumsum(watts * np.diff(edges))])
    starts = np.concatenate([edges, edges - window])
    starts = starts[(starts >= edges[0]) & (starts + window <= edges[-1])]
    energy = np.interp(starts + window, edges, sums) - np.interp(starts, edges, sums)
    assert found[float(window)].watts == pytest.approx(float(energy.max()) / window, abs=1e-9)


@pytest.mark.parametrize("drift", [0.0, 70e-6])
def test_many_parts_with_bursts_and_noise(drift: float) -> None:
    """Enough parts that old ones are given up, on two clocks, against each window of a grid."""
    rng = np.random.default_rng(21)
    n, step, window = 60_000, 4000, 100_000
    t = [np.rint((np.arange(n) + 0.5) * step * (1 + (drift if one else 0.0))) for one in (0, 1)]
    load = np.where(np.arange(n) // 777 % 3 == 0, 9.0, 2.0)
    watts = [load + rng.normal(size=n) * 0.3 for _ in t]
    readings = [EnergyOfReadings(float(n * step), float(step)) for _ in t]
    searches = [WindowSearch([float(window)], float(step), n) for _ in range(3)]
    together = EnergyOfAll(0)
    for low in range(0, n, 1024):
        part = slice(low, low + 1024)
        energies = [one.add(t[k][part], watts[k][part]) for k, one in enumerate(readings)]
        for search, energy in zip(searches, [*energies, together.add(energies)], strict=True):
            search.add(energy)
    energies = [one.ended() for one in readings]
    for search, energy in zip(searches, [*energies, together.add(energies)], strict=True):
        search.add(energy)
    found = [search.result().found[float(window)].watts for search in searches]
    edges = [np.concatenate([[0.0], (one[1:] + one[:-1]) / 2, [n * step]]) for one in t]
    sums = [
        np.concatenate([[0.0], np.cumsum(w * np.diff(e))])
        for w, e in zip(watts, edges, strict=True)
    ]
    for number in (0, 1):
        starts = np.concatenate([edges[number], edges[number] - window])
        best = largest_mean(starts, window, [edges[number]], [sums[number]])
        assert found[number] == pytest.approx(best, abs=1e-7)
    starts = np.concatenate([edges[0], edges[0] - window])
    assert found[2] == pytest.approx(largest_mean(starts, window, edges, sums), abs=1e-7)


def largest_mean(
    starts: np.ndarray, window: int, edges: list[np.ndarray], sums: list[np.ndarray]
) -> float:
    last = min(float(one[-2]) for one in edges)
    starts = starts[(starts >= max(float(one[0]) for one in edges)) & (starts + window <= last)]
    energy = sum(
        np.interp(starts + window, e, s) - np.interp(starts, e, s)
        for e, s in zip(edges, sums, strict=True)
    )
    return float(np.max(energy)) / window
