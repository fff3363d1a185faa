r"""Records what goes over an instrument's line in a text file, and replays it to the driver.

So a user can send the recording of a meter, and its driver is tested against it. The file:

    labctl session 1
    {"driver": "k204", "name": "case", "settings": {…}}
    0.000512 open
    0.001204 > A
    0.046810 < \x02\x80…\x03
    1.513370 ! NoAnswer case: no whole answer within 1.5 s

Each line has the seconds since the beginning, the kind of event (``>`` sent, ``<`` received, ``!``
raised), and the bytes: printable ASCII as it is, other bytes as ``\xNN``, a backslash twice. Bytes
that were discarded, and waits that ended without bytes, are not recorded. For instruments that
are files of a host, ``>`` is the JSON array of the patterns that were read, and ``<`` the JSON
object of the texts that the files had.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TextIO, TypeVar

from instruments import drivers, errors
from instruments.driver_kit.base_settings import HostFilesSettings
from instruments.errors import ConnectionLost, InstrumentError, NoAnswer, ProtocolError
from instruments.instrument import Instrument
from instruments.reading import HostClock
from instruments.transports.host_files import HostFiles
from instruments.transports.lines import ByteLine, MessageLine

FIRST_LINE: Final = "labctl session 1"
Result = TypeVar("Result")
_WAITS_AT_THE_END: Final = 2
"""How often a driver may wait after the last bytes: it may be about to report silence, or to make
readings of what it has. A read that does not wait is not counted."""
_ESCAPED: Final = re.compile(r"\\(?:x([0-9a-f]{2})|(\\))")


class AnyLine(MessageLine, ByteLine, Protocol):
    """A line that gives messages and bytes: both kinds of line in one."""


Source = TypeVar("Source", bound=AnyLine | HostFiles)


class RecordingEnded(ConnectionLost):
    """The recording has no more events."""


class RecordedKind(StrEnum):
    """What happened on a line, as the file writes it."""

    OPEN = "open"
    CLOSE = "close"
    SENT = ">"
    RECEIVED = "<"
    RAISED = "!"


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One event on a line."""

    t_s: float
    kind: RecordedKind
    data: bytes = b""

    def __str__(self) -> str:
        return f"{self.t_s:.6f} {self.kind} {escape(self.data)}".rstrip(" ")


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """A recording: the driver, its settings, and all events."""

    driver: str
    name: str
    settings: Mapping[str, Any]
    events: tuple[RecordedEvent, ...]


def escape(data: bytes) -> str:
    """Bytes as printable text on one line."""
    return "".join(
        "\\\\" if byte == 0x5C else chr(byte) if 0x21 <= byte <= 0x7E else f"\\x{byte:02x}"
        for byte in data
    )


def unescape(text: str) -> bytes:
    """The bytes that :func:`escape` made text of. Raises ValueError."""
    if "\\" in _ESCAPED.sub("", text):
        raise ValueError(f"a backslash that escapes nothing: {text[:40]!r}")
    return _ESCAPED.sub(lambda m: chr(int(m[1], 16)) if m[1] else "\\", text).encode("latin-1")


