"""The watts that are shown and watched are those that the summary would give of the same time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from instruments.reading import Batch, Block, Status, StatusReading
from labctl.analysis.power.phase_power import phase_power
from labctl.analysis.readings.channel_series import ChannelSeries, RailSeries
from labctl.analysis.readings.clock_fit import ClockMap
from labctl.capture.meters.acquisition import State
from labctl.capture.meters.live_values import STALE_S, LiveRail, Monitor
from labctl.record.header import ChannelInfo, HostPowerInfo, RailInfo
from labctl.record.layout import CLOCK_PAIR, READING
from labctl.service.runs.run_view import RunView
from tests.unit.synthetic_run import Bench, build

S = 1_000_000_000
RAIL = RailInfo("12V", 12.0, "v.voltage", "i.current")


def info(name: str, clock: str = "host", interval_s: float = 0.1) -> ChannelInfo:
    quantity = name.partition(".")[2]
    return ChannelInfo(name, quantity, "", clock=clock, interval_s=interval_s)


class Watched:
    """A rail whose meters have handed over what they read in the last second and a half."""

    def __init__(self, ahead_ns: int = 0, interval_s: float = 0.1) -> None:
        self.now_ns = 100 * S
        self.monitor = Monitor(lambda: self.now_ns)
        clock = "device" if ahead_ns else "host"
        channels = [info("v.voltage", clock, interval_s), info("i.current", clock, interval_s)]
        self.monitor.describe((RAIL,), {}, channels, 1)
        self._ahead_ns = ahead_ns

    def read(self, channel: str, t_ns: np.ndarray, values: np.ndarray) -> None:
        """Blocks of seven readings; each comes when its last reading was made."""
        instrument, _, name = channel.partition(".")
        for begin in range(0, len(t_ns), 7):
            part = slice(begin, begin + 7)
            self.now_ns = int(t_ns[part][-1])
            block = Block(name, t_ns[part] - self._ahead_ns, values[part])
            self.monitor.batch(instrument, Batch((block,)))

    @property
    def rail(self) -> LiveRail:
        return self.monitor.view().rails["12V"]


def uneven() -> tuple[np.ndarray, np.ndarray]:
    """Half of the time 0.5 A each 20 ms, half 1 A each 10 ms."""
    slow, fast = np.arange(0.0, 0.5, 0.02), np.arange(0.5, 1.0, 0.01)
    t = 99.0 + np.concatenate([slow, fast, [1.0]])
    return np.rint(t * S).astype(np.int64), np.where(t < 99.495, 0.5, 1.0)


@pytest.mark.parametrize("ahead_ns", [0, 7 * S])
def test_watts_are_weighed_by_time_and_of_volts_at_the_same_instants(ahead_ns: int) -> None:
    watched = Watched(ahead_ns, interval_s=0.01)
    t_ns, amps = uneven()
    t_volts = t_ns[::2]
    volts = np.interp(t_volts, t_ns, 12.4 - 0.8 * amps)
    watched.read("v.voltage", t_volts, volts)
    watched.read("i.current", t_ns, amps)
    rail = watched.rail
    assert rail.watts == pytest.approx(0.5 * 0.5 * 12.0 + 0.5 * 1.0 * 11.6, rel=0.02)
    assert rail.amps == pytest.approx(0.75, rel=0.02), "plain mean: 0.83 A"
    assert rail.volts is not None
    assert abs(rail.volts * rail.amps - rail.watts) > 0.03, "the rail sags while it draws more"


def test_they_are_those_of_a_phase_of_the_same_readings_to_the_last_digit() -> None:
    watched = Watched(interval_s=0.01)
    t_ns, amps = uneven()
    volts = 12.4 - 0.8 * amps
    watched.read("v.voltage", t_ns, volts)
    watched.read("i.current", t_ns, amps)
    series = RailSeries(
        RAIL,
        ChannelSeries(info("v.voltage"), t_ns, volts, ClockMap()),
        ChannelSeries(info("i.current"), t_ns, amps, ClockMap()),
    )
    shown = watched.rail
    first = t_ns[t_ns > t_ns[-1] - S][0]
    power = phase_power([series], int(first), int(t_ns[-1]), 0).rails["12V"]
    found = (power.volts.mean, power.amps.mean, power.watts.mean)
    assert (shown.volts, shown.amps, shown.watts) == found


def test_what_is_old_or_has_a_status_is_not_shown() -> None:
    watched = Watched()
    t_ns, amps = uneven()
    watched.read("v.voltage", t_ns, 12.0 + 0 * amps)
    watched.read("i.current", t_ns, amps)
    assert watched.rail.watts is not None
    overload = StatusReading("current", watched.now_ns, Status.OVERLOAD)
    watched.monitor.batch("i", Batch(statuses=(overload,)))
    assert watched.rail == LiveRail(pytest.approx(12.0), None, None)
    watched.now_ns += round(STALE_S * S) + 1
    assert watched.rail == LiveRail(None, None, None)


def test_a_slow_meter_shows_its_last_two_readings_and_a_fast_one_little_more() -> None:
    slow = Watched(interval_s=2.0)
    t_ns = np.arange(90, 100, 2, dtype=np.int64) * S
    slow.read("v.voltage", t_ns, np.full(5, 12.0))
    slow.read("i.current", t_ns, np.array([9.0, 9.0, 9.0, 1.0, 2.0]))
    assert slow.rail.amps == pytest.approx(1.5)
    fast = Watched(interval_s=1e-5)
    t_ns = 99 * S + np.arange(50_000, dtype=np.int64) * 10_000
    fast.read("v.voltage", t_ns, np.full(50_000, 12.0))
    fast.read("i.current", t_ns, np.arange(50_000.0))
    assert fast.rail.amps == pytest.approx(50_000 - 4096 / 2, rel=1e-3)


@pytest.fixture
def on_disk(tmp_path: Path) -> Callable[..., LiveRail]:
    def shown(looked: bool) -> LiveRail:
        run = build(tmp_path / str(looked), Bench()).path
        look = RunView(run)
        name = next(iter(look.view().rails))
        rail = next(one for one in look.header.rails if one.name == name)
        t_ns, amps = uneven()
        begin_ns = look.now_ns() - int(t_ns[-1])
        for channel, values in ((rail.voltage, 12.4 - 0.8 * amps), (rail.current, amps)):
            found = np.zeros(len(t_ns), READING)
            found["t"], found["v"] = t_ns + begin_ns, values
            file = run / "channels" / channel
            pair = np.array([(int(found["t"][-1]), int(found["t"][-1]), 0)], CLOCK_PAIR)
            pair[: 1 if looked else 0].tofile(file.with_name(f"{channel}.clock"))
            found.tofile(file)
            os.utime(file)
        return look.view().rails[name]

    return shown


@pytest.mark.parametrize("looked", [True, False])
def test_status_and_watch_show_the_same_from_the_files(
    on_disk: Callable[..., LiveRail], looked: bool
) -> None:
    assert on_disk(looked).watts == pytest.approx(0.25 * 12.0 + 0.5 * 11.6, rel=0.02)


def test_a_temperature_is_the_newest_reading_and_no_mean_that_comes_late_to_its_limit() -> None:
    now_ns = 100 * S
    monitor = Monitor(lambda: now_ns)
    monitor.describe((), {"composite": "t.composite"}, [info("t.composite", interval_s=10.0)], 1)
    for seconds, celsius in ((80, 40.0), (90, 50.0), (100, 60.0)):
        now_ns = seconds * S
        block = Block("composite", np.array([now_ns]), np.array([celsius]))
        monitor.batch("t", Batch((block,)))
        assert monitor.view().celsius == {"composite": celsius}


def test_watts_of_the_host_are_shown_beside_the_drive_s_and_are_in_no_rail(tmp_path: Path) -> None:
    watched = Watched()
    channels = [info("v.voltage"), info("i.current"), info("bmc.power", interval_s=1.0)]
    watched.monitor.describe((RAIL,), {}, channels, 1, (HostPowerInfo("rack", "bmc.power"),))
    t_ns, amps = uneven()
    watched.read("bmc.power", 98 * S + np.arange(3) * S, np.array([200.0, 210.0, 220.0]))
    watched.read("v.voltage", t_ns, np.full(len(t_ns), 12.0))
    watched.read("i.current", t_ns, amps)
    view = watched.monitor.view()
    assert view.host_watts == {"rack": pytest.approx(215.0)}
    assert view.watts == pytest.approx(0.75 * 12.0, rel=0.02)
    watched.now_ns += 4 * S
    assert watched.monitor.view().host_watts == {}
    run = build(tmp_path, Bench(host_watts=lambda seconds: 180.0 + 0.0 * seconds)).path
    look = RunView(run)
    found = np.zeros(3, READING)
    found["t"], found["v"] = look.now_ns() - np.array([2, 1, 0]) * S, [170.0, 180.0, 190.0]
    found.tofile(run / "channels" / "bmc.power")
    assert look.view().host_watts == {"bmc": pytest.approx(185.0)}


def test_what_was_read_before_a_reconnect_is_not_mixed_with_what_comes_after_it() -> None:
    """The device's clock begins anew at 0."""
    watched = Watched(ahead_ns=90 * S)
    watched.read("i.current", np.arange(98, 100, dtype=np.int64) * S, np.array([9.0, 9.0]))
    assert watched.rail.amps == 9.0
    watched.monitor.state("i", State.LOST, "unplugged")
    assert watched.rail.amps is None
    watched.monitor.state("i", State.READING, "")
    t_ns = np.array([0, S // 2, S], np.int64)
    watched.now_ns += S
    watched.monitor.batch("i", Batch((Block("current", t_ns, np.array([1.0, 1.0, 1.0])),)))
    assert watched.rail.amps == 1.0
