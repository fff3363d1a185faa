"""What the drivers of SCPI multimeters have in common: one DC function on one line."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from instruments.driver_kit.base_settings import MultimeterSettings
from instruments.driver_kit.scpi import ScpiSession
from instruments.reading import Batch, Channel, HostClock, Identity, Status, StatusReading
from instruments.transports.lines import MessageLine

RESET_TIMEOUT_S: Final = 3.0
"""Longest duration of ``*RST`` and a setup; a stop waits no longer for a meter."""

LATE_S: Final = 0.1
"""A reading whose place is not known better than ± half of this is a status."""

Settings = TypeVar("Settings", bound=MultimeterSettings)


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
        self._channel = channel

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The one channel."""
        return (self._channel,)

    def open(self) -> Identity:
        """Connect and make sure of the model."""
        self._scpi.open()
        self._scpi.resynchronise()
        self._prepare_remote_control()
        return self._scpi.expect_identity(self._expected_model(), self._settings.serial)

    def _status_batch(self, t_ns: int, detail: str) -> Batch:
        """An unreadable status in place of a reading."""
        return Batch(statuses=(StatusReading(self._channel.name, t_ns, Status.UNREADABLE, detail),))

    def _prepare_remote_control(self) -> None:
        """Send what the meter needs before it takes commands."""

    def _expected_model(self) -> str:
        """A word of the model in the answer to ``*IDN?``; empty: any."""
        return self._settings.model
