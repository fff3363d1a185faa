"""What throttling is judged by, as a run gives it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.power.phase_power import phase_power
from labctl.analysis.readings.channel_series import ChannelSeries, channel_series, rail_series
from labctl.analysis.readings.phase_spans import phase_spans
from labctl.analysis.throttling.run_signals import run_signals
from labctl.analysis.throttling.temperature import SensorReadings
from labctl.record.reader import RunRecord
from tests.unit.synthetic_run import Bench, Load, Meter, build

NS = 1_000_000_000


@pytest.mark.parametrize("seconds", [1, 5])
def test_watts_of_a_second_need_no_fast_voltmeter(seconds: int, tmp_path: Path) -> None:
    """A rail's volts hardly change: a voltmeter that reads twice a second is enough."""
    slow = Meter(rate_hz=2.0, duty=1.0)
    made = build(tmp_path, Bench([Load(2.0, 0.5, 20.0, 50_000.0)], meters={"v3.voltage": slow}))
    record = RunRecord(made.path)
    channels: dict[str, ChannelSeries] = {
        info.name: channel_series(record, info) for info in record.header.channels
    }
    rails = [rail_series(info, channels) for info in record.header.rails]
    known = [rail for rail in rails if rail is not None]
    spans = phase_spans(record, record.events[-1].t_ns)
    (phase,) = run_signals(record, known, channels, spans, [], None)
    begin_ns = phase.begin_ns + 10 * NS
    end_ns = begin_ns + seconds * NS
    measured = phase_power(known, begin_ns, end_ns, 0).total
    assert (measured is None) == (seconds == 1), "too short to be measured with its uncertainty"
    assert phase.watts_between(begin_ns, end_ns) == pytest.approx(made.mean_watts[0], rel=0.02)
    assert phase.watts_between(begin_ns, begin_ns + NS // 100) is None


def test_the_nearest_reading_stands_in_where_there_is_none() -> None:
    """Read at 10 and 20 s: 11 s is next to the one before it, 19 s to the one after it."""
    seconds = 1_000_000_000
    sensor = SensorReadings("drive", True, np.array([10, 20]) * seconds, np.array([40.0, 70.0]))
    for at_s, celsius in ((5, 40.0), (11, 40.0), (19, 70.0), (25, 70.0)):
        assert sensor.between(at_s * seconds, at_s * seconds + 1).tolist() == [celsius]
