"""The power envelope of a phase: what meters can carry, and whether its U holds."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.phase_result import WindowMaximum, length_text
from labctl.analysis.power.budget import rail_result
from labctl.analysis.power.phase_power import phase_power
from labctl.analysis.power.power_envelope import too_slow_for_envelope
from labctl.analysis.power.sliding_maxima import WINDOWS_S
from labctl.analysis.readings.channel_series import ChannelSeries, ClockMap, RailSeries
from labctl.analysis.run.summary import summarise
from labctl.record.header import ChannelInfo, RailInfo
from labctl.report.charts.power_envelope import envelope_chart
from labctl.report.data.result_files import phases_csv
from tests.unit import synthetic_run
from tests.unit.synthetic_run import IDLE, Bench, Load, Meter

S = 1_000_000_000


@pytest.mark.parametrize(
    ("window_s", "interval_s", "aperture_s", "carried"),
    [
        (100e-6, 4e-6, 4e-6, True),
        (100e-6, 50e-6, 50e-6, False),
        (1e-3, 50e-6, 50e-6, True),
        (1.0, 0.1, 0.1, True),
        (1.0, 0.103, 0.1, True),  # as slow as a meter's clock may be
        (1.0, 0.1, 0.02, False),  # four fifths of each second are not seen
        (10.0, 0.1, 0.02, True),
        (10.0, 0.1, 0.0, True),  # how long it integrates is not known
        (0.1, 0.1, 0.1, False),
        (60.0, 0.5, 0.5, True),
        (1.0, 0.1, 0.5, False),  # readings that overlap know no more than half a second
    ],
)
def test_which_windows_a_meter_carries(
    window_s: float, interval_s: float, aperture_s: float, carried: bool
) -> None:
    why = too_slow_for_envelope(window_s, interval_s, aperture_s)
    assert (not why) == carried, why


def test_a_meter_that_does_not_say_how_long_it_integrates_is_not_called_infinitely_short() -> None:
    assert "a reading each 100 ms of unknown length" in too_slow_for_envelope(1.0, 0.1, 0.0)
    assert "a reading each 100 ms that lasts 20 ms" in too_slow_for_envelope(1.0, 0.1, 0.02)


def test_lengths_as_people_and_columns_have_them() -> None:
    assert [length_text(one) for one in (100e-6, 0.1, 1.0, 60.0, 900.0)] == [
        *("100 µs", "100 ms", "1 s", "60 s", "15 min"),
    ]
    names = [WindowMaximum(one, None, None).name for one in WINDOWS_S]
    assert names == ["100us", "1ms", "10ms", "100ms", "1s", "10s", "60s", "15min"]


def burst(t: np.ndarray) -> np.ndarray:
    """Three times the load above idle from 5 to 7.5 s."""
    return np.where((t >= 5) & (t < 7.5), 3.0, 1.0)


def fast(rate_hz: float, duty: float = 0.99) -> dict[str, Meter]:
    return {name: Meter(rate_hz=rate_hz, duty=duty) for name in synthetic_run.CHANNELS}


def test_a_run_has_it_of_every_phase_rail_and_file(tmp_path: Path) -> None:
    """10 readings a second without gaps carry 1 s and 10 s; what is not carried says why."""
    bench = Bench(
        loads=[IDLE, Load(0.6, 0.5, duration_s=20.0, iops=1000, shape=burst)],
        meters=fast(10.0),
        noise_pct=0.0,
    )
    summary = summarise(synthetic_run.build(tmp_path, bench).record)
    phase = summary.phases[1]
    found = {one.window_s: one for one in phase.power_envelope}
    assert [one.window_s for one in phase.power_envelope] == list(WINDOWS_S)
    rails = phase.rails["12V"].power_envelope, phase.rails["3V3"].power_envelope
    second = found[1.0]
    assert second.watts is not None and second.begin_ns is not None
    # wholly in the burst: 12 V · (0.25 + 3 · 0.35) A and 3.3 V · (0.3 + 3 · 0.2) A, less the sag
    high = phase.watts_series.max if phase.watts_series else 0.0
    assert second.watts.value == pytest.approx(high, rel=2e-3)
    assert 5.0 - 0.1 <= (second.begin_ns - phase.begin_ns) / S <= 6.5 + 0.1
    ten = found[10.0].watts
    assert ten is not None and phase.watts is not None
    assert second.watts.value > ten.value > phase.watts.value
    for window_s, one in found.items():
        parts = [next(item for item in rail if item.window_s == window_s) for rail in rails]
        if one.watts is not None:
            sums = sum(part.watts.value for part in parts if part.watts is not None)
            assert sums == pytest.approx(one.watts.value, rel=1e-3)
    assert "too slow: at least 10 a window" in found[0.1].why and found[0.1].watts is None
    assert found[60.0].why == "the phase lasts 20 s"
    row = list(csv.DictReader(io.StringIO(phases_csv(summary))))[1]
    assert float(row["max_watts_1s"]) == second.watts.value
    assert float(row["max_watts_1s_u"]) == second.watts.u
    assert row["max_watts_100us"] == "" == row["max_watts_60s_12V"]
    assert float(row["max_watts_10s_3V3_u"]) > 0
    chart = envelope_chart(summary)
    assert chart is not None
    assert "100 µs, 1 ms, 10 ms, 100 ms: i12.current: a reading each 100 ms" in chart.caption


def test_a_gap_blocks_windows_and_says_for_how_long(tmp_path: Path) -> None:
    lossy = fast(10.0)
    for name in ("v12.voltage", "i12.current"):
        lossy[name] = Meter(rate_hz=10.0, duty=0.99, lost=((20.0, 21.0),))
    bench = Bench(loads=[IDLE, Load(0.6, 0.5, duration_s=20.0)], meters=lossy)
    phase = summarise(synthetic_run.build(tmp_path, bench).record).phases[1]
    found = {one.window_s: one for one in phase.power_envelope}
    assert 1.8 < found[1.0].blocked_s < 2.4  # a second before it, and it itself
    assert found[10.0].watts is None or found[10.0].blocked_s > 8
    of_other = {one.window_s: one for one in phase.rails["3V3"].power_envelope}
    assert of_other[1.0].blocked_s == 0.0


@pytest.mark.parametrize("lost", [(0.0, 1.9), (18.1, 20.0), (0.0, 0.35)])
def test_readings_that_are_missing_at_an_edge_of_the_phase_block_windows(
    tmp_path: Path, lost: tuple[float, float]
) -> None:
    """What was drawn there is not known either: a limit must not pass for it."""
    meters = fast(10.0)
    loads = [IDLE, Load(0.6, 0.5, duration_s=20.0)]
    whole = summarise(synthetic_run.build(tmp_path / "a", Bench(loads=loads, meters=meters)).record)
    for one in whole.phases[1].power_envelope:
        assert one.blocked_s == 0.0
    begin_s = (whole.phases[1].begin_ns - synthetic_run.EPOCH_NS) / S
    gap = (begin_s + lost[0], begin_s + lost[1])
    for name in ("v12.voltage", "i12.current"):
        meters[name] = Meter(rate_hz=10.0, duty=0.99, lost=(gap,))
    phase = summarise(
        synthetic_run.build(tmp_path / "b", Bench(loads=loads, meters=meters)).record
    ).phases[1]
    length = lost[1] - lost[0]
    found = {one.window_s: one for one in phase.power_envelope}
    assert found[1.0].blocked_s == pytest.approx(length, abs=0.25)
    of_rails = {name: rail.power_envelope for name, rail in phase.rails.items()}
    blocked = {
        name: next(one.blocked_s for one in found if one.window_s == 1.0)
        for name, found in of_rails.items()
    }
    assert blocked == {"12V": pytest.approx(length, abs=0.25), "3V3": 0.0}
    missing = {name: rail.missing_s for name, rail in phase.rails.items()}
    assert missing == {"12V": pytest.approx(length, abs=0.25), "3V3": 0.0}


def one_phase(rng: np.random.Generator, noise: float, gain: float) -> tuple[WindowMaximum, float]:
    """The largest 10 ms of 2 s of a load that wanders, read 2,000 times a second with noise."""
    n = 4000
    truth = 1.0 + np.cumsum(rng.normal(size=n)) * 2e-3
    t = np.arange(n) * 500_000 + 250_000
    info = {
        "quantity": "current", "unit": "A", "interval_s": 5e-4, "aperture_s": 5e-4,
        "accuracy_of_reading": 5e-4, "accuracy_floor": noise,
    }  # fmt: skip
    read = truth * (1 + gain) + noise * rng.normal(size=n)
    amps = ChannelSeries(ChannelInfo("i.current", **info), t, read, ClockMap())
    volts = ChannelSeries(ChannelInfo("v.voltage", **info), t, np.full(n, 12.0), ClockMap())
    rail = RailSeries(RailInfo("12V", 12.0, "v.voltage", "i.current"), volts, amps)
    power = phase_power([rail], 0, 2 * S, 0, windows=True).rails["12V"]
    result = rail_result(power, 2.0, 0.0, 0)
    found = next(one for one in result.power_envelope if one.window_s == 10e-3)
    sums = np.concatenate([[0.0], np.cumsum(truth)])
    return found, 12.0 * float((sums[20:] - sums[:-20]).max()) / 20


@pytest.mark.parametrize("noise", [0.0, 2e-3, 2e-2])
def test_u_of_a_maximum_holds(noise: float) -> None:
    """With noise the largest of 200 windows is one whose error is high: its U covers that. Gains
    anywhere in the limits, also at their end."""
    rng = np.random.default_rng(11)
    covered = []
    for gain in np.linspace(-5e-4, 5e-4, 41):
        found, truth = one_phase(rng, noise, float(gain))
        assert found.watts is not None
        covered.append(found.watts.covers(truth))
        assert found.watts.u < 0.01 * truth + 40 * noise
    assert sum(covered) >= 39


def test_windows_are_searched_only_where_they_are_asked_for() -> None:
    info = ChannelInfo("c", "current", "A", interval_s=0.1, aperture_s=0.1)
    t = np.arange(100) * S // 10
    channel = ChannelSeries(info, t, np.ones(100), ClockMap())
    rail = RailSeries(RailInfo("12V", 12.0, "c", "c"), channel, channel)
    assert phase_power([rail], 0, 10 * S, 0).rails["12V"].windows is None
