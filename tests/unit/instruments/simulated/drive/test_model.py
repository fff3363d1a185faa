"""The model of the simulated drive, under a fake clock."""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruments.simulated.drive.model import GRANULE_BYTES, TICK_NS, Burst, DriveModel
from instruments.simulated.drive.parameters import load
from instruments.simulated.drive.state_ring import TICK

SPAN_BYTES = 16_000_000_000 // 4096 * 4096
QUIET = {"power.noise_watts": 0, "jitter.sigma": 0, "jitter.tail_share": 0}
COLD = {"thermal.ambient_celsius": -60}


class Load:
    """Keeps a queue depth full, on a fake clock: what fio does."""

    def __init__(self, overrides: Mapping[str, object] | None = None, seed: int = 1) -> None:
        self.parameters = load(overrides=overrides)
        self.ssd = DriveModel(self.parameters, seed, 0)
        self.ticks: list[tuple[float, ...]] = []
        self._random = random.Random(seed)
        self._position = 0

    def idle(self, seconds: float) -> None:
        for _ in range(round(seconds * 1000)):
            self.ticks.append(self.ssd.tick())

    def run(self, pattern: str, block: int, queue_depth: int, seconds: float) -> float:
        """IOPS over the time given."""
        begin_ns = now = self.ssd.t_ns
        end_ns = begin_ns + round(seconds * 1e9)
        due: list[tuple[int, int]] = []
        completed = 0
        for _ in range(queue_depth):
            heapq.heappush(due, self._submit(pattern, block, now))
        while due:
            now, kind = heapq.heappop(due)
            while self.ssd.t_ns + TICK_NS <= now:
                self.ticks.append(self.ssd.tick())
            self.ssd.complete(kind, block, now)
            if now < end_ns:
                completed += 1
                heapq.heappush(due, self._submit(pattern, block, now))
        self.idle(0.001)
        return completed / seconds

    def watts(self, begin_s: float, end_s: float) -> float:
        ticks = np.array(self.ticks, dtype=TICK)
        joules = ticks["joules_12V"] + ticks["joules_3V3"]
        begin, end = np.searchsorted(ticks["t_ns"], [begin_s * 1e9, end_s * 1e9])
        return float(
            (joules[end] - joules[begin]) / (ticks["t_ns"][end] - ticks["t_ns"][begin]) * 1e9
        )

    def _submit(self, pattern: str, block: int, now: int) -> tuple[int, int]:
        if pattern.startswith("rand"):
            offset = self._random.randrange(SPAN_BYTES // block) * block
        else:
            offset = self._position % (SPAN_BYTES // block * block)
            self._position = offset + block
        submit = self.ssd.submit_write if "write" in pattern else self.ssd.submit_read
        return submit(now, offset, block)


def test_random_read_rises_with_queue_depth_and_saturates() -> None:
    drive = Load(QUIET)
    divisor = drive.parameters.speed_divisor
    iops = {depth: drive.run("randread", 4096, depth, 0.3) for depth in (1, 2, 4, 8, 16, 32, 512)}
    assert all(more > 1.15 * less for less, more in pairwise(iops.values()))
    assert iops[1] == pytest.approx(1e6 / (72.7 + 12) / divisor, rel=0.02)
    assert iops[32] > 200e3 / divisor
    assert 0.9 * 440e3 / divisor < iops[512] < 1.001 * 440e3 / divisor


@pytest.mark.parametrize(
    ("pattern", "block", "limit"),
    [
        ("read", 131_072, 2.4e9 / 131_072),
        ("write", 131_072, 1.2e9 / 131_072),
        ("randwrite", 4096, 290e3),
    ],
)
def test_bandwidth_and_write_limits(pattern: str, block: int, limit: float) -> None:
    drive = Load({**QUIET, **COLD})
    iops = drive.run(pattern, block, 32, 1.0)
    assert iops == pytest.approx(limit / drive.parameters.speed_divisor, rel=0.03)


def test_sequential_small_reads_are_faster_than_random_ones() -> None:
    assert Load(QUIET).run("read", 4096, 1, 0.3) > 2 * Load(QUIET).run("randread", 4096, 1, 0.3)


def test_writes_delay_reads_of_the_same_dies() -> None:
    drive = Load(QUIET)
    alone, _ = drive.ssd.submit_read(0, 0, 4096)
    busy = Load(QUIET)
    busy.ssd.submit_write(0, 1 << 20, 32 * 65536)
    behind, _ = busy.ssd.submit_read(0, 0, 4096)
    assert behind >= alone + 400e3 * drive.parameters.speed_divisor
    some = Load(QUIET)
    for _ in range(31):  # one die after the other
        some.ssd.submit_write(0, 0, 65536)
    assert some.ssd.submit_read(0, 30 * 32768, 4096)[0] >= behind
    assert some.ssd.submit_read(0, 31 * 32768, 4096)[0] < behind


def test_a_request_over_more_stripes_than_dies_occupies_each_die_in_turn() -> None:
    drive = Load({**QUIET, "controller.read_bytes_per_s": 1e15})
    one, _ = drive.ssd.submit_read(0, 0, 32 * 32768)
    other = Load({**QUIET, "controller.read_bytes_per_s": 1e15})
    three, _ = other.ssd.submit_read(0, 0, 65 * 32768)
    overhead = 12e3 * drive.parameters.speed_divisor
    assert three - overhead == pytest.approx(3 * (one - overhead), rel=1e-6)


def test_reads_of_unwritten_addresses_are_faster_and_cost_less() -> None:
    empty, full = Load({**QUIET, "identity.starts_full": False}), Load(QUIET)
    assert empty.run("randread", 4096, 1, 0.2) > 3 * full.run("randread", 4096, 1, 0.2)
    joules = []
    for drive in (empty, full):
        before = drive.ticks[-1][5]
        for _ in range(1000):
            _, kind = drive.ssd.submit_read(drive.ssd.t_ns, 0, 4096)
            drive.ssd.complete(kind, 4096, drive.ssd.t_ns)
        drive.idle(0.1)
        joules.append(drive.ticks[-1][5] - before)
    assert joules[0] < joules[1]


def test_written_is_read_from_nand_until_it_is_trimmed() -> None:
    drive = Load({**QUIET, "identity.starts_full": False}).ssd
    far = 50 * 10**9 // 4096 * 4096

    def latency() -> int:
        now = drive.t_ns
        due, _ = drive.submit_read(now, far, 4096)
        for _ in range(100):
            drive.tick()
        return due - now

    unwritten = latency()
    drive.submit_write(drive.t_ns, far, 4096)
    written = latency()
    into_next = 2 * GRANULE_BYTES - far % GRANULE_BYTES
    drive.submit_trim(drive.t_ns, far + 4096, into_next - 4096)  # frees the next granule only
    assert latency() == written > unwritten
    drive.submit_trim(drive.t_ns, far - (1 << 20), 2 << 20)
    assert latency() == unwritten


def test_a_flush_waits_for_the_writes_before_it() -> None:
    drive = Load(QUIET).ssd
    write, _ = drive.submit_write(0, 0, 8 << 20)
    flush, _ = drive.submit_flush(0)
    assert flush > write


def test_the_same_seed_gives_the_same_ticks() -> None:
    def ticks(seed: int) -> list[tuple[float, ...]]:
        drive = Load(seed=seed)
        drive.run("randread", 4096, 8, 0.1)
        return drive.ticks

    assert ticks(7) == ticks(7)
    assert ticks(7) != ticks(8)


def test_jitter_spreads_latencies_without_moving_their_mean() -> None:
    spread, even = Load({"jitter.tail_share": 0}), Load(QUIET)
    assert spread.run("randread", 4096, 1, 2) == pytest.approx(
        even.run("randread", 4096, 1, 2), rel=0.01
    )


@pytest.mark.parametrize(
    ("pattern", "block", "watts"),
    [("read", 131_072, 10.0), ("write", 131_072, 21.7), ("randwrite", 4096, 22.0)],
)
def test_watts_of_the_reference_drive(pattern: str, block: int, watts: float) -> None:
    drive = Load(COLD)
    drive.idle(1)
    assert drive.watts(0.01, 0.99) == pytest.approx(4.0, abs=0.02)
    drive.run(pattern, block, 32, 1)
    assert drive.watts(1.1, 1.9) == pytest.approx(watts, abs=0.3)


operation = st.tuples(
    st.sampled_from(["read", "write", "trim"]),
    st.integers(0, 1 << 20),
    st.integers(1, 256),
    st.integers(0, 5),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(operation, max_size=40))
def test_every_joule_of_every_operation_reaches_the_rails(
    operations: list[tuple[str, int, int, int]],
) -> None:
    drive = Load({**QUIET, "power.active_watts": 0, "write_cache.drain_watts": 0})
    power, slow = drive.parameters.power, drive.parameters.speed_divisor
    ssd, expected = drive.ssd, 0.0
    for name, sector, sectors, ticks in operations:
        offset, length, now = sector * 4096, sectors * 4096, ssd.t_ns
        if name == "read":
            _, kind = ssd.submit_read(now, offset, length)
            expected += power.read_operation_uj * 1e-6 + power.read_byte_nj * 1e-9 * length
        elif name == "write":
            _, kind = ssd.submit_write(now, offset, length)
            expected += power.write_operation_uj * 1e-6 + power.write_byte_nj * 1e-9 * length
        else:
            offset = length = 4096  # less than a granule: nothing becomes unwritten
            _, kind = ssd.submit_trim(now, offset, length)
            expected += power.trim_operation_uj * 1e-6
        ssd.complete(kind, length, now)
        drive.idle(ticks / 1000)
    drive.idle(0.1)
    seconds = ssd.t_ns * 1e-9
    total = drive.ticks[-1][5] + drive.ticks[-1][6]
    assert total == pytest.approx(power.idle_watts * seconds + expected * slow, rel=1e-9)


def test_a_late_completion_is_paid_when_it_happens() -> None:
    drive = Load({**QUIET, "power.active_watts": 0})
    drive.idle(0.01)
    due, kind = drive.ssd.submit_read(drive.ssd.t_ns, 0, 65536)
    drive.idle(0.05)  # the process sleeps far past the due time
    assert due < drive.ssd.t_ns
    before = drive.ticks[-1]
    assert before[5] + before[6] == pytest.approx(4.0 * 0.06)
    drive.ssd.complete(kind, 65536, drive.ssd.t_ns)
    drive.idle(0.02)
    after = drive.ticks[-1]
    assert after[5] + after[6] > 4.0 * 0.08 + 1e-4


def test_rails_droop_under_constant_power() -> None:
    overrides = {f"rails.{rail}.ripple_volts": 0 for rail in ("rail_12v", "rail_3v3")}
    drive = Load({**QUIET, **overrides})
    drive.run("write", 131_072, 32, 0.5)
    ticks = np.array(drive.ticks, dtype=TICK)
    for name, rail in (
        ("12V", drive.parameters.rails.rail_12v),
        ("3V3", drive.parameters.rails.rail_3v3),
    ):
        volts = np.diff(ticks[f"volt_seconds_{name}"]) / 1e-3
        amps = np.diff(ticks[f"coulombs_{name}"]) / 1e-3
        watts = np.diff(ticks[f"joules_{name}"]) / 1e-3
        np.testing.assert_allclose(volts, rail.volts - rail.ohms * amps, rtol=1e-9)
        np.testing.assert_allclose(volts * amps, watts, rtol=1e-6)
        assert volts.min() < volts.max()


def test_temperatures_settle_where_the_resistances_say() -> None:
    drive = Load({**QUIET, "power.idle_watts": 8})
    heat = drive.parameters.thermal
    drive.idle(0.5)
    assert drive.ssd.case_celsius == pytest.approx(25 + 8 * heat.case_to_ambient_kelvin_per_watt)
    assert drive.ssd.composite_celsius - drive.ssd.case_celsius == pytest.approx(
        8 * heat.composite_to_case_kelvin_per_watt
    )


def _hot(**overrides: object) -> Load:
    """Reaches both throttle levels within a second or two of writing."""
    fast = {"thermal.composite_joules_per_kelvin": 0.2, "thermal.case_joules_per_kelvin": 0.3}
    return Load({**QUIET, **fast, **{key.replace("__", "."): v for key, v in overrides.items()}})


def test_throttling_slows_the_io_and_ends_with_hysteresis() -> None:
    drive = _hot()
    drive.run("write", 131_072, 32, 5)
    drive.idle(2)
    ticks = np.array(drive.ticks, dtype=TICK)
    levels, celsius = ticks["throttle_level"], ticks["celsius_composite"]
    assert set(levels) == {0, 1, 2}
    changes = np.flatnonzero(np.diff(levels)) + 1
    edges = {
        (0, 1): lambda t: t >= 70,
        (1, 2): lambda t: t >= 75,
        (2, 1): lambda t: t <= 72,
        (1, 0): lambda t: t <= 67,
    }
    for change in changes:
        step = (int(levels[change - 1]), int(levels[change]))
        assert edges[step](celsius[change]), (step, celsius[change])
    rates = []
    for level in (0, 1, 2):
        begin = int(np.flatnonzero(levels == level)[0])
        end = int(changes[changes > begin][0])
        settled = begin + min(120, (end - begin) // 2)  # what was queued is done by then
        written = int(ticks["written_bytes"][end - 1] - ticks["written_bytes"][settled])
        rates.append(written / (end - 1 - settled))
    assert rates[1] == pytest.approx(0.5 * rates[0], rel=0.15)
    assert rates[2] == pytest.approx(0.2 * rates[0], rel=0.25)
    assert drive.ssd.transitions[1] == 1
    assert drive.ssd.transitions[2] == np.count_nonzero((levels[1:] == 2) & (levels[:-1] != 2))


def test_the_shipped_drive_throttles_writing_within_15_s_and_never_reading() -> None:
    drive = Load()
    drive.run("write", 131_072, 32, 16)
    first = next(tick[0] for tick in drive.ticks if tick[9])
    assert 8e9 < first < 15e9
    drive = Load()
    drive.run("read", 131_072, 32, 20)
    assert not any(tick[9] for tick in drive.ticks)
    rise = drive.watts(15, 20) * (1.4 + 2.6)
    assert 25 + rise < drive.parameters.throttle.light.enter_celsius


def test_the_write_cache_ends_and_refills_when_idle() -> None:
    cache = {"write_cache.capacity_bytes": 100_000_000, "write_cache.drain_delay_s": 0.1}
    drive = Load({**QUIET, **COLD, **cache, "write_cache.drain_bytes_per_s": 1e9})
    fast = drive.run("write", 131_072, 8, 0.4)
    drive.run("write", 131_072, 8, 0.3)
    after = drive.run("write", 131_072, 8, 0.4)
    assert after == pytest.approx(0.55 * fast, rel=0.05)
    drive.idle(0.3)
    assert drive.run("write", 131_072, 8, 0.4) == pytest.approx(fast, rel=0.05)


COLLECTING = {
    "garbage_collection.spare_bytes": 20_000_000,
    "garbage_collection.cliff_recovery_s": 0.5,
    "garbage_collection.dip_period_s": 2.0,
    "garbage_collection.dip_s": 0.5,
}


def test_random_writes_fall_off_a_cliff_settle_and_dip() -> None:
    drive = Load({**QUIET, **COLD, **COLLECTING})
    fresh = drive.run("randwrite", 4096, 32, 0.05)
    drive.run("randwrite", 4096, 32, 8)
    ticks = np.array(drive.ticks, dtype=TICK)
    per_100_ms = np.diff(ticks["writes"][::100])
    settled = 22.5e3 / drive.parameters.speed_divisor / 10
    assert fresh > 10 * settled * 10
    assert per_100_ms[3] < 0.85 * settled
    later = per_100_ms[25:80]
    dips = later < 0.6 * settled
    assert np.median(later[~dips]) == pytest.approx(settled, rel=0.05)
    assert np.median(later[dips]) == pytest.approx(0.4 * settled, rel=0.1)
    assert np.count_nonzero(np.diff(dips.astype(int)) == 1) == 3  # one in 2 s


def test_sequential_writes_need_no_garbage_collection() -> None:
    drive = Load({**QUIET, **COLD, **COLLECTING})
    before = drive.run("write", 131_072, 8, 0.3)
    assert drive.run("write", 131_072, 8, 0.3) == pytest.approx(before, rel=0.02)


def test_trim_gives_the_spare_back() -> None:
    drive = Load({**QUIET, **COLD, **COLLECTING})
    drive.run("randwrite", 4096, 32, 0.5)
    slow = drive.run("randwrite", 4096, 32, 0.2)
    _, kind = drive.ssd.submit_trim(drive.ssd.t_ns, 0, drive.parameters.identity.capacity_bytes)
    drive.ssd.complete(kind, 0, drive.ssd.t_ns)
    drive.idle(0.05)
    assert drive.run("randwrite", 4096, 32, 0.05) > 5 * slow


def test_bursts_end_after_3_ms_without_a_request() -> None:
    ssd = Load(QUIET).ssd
    times: list[Burst] = []
    for at_ms, done_ms in ((1, 2), (4, 9), (13, 14)):  # 2 ms after the first, 4 ms after that
        while ssd.t_ns < at_ms * TICK_NS:
            ssd.tick()
        _, kind = ssd.submit_read(at_ms * TICK_NS, 0, 4096)
        while ssd.t_ns < done_ms * TICK_NS:
            ssd.tick()
        ssd.complete(kind, 4096, done_ms * TICK_NS)
    for _ in range(3):
        ssd.tick()
        times += ssd.ended_bursts()
    assert times == [
        Burst(1 * TICK_NS, 9 * TICK_NS, 2),
        Burst(13 * TICK_NS, 14 * TICK_NS, 1),
    ]


def test_a_lower_power_state_limits_the_watts_by_slowing_down() -> None:
    drive = Load(QUIET | COLD)
    free = drive.run("write", 131072, 32, 1.0)
    assert drive.watts(0.3, 0.9) > 20
    limited = {}
    for state, begin_s in ((1, 1.1), (2, 4.1)):
        drive.ssd.power_state = state
        drive.idle(begin_s - drive.ssd.t_ns * 1e-9)
        limited[state] = drive.run("write", 131072, 32, 2.8)
        limit = drive.parameters.identity.lower_max_power_watts[state - 1]
        assert 0.75 * limit < drive.watts(begin_s + 1, begin_s + 2.7) <= limit
    assert limited[2] < 0.6 * limited[1] < 0.6 * free
    drive.ssd.power_state = 0
    drive.idle(0.1)
    assert drive.run("write", 131072, 32, 1.0) == pytest.approx(free, rel=0.05)
