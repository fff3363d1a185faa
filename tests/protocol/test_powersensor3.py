from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from instruments.drivers import powersensor3
from instruments.drivers.powersensor3 import PowerSensor3, PowerSensor3Settings
from instruments.drivers.powersensor3_frames import (
    FrameTimeline,
    Layout,
    find_layout,
    parse_sensor,
    split_powersensor3_frames,
)
from instruments.errors import ConnectionLost, NoAnswer, ProtocolError, SettingRefused
from instruments.reading import EPOCH_NS, Batch, Status
from instruments.simulated.meters.powersensor3 import pack_frames
from tests.protocol.exchange import Clock, ExpectedExchange

ALL = Layout(tuple(range(8)))
VREF, VOLTS_PER_AMP, GAIN = 1.65, 0.132, 0.2


def entry(sensor: int, pair_name: str = "12V", in_use: bool = True, scale: float = 1.0) -> bytes:
    """41 bytes: type[16], pair name[16], float vref, float sensitivity, bool in use."""
    vref, sensitivity = (0.0, GAIN) if sensitivity_is_gain(sensor) else (VREF, VOLTS_PER_AMP)
    return struct.pack(
        "<16s16sff?", b"MLX91221-10A", pair_name.encode(), vref, scale * sensitivity, in_use
    )


def sensitivity_is_gain(sensor: int) -> bool:
    return sensor % 2 == 1


def frame(stamp: int, levels: list[int] | None = None, marked: bool = False) -> bytes:
    """Built from the protocol's bits, not by the code under test."""
    data = bytearray([0xF0 | stamp >> 6 & 0xF, 0x40 | stamp & 0x3F])
    for sensor, level in enumerate(levels or [512] * 8):
        mark = 0x40 if marked and sensor == 0 else 0
        data += bytes([0x80 | sensor << 4 | level >> 6, mark | level & 0x3F])
    return bytes(data)


def stream(count: int, first_us: int = 0, **changes: Any) -> bytes:
    return b"".join(frame((first_us + 50 * i) % 1024, **changes) for i in range(count))


SETTINGS: dict[str, Any] = {
    "port": "/dev/ttyACM0",
    "pairs": [0],
    "voltage_pct_of_reading": 0.5,
    "voltage_floor_volts": 0.01,
    "current_pct_of_reading": 1.0,
    "current_floor_amps": 0.05,
}


def settings_with(**changes: Any) -> PowerSensor3Settings:
    return PowerSensor3Settings.model_validate(SETTINGS | changes)


def opening(table: list[bytes] | None = None) -> list[Any]:
    """The exchange until it is open."""
    entries = table or [entry(sensor) for sensor in range(8)]
    return [
        (b"T", None),
        (b"V", b"F411-1.5.0\r\n"),
        (b"R", entries[0]),
        *((b"s", item) for item in [*entries[1:], b"D"]),
    ]


def meter(
    *arriving: bytes | Exception, table: list[bytes] | None = None, **changes: Any
) -> tuple[PowerSensor3, ExpectedExchange, Clock]:
    line = ExpectedExchange(*opening(table), (b"S", stream(16)))
    clock = Clock()
    instrument = PowerSensor3("ps", settings_with(**changes), clock, line)
    identity = instrument.open()
    assert identity.firmware == "F411-1.5.0"
    instrument.start()
    line._unread = list(arriving)
    return instrument, line, clock


@pytest.fixture(autouse=True)
def _one_read_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(powersensor3, "BATCH_S", 0.0)


def values_of(batch: Batch, channel: str) -> list[float]:
    return [v for block in batch.blocks if block.channel == channel for v in block.values.tolist()]


def reported(batch: Batch) -> list[tuple[Status, int]]:
    return [(status.status, status.count) for status in batch.statuses]


def test_a_frame_byte_by_byte() -> None:
    # 0x2A5 us = 10 100101; sensor 3 at 0x3C1 = 1111 000001
    data = bytes.fromhex("fa65 8000 9000 a000 bf01 c000 d000 e000 f000")
    frames, rest = split_powersensor3_frames(data, ALL)
    assert frames.stamps.tolist() == [0x2A5]
    assert frames.levels.tolist() == [[0, 0, 0, 0x3C1, 0, 0, 0, 0]]
    assert rest == data, "the last frame waits for its successor"
    assert pack_frames([0x2A5], frames.levels) == data


