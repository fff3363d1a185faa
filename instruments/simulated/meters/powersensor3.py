"""A simulated PowerSensor3 on a pseudo terminal, at its full 20 kHz and eight sensors.

Pair 0 is the 12 V rail, pair 1 the 3.3 V rail, as the drive's trace has them; pairs 2 and 3
have nothing connected. As a test pattern it can send the number of each frame instead.
"""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.probe import Probe
from instruments.simulated.meter_kit.serial_meter import SerialMeter

VERSION: Final = b"F411-1.5.0\r\n"
SENSORS: Final = 8
INTERVAL_US: Final = 50.0
LEVEL_MAX: Final = 1023
ADC_VOLTS: Final = 3.3
CONFIG: Final = struct.Struct("<16s16sff?")
"""Frames, levels and the sensor table of firmware 1.5.0 (nlesc-recruit/PowerSensor3)."""
_STOPPED: Final = b"\xff\x3f\xff\x3f"
_SEND_EVERY_S: Final = 0.002
_HOLDS_BYTES: Final = 640 << 10
"""What the kernel takes from a USB serial device for a program that does not read just now: 1.8 s
of frames (Linux drivers/tty/tty_buffer.c). A pseudo terminal holds 8 KiB, so the rest is here."""
_MOST_AT_ONCE: Final = _HOLDS_BYTES // (2 + 2 * SENSORS)
_HOLDS_S: Final = _MOST_AT_ONCE * INTERVAL_US * 1e-6
_PIECE_BYTES: Final = 2048
_LOST_BYTES: Final = 7
FIRST_LEVEL: Final = 10
"""The level that stands for 0 in the test pattern."""
_NOISE_LEVELS: Final = 0.7

_POINTS: Final = ("12V.current", "12V.voltage", "3V3.current", "3V3.voltage")
"""What sensors 0 to 3 measure."""
_CURRENT: Final = ("MLX91221-10A", 1.65, 0.132)
_VOLTAGE: Final = (("12V", 0.2), ("3V3", 0.6), ("spare", 0.2), ("spare", 0.6))
"""Type, vref and V/A of the current sensors; name and gain of the voltage sensors of each pair."""


def pack_frames(
    stamps: Sequence[int] | NDArray[np.int64],
    levels: NDArray[np.int64],
    marked: NDArray[np.bool_] | None = None,
) -> bytes:
    """Frames of all eight sensors: timestamp packet, then a packet for each sensor."""
    t = np.asarray(stamps, np.int64) % 1024
    rows = np.empty((len(t), 2 + 2 * SENSORS), np.uint8)
    rows[:, 0] = 0xF0 | t >> 6
    rows[:, 1] = 0x40 | t & 0x3F
    rows[:, 2::2] = 0x80 | np.arange(SENSORS) << 4 | levels >> 6
    rows[:, 3::2] = levels & 0x3F
    if marked is not None:
        rows[:, 3] |= np.where(marked, 0x40, 0).astype(np.uint8)
    return rows.tobytes()


class SensorPattern(Protocol):
    """What the sensors read."""

    async def levels(self, begin_ns: NDArray[np.int64], first: int) -> NDArray[np.int64]:
        """A row for each frame that begins at these host times; ``first`` is its number."""
        ...


class FrameNumbers:
    """Sensors 0 and 1 give the frame's number, in thousands; no level is an overload."""

    async def levels(self, begin_ns: NDArray[np.int64], first: int) -> NDArray[np.int64]:
        """Numbers from ``first`` on; the other sensors stand at 512."""
        number = first + np.arange(len(begin_ns))
        levels = np.full((len(begin_ns), SENSORS), 512)
        levels[:, 0] = FIRST_LEVEL + number % 1000
        levels[:, 1] = FIRST_LEVEL + number // 1000 % 1000
        return levels


class Rails:
    """The drive's two rails, with the errors of each sensor."""

    def __init__(self, parts: MeterParts, rng: np.random.Generator) -> None:
        self._rng = rng
        self._sensors = [
            (
                Probe(parts.state, point),
                parts.errors(parts.limits(point.partition(".")[2]), f"errors of {point}"),
            )
            for point in _POINTS
        ]

    async def levels(self, begin_ns: NDArray[np.int64], first: int) -> NDArray[np.int64]:
        """12 V current, 12 V voltage, 3.3 V current, 3.3 V voltage, and four open inputs."""
        volts = np.full((len(begin_ns), SENSORS), _CURRENT[1])
        volts[:, 1::2] = 0.0
        end_ns = begin_ns + round(INTERVAL_US * 1000)
        for place, (probe, errors) in enumerate(self._sensors):
            true = await probe.means(begin_ns, end_ns)
            shown = true * (1 + errors.gain) + errors.offset
            vref, sensitivity = sensor_scale(place)
            volts[:, place] = vref + shown * sensitivity
        noise = self._rng.normal(0.0, _NOISE_LEVELS, volts.shape)
        return np.clip(np.rint(volts * LEVEL_MAX / ADC_VOLTS + noise), 0, LEVEL_MAX).astype(
            np.int64
        )


