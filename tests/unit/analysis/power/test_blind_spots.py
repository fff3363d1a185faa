from __future__ import annotations

import numpy as np
import pytest

from labctl.analysis.power.blind_spots import (
    blind_problems,
    blind_spot,
    known_share,
    regularity,
)
from labctl.analysis.readings.channel_series import ChannelSeries
from labctl.analysis.readings.clock_fit import ClockMap
from labctl.record.header import ChannelInfo, RailInfo

RAIL = RailInfo("12V", 12.0, "v12.voltage", "i12.current")


def read_at(t_s: np.ndarray, aperture_s: float, interval_s: float = 0.1) -> ChannelSeries:
    info = ChannelInfo("i12.current", "current", "A", interval_s=interval_s, aperture_s=aperture_s)
    stamps = np.rint(t_s * 1e9).astype(np.int64)
    return ChannelSeries(info, stamps, np.ones(len(t_s)), ClockMap())


def said(series: ChannelSeries) -> tuple[str, ...]:
    return blind_problems([RAIL], {"i12.current": series})


def test_a_regular_meter_that_is_blind_for_most_of_the_time_is_told() -> None:
    t = 5 + np.arange(3000) * 0.1
    (line,) = said(read_at(t, 0.02))
    assert "i12.current integrates 20% of the time, every 100 ms (by up to 80% of its" in line


@pytest.mark.parametrize("aperture_s", [0.1, 0.095])
def test_one_that_hardly_misses_anything_is_not(aperture_s: float) -> None:
    assert said(read_at(np.arange(3000) * 0.1, aperture_s)) == ()


def test_nor_is_one_that_is_asked_at_random_moments() -> None:
    rng = np.random.default_rng(1)
    assert said(read_at((np.arange(3000) + rng.random(3000)) * 0.1, 0.02)) == ()
    assert said(read_at(np.cumsum(rng.uniform(0.05, 0.15, 3000)), 0.02)) == ()


def test_nor_one_whose_gaps_are_short_beside_any_load() -> None:
    assert said(read_at(np.arange(3000) * 0.002, 0.001, 0.002)) == ()
    assert said(read_at(np.arange(30) * 0.1, 0.02)) == (), "too few to say so"


def test_readings_that_come_late_or_are_lost_are_regular_still() -> None:
    rng = np.random.default_rng(2)
    t = np.arange(3000) * 0.1
    late = read_at(np.sort(t + rng.exponential(0.005, 3000)), 0.02)
    assert len(said(late)) == 1
    assert len(said(read_at(t[rng.random(3000) < 0.8], 0.02))) == 1
    spot = blind_spot(late)
    assert spot is not None and 0.8 < spot.regular < 1.0


def test_regularity_is_the_amplitude_with_which_a_load_in_step_comes_through() -> None:
    grid = np.arange(256.0)
    assert regularity(grid) == pytest.approx(1.0)
    placed = grid + np.random.default_rng(3).choice([0.0, 0.25], 256)
    assert regularity(placed) == pytest.approx(np.cos(np.pi / 4), abs=0.05)
    assert regularity(grid[:2]) == 0.0


def test_how_much_a_load_in_step_is_misread_by() -> None:
    """A load that is on only while the meter is blind, and one of two intervals with an edge in
    a gap."""
    t = np.arange(2000) * 0.1
    spot = blind_spot(read_at(t, 0.02))
    assert spot is not None
    assert spot.misread == pytest.approx(0.8)
    fine = np.arange(200) / 200 * 0.1
    hidden = (fine >= 0.02).mean()  # of the swing, and the readings show none of it
    assert hidden == pytest.approx(spot.misread, abs=0.01)
    fast = blind_spot(read_at(np.arange(2000) * 0.01, 0.004, 0.01))
    assert fast is not None and fast.misread == pytest.approx(0.006 / 0.02)


def test_of_readings_at_random_moments_nothing_counts_as_known() -> None:
    rng = np.random.default_rng(4)
    grid = np.arange(3000) * 0.1
    drawn = (np.arange(3000) + rng.random(3000)) * 0.1
    assert known_share(read_at(grid, 0.02), 100, 400, 0.2) == 0.2
    assert known_share(read_at(drawn, 0.02), 100, 400, 0.2) == 0.0
    assert known_share(read_at(drawn, 0.1), 100, 400, 1.0) == 1.0, "without a gap"
    assert known_share(read_at(drawn, 0.02), 100, 110, 0.2) == 0.2, "the header does not say it"
