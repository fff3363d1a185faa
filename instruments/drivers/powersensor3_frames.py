"""What a PowerSensor3 sends: its sensor table, its frames, and where they are in time.

Facts from the project's host library 1.3.6 and firmware 1.5.0 (nlesc-recruit/PowerSensor3).
A frame is a timestamp packet and one packet for each sensor, two bytes each:

    1iii llll  0mll llll    sensor iii, level llll llllll (10 bits), marker m
    1111 tttt  01tt tttt    timestamp: microseconds of the device, 10 bits, so it wraps

A marker can only be set at the first sensor, which tells a timestamp from sensor 7. Today's
firmware sends all eight sensors, 18 bytes; older ones send those in use.
"""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from instruments.errors import ProtocolError

SENSORS: Final = 8
WRAP_US: Final = 1024
INTERVAL_US: Final = 50.0
"""Nominal: 20 kHz. A device with an STM32F401 takes about 57 µs."""
LEVEL_MAX: Final = 1023
ADC_VOLTS: Final = 3.3
CONFIG: Final = struct.Struct("<16s16sff?")
"""One sensor in the device's table: type, name of its pair, vref, sensitivity, in use."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sensor:
    """One entry of the device's table. Even sensors measure current, odd ones voltage."""

    kind: str
    pair_name: str
    vref_volts: float
    sensitivity: float
    """V/A of a current sensor; gain of a voltage sensor."""
    in_use: bool

    def scale(self) -> tuple[float, float]:
        """Factor and offset that make A or V of a level."""
        return ADC_VOLTS / LEVEL_MAX / self.sensitivity, -self.vref_volts / self.sensitivity


def parse_sensor(data: bytes) -> Sensor:
    """An entry of the table. Raises ProtocolError where it cannot be one."""
    if len(data) != CONFIG.size:
        raise ProtocolError(f"expected {CONFIG.size} bytes of a sensor's table, got {len(data)}")
    kind, pair_name, vref, sensitivity, in_use = CONFIG.unpack(data)
    if not (math.isfinite(vref) and math.isfinite(sensitivity)):
        raise ProtocolError(f"a sensor's table with vref {vref} and sensitivity {sensitivity}")
    return Sensor(
        _powersensor3_field_text(kind),
        _powersensor3_field_text(pair_name),
        vref,
        sensitivity,
        in_use,
    )


def _powersensor3_field_text(field: bytes) -> str:
    return field.split(b"\0")[0].decode("ascii", errors="replace").strip()


@dataclass(frozen=True, slots=True)
class Layout:
    """Which sensors a frame has, in order."""

    sensors: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes of a frame."""
        return 2 + 2 * len(self.sensors)

    def pattern(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Mask, and what each byte of a frame is under it."""
        mask, want = [0xF0, 0xC0], [0xF0, 0x40]
        for place, sensor in enumerate(self.sensors):
            mask += [0xF0, 0x80 if place == 0 else 0xC0]
            want += [0x80 | sensor << 4, 0x00]
        return np.array(mask, np.uint8), np.array(want, np.uint8)