def test_levels_become_amps_and_volts() -> None:
    levels = [614, 744] + [512] * 6
    instrument, line, _ = meter(stream(2, 800, levels=levels))
    with line:
        batch = instrument.read()
    assert values_of(batch, "current_0")[-1] == pytest.approx(
        (3.3 * 614 / 1023 - VREF) / VOLTS_PER_AMP
    )
    assert values_of(batch, "voltage_0")[-1] == pytest.approx(3.3 * 744 / 1023 / GAIN)
    assert not batch.statuses


def test_the_counter_wraps_and_no_frame_comes_twice() -> None:
    pieces = [stream(40, 800), stream(40, 2800)[:333], stream(40, 2800)[333:], stream(2, 4800)]
    instrument, line, _ = meter(*pieces)
    with line:
        batches = [instrument.read() for _ in pieces]
    t_ns = np.concatenate([b.t_ns for batch in batches for b in batch.blocks[:1]])
    assert len(t_ns) == 16 + 40 + 40 + 2 - 1
    assert (np.diff(t_ns) == 50_000).all()
    assert (t_ns // EPOCH_NS == 0).all()
    assert not any(batch.statuses for batch in batches)


def test_lost_bytes_are_counted_and_the_time_goes_on() -> None:
    data = stream(40, 2800)
    cut = data[: 18 * 10 + 5] + data[18 * 13 + 9 :]  # frames 10 to 13 are hit
    instrument, line, clock = meter(stream(40, 800), cut)
    with line:
        clock.now_ns += 2_000_000
        instrument.read()
        clock.now_ns += 2_000_000
        batch = instrument.read()
    assert reported(batch) == [(Status.LOST, 4)]
    t_ns = np.concatenate([b.t_ns for b in batch.blocks if b.channel == "current_0"])
    assert sorted(set(np.diff(t_ns).tolist())) == [50_000, 250_000]


def test_a_loss_longer_than_a_wrap_begins_an_epoch() -> None:
    instrument, line, clock = meter(stream(40, 800), stream(40, 2800 + 30_000 + 37))
    with line:
        clock.now_ns += 2_000_000
        first = instrument.read()
        clock.now_ns += 32_000_000
        second = instrument.read()
    assert not first.statuses
    ((status, lost),) = reported(second)
    assert status is Status.LOST
    assert lost == pytest.approx(600, abs=21), "by the host's clock"
    epochs = [set((b.t_ns // EPOCH_NS).tolist()) for b in second.blocks if b.channel == "current_0"]
    assert epochs[-1] == {1}
    assert second.clock_pairs[-1].device_ns // EPOCH_NS == 1


def test_a_stamp_with_a_wrong_bit_costs_one_frame() -> None:
    data = bytearray(stream(40, 800))
    data[18 * 7] ^= 0x04  # 256 µs off
    instrument, line, clock = meter(bytes(data), stream(2, 2800))
    with line:
        clock.now_ns += 2_000_000
        batch = instrument.read()
        rest = instrument.read()
    assert reported(batch) == [(Status.UNREADABLE, 1)]
    t_ns = np.concatenate(
        [b.t_ns for b in (*batch.blocks, *rest.blocks) if b.channel == "voltage_0"]
    )
    assert sorted(np.diff(t_ns).tolist())[-2:] == [50_000, 100_000]


def test_a_frame_that_comes_twice_is_counted_once() -> None:
    data = stream(10, 800) + frame((800 + 450) % 1024) + stream(10, 1300)
    instrument, line, _ = meter(data)
    with line:
        batch = instrument.read()
    assert reported(batch) == [(Status.DUPLICATE, 1)]
    assert len(values_of(batch, "current_0")) == 16 + 20 - 1


def test_ends_of_a_sensor_are_overloads() -> None:
    levels = [1023, 0] + [512] * 6
    instrument, line, _ = meter(stream(5, 800, levels=levels), stream(5, 1050))
    with line:
        batch = instrument.read()
        assert reported(batch) == [(Status.OVERLOAD, 4)]
        assert values_of(batch, "voltage_0")[-4:] == [0.0] * 4, "no volts are a reading"
        assert reported(instrument.read()) == [(Status.OVERLOAD, 1)]


def test_a_marker_is_reported_and_costs_nothing() -> None:
    instrument, line, _ = meter(stream(3, 800) + frame(950, marked=True) + stream(3, 1000))
    with line:
        batch = instrument.read()
    assert reported(batch) == [(Status.MARKER, 0)]
    assert len(values_of(batch, "current_0")) == 16 + 7 - 1


def test_means_of_frames() -> None:
    rows = [[512 + i % 4] * 8 for i in range(40)]
    data = b"".join(frame((800 + 50 * i) % 1024, row) for i, row in enumerate(rows))
    instrument, line, _ = meter(data, average=4)
    assert instrument.channels[0].interval_s == pytest.approx(200e-6)
    with line:
        batch = instrument.read()
    found = values_of(batch, "voltage_0")
    assert len(found) == (16 + 40 - 1) // 4
    assert found[-1] == pytest.approx(3.3 * 513.5 / 1023 / GAIN)


def test_firmware_that_sends_only_sensors_in_use() -> None:
    layout = Layout((2, 3))
    one = bytes([0xF0, 0x40, 0x80 | 2 << 4 | 8, 1, 0x80 | 3 << 4 | 8, 2])
    two = bytes([0xF0, 0x40 | 50, 0x80 | 2 << 4 | 8, 3, 0x80 | 3 << 4 | 8, 4])
    assert find_layout(b"\x09" + one + two + one) == layout
    frames, _ = split_powersensor3_frames(b"\x09\xff" + one + two, layout)
    assert frames.levels.tolist() == [[513, 514], [515, 516]]
    assert frames.skipped.tolist() == [True, False]


@pytest.mark.parametrize("noise", [b"", b"\xff\x3f", b"hello world, no frames", bytes(400)])
def test_what_is_no_stream(noise: bytes) -> None:
    assert find_layout(noise) is None
    frames, rest = split_powersensor3_frames(noise, ALL)
    assert len(frames) == 0
    assert len(rest) < 18


def test_a_slow_device_sets_its_own_interval() -> None:
    timeline = FrameTimeline()
    stamps = [57 * i % 1024 for i in range(100)]
    frames, _ = split_powersensor3_frames(pack_frames(stamps, np.full((100, 8), 512)), ALL)
    placed = timeline.place(frames, 0)
    assert not placed.gaps
    assert timeline.interval_us == 57


def test_pairs_that_are_not_there() -> None:
    unused = [entry(sensor, in_use=sensor < 2) for sensor in range(8)]
    with pytest.raises(SettingRefused, match=r"pair 1 is not in use \(in use: 0\)"):
        meter(table=unused, pairs=[1])
    with pytest.raises(SettingRefused, match="was a sensor module moved"):
        meter(names=["3V3"])
    with pytest.raises(SettingRefused, match="sensitivity of 0"):
        meter(table=[entry(s, scale=0.0 if s == 1 else 1.0) for s in range(8)])


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"pairs": [0, 0]}, "once"),
        ({"names": ["a", "b"]}, "one name"),
        ({"pairs": [4]}, "less than 4"),
    ],
)
def test_settings_that_cannot_be(bad: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        meter(**bad)


def test_another_device_on_the_port() -> None:
    settings = settings_with()
    line = ExpectedExchange((b"T", None), (b"V", b"ERR\r\n"), (b"R", b"ERR\r\n"))
    with line, pytest.raises(ProtocolError, match="is it a PowerSensor3"):
        PowerSensor3("ps", settings, Clock(), line).open()
    line = ExpectedExchange((b"T", None), (b"V", None), (b"R", None))
    with line, pytest.raises(NoAnswer, match="does no other program use it"):
        PowerSensor3("ps", settings, Clock(), line).open()
    with pytest.raises(ProtocolError, match="vref nan"):
        parse_sensor(struct.pack("<16s16sff?", b"", b"", float("nan"), 1.0, True))


def test_unplugged() -> None:
    instrument, line, _ = meter(ConnectionLost("gone"))
    with line, pytest.raises(ConnectionLost):
        instrument.read()
    line.gone = True
    instrument.close()
    assert line.closed


class SlowVersion(ExpectedExchange):
    """Says its version after it has been silent for once."""

    silent = True

    def read_some(self, timeout_s: float) -> bytes:
        if self.silent and self._unread == [b"F411-1.5.0\r\n"]:
            self.silent = False
            return b""
        return super().read_some(timeout_s)


def test_a_board_that_draws_its_display_before_it_answers() -> None:
    """Source: PowerSensor.ino of firmware 1.5.0, which draws after T; else V is in the table."""
    with SlowVersion(*opening()) as line:
        assert PowerSensor3("ps", settings_with(), Clock(), line).open().firmware == "F411-1.5.0"