class _RecordWriter:
    """Writes events to a file, with the seconds since the beginning."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._begin = time.monotonic()

    def write(self, kind: RecordedKind, data: bytes = b"") -> None:
        """Write one event."""
        self._file.write(f"{RecordedEvent(time.monotonic() - self._begin, kind, data)}\n")

    def call(self, function: Callable[[], Result]) -> Result:
        """The result of ``function``; an InstrumentError it raises is written too."""
        try:
            return function()
        except InstrumentError as error:
            self.write(RecordedKind.RAISED, f"{type(error).__name__} {error}".encode())
            raise


class _Recorded(Generic[Source]):
    """A line or files whose use is recorded."""

    def __init__(self, source: Source, file: TextIO) -> None:
        self._source = source
        self._record = _RecordWriter(file)

    def open(self) -> None:
        """Connect."""
        self._record.write(RecordedKind.OPEN)
        self._record.call(self._source.open)

    def close(self) -> None:
        """Close the connection."""
        self._source.close()
        self._record.write(RecordedKind.CLOSE)


class RecordingLine(_Recorded[AnyLine]):
    """A line that records what goes over another line."""

    def write(self, data: bytes) -> None:
        """Send."""
        self._record.write(RecordedKind.SENT, data)
        self._record.call(lambda: self._source.write(data))

    def discard(self, quiet_s: float = 0.0) -> None:
        """Discard unread bytes."""
        self._record.call(lambda: self._source.discard(quiet_s))

    def read_line(self, timeout_s: float) -> bytes:
        """One answer."""
        return self._received(lambda: self._source.read_line(timeout_s))

    def read_some(self, timeout_s: float) -> bytes:
        """What has come in."""
        return self._received(lambda: self._source.read_some(timeout_s))

    def _received(self, read: Callable[[], bytes]) -> bytes:
        data = self._record.call(read)
        if data:
            self._record.write(RecordedKind.RECEIVED, data)
        return data


class RecordingFiles(_Recorded[HostFiles]):
    """Files of a host; each read is recorded."""

    def texts(self, patterns: Sequence[str]) -> dict[str, str | None]:
        """See :class:`~instruments.transports.host_files.HostFiles`."""
        self._record.write(RecordedKind.SENT, json.dumps(list(patterns)).encode())
        found = self._record.call(lambda: self._source.texts(patterns))
        self._record.write(RecordedKind.RECEIVED, json.dumps(found).encode())
        return found


class ReplayLine:
    """A line that plays a recording; :meth:`clock` is the host's clock of the recording.

    The driver must send what was sent then; it may read as often as it likes.
    """

    def __init__(self, events: Iterable[RecordedEvent]) -> None:
        self._left = deque(
            event for event in events if event.kind not in (RecordedKind.OPEN, RecordedKind.CLOSE)
        )
        self._to_come = sum(event.kind is RecordedKind.RECEIVED for event in self._left)
        self._now_s = 0.0
        self._clock_was_read = False
        self._waits_left = _WAITS_AT_THE_END

    def clock(self) -> int:
        """The host's clock in the recording, in ns since its beginning.

        After an event it is the event's time. A driver that reads it once more before it sends
        anything asks for the time of its next question: how long it waited before that question
        is no part of the answer's delay.
        """
        if self._clock_was_read and self._left and self._left[0].kind is RecordedKind.SENT:
            self._now_s = self._left[0].t_s
        self._clock_was_read = True
        return round(self._now_s * 1e9)

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing is there to be closed."""

    def write(self, data: bytes) -> None:
        """Go on to the next bytes sent. Raises ProtocolError where they differ, RecordingEnded."""
        while self._left and self._left[0].kind is not RecordedKind.SENT:
            self._play()
        if not self._left:
            raise RecordingEnded("the recording is over")
        sent = self._play()
        if sent.data != data:
            if not self._to_come:
                raise RecordingEnded("the recording is over: the driver closed the line here")
            raise ProtocolError(
                f"the driver sends {escape(data)!r}, the recording has {escape(sent.data)!r} "
                f"at {sent.t_s:.3f} s: it was made with another version or other settings"
            )
        self._raise_next()

    def discard(self, quiet_s: float = 0.0) -> None:
        """Discarded bytes are not in the recording."""

    def read_line(self, timeout_s: float) -> bytes:
        """The next answer."""
        data = self.read_some(timeout_s)
        if not data and not self._left:
            raise RecordingEnded("the recording is over")
        if not data:
            raise NoAnswer("the recording has no answer here")
        return data

    def read_some(self, timeout_s: float) -> bytes:
        """The next bytes received; empty where bytes were sent first."""
        self._raise_next()
        if self._left and self._left[0].kind is RecordedKind.RECEIVED:
            return self._play().data
        if not self._to_come and timeout_s > 0:
            if not self._waits_left:
                raise RecordingEnded("the recording is over")
            self._waits_left -= 1
        time.sleep(timeout_s)  # nothing came then either
        return b""

    def _play(self) -> RecordedEvent:
        event = self._left.popleft()
        self._to_come -= event.kind is RecordedKind.RECEIVED
        self._now_s = event.t_s
        self._clock_was_read = False
        return event

    def _raise_next(self) -> None:
        if self._left and self._left[0].kind is RecordedKind.RAISED:
            kind, _, message = self._play().data.decode(errors="replace").partition(" ")
            raised = getattr(errors, kind, ConnectionLost)
            raise raised(message)


