"""Multimeters that send what their display shows, frame after frame, and take no queries.

The common part of these families: from a display to a reading, and the instrument. A frame has
all that the display shows, so a turned switch gives a status, not a wrong value. The meter sends
a frame at the end of its conversion: the reading's time is the arrival of the last byte less the
duration of the frame on the line and half a conversion.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field

from instruments.driver_kit.base_settings import (
    DcFunction,
    NotNegative,
    Positive,
    SerialSettings,
    accuracy_from_rig,
)
from instruments.driver_kit.batches import blocks_and_statuses
from instruments.driver_kit.repeated_frames import RepeatedFrames
from instruments.driver_kit.serial_sign import SerialSign
from instruments.driver_kit.stuck_readings import StuckReadingDetector
from instruments.errors import ProtocolError
from instruments.reading import (
    Accuracy,
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

_RANGE_TOLERANCE: Final = 1.01
_JACKS_TAKE: Final = {"A": 10.0, "V": 1000.0}
"""What the largest ranges of handheld meters are called by: the display would go on."""
_STUCK_FROM_S: Final = 600.0
"""A display with few digits rightly shows the same ones for minutes while the drive idles."""


@dataclass(frozen=True, slots=True)
class Display:
    """The content of a display. ``value`` is in ``unit``; None is an overload."""

    function: str
    unit: str
    value: float | None
    full_scale: float
    """Of the range that it is in, in ``unit``."""
    dc: bool
    ac: bool
    auto_range: bool
    hold: bool = False
    relative: bool = False
    extreme: bool = False
    """Maximum, minimum or peak instead of the present value."""
    low_battery: bool = False
    maker_symbols: int = 0
    """Bits with a meaning of the maker's own: some are always set, some are MAX or MIN."""


@dataclass(frozen=True, slots=True)
class MeterFamily:
    """How the meters of a family send their frames."""

    maker: str
    model: str
    frame_bytes: int
    split: Callable[[bytes], tuple[list[bytes], bytes]]
    """Splits bytes into frames and broken pieces, in order, and an unfinished rest."""
    decode: Callable[[bytes], Display]
    """The display of a frame. Raises ProtocolError where it is no frame."""
    time_u_of_interval: float = 0.5
    """``time_u_s`` as a share of the interval: when the meter integrates is not documented."""


class SerialDisplaySettings(SerialSettings, ABC):
    """The serial port, and the function and range that the meter's switch must select."""

    function: DcFunction
    range: Positive
    """Full scale in V or A of the largest range it is used in."""
    interval_s: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)]
    """Time between the frames it sends."""

    @abstractmethod
    def limits(self) -> Accuracy:
        """Limits of error in ``range``."""


def reading_of(display: Display, settings: SerialDisplaySettings) -> tuple[float | Status, str]:
    """The value of a display under these settings, or a status, and the status's detail."""
    if display.function != settings.function or not display.dc:
        kind = "AC" if display.ac else "DC" if display.dc else ""
        shown = f"{kind} {display.function}".strip()
        return Status.WRONG_FUNCTION, f"measures {shown}, not DC {settings.function}"
    if display.value is None:
        return Status.OVERLOAD, ""
    if display.full_scale > settings.range * _RANGE_TOLERANCE:
        detail = f"range {display.full_scale:g} {display.unit}, not {settings.range:g}"
        return Status.WRONG_FUNCTION, detail
    if display.relative or display.extreme:
        return Status.WRONG_FUNCTION, "shows a relative, maximum, minimum or peak value"
    if display.hold:
        return Status.HOLD, ""
    return display.value, ""


