"""Ranges, integration times and one-year accuracy of multimeters, from their makers' data sheets.

Each entry of a table is range: (% of reading, % of range), 23 ± 5 °C, one year after calibration,
after warm-up. The noise of short integration times is not in it: it shows in the scatter. Which
of these sheets were read, and which not, is in docs/drivers.md ("Where the limits of error are
from").
"""

from __future__ import annotations

from collections.abc import Mapping

from instruments.reading import Accuracy

Table = Mapping[float, tuple[float, float]]

_KEYSIGHT = "Keysight 5991-1983EN (Truevolt data sheet), 1 year"
_HP34401A = "Agilent 34401A Service Guide, page 69, 1 year limits"
_FLUKE = "Fluke 8845A/8846A Users Manual, pages 1-12 and 1-17, 1 year"
_SIGLENT = "Siglent SDM3065X data sheet 2021.05, 1 year"
_SIGLENT_3055 = "Siglent SDM3055 data sheet 2021.05, 1 year"
_UT61E = "UNI-T UT61E Operating Manual, 1 year"
_DMM6500 = "Keithley SPEC-DMM6500 Rev. A, April 2018, 1 year"
_KEITHLEY_2015 = "Keithley Model 2015 Service Manual, page 1-5, 1 year"
_DM3068 = "Rigol DM3068 Performance Verification Guide, page 2-2, 1 year limits at full scale"

_NPLC_5_DIGITS = (0.3, 1.0, 10.0)
_NPLC_34401A = (0.02, 0.2, 1.0, 10.0, 100.0)
_NPLC_34410A = (0.006, 0.02, 0.06, 0.2, 1.0, 2.0, 10.0, 100.0)
_NPLC_34465A = (0.001, 0.002, 0.006, 0.02, 0.06, 0.2, 1.0, 10.0, 100.0)
NPLC: Mapping[str, tuple[float, ...]] = {
    "34401A": _NPLC_34401A,
    "34410A": _NPLC_34410A,
    "34411A": (0.001, 0.002, *_NPLC_34410A),
    "34460A": _NPLC_34401A,
    "34461A": _NPLC_34401A,
    "34465A": _NPLC_34465A,
    "34470A": _NPLC_34465A,
    "8845A": _NPLC_34401A,
    "8846A": _NPLC_34401A,
    "SDM3045X": _NPLC_5_DIGITS,
    "SDM3055": _NPLC_5_DIGITS,
    "SDM3065X": (0.005, 0.05, 0.5, 1.0, 10.0, 100.0),
}
"""Integration times in mains periods, of models that have only these."""
NPLC_BETWEEN: Mapping[str, tuple[float, float]] = {
    "2000": (0.01, 10.0),
    "2015": (0.01, 10.0),
    "DMM6500": (0.0005, 12.0),
    "DAQ6510": (0.0005, 12.0),
    "DMM7510": (0.0005, 12.0),
}
"""Limits of the integration time in mains periods, where any in between will do."""

_TRUEVOLT_CURRENT: Table = {
    1e-4: (0.050, 0.025),
    1e-3: (0.050, 0.006),
    1e-2: (0.050, 0.020),
    0.1: (0.050, 0.005),
    1.0: (0.100, 0.010),
    3.0: (0.200, 0.020),
}
_FLUKE_CURRENT: Table = {
    1e-4: (0.05, 0.025),
    1e-3: (0.05, 0.005),
    1e-2: (0.05, 0.020),
    0.1: (0.05, 0.005),
    0.4: (0.05, 0.005),
    1.0: (0.05, 0.020),
    3.0: (0.10, 0.020),
    10.0: (0.15, 0.008),
}
_TRUEVOLT_10A: Table = {10.0: (0.120, 0.010)}

