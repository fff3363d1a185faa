"""The contract between an instrument and the program that reads it.

One owner thread calls, in this order: ``open``, ``start``, ``read`` again and again, ``close``.
No method is ever called by two threads at once, so drivers need no locks. After ``close`` or
any ``InstrumentError`` the owner may call ``open`` again (the meter
was unplugged and is back): ``open`` then connects anew, and ``start`` sends all settings again.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from instruments.reading import Batch, Channel, Identity


@runtime_checkable
class Instrument(Protocol):
    """Something that yields readings."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels it yields. They follow from the settings alone: known before ``open``."""
        ...

    def open(self) -> Identity:
        """Connect, ask who it is, refuse a wrong model.

        Raises ConnectionLost, NoAnswer, ProtocolError, WrongInstrument.
        """
        ...

    def start(self) -> None:
        """Send all settings, verify them and begin to measure.

        Raises SettingRefused, and what ``open`` raises.
        """
        ...

    def read(self) -> Batch:
        """The readings since the last call; waits at most 0.5 s for some.

        An empty batch is allowed: the owner decides when silence is too long. Raises
        ConnectionLost, NoAnswer, ProtocolError.
        """
        ...

    def close(self) -> None:
        """Stop measuring, give the front panel back, close the line.

        Takes at most 2 s and never raises: it is also called when the line is already dead.
        """
        ...


@runtime_checkable
class PowerSwitch(Protocol):
    """An instrument that feeds the drive, and may switch its power where the rig allows it."""

    @property
    def may_switch(self) -> bool:
        """Whether the rig allows it."""
        ...

    def switch(self, on: bool) -> None:
        """Switch the drive's power, after ``open``. ``close`` leaves it as it is.

        Raises SettingRefused where the rig does not allow it or the output does not switch, and
        what ``open`` raises.
        """
        ...
