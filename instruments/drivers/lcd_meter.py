"""Multimeters that push the segments of their display, two bytes a digit, four digits.

The high half of each byte is its place in the frame, which finds the frames in noise. What the
families have in common is here: finding frames, judging them, and the instrument. A frame has
all that the display shows, so a switch turned at night is a status, not a wrong value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field

from instruments.drivers.settings import DcFunction, NotNegative, Positive, SerialSettings
from instruments.drivers.sorting import sort_readings
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
from instruments.transports import ByteLine, SerialFormat, SerialLine

_RANGE_TOLERANCE: Final = 1.01
_TELL_DUPLICATES_EVERY_NS: Final = 60_000_000_000
_TWICE_WITHIN: Final = 0.4
"""Share of the interval in which an equal frame is the same reading sent again."""


@dataclass(frozen=True, slots=True)
class Display:
    """What a display shows. ``value`` is in ``unit``; it is None with ``overload``."""

    function: str
    unit: str
    value: float | None
    digit: float
    """The value of one count, in ``unit``."""
    dc: bool
    ac: bool
    auto_range: bool
    hold: bool = False
    relative: bool = False
    extreme: bool = False
    """Maximum or minimum instead of the present value."""
    low_battery: bool = False

    @property
    def overload(self) -> bool:
        """Whether it shows OL."""
        return self.value is None


@dataclass(frozen=True, slots=True)
class Family:
    """How the meters of a family send."""

    maker: str
    model: str
    line_format: SerialFormat
    places: bytes
    """The high half of each byte of a frame, times 16."""
    counts: int
    decode: Callable[[bytes], Display]


class LcdMeterSettings(SerialSettings):
    """The serial port, what the switch must stand at, and how good the meter is."""

    function: DcFunction
    range: Positive
    """Full scale in V or A of the largest range it is used in."""
    interval_s: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)]
    """Time between the frames it sends."""
    accuracy_pct_of_reading: NotNegative
    accuracy_floor: NotNegative
    """V or A: the counts of the manual times the value of a count in ``range``."""


def fits(data: bytes, places: bytes) -> bool:
    """Whether each byte of ``data`` is at its place; ``data`` may be the beginning of a frame."""
    return all(byte & 0xF0 == place for byte, place in zip(data, places, strict=False))


def split_frames(data: bytes, places: bytes) -> tuple[list[bytes], bytes]:
    """Frames and what stands between them, in order, and the rest that is not finished.

    A piece that is no frame is shorter or does not fit its places.
    """
    size = len(places)
    pieces: list[bytes] = []
    noise_from = at = 0
    while at < len(data):
        piece = data[at : at + size]
        if not fits(piece, places):
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


def judge(display: Display, settings: LcdMeterSettings, counts: int) -> tuple[float | Status, str]:
    """The reading a display brings under these settings, or why it brings none."""
    if display.function != settings.function or not display.dc:
        kind = "AC" if display.ac else "DC" if display.dc else ""
        shown = f"{kind} {display.function}".strip()
        return Status.WRONG_FUNCTION, f"measures {shown}, not DC {settings.function}"
    if display.value is None:
        return Status.OVERLOAD, ""
    full_scale = display.digit * counts
    if full_scale > settings.range * _RANGE_TOLERANCE:
        return Status.WRONG_FUNCTION, f"range {full_scale:g} {display.unit}, not {settings.range:g}"
    if display.relative or display.extreme:
        return Status.WRONG_FUNCTION, "shows a relative, maximum or minimum value"
    if display.hold:
        return Status.HOLD, ""
    return display.value, ""


class LcdMeter:
    """One meter. Its channel is ``voltage`` or ``current``, on the host's clock."""

    family: ClassVar[Family]

    def __init__(
        self,
        name: str,
        settings: LcdMeterSettings,
        clock: HostClock,
        line: ByteLine | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        line_format = self.family.line_format
        self._line = line or SerialLine(name, settings.port, line_format)
        self._rest = b""
        self._in_step = False
        self._low_battery = False
        self._digit: float | None = None
        self._before = b""
        self._before_ns = 0
        self._duplicates = 0
        self._tell_duplicates_ns = 0
        wire_s = len(self.family.places) * line_format.byte_s
        self._interval_ns = round(settings.interval_s * 1e9)
        self._delay_ns = round(wire_s * 1e9) + self._interval_ns // 2
        self._channel = Channel(
            name=settings.function,
            quantity=Quantity(settings.function),
            clock=Clock.HOST,
            interval_s=settings.interval_s,
            aperture_s=settings.interval_s,
            accuracy=Accuracy(
                settings.accuracy_pct_of_reading / 100, settings.accuracy_floor, "the rig"
            ),
            range=settings.range,
            # Where in its interval it integrates is not documented.
            time_u_s=settings.interval_s / 2,
        )

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The one channel."""
        return (self._channel,)

    def open(self) -> Identity:
        """Open the port. The meter cannot be asked who it is."""
        self._line.open()
        notes = ("it cannot be asked for its identity",)
        return Identity(self.family.maker, self.family.model, notes=notes)

    def start(self) -> None:
        """Forget what was sent before; the meter pushes by itself."""
        self._line.discard()
        self._rest = self._before = b""
        self._in_step = self._low_battery = False
        self._digit = None

    def read(self) -> Batch:
        """The frames that have come in."""
        data = self._line.read_some(0.5)
        if not data:
            return Batch()
        arrived_ns = self._clock()
        pieces, self._rest = split_frames(self._rest + data, self.family.places)
        if pieces and not self._in_step:
            self._in_step = True
            if len(pieces[0]) < len(self.family.places):  # we came in the middle of it
                del pieces[0]
        blocks: list[Block] = []
        statuses: list[StatusReading] = []
        for back, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
            found, said = self._judged(piece, arrived_ns, arrived_ns - back * self._interval_ns)
            blocks += found
            statuses += said
        return Batch(tuple(blocks), tuple(statuses))

    def close(self) -> None:
        """Let go of the port."""
        self._line.close()

    def _judged(
        self, piece: bytes, arrived_ns: int, sent_ns: int
    ) -> tuple[tuple[Block, ...], tuple[StatusReading, ...]]:
        name, t_ns = self._channel.name, sent_ns - self._delay_ns
        elapsed_ns, self._before_ns = arrived_ns - self._before_ns, arrived_ns
        again = piece == self._before and elapsed_ns < _TWICE_WITHIN * self._interval_ns
        self._before = piece
        if again:
            return (), self._counted_duplicate(arrived_ns, t_ns)
        try:
            display = self.family.decode(piece)
        except ProtocolError as error:
            return sort_readings(name, [t_ns], [Status.UNREADABLE], str(error))
        reading, detail = judge(display, self._settings, self.family.counts)
        blocks, statuses = sort_readings(name, [t_ns], [reading], detail)
        if blocks:
            statuses += self._beside(display, t_ns - 1)
        return blocks, statuses

    def _counted_duplicate(self, arrived_ns: int, t_ns: int) -> tuple[StatusReading, ...]:
        """The number of repeated frames: at the first one, then at most once a minute."""
        self._duplicates += 1
        if arrived_ns < self._tell_duplicates_ns:
            return ()
        self._tell_duplicates_ns = arrived_ns + _TELL_DUPLICATES_EVERY_NS
        count, self._duplicates = self._duplicates, 0
        detail = "frames sent again are not taken"
        return (StatusReading(self._channel.name, t_ns, Status.DUPLICATE, detail, count),)

    def _beside(self, display: Display, t_ns: int) -> tuple[StatusReading, ...]:
        """What is told once, beside values that hold."""
        name = self._channel.name
        told: list[StatusReading] = []
        if display.low_battery and not self._low_battery:
            self._low_battery = True
            told.append(StatusReading(name, t_ns, Status.LOW_BATTERY, "change its battery", 0))
        if self._digit is not None and display.digit != self._digit:
            detail = f"now {display.digit * self.family.counts:g} {display.unit}"
            told.append(StatusReading(name, t_ns, Status.RANGE_CHANGED, detail, 0))
        self._digit = display.digit
        return tuple(told)