VOLTAGE: Mapping[str, tuple[str, Table]] = {
    "34460A": (
        _KEYSIGHT,
        {
            0.1: (0.0090, 0.0065),
            1.0: (0.0080, 0.0010),
            10.0: (0.0075, 0.0005),
            100.0: (0.0085, 0.0006),
            1000.0: (0.0085, 0.0010),
        },
    ),
    "34461A": (
        _KEYSIGHT,
        {
            0.1: (0.0050, 0.0035),
            1.0: (0.0040, 0.0007),
            10.0: (0.0035, 0.0005),
            100.0: (0.0045, 0.0006),
            1000.0: (0.0045, 0.0010),
        },
    ),
    "34465A": (
        _KEYSIGHT,
        {
            0.1: (0.0050, 0.0035),
            1.0: (0.0035, 0.0006),
            10.0: (0.0030, 0.0004),
            100.0: (0.0040, 0.0006),
            1000.0: (0.0040, 0.0006),
        },
    ),
    "34470A": (
        _KEYSIGHT,
        {
            0.1: (0.0040, 0.0035),
            1.0: (0.0020, 0.0006),
            10.0: (0.0016, 0.0002),
            100.0: (0.0038, 0.0006),
            1000.0: (0.0041, 0.0006),
        },
    ),
    "34401A": (
        _HP34401A,
        {
            0.1: (0.0050, 0.0035),
            1.0: (0.0040, 0.0007),
            10.0: (0.0035, 0.0005),
            100.0: (0.0045, 0.0006),
            1000.0: (0.0045, 0.0010),
        },
    ),
    "8845A": (
        _FLUKE,
        {
            0.1: (0.0050, 0.0035),
            1.0: (0.0040, 0.0007),
            10.0: (0.0035, 0.0005),
            100.0: (0.0045, 0.0006),
            1000.0: (0.0045, 0.0010),
        },
    ),
    "8846A": (
        _FLUKE,
        {
            0.1: (0.0037, 0.0035),
            1.0: (0.0025, 0.0007),
            10.0: (0.0024, 0.0005),
            100.0: (0.0038, 0.0006),
            1000.0: (0.0041, 0.0010),
        },
    ),
    "SDM3055": (
        _SIGLENT_3055,
        {
            0.2: (0.015, 0.004),
            2.0: (0.015, 0.003),
            20.0: (0.015, 0.004),
            200.0: (0.015, 0.003),
            1000.0: (0.015, 0.003),
        },
    ),
    "SDM3065X": (
        _SIGLENT,
        {
            0.2: (0.0040, 0.0023),
            2.0: (0.0035, 0.0006),
            20.0: (0.0040, 0.0004),
            200.0: (0.0050, 0.0005),
            1000.0: (0.0055, 0.0008),
        },
    ),
    "DMM6500": (
        _DMM6500,
        {
            0.1: (0.0030, 0.0035),
            1.0: (0.0025, 0.0006),
            10.0: (0.0025, 0.0005),
            100.0: (0.0040, 0.0006),
            1000.0: (0.0040, 0.0006),
        },
    ),
    "2015": (_KEITHLEY_2015, {10.0: (0.0030, 0.0005)}),
    "DM3068": (
        _DM3068,
        {
            0.2: (0.0, 100 * 13e-6 / 0.2),
            2.0: (0.0, 100 * 82e-6 / 2.0),
            20.0: (0.0, 100 * 900e-6 / 20.0),
            200.0: (0.0, 100 * 11.2e-3 / 200.0),
        },
    ),
    "UT61E": (
        _UT61E,
        {
            0.22: (0.1, 100 * 5 / 22_000),
            2.2: (0.1, 100 * 2 / 22_000),
            22.0: (0.1, 100 * 2 / 22_000),
            220.0: (0.1, 100 * 2 / 22_000),
            1000.0: (0.1, 100 * 5 / 10_000),
        },
    ),
}
"""DC voltage of each model: source, ranges in V."""

CURRENT: Mapping[str, tuple[str, Table]] = {
    "34460A": (_KEYSIGHT, _TRUEVOLT_CURRENT),
    "34461A": (_KEYSIGHT, {**_TRUEVOLT_CURRENT, **_TRUEVOLT_10A}),
    "34465A": (_KEYSIGHT, {**_TRUEVOLT_CURRENT, **_TRUEVOLT_10A}),
    "34470A": (_KEYSIGHT, {**_TRUEVOLT_CURRENT, **_TRUEVOLT_10A}),
    "34401A": (
        _HP34401A,
        {0.01: (0.050, 0.020), 0.1: (0.050, 0.005), 1.0: (0.100, 0.010), 3.0: (0.120, 0.020)},
    ),
    "8845A": (_FLUKE, _FLUKE_CURRENT),
    "8846A": (_FLUKE, _FLUKE_CURRENT),
    "SDM3055": (
        _SIGLENT_3055,
        {
            2e-4: (0.055, 0.005),
            2e-3: (0.055, 0.005),
            0.02: (0.095, 0.020),
            0.2: (0.070, 0.008),
            2.0: (0.170, 0.020),
            10.0: (0.250, 0.010),
        },
    ),
    "SDM3065X": (
        _SIGLENT,
        {
            2e-4: (0.05, 0.005),
            2e-3: (0.05, 0.002),
            0.02: (0.05, 0.005),
            0.2: (0.05, 0.002),
            2.0: (0.10, 0.012),
            10.0: (0.15, 0.005),
        },
    ),
    "UT61E": (
        _UT61E,
        {
            220e-6: (0.5, 100 * 10 / 22_000),
            2200e-6: (0.5, 100 * 10 / 22_000),
            22e-3: (0.5, 100 * 10 / 22_000),
            220e-3: (0.5, 100 * 10 / 22_000),
            10.0: (1.2, 100 * 50 / 10_000),
        },
    ),
}
"""DC current of each model: source, ranges in A."""

