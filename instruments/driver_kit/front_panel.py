"""Detects that somebody changed a SCPI meter's settings at its front panel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from instruments.driver_kit.scpi import ScpiSession
from instruments.errors import ProtocolError
from instruments.reading import Status

CHECK_S: Final = 2.5
"""A few short queries; more often than a meter stopped at its panel would count as silent."""


class FrontPanelCheck:
    """Compares the settings in effect with those wanted from time to time.

    ``mismatch`` queries them: status and detail of one that differs. It may raise ProtocolError.
    """

    def __init__(
        self, scpi: ScpiSession, mismatch: Callable[[], tuple[Status, str] | None]
    ) -> None:
        self._scpi = scpi
        self._mismatch = mismatch
        self._next_ns = 0

    def restart(self, now_ns: int) -> None:
        """The meter was just set up (host's clock)."""
        self._next_ns = now_ns + round(CHECK_S * 1e9)

    def changed(self, now_ns: int) -> tuple[Status, str] | None:
        """Status and detail of a change, where a check is due at ``now_ns`` (host's clock).

        None without a change, and where an answer is unreadable.
        """
        if now_ns < self._next_ns:
            return None
        self.restart(now_ns)
        try:
            wrong = self._mismatch()
        except ProtocolError:
            self._scpi.resynchronise()
            return None
        return (wrong[0], f"{wrong[1]}: front panel touched") if wrong else None
