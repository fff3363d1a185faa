"""The watts that are handed on while readings come are those of all readings together."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from instruments.reading import Batch, Block
from labctl.analysis.power.volts_times_amps import rail_watts
from labctl.capture.meters.live_watts import GROUP_S, MOST_BLOCKS, MOST_WAITING, LiveWatts
from labctl.record.header import ChannelInfo, RailInfo

S = 1_000_000_000
AHEAD_NS = 7 * S


def info(name: str, clock: str) -> ChannelInfo:
    return ChannelInfo(name, name.partition(".")[2], "", clock=clock, interval_s=0.1)


def handed_on(rail: RailInfo, clock: str, step_s: float) -> tuple[np.ndarray, ...]:
    """What comes of a rail whose readings come in uneven pieces, and all its readings."""
    now_ns = 100 * S
    live = LiveWatts([rail], [info(rail.voltage, clock), info(rail.current, clock)], lambda: now_ns)
    rng = np.random.default_rng(3)
    ends = {rail.voltage: 2.3 * step_s, rail.current: step_s}
    series = {}
    for name, every_s in ends.items():
        t_ns = 100 * S + np.cumsum(rng.uniform(0.5, 1.5, round(20 / every_s)) * every_s * S)
        series[name] = t_ns.astype(np.int64), rng.uniform(1.0, 2.0, len(t_ns))
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for begin_ns in range(100 * S, 125 * S, S // 2):
        for name, (t_ns, values) in series.items():
            part = (t_ns >= begin_ns) & (t_ns < begin_ns + S // 2)
            if part.any():
                now_ns = int(t_ns[part][-1])
                shift_ns = AHEAD_NS if clock == "device" else 0
                block = Block(name.partition(".")[2], t_ns[part] - shift_ns, values[part])
                live.batch(name.partition(".")[0], Batch((block,)))
        found.append(live.take()[rail.name])
    t_ns, watts = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return t_ns, watts, *series[rail.voltage], *series[rail.current]


@pytest.mark.parametrize("clock", ["host", "device"])
@pytest.mark.parametrize(
    "rail",
    [
        RailInfo("12V", 12.0, "v.voltage", "i.current"),
        RailInfo("12V", 12.0, "v.voltage", "i.drop", shunt_ohm=0.1, volts_at="supply"),
    ],
)
def test_pieces_give_what_all_readings_give(rail: RailInfo, clock: str) -> None:
    t_ns, watts, t_volts, volts, t_amps, amps = handed_on(rail, clock, 0.1)
    amps = amps / rail.shunt_ohm if rail.shunt_ohm else amps
    known = t_amps <= t_volts[-1]
    wanted = rail_watts(
        t_amps[known].astype(np.float64), amps[known], t_volts.astype(np.float64), volts,
        math.inf, rail.drop_ohm,
    )[1]  # fmt: skip
    assert np.allclose(watts[: len(wanted)], wanted[: len(watts)], rtol=1e-9)
    assert len(wanted) - len(watts) <= 3
    assert np.abs(t_ns - t_amps[: len(t_ns)]).max() < 1e-3 * S


def test_readings_of_a_fast_meter_come_as_means() -> None:
    rail = RailInfo("12V", 12.0, "v.voltage", "i.current")
    t_ns, watts, _, volts, _, amps = handed_on(rail, "host", 0.001)
    assert len(t_ns) <= 20 / GROUP_S + 60
    whole = (volts.mean() * amps).mean()
    assert watts.mean() == pytest.approx(whole, rel=0.01)


def test_a_meter_that_was_away_begins_anew() -> None:
    """Its clock, too: what came before is not put together with what comes now."""
    rail = RailInfo("12V", 12.0, "v.voltage", "i.current")
    now_ns = 100 * S
    live = LiveWatts(
        [rail], [info("v.voltage", "device"), info("i.current", "device")], lambda: now_ns
    )
    for clock_ns in (0, 50 * S):
        for name in ("v", "i"):
            channel = "voltage" if name == "v" else "current"
            times = np.array([clock_ns + S, clock_ns + 2 * S])
            live.batch(name, Batch((Block(channel, times, np.array([2.0, 2.0])),)))
        t_ns, watts = live.take()["12V"]
        assert t_ns.tolist() == [99 * S, 100 * S] and watts.tolist() == [4.0, 4.0]
        live.away("v")
        live.away("i")
    assert len(live.take()["12V"][0]) == 0


@pytest.mark.parametrize(("length", "blocks"), [(1, 4 * MOST_BLOCKS), (MOST_WAITING // 4, 16)])
def test_readings_that_nobody_takes_do_not_pile_up(length: int, blocks: int) -> None:
    """No point of most plans ends early, and nothing asks for its watts all night."""
    rail = RailInfo("12V", 12.0, "v.voltage", "i.current")
    live = LiveWatts([rail], [info("v.voltage", "host"), info("i.current", "host")], lambda: 0)

    def come(first: int, last: int) -> None:
        for number in range(first, last):
            t_ns = np.arange(number * length, (number + 1) * length, dtype=np.int64)
            for name, channel in (("v", "voltage"), ("i", "current")):
                live.batch(name, Batch((Block(channel, t_ns, np.ones(length)),)))

    tracemalloc.start()
    try:
        come(0, blocks)
        before = tracemalloc.get_traced_memory()[0]
        come(blocks, 6 * blocks)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 17 * 2 * min(5 * blocks * length, MOST_WAITING), "16 bytes of a reading"
    assert live.take()["12V"][0][-1] == 6 * blocks * length - 1
