"""Ranges of the simulated multimeters, told without the drivers' tables.

Sources: Keysight 5991-1983EN (Truevolt), Agilent 34401A User's Guide, Fluke 8845A/8846A Users
Manual, Siglent SDM3065X data sheet, Keithley 2000 and DMM6500 Reference Manuals, Rigol DM3058
User's Guide, and the display of an Owon XDM1041.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_DECADES: Final = (0.1, 1.0, 10.0, 100.0, 1000.0)
_TRUEVOLT: Final = {"voltage": _DECADES, "current": (1e-4, 1e-3, 0.01, 0.1, 1.0, 3.0, 10.0)}
_DOUBLES: Final = (0.2, 2.0, 20.0, 200.0, 1000.0)

RANGES: Final[Mapping[str, Mapping[str, tuple[float, ...]]]] = {
    "34460A": {"voltage": _DECADES, "current": (1e-4, 1e-3, 0.01, 0.1, 1.0, 3.0)},
    "34461A": _TRUEVOLT,
    "34465A": _TRUEVOLT,
    "34470A": _TRUEVOLT,
    "34401A": {"voltage": _DECADES, "current": (0.01, 0.1, 1.0, 3.0)},
    "8846A": {"voltage": _DECADES, "current": (1e-4, 1e-3, 0.01, 0.1, 0.4, 1.0, 3.0, 10.0)},
    "SDM3065X": {"voltage": _DOUBLES, "current": (2e-4, 2e-3, 0.02, 0.2, 2.0, 10.0)},
    "2000": {"voltage": _DECADES, "current": (0.01, 0.1, 1.0, 3.0)},
    "DMM6500": {"voltage": _DECADES, "current": (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 3.0, 10.0)},
    "DM3058": {"voltage": _DOUBLES, "current": (2e-4, 2e-3, 0.02, 0.2, 2.0, 10.0)},
    "XDM1041": {
        "voltage": (0.05, 0.5, 5.0, 50.0, 500.0, 1000.0),
        "current": (5e-4, 5e-3, 0.05, 0.5, 5.0, 10.0),
    },
}
"""Of each model, in V and A, ascending."""


def ranges_of(model: str, function: str) -> tuple[float, ...]:
    """The ranges of ``voltage`` or ``current``."""
    return RANGES[model][function]