class ReplayFiles:
    """The files of a recording."""

    def __init__(self, line: ReplayLine) -> None:
        self._line = line

    def open(self) -> None:
        """Nothing to connect."""

    def texts(self, patterns: Sequence[str]) -> dict[str, str | None]:
        """The texts of the recorded read. Raises what it raised, and RecordingEnded."""
        self._line.write(json.dumps(list(patterns)).encode())
        found: dict[str, str | None] = json.loads(self._line.read_line(0.0))
        return found

    def close(self) -> None:
        """Nothing is there to be closed."""


def recorded_instrument(
    file: TextIO, name: str, driver: str, settings: Mapping[str, Any], clock: HostClock
) -> Instrument:
    """An instrument whose line is recorded in ``file``.

    Raises KeyError for an unknown driver, pydantic.ValidationError for its settings, and
    InstrumentError for a driver without a line or files.
    """
    file.write(f"{FIRST_LINE}\n")
    file.write(json.dumps({"driver": driver, "name": name, "settings": dict(settings)}) + "\n")
    validated = drivers.settings_model(driver).model_validate(dict(settings))
    line: RecordingFiles | RecordingLine
    if isinstance(validated, HostFilesSettings):
        line = RecordingFiles(validated.files(name), file)
    elif callable(line_of := getattr(validated, "line", None)):
        line = RecordingLine(line_of(name), file)
    else:
        raise InstrumentError(f"{name}: {driver} has no line that can be recorded")
    return drivers.create(name, driver, settings, clock, line)


def parse_session(text: str) -> RecordedSession:
    """The session in a file. Raises ProtocolError, which names the line that is wrong.

    A last line that was cut short (its recorder was killed) is left out.
    """
    lines = text.splitlines()
    if not lines or lines[0].strip() != FIRST_LINE:
        raise ProtocolError(f"not a recorded session: the first line must be {FIRST_LINE!r}")
    number = 2
    try:
        header = json.loads(lines[1])
        events = []
        for number, line in enumerate(lines[2:], start=3):  # noqa: B007 used in the message
            if line.strip():
                events.append(_parse_event(line))
    except (ValueError, IndexError) as error:
        if number == 2 or number < len(lines) or text.endswith("\n"):
            raise ProtocolError(f"line {number} of the session: {error}") from error
    try:
        driver, name = str(header["driver"]), str(header["name"])
        return RecordedSession(driver, name, dict(header["settings"]), tuple(events))
    except (ValueError, KeyError, TypeError) as error:
        raise ProtocolError(
            "line 2 of the session: must be a JSON object of driver, name and settings"
        ) from error


def _parse_event(line: str) -> RecordedEvent:
    t_s, _, rest = line.partition(" ")
    kind, _, data = rest.partition(" ")
    if kind not in list(RecordedKind):
        raise ValueError(f"{kind!r} is not open, close, >, < or !")
    return RecordedEvent(float(t_s), RecordedKind(kind), unescape(data))


def replayed_instrument(session: RecordedSession) -> Instrument:
    """The session's driver on its recording. Raises KeyError, pydantic.ValidationError."""
    line = ReplayLine(session.events)
    model = drivers.settings_model(session.driver)
    played = ReplayFiles(line) if issubclass(model, HostFilesSettings) else line
    return drivers.create(session.name, session.driver, session.settings, line.clock, played)