class SerialDisplayMeter:
    """One meter. Its channel is ``voltage`` or ``current``, on the host's clock."""

    family: ClassVar[MeterFamily]

    def __init__(
        self,
        name: str,
        settings: SerialDisplaySettings,
        clock: HostClock,
        line: ByteLine | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._family = family = self.family_for(settings)
        interval_s = settings.interval_s
        self._line = line or settings.line(name)
        self._unfinished = b""
        self._synchronised = False
        self._low_battery = False
        self._full_scale: float | None = None
        self._own_symbols: int | None = None
        self._repeats = StuckReadingDetector(at_least=round(_STUCK_FROM_S / interval_s))
        self._interval_ns = round(interval_s * 1e9)
        wire_s = family.frame_bytes * settings.line_format.byte_s
        self._delay_ns = round((wire_s + interval_s / 2) * 1e9)
        self._frames = RepeatedFrames(settings.function, interval_s, self._delay_ns)
        self._channel = Channel(
            name=settings.function,
            quantity=Quantity(settings.function),
            clock=Clock.HOST,
            interval_s=interval_s,
            aperture_s=interval_s,
            accuracy=settings.limits(),
            range=settings.range,
            time_u_s=interval_s * family.time_u_of_interval,
        )
        self.channels = (self._channel,)

    @classmethod
    def sign(cls, identity: str, line_format: SerialFormat) -> SerialSign:
        """How a meter of this family is found: it sends frames that can be decoded."""

        def recognised(data: bytes) -> bool:
            return any(map(cls._is_frame, cls.family.split(data)[0]))

        return SerialSign(identity, line_format, b"", recognised)

    @classmethod
    def _is_frame(cls, piece: bytes) -> bool:
        try:
            cls.family.decode(piece)
        except ProtocolError:
            return False
        return True

    @classmethod
    def family_for(cls, settings: SerialDisplaySettings) -> MeterFamily:
        """The family of a meter with these settings."""
        return cls.family

    def open(self) -> Identity:
        """Open the port. The meter gives no identity."""
        self._line.open()
        notes = ("it cannot be asked for its identity",)
        return Identity(self._family.maker, self._family.model, notes=notes)

    def start(self) -> None:
        """Discard what was sent before; the meter sends by itself."""
        self._line.discard()
        self._unfinished = b""
        self._frames.restart()
        self._synchronised = self._low_battery = False
        self._full_scale = None
        self._repeats.restart()

    def read(self) -> Batch:
        """The frames that have come in."""
        data = self._line.read_some(0.5)
        if not data:
            return Batch()
        arrived_ns = self._clock()
        pieces, self._unfinished = self._family.split(self._unfinished + data)
        if pieces and not self._synchronised:
            self._synchronised = True
            if len(pieces[0]) < self._family.frame_bytes:  # the port was opened within it
                del pieces[0]
        if not pieces:
            return Batch()
        pieces, duplicates = self._frames.taken_once(pieces, arrived_ns)
        blocks: list[Block] = []
        statuses: list[StatusReading] = list(duplicates)
        for back, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
            t_ns = arrived_ns - self._delay_ns - back * self._interval_ns
            found, found_statuses = self._frame_reading(piece, t_ns)
            blocks += found
            statuses += found_statuses
        return Batch(tuple(blocks), tuple(statuses))

    def close(self) -> None:
        """Close the port."""
        self._line.close()

    def _frame_reading(
        self, piece: bytes, t_ns: int
    ) -> tuple[tuple[Block, ...], tuple[StatusReading, ...]]:
        name = self._channel.name
        try:
            display = self._family.decode(piece)
        except ProtocolError as error:
            return blocks_and_statuses(name, [t_ns], [Status.UNREADABLE], str(error))
        reading, detail = reading_of(display, self._settings)
        if not isinstance(reading, Status):
            reading, detail = self._check_maker_symbols(reading, display)
        blocks, statuses = self._repeats.sort(name, t_ns, reading, detail)
        if blocks:
            statuses = (*self._warnings(display, t_ns), *statuses)
        return blocks, statuses

    def _check_maker_symbols(self, value: float, display: Display) -> tuple[float | Status, str]:
        """The value, or a status where a symbol of the maker's own differs from the first value's.

        The first value's symbols stay the reference after a lost connection.
        """
        if self._own_symbols is None:
            self._own_symbols = display.maker_symbols
        if display.maker_symbols == self._own_symbols:
            return value, ""
        return Status.WRONG_FUNCTION, "a symbol of its maker's own came or went: MAX or MIN?"

    def _warnings(self, display: Display, t_ns: int) -> tuple[StatusReading, ...]:
        """Statuses that stand beside the value, once each; their count is 0.

        Their time is just before that of the value, which ends their span.
        """
        name = self._channel.name
        found_statuses: list[StatusReading] = []
        if display.low_battery and not self._low_battery:
            self._low_battery = True
            found_statuses.append(
                StatusReading(name, t_ns - 1, Status.LOW_BATTERY, "change its battery", 0)
            )
        before, self._full_scale = self._full_scale, display.full_scale
        if before not in (None, display.full_scale):
            detail = f"now {display.full_scale:g} {display.unit}"
            found_statuses.append(StatusReading(name, t_ns - 1, Status.RANGE_CHANGED, detail, 0))
        return tuple(found_statuses)


class LcdMeterSettings(SerialDisplaySettings):
    """Settings of a family whose models differ: the rig must give the limits of error."""

    accuracy_pct_of_reading: NotNegative
    accuracy_floor: NotNegative
    """V or A: the counts of the manual times the value of a count in ``range``."""

    def limits(self) -> Accuracy:
        """The limits of error in the rig."""
        return accuracy_from_rig(self.accuracy_pct_of_reading, self.accuracy_floor)


def full_scale_of(unit: str, display_end: float) -> float:
    """Full scale of a range whose display ends at ``display_end``, by the name it has on the meter.

    The display of a 10 A range ends at 40 or 60 A, that of a 1000 V range at 4000 or 6000 V.
    """
    jack_takes = _JACKS_TAKE.get(unit, display_end)
    return jack_takes if jack_takes < display_end < 10 * jack_takes else display_end


def bytes_in_place(data: bytes, places: bytes) -> bool:
    """Whether each byte of ``data`` has its number; ``data`` may be the beginning of a frame."""
    return all(byte & 0xF0 == place for byte, place in zip(data, places, strict=False))


def displayed_count(segments: Sequence[int], digits: bytes, letter_l: int) -> int | None:
    """The number that segments show; None for OL. Raises ProtocolError for other patterns.

    ``digits`` has the segments of the digits from 0 to 9.
    """
    if letter_l in segments:
        return None
    if not all(item in digits for item in segments):
        raise ProtocolError(f"segments that are no digits: {bytes(segments).hex(' ')}")
    return int("".join(str(digits.index(item)) for item in segments))


def split_frames(data: bytes, places: bytes) -> tuple[list[bytes], bytes]:
    """Frames and the noise between them, in order, and an unfinished rest.

    ``places`` has the high half of each byte of a frame, times 16. A piece that is no frame is
    shorter or does not fit its places.
    """
    size = len(places)
    pieces: list[bytes] = []
    noise_from = at = 0
    while at < len(data):
        piece = data[at : at + size]
        if not bytes_in_place(piece, places):
            at += 1
            continue
        if noise_from < at:
            pieces.append(data[noise_from:at])
        noise_from = at
        if len(piece) < size:
            return pieces, piece
        pieces.append(piece)
        noise_from = at = at + size
    if noise_from < at:
        pieces.append(data[noise_from:at])
    return pieces, b""
