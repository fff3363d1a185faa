"""Detects that somebody changed a SCPI meter's function or range at its front panel."""

from __future__ import annotations

import math
import re
from typing import Final

from instruments.driver_kit.scpi import DC_FUNCTIONS, ScpiSession, parse_quantity
from instruments.errors import ProtocolError
from instruments.reading import Status

CHECK_S: Final = 2.5
"""Two short queries; more often than a meter stopped at its panel would count as silent."""

_FUNCTION = re.compile(r"[A-Z]+(:[A-Z]+)*")


class FrontPanelCheck:
    """Queries the function and the range in effect from time to time (range None: any)."""

    def __init__(self, scpi: ScpiSession, function: str, range_: float | None) -> None:
        self._scpi = scpi
        self._function = function
        self._range = range_
        self._next_ns: int | None = None

    def restart(self) -> None:
        """The meter was just set up."""
        self._next_ns = None

    def due(self, now_ns: int) -> bool:
        """Whether a check is due at ``now_ns`` (host's clock); the first call starts the wait."""
        if self._next_ns is not None and now_ns < self._next_ns:
            return False
        first, self._next_ns = self._next_ns is None, now_ns + round(CHECK_S * 1e9)
        return not first

    def changed(self) -> tuple[Status, str] | None:
        """Status and detail of a change; None without one, or where an answer is unreadable."""
        wanted = DC_FUNCTIONS[self._function]
        try:
            function = self._scpi.ask("FUNC?").strip('"').upper()
            if not _FUNCTION.fullmatch(function):
                raise ProtocolError(f"expected a function, got {function[:60]!r}")
            if function not in wanted:
                return (
                    Status.WRONG_FUNCTION,
                    f"measures {function}, not DC {self._function}: front panel touched",
                )
            if self._range is None:
                return None
            range_ = parse_quantity(self._scpi.ask(f"{wanted[1]}:RANG?"))
        except ProtocolError:
            self._scpi.resynchronise()
            return None
        if math.isclose(range_, self._range, rel_tol=0.01):
            return None
        return (
            Status.RANGE_CHANGED,
            f"range {range_:g}, not {self._range:g}: front panel touched",
        )
