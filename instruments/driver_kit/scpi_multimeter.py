"""What the drivers of SCPI multimeters have in common: one DC function on one line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from instruments.driver_kit.base_settings import MultimeterSettings
from instruments.driver_kit.front_panel import FrontPanelCheck
from instruments.driver_kit.scpi import (
    DC_FUNCTIONS,
    QUIET_S,
    ScpiSession,
    parse_quantity,
    parse_reading,
)
from instruments.driver_kit.specifications import TERMINALS_OF_10_A
from instruments.errors import ProtocolError
from instruments.reading import Batch, Channel, HostClock, Identity, Status, StatusReading
from instruments.transports.lines import MessageLine

LONGEST_APERTURE_S: Final = 0.4
"""Of a reading that is asked for: longer ones would come close to the time after which a meter
counts as silent."""

LATE_S: Final = 0.1
"""A reading whose place is not known better than ± half of this is a status."""

_ON_10_A: Final = 5.0
"""The other terminals are called 3."""

_FUNCTION: Final = re.compile(r"[A-Z]+(:[A-Z]+)*")

Settings = TypeVar("Settings", bound=MultimeterSettings)
Parsed = TypeVar("Parsed")


def require_answer_in_time(nplc: float, mains_hz: int) -> None:
    """Raises ValueError for an integration time (in mains periods) too long for an answer."""
    if nplc / mains_hz > LONGEST_APERTURE_S:
        raise ValueError(f"must be at most {LONGEST_APERTURE_S * mains_hz:g} here")


def ask_reading(
    scpi: ScpiSession, clock: HostClock, query: str, quiet_s: float = QUIET_S
) -> tuple[float | Status, str, int, int]:
    """A reading, why it is unreadable (else empty), and when it was asked for and came.

    After an unreadable one the line is emptied until it is quiet for ``quiet_s``: the answer may be
    a stale one, and the right one still on its way.
    """
    asked_ns = clock()
    answer = scpi.ask_bytes(query)
    answered_ns = clock()
    try:
        reading = parse_reading(answer.decode("ascii", errors="replace"))
    except ProtocolError as error:
        scpi.resynchronise(quiet_s)
        return Status.UNREADABLE, str(error), asked_ns, answered_ns
    return reading, "", asked_ns, answered_ns


def late_answer(late_s: float) -> str:
    """The detail of a reading that came so late that its time is not known."""
    return f"answered {late_s:.2f} s late: its time is not known"


class ScpiMultimeter(Generic[Settings]):
    """The session, the function and the one channel of a multimeter."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        clock: HostClock,
        line: MessageLine | None,
        channel: Channel,
        command_end: bytes = b"\n",
    ) -> None:
        self._settings = settings
        self._clock = clock
        line = line or settings.line(name)
        self._scpi = ScpiSession(name, line, settings.timeout_s, command_end)
        self._node = "VOLT:DC" if settings.function == "voltage" else "CURR:DC"
        self._range: float | None = settings.range
        """The range that it must be on; None: any."""
        self._panel = FrontPanelCheck(self._scpi, self._mismatch)
        self._channel = channel
        self.channels = (channel,)

    def open(self) -> Identity:
        """Connect and make sure of the model."""
        self._scpi.open()
        self._scpi.resynchronise()
        self._prepare_remote_control()
        return self._scpi.expect_identity(self._expected_model(), self._settings.serial)

    def _verify_settings(self, nplc: float) -> None:
        """Wait for the set-up and make sure of it. Raises SettingRefused."""
        scpi, settings = self._scpi, self._settings
        scpi.wait_until_done()
        scpi.raise_device_errors("its settings")
        scpi.expect_function(settings.function)
        scpi.expect_quantity(self._range_query(), settings.range, "the range")
        scpi.expect_quantity(f"{self._node}:NPLC?", nplc, "NPLC")

    def _range_query(self) -> str:
        """The question for the range in effect, V or A. Raises ProtocolError, NoAnswer."""
        if self._settings.function == "current" and self._settings.model in TERMINALS_OF_10_A:
            terminals = f"{self._node}:TERM?"
            if self._scpi.ask_for(terminals, parse_quantity) > _ON_10_A:
                return terminals
        return f"{self._node}:RANG?"

    def _ask_at_most_twice(
        self, query: str, parse: Callable[[str], Parsed]
    ) -> tuple[Parsed, int, int]:
        """The parsed answer, and when it was asked for and came. Raises ProtocolError."""
        for attempt in (1, 2):
            asked_ns = self._clock()
            answer = self._scpi.ask(query)
            answered_ns = self._clock()
            try:
                return parse(answer), asked_ns, answered_ns
            except ProtocolError as error:
                self._scpi.resynchronise()
                if attempt == 2:
                    raise ProtocolError(f"{self._scpi.name}: {error}") from None
        raise AssertionError

    def _mismatch(self) -> tuple[Status, str] | None:
        """Status and detail of a setting that differs. Raises ProtocolError, NoAnswer."""
        function = self._scpi.ask("FUNC?").strip('"').upper()
        if not _FUNCTION.fullmatch(function):
            raise ProtocolError(f"expected a function, got {function[:60]!r}")
        wanted = self._settings.function
        if function not in DC_FUNCTIONS[wanted]:
            return Status.WRONG_FUNCTION, f"measures {function}, not DC {wanted}"
        if self._range is None:
            return None
        range_ = parse_quantity(self._scpi.ask(self._range_query()))
        if math.isclose(range_, self._range, rel_tol=0.01):
            return None
        return Status.RANGE_CHANGED, f"range {range_:g}, not {self._range:g}"

    def _status_batch(self, t_ns: int, detail: str) -> Batch:
        """An unreadable status in place of a reading."""
        return Batch(statuses=(StatusReading(self._channel.name, t_ns, Status.UNREADABLE, detail),))

    def _prepare_remote_control(self) -> None:
        """Send what the meter needs before it takes commands."""

    def _expected_model(self) -> str:
        """A word of the model in the answer to ``*IDN?``; empty: any."""
        return self._settings.model
