"""PowerSensor3, open hardware on USB: four pairs of a current and a voltage sensor at 20 kHz.

Commands are single letters (firmware 1.5.0): ``T`` stop, ``V`` version, ``R`` sensor table (a
letter from the host asks for the next entry, ``D`` ends it), ``S`` stream. A device whose host
died goes on streaming: it is stopped first.

Device time is the device's microsecond counter with its wraps counted
(:mod:`instruments.drivers.powersensor3_frames`). Each connection begins a new epoch of it (see
:class:`~instruments.reading.ClockPair`), and so does each loss in which a wrap may have been
missed. The device cannot be asked for its time: the host only knows when bytes arrived, which is
an upper bound.
"""

from __future__ import annotations

import re
import time
from typing import Annotated, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from instruments.driver_kit.arrival_pairs import ArrivalPairs
from instruments.driver_kit.base_settings import NotNegative, QuantityLimits, SerialSettings
from instruments.driver_kit.serial_sign import SerialSign
from instruments.drivers import Driver
from instruments.drivers.powersensor3_frames import (
    CONFIG,
    INTERVAL_US,
    LEVEL_MAX,
    SENSORS,
    Frames,
    FrameTimeline,
    Gap,
    Layout,
    Sensor,
    find_layout,
    parse_sensor,
    split_powersensor3_frames,
)
from instruments.errors import ConnectionLost, NoAnswer, ProtocolError, SettingRefused
from instruments.reading import (
    EPOCH_NS,
    Batch,
    Block,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
    Status,
    StatusReading,
)
from instruments.transports.lines import ByteLine, SerialFormat
from instruments.transports.serial_line import bytes_until

FORMAT: Final = SerialFormat(baud=115200)
"""USB-CDC: no baud rate is in effect."""
BATCH_S: Final = 0.05
_PAUSE_S: Final = 0.004
"""1.4 kB of stream, a third of what a terminal line of the kernel holds."""
_ANSWER_S: Final = 1.0
_QUIET_S: Final = 0.15
_TIME_U_S: Final = 50e-6
"""The stamp is taken somewhere in the averaging of six conversions; firmware versions differ."""
_LAYOUT_BYTES: Final = 256