_DECADES = (0.1, 1.0, 10.0, 100.0, 1000.0)
_TIMES_TWO = (0.2, 2.0, 20.0, 200.0, 1000.0)
_TIMES_FIVE = (0.05, 0.5, 5.0, 50.0, 500.0, 1000.0)
_KEITHLEY_AMPS = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 3.0)
_RIGOL_AMPS = (2e-4, 2e-3, 0.02, 0.2, 2.0, 10.0)
_OWON_AMPS = (5e-4, 5e-3, 0.05, 0.5, 5.0, 10.0)

RANGES: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "34410A": {"voltage": _DECADES, "current": (1e-4, 1e-3, 0.01, 0.1, 1.0, 3.0)},
    "34411A": {"voltage": _DECADES, "current": (1e-4, 1e-3, 0.01, 0.1, 1.0, 3.0)},
    "2000": {"voltage": _DECADES, "current": (0.01, 0.1, 1.0, 3.0)},
    "2015": {"voltage": _DECADES, "current": (0.01, 0.1, 1.0, 3.0)},
    "DMM6500": {"voltage": _DECADES, "current": (*_KEITHLEY_AMPS, 10.0)},
    "DAQ6510": {"voltage": _DECADES, "current": _KEITHLEY_AMPS},
    "DMM7510": {"voltage": _DECADES, "current": (*_KEITHLEY_AMPS, 10.0)},
    "DM3058": {"voltage": _TIMES_TWO, "current": _RIGOL_AMPS},
    "DM3058E": {"voltage": _TIMES_TWO, "current": _RIGOL_AMPS},
    "DM3068": {"voltage": _TIMES_TWO, "current": _RIGOL_AMPS},
    "XDM1041": {"voltage": _TIMES_FIVE, "current": _OWON_AMPS},
    "XDM1241": {"voltage": _TIMES_FIVE, "current": _OWON_AMPS},
}
"""Ranges of models whose accuracy is not known here for all of them, in V and A."""

TERMINALS_OF_10_A = ("34461A", "34465A", "34470A")
"""Models with 10 A on terminals of their own. These have one range, and what the query of the range
of a current answers is of the others (Truevolt Series Operating and Service Guide,
``[SENSe:]CURRent:{AC|DC}:RANGe``)."""

AUTO_ZERO_OFF_PCT_OF_RANGE = 0.0002
AUTO_ZERO_OFF_VOLTS = 5e-6
"""Added while auto-zero is off, the second to DC volts alone."""

_AUTO_ZERO_OFF_KNOWN = ("34401A", "34460A", "34461A", "34465A", "34470A", "2000", "2015")
"""Models whose own source gives these limits; for others the 34401A's are taken."""


def table(model: str, function: str) -> tuple[str, Table] | None:
    """Source and ranges of ``voltage`` or ``current``; None for a model without a table."""
    return (VOLTAGE if function == "voltage" else CURRENT).get(model)


def accuracy(model: str, function: str, range_: float) -> Accuracy | None:
    """The limits of error of a range; None where no table has it."""
    found = table(model, function)
    if found is None or range_ not in found[1]:
        return None
    of_reading, of_range = found[1][range_]
    return Accuracy(of_reading / 100, of_range / 100 * range_, found[0])


def without_auto_zero(limits: Accuracy, model: str, function: str, range_: float) -> Accuracy:
    """The limits while auto-zero is off: more than those of the range, and where that is from."""
    floor = limits.floor + AUTO_ZERO_OFF_PCT_OF_RANGE / 100 * range_
    if function == "voltage":
        floor += AUTO_ZERO_OFF_VOLTS
    whose = "" if model in _AUTO_ZERO_OFF_KNOWN else " (limits of a 34401A)"
    return Accuracy(limits.of_reading, floor, f"{limits.source}, auto-zero off{whose}")


def allowed_ranges(model: str, function: str) -> tuple[float, ...]:
    """The ranges of a model, ascending; empty where no table has them."""
    if model in RANGES:
        return RANGES[model][function]
    found = table(model, function)
    return tuple(sorted(found[1])) if found else ()