def find_layout(data: bytes) -> Layout | None:
    """The layout that the first bytes of a stream show; None if they are too few or no frames."""
    stamps = [i for i in range(len(data) - 1) if data[i] & 0xF0 == 0xF0 and data[i + 1] >> 6 == 1]
    for begin, end in itertools.pairwise(stamps):
        first = range(begin + 2, end, 2)
        sensors = tuple(data[i] >> 4 & 7 for i in first)
        whole = (end - begin) % 2 == 0 and sensors == tuple(sorted(set(sensors)))
        if whole and sensors and all(data[i] >> 7 and not data[i + 1] >> 7 for i in first):
            return Layout(sensors)
    return None


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames in order; the last one is there to check the stamp of the one before it."""

    stamps: Ints
    levels: Ints
    """A row a frame, a column a sensor."""
    marked: Bools
    skipped: Bools
    """Bytes that were no frame stood before it."""

    def __len__(self) -> int:
        return len(self.stamps)


def split_powersensor3_frames(data: bytes, layout: Layout) -> tuple[Frames, bytes]:
    """The frames in ``data``, and what to put before the next bytes.

    The last frame stays in the rest too: the next call begins with it.
    """
    raw = np.frombuffer(data, np.uint8)
    size = layout.size
    starts, skipped = _powersensor3_frame_starts(raw, layout)
    rows = raw[starts[:, None] + np.arange(size)].astype(np.int64)
    high, low = rows[:, 2::2], rows[:, 3::2]
    frames = Frames(
        stamps=(rows[:, 0] & 0x0F) << 6 | rows[:, 1] & 0x3F,
        levels=(high & 0x0F) << 6 | low & 0x3F,
        marked=(low[:, 0] & 0x40) != 0,
        skipped=skipped,
    )
    if len(starts) > 1:
        rest_from = int(starts[-2]) + size
    elif len(starts):
        rest_from = 0
    else:
        rest_from = max(len(data) - size + 1, 0)
    return frames, data[rest_from:]


def _powersensor3_frame_starts(
    raw: NDArray[np.uint8], layout: Layout
) -> tuple[NDArray[np.intp], Bools]:
    """Where frames begin, and before which of them something else stood."""
    size = layout.size
    mask, want = layout.pattern()
    whole = len(raw) // size
    rows = raw[: whole * size].reshape(-1, size)
    if ((rows & mask) == want).all():
        return np.arange(whole) * size, np.zeros(whole, np.bool_)
    fits = np.ones(max(len(raw) - size + 1, 0), np.bool_)
    for place in range(size):
        fits &= (raw[place : place + len(fits)] & mask[place]) == want[place]
    starts: list[int] = []
    skipped: list[bool] = []
    end = 0
    for start in np.flatnonzero(fits).tolist():
        if start >= end:
            starts.append(start)
            skipped.append(start > end)
            end = start + size
    return np.array(starts, np.intp), np.array(skipped, np.bool_)


@dataclass(frozen=True, slots=True)
class Gap:
    """Frames that did not arrive before the frame ``index``."""

    index: int
    lost: int
    certain: bool
    """False: more than one wrap of the counter may be missing; ``lost`` is by the host's clock."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Frames on the device's clock: microseconds of the epoch, which ``keep`` says are good."""

    us: Ints
    keep: Bools
    gaps: tuple[Gap, ...]
    unreadable: int
    duplicates: int


class FrameTimeline:
    """Counts the wraps of the device's counter, and begins a new epoch where a wrap may be missing.

    While no wrap can have been missed the microseconds go on. Whether one may be missing follows
    from the host's clock; it is never guessed into the device's time.
    """

    def __init__(self) -> None:
        self.interval_us = INTERVAL_US
        self.us = 0
        self._stamp = -1
        self._offsets: list[tuple[int, int]] = []

    def place(self, frames: Frames, arrived_ns: int) -> Placed:
        """Where all frames but the last are in time; ``arrived_ns`` is of the newest byte."""
        count = len(frames) - 1
        if self._stamp < 0:
            steps = np.diff(frames.stamps[:count], prepend=frames.stamps[0]) % WRAP_US
        else:
            steps = np.diff(frames.stamps[:count], prepend=self._stamp) % WRAP_US
        normal = np.abs(steps - self.interval_us) <= self.interval_us / 2
        normal &= ~frames.skipped[:count]
        if self._stamp < 0:
            normal[0] = True
        keep = np.ones(count, np.bool_)
        gaps: list[Gap] = []
        unreadable = duplicates = 0
        if normal.all():
            if count > 16:
                self.interval_us = float(np.median(steps[1:]))
        else:
            following = np.diff(frames.stamps) % WRAP_US
            for i in np.flatnonzero(~normal).tolist():
                if normal[i]:
                    continue  # set right by the one before
                step, span = int(steps[i]), int(steps[i]) + int(following[i])
                alone = not frames.skipped[i] and not frames.skipped[i + 1]
                if alone and abs(span % WRAP_US - 2 * self.interval_us) <= self.interval_us / 2:
                    # A stamp between two that fit: its bits were hit, nothing is missing.
                    steps[i] = round(self.interval_us)
                    if i + 1 < count:
                        steps[i + 1] = span % WRAP_US - steps[i]
                        normal[i + 1] = True
                    keep[i] = False
                    unreadable += 1
                elif step == 0 and not frames.skipped[i]:
                    keep[i] = False
                    duplicates += 1
                else:
                    if step < self.interval_us / 2:
                        steps[i] = step = step + WRAP_US
                    gaps.append(Gap(i, max(round(step / self.interval_us) - 1, 0), True))
        us = self.us + np.cumsum(steps)
        placed = Placed(us, keep, tuple(gaps), unreadable, duplicates)
        if gaps:
            placed = self._or_new_epoch(placed, arrived_ns)
        self.us = int(placed.us[-1])
        self._stamp = int(frames.stamps[count - 1])
        if not all(gap.certain for gap in placed.gaps):
            self._offsets.clear()
        self._remember(arrived_ns)
        return placed

    def _or_new_epoch(self, placed: Placed, arrived_ns: int) -> Placed:
        """``placed``, or a new epoch where the host's clock leaves room for a missed wrap."""
        late_us = math.inf
        if self._offsets:
            usual_ns = min(offset for _, offset in self._offsets)
            late_us = (arrived_ns - int(placed.us[-1]) * 1000 - usual_ns) / 1000
        if late_us < _CERTAIN_WRAP_SHARE * WRAP_US:
            return placed
        first, last = placed.gaps[0], placed.gaps[-1]
        keep = placed.keep.copy()
        keep[first.index : last.index] = False
        wraps = 0 if math.isinf(late_us) else int(late_us / WRAP_US)
        lost = sum(gap.lost for gap in placed.gaps) + last.index - first.index
        lost += round(wraps * WRAP_US / self.interval_us)
        return Placed(
            us=placed.us,
            keep=keep,
            gaps=(Gap(last.index, lost, False),),
            unreadable=placed.unreadable,
            duplicates=placed.duplicates,
        )

    def _remember(self, arrived_ns: int) -> None:
        self._offsets.append((arrived_ns, arrived_ns - self.us * 1000))
        recent_ns = arrived_ns - _LEAST_DELAY_WINDOW_NS
        while self._offsets[0][0] < recent_ns:
            del self._offsets[0]


_CERTAIN_WRAP_SHARE: Final = 0.7
"""Share of a wrap by which bytes may come later than usual without a wrap being missed."""
_LEAST_DELAY_WINDOW_NS: Final = 2_000_000_000
"""How far back the least delay is searched: 100 ppm of drift are 0.2 ms of it."""