def sensor_scale(sensor: int) -> tuple[float, float]:
    """vref and sensitivity of a sensor of the simulated device."""
    if sensor % 2:
        return 0.0, _VOLTAGE[sensor // 2][1]
    return _CURRENT[1], _CURRENT[2]


def table_entry(sensor: int) -> bytes:
    """A sensor's entry in the device's table."""
    pair_name, _ = _VOLTAGE[sensor // 2]
    kind = "voltage" if sensor % 2 else _CURRENT[0]
    vref, sensitivity = sensor_scale(sensor)
    return CONFIG.pack(kind.encode(), pair_name.encode(), vref, sensitivity, True)


class PowerSensor3Meter(SerialMeter):
    """Answers the commands and streams; frames that are not read in time are lost."""

    possible_faults = frozenset(
        {Fault.SILENT, Fault.DISCONNECT, Fault.NONSENSE, Fault.OVERLOAD, Fault.LOST_BYTES}
    )

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts)
        test_pattern = parts.config.point == "frame_numbers"
        self._pattern: SensorPattern = FrameNumbers() if test_pattern else Rails(parts, self._rng)
        self._streaming = False
        self._marks = 0
        self._entries = SENSORS

    async def serve(self) -> None:
        """Send the frames that are due, each 2 ms."""
        interval_ns = INTERVAL_US * 1000
        sent = round(self.clock.now() / interval_ns)
        while True:
            await asyncio.sleep(_SEND_EVERY_S)
            due = int(self.clock.now() / interval_ns)
            first, sent = max(sent, due - _MOST_AT_ONCE), due
            if not self._streaming or first == due:
                continue
            number = np.arange(first, due)
            begin_ns = np.array([self.clock.to_host(first * interval_ns)], np.int64)
            rate = 1 + self.clock.drift_ppm * 1e-6
            begin_ns = begin_ns + np.rint((number - first) * interval_ns / rate).astype(np.int64)
            levels = await self._pattern.levels(begin_ns, first)
            if self.faults.has(Fault.OVERLOAD):
                levels[:] = LEVEL_MAX
            marked = np.zeros(len(levels), np.bool_)
            marked[: self._marks] = True
            self._marks = 0
            # The stamp is of the middle of the frame.
            stamps = np.rint((number + 0.5) * INTERVAL_US).astype(np.int64)
            await self._send_all(pack_frames(stamps, levels, marked))

    def received(self, data: bytes) -> None:
        """Carry out each letter."""
        for letter in data.decode("latin-1"):
            if self._entries < SENSORS:
                self._entries += 1
                self._answer(table_entry(self._entries) if self._entries < SENSORS else b"D")
            elif letter == "R":
                self._entries = 0
                self._answer(table_entry(0))
            elif letter == "V":
                self._answer(VERSION)
            elif letter == "S":
                self._streaming = True
            elif letter in "TX":
                self._streaming = False
                if letter == "X":
                    self._answer(_STOPPED)
            elif letter == "M":
                self._marks += 1

    async def _send_all(self, data: bytes) -> None:
        """Write; what the host does not take in time is lost, be it in the middle of a frame."""
        if self.faults.has(Fault.SILENT):
            return
        if self.faults.has(Fault.NONSENSE):
            data = self._rng.bytes(len(data))
        if self.faults.has(Fault.LOST_BYTES):
            data = data[:-_LOST_BYTES]
        deadline = time.monotonic() + _HOLDS_S
        while data and self._ends is not None and time.monotonic() < deadline:
            try:
                data = data[os.write(self._ends[0], data[:_PIECE_BYTES]) :]
            except BlockingIOError:
                await asyncio.sleep(0.001)

    def _answer(self, data: bytes) -> None:
        if self._ends is not None and not self.faults.has(Fault.SILENT):
            os.write(self._ends[0], data)

    def _plug_in(self) -> None:
        super()._plug_in()
        self._streaming = False
        self._entries = SENSORS