PairNumber = Annotated[int, Field(ge=0, lt=SENSORS // 2)]


class PowerSensor3Settings(SerialSettings, QuantityLimits):
    """Which pairs are recorded, and how well they were calibrated."""

    line_format: ClassVar[SerialFormat] = FORMAT

    pairs: Annotated[tuple[PairNumber, ...], Field(min_length=1)]
    names: tuple[str, ...] = ()
    """The names that the device must give to these pairs; empty: any."""
    average: Annotated[int, Field(ge=1, le=20_000)] = 1
    """Frames in one reading: 1 is 20 kHz, 20 is 1 kHz."""
    voltage_pct_of_reading: NotNegative
    voltage_floor_volts: NotNegative
    current_pct_of_reading: NotNegative
    current_floor_amps: NotNegative

    @field_validator("pairs")
    @classmethod
    def _each_once(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) != len(value):
            raise ValueError("must name each pair once")
        return value

    @field_validator("names")
    @classmethod
    def _one_each(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if value and "pairs" in info.data and len(value) != len(info.data["pairs"]):
            raise ValueError("must have one name for each of pairs, or none at all")
        return value


class PowerSensor3:
    """One device. Channels ``voltage_0`` and ``current_0`` … of each pair, on its clock."""

    def __init__(
        self,
        name: str,
        settings: PowerSensor3Settings,
        clock: HostClock,
        line: ByteLine | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._line = line or settings.line(name)
        self._table: tuple[Sensor, ...] = ()
        self._layout = Layout(())
        self._sensors = tuple(2 * pair + odd for pair in settings.pairs for odd in (0, 1))
        self.channels = tuple(self._channel(sensor) for sensor in self._sensors)
        self._clock_pairs = ArrivalPairs(self.channels)
        self._scale = np.ones((2, len(self._sensors)))
        self._columns = np.zeros(len(self._sensors), np.intp)
        self._base_ns = -EPOCH_NS
        self._rest = b""
        self._timeline = FrameTimeline()
        self._unaveraged: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def open(self) -> Identity:
        """Stop a stream that is on, read version and sensor table."""
        self._line.open()
        self._line.write(b"T")
        self._line.discard(_QUIET_S)
        self._line.write(b"V")
        version = self._read_version()
        self._line.discard(_QUIET_S)
        self._table = self._read_table()
        names = [self._table[2 * pair].pair_name for pair in self._settings.pairs]
        return Identity(
            "PowerSensor3",
            "PowerSensor3",
            firmware=version,
            notes=tuple(
                f"pair {pair}: {name or 'no name'}"
                for pair, name in zip(self._settings.pairs, names, strict=True)
            ),
        )

    def start(self) -> None:
        """Make sure that the pairs are in use and calibrated, and begin to stream."""
        self._verify_pairs()
        self._line.discard()
        self._line.write(b"S")
        self._rest = self._read_stream_start()
        layout = find_layout(self._rest)
        if layout is None:
            raise ProtocolError(
                f"{self._name}: no frames in its stream: {self._rest[:24].hex(' ')}"
            )
        absent = [sensor for sensor in self._sensors if sensor not in layout.sensors]
        if absent:
            raise SettingRefused(
                f"{self._name}: it sends sensors {', '.join(map(str, layout.sensors))}, "
                f"not {', '.join(map(str, absent))}"
            )
        self._layout = layout
        self._columns = np.array([layout.sensors.index(sensor) for sensor in self._sensors])
        self._scale = np.array([self._table[sensor].scale() for sensor in self._sensors]).T
        self._new_epoch(0)
        self._timeline = FrameTimeline()
        self._unaveraged = None

    def read(self) -> Batch:
        """The readings of about 50 ms."""
        deadline = time.monotonic() + BATCH_S
        parts = [self._rest]
        while time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            parts.append(self._line.read_some(0.0))
        parts.append(self._line.read_some(0.1))  # waits: these bytes are as fresh as can be
        arrived_ns = self._clock()
        frames, self._rest = split_powersensor3_frames(b"".join(parts), self._layout)
        if len(frames) < 2:
            return Batch()
        return self._batch(frames, arrived_ns)

    def close(self) -> None:
        """Stop the stream and close the port."""
        try:
            self._line.write(b"T")
        except ConnectionLost:
            pass
        finally:
            self._line.close()

    def _channel(self, sensor: int) -> Channel:
        settings = self._settings
        pair, is_voltage = divmod(sensor, 2)
        interval_s = INTERVAL_US * 1e-6 * settings.average
        quantity = Quantity.VOLTAGE if is_voltage else Quantity.CURRENT
        return Channel(
            name=f"{quantity}_{pair}",
            quantity=quantity,
            clock=Clock.DEVICE,
            interval_s=interval_s,
            aperture_s=interval_s,
            accuracy=settings.limits(quantity),
            clock_tick_s=1e-6,
            time_u_s=_TIME_U_S,
        )

    def _read_version(self) -> str:
        """The answer to ``V``; empty where the firmware has none.

        A board with a display draws it anew after ``T`` before it answers (firmware 1.5.0).
        """
        answer = bytes_until(self._line, lambda data: b"\n" in data, _ANSWER_S)
        return answer.split(b"\n")[0].decode("ascii", errors="replace").strip()

    def _read_table(self) -> tuple[Sensor, ...]:
        self._line.write(b"R")
        table = []
        try:
            for _ in range(SENSORS):
                table.append(parse_sensor(self._exactly(CONFIG.size)))
                self._line.write(b"s")
            end = self._exactly(1)
        except ProtocolError as error:
            raise ProtocolError(f"{self._name}: {error}; is it a PowerSensor3?") from None
        if end != b"D":
            raise ProtocolError(f"{self._name}: expected D after the sensor table, got {end!r}")
        return tuple(table)

    def _exactly(self, count: int) -> bytes:
        data = bytes_until(self._line, lambda data: len(data) >= count, _ANSWER_S)
        if not data:
            raise NoAnswer(
                f"{self._name}: no answer to its commands within {_ANSWER_S:g} s; is it a "
                "PowerSensor3, and does no other program use it?"
            )
        if len(data) != count:
            raise ProtocolError(f"expected {count} bytes, got {len(data)}: {data[:24].hex(' ')}")
        return data

    def _verify_pairs(self) -> None:
        settings = self._settings
        for place, pair in enumerate(settings.pairs):
            current, voltage = self._table[2 * pair], self._table[2 * pair + 1]
            if not (current.in_use and voltage.in_use):
                used = [i for i in range(SENSORS // 2) if self._table[2 * i].in_use]
                raise SettingRefused(
                    f"{self._name}: pair {pair} is not in use (in use: "
                    f"{', '.join(map(str, used)) or 'none'}); set it up with psconfig"
                )
            if not current.sensitivity or not voltage.sensitivity:
                raise SettingRefused(
                    f"{self._name}: pair {pair} has a sensitivity of 0; calibrate it with psconfig"
                )
            if settings.names and current.pair_name != settings.names[place]:
                raise SettingRefused(
                    f"{self._name}: pair {pair} is called {current.pair_name!r}, the rig says "
                    f"{settings.names[place]!r}; was a sensor module moved?"
                )

    def _read_stream_start(self) -> bytes:
        """The beginning of the stream, enough to see which sensors it has."""
        data = bytes_until(self._line, lambda data: len(data) >= _LAYOUT_BYTES, _ANSWER_S)
        if not data:
            raise NoAnswer(f"{self._name}: nothing is streamed within {_ANSWER_S:g} s; reset it")
        return data

    def _new_epoch(self, us: int) -> None:
        """Device time goes on at the next epoch; it stands at ``us``."""
        now_ns = self._base_ns + self._timeline.us * 1000
        self._base_ns = (now_ns // EPOCH_NS + 1) * EPOCH_NS - us * 1000
        self._clock_pairs.restart()

    def _batch(self, frames: Frames, arrived_ns: int) -> Batch:
        placed = self._timeline.place(frames, arrived_ns)
        count = len(placed.us)
        levels = frames.levels[:count, self._columns]
        blocks: list[Block] = []
        statuses: list[StatusReading] = []
        begin = 0
        for gap in placed.gaps:
            self._append_readings(
                placed.us, levels, placed.keep, slice(begin, gap.index), blocks, statuses
            )
            begin = gap.index
            self._unaveraged = None
            if not gap.certain:
                self._new_epoch(int(placed.us[begin]))
            statuses.append(self._gap_status(gap, int(placed.us[begin])))
        self._append_readings(placed.us, levels, placed.keep, slice(begin, count), blocks, statuses)
        newest_ns = self._base_ns + int(placed.us[-1]) * 1000
        for bad, status in (
            (placed.unreadable, Status.UNREADABLE),
            (placed.duplicates, Status.DUPLICATE),
        ):
            if bad:
                statuses.append(self._status(newest_ns - 1, status, "frames", bad))
        for i in np.flatnonzero(frames.marked[:count]).tolist():
            t_ns = self._base_ns + int(placed.us[i]) * 1000
            statuses.append(self._status(t_ns, Status.MARKER, f"at device time {t_ns} ns", 0))
        # The frame that is held back came last: its stamp belongs to the arrival.
        step = (int(frames.stamps[-1]) - int(frames.stamps[-2])) % 1024
        pairs = self._clock_pairs.add(newest_ns + step * 1000, arrived_ns)
        return Batch(tuple(blocks), tuple(statuses), pairs)

    def _gap_status(self, gap: Gap, us: int) -> StatusReading:
        about = "" if gap.certain else "about, by the host's clock; "
        detail = f"{about}in all channels"
        return self._status(self._base_ns + us * 1000 - 1, Status.LOST, detail, gap.lost)

    def _status(self, t_ns: int, status: Status, detail: str, count: int) -> StatusReading:
        return StatusReading(self.channels[0].name, t_ns, status, detail, count)

    def _append_readings(
        self,
        us: NDArray[np.int64],
        levels: NDArray[np.int64],
        keep: NDArray[np.bool_],
        part: slice,
        blocks: list[Block],
        statuses: list[StatusReading],
    ) -> None:
        """Append the readings of frames without a gap between them."""
        good = keep[part]
        us, levels = us[part][good], levels[part][good]
        average = self._settings.average
        if self._unaveraged is not None:
            us, levels = (
                np.concatenate([self._unaveraged[0], us]),
                np.vstack([self._unaveraged[1], levels]),
            )
        whole = len(us) // average * average
        self._unaveraged = (us[whole:], levels[whole:])
        if not whole:
            return
        rows = levels[:whole].reshape(-1, average, levels.shape[1])
        t_ns = self._base_ns + np.rint(us[:whole].reshape(-1, average).mean(axis=1) * 1000).astype(
            np.int64
        )
        values = rows.mean(axis=1) * self._scale[0] + self._scale[1]
        # A current sensor is centred: both ends are overloads. A voltage may well be zero.
        over = (rows == LEVEL_MAX).any(axis=1)
        for place, channel in enumerate(self.channels):
            clipped = over[:, place]
            if channel.quantity is Quantity.CURRENT:
                clipped = clipped | (rows[:, :, place] == 0).any(axis=1)
            if clipped.any():
                last_ns = int(t_ns[clipped][-1])
                detail = "outside the sensor's range"
                statuses.append(
                    StatusReading(
                        channel.name, last_ns, Status.OVERLOAD, detail, int(clipped.sum())
                    )
                )
                blocks.append(Block(channel.name, t_ns[~clipped], values[~clipped, place]))
            else:
                blocks.append(Block(channel.name, t_ns, np.ascontiguousarray(values[:, place])))


DRIVER: Final = Driver(
    PowerSensor3Settings,
    PowerSensor3,
    SerialSign("PowerSensor3", FORMAT, b"TV", re.compile(rb"F4\d\d-\d+\.\d+\.\d+").search),
)
