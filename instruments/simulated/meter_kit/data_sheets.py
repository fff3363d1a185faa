"""How far off each simulated meter may be, by its maker's data sheet, told without the drivers.

A meter's errors are drawn within these limits, so that a wrong limit in a driver's table puts the
truth outside of the U that labctl states. Multimeters: range: (% of reading, % of range), one year
after calibration. Models that are not here have the limits that the rig gives them.

Read page by page: Agilent 34401A Service Guide (page 69), Fluke 8845A/8846A Users Manual (pages
1-12, 1-17), the 10 V range of Keithley DMM6500-905-01 Rev. A (page 2-4), amps of Rigol's DP800
Performance Verification Manual. From notes taken of it: TI SBOS547B (INA226). From transcripts of
others: DC volts of the 34461A (Keysight's edition of June 2022) and of the DMM6500 (SPEC-DMM6500
Rev. A), % of reading of the 34460A's 10 V, the SDM3065X (DataSheet-2021.05 as typed by the public
project GUMeasure), volts of the DP832, the Thermologger 309 (a shop's table of its manual). Not
confirmed, and so perhaps wrong together with the driver's: the other figures of the Truevolts
(Keysight 5991-1983EN) and the UT61E.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from instruments.reading import Accuracy

Limits = Mapping[float, tuple[float, float]]

_DECADES: Final = (0.1, 1.0, 10.0, 100.0, 1000.0)
_TRUEVOLT_AMPS: Final[Limits] = {
    1e-4: (0.05, 0.025),
    1e-3: (0.05, 0.006),
    1e-2: (0.05, 0.02),
    0.1: (0.05, 0.005),
    1.0: (0.1, 0.01),
    3.0: (0.2, 0.02),
    10.0: (0.12, 0.01),
}


def _data_sheet_volts(*limits: tuple[float, float]) -> Limits:
    return dict(zip(_DECADES, limits, strict=True))


_VOLTS_34401A: Final = _data_sheet_volts(
    (0.005, 0.0035), (0.004, 0.0007), (0.0035, 0.0005), (0.0045, 0.0006), (0.0045, 0.001)
)
_UT61E_COUNTS: Final = 22_000

MULTIMETERS: Final[Mapping[str, Mapping[str, Limits]]] = {
    "34460A": {
        "voltage": _data_sheet_volts(
            (0.009, 0.0065), (0.008, 0.001), (0.0075, 0.0005), (0.0085, 0.0006), (0.0085, 0.001)
        ),
        "current": {range_: limit for range_, limit in _TRUEVOLT_AMPS.items() if range_ <= 3},
    },
    "34461A": {"voltage": _VOLTS_34401A, "current": _TRUEVOLT_AMPS},
    "34465A": {
        "voltage": _data_sheet_volts(
            (0.005, 0.0035), (0.0035, 0.0006), (0.003, 0.0004), (0.004, 0.0006), (0.004, 0.0006)
        ),
        "current": _TRUEVOLT_AMPS,
    },
    "34470A": {
        "voltage": _data_sheet_volts(
            (0.004, 0.0035), (0.002, 0.0006), (0.0016, 0.0002), (0.0038, 0.0006), (0.0041, 0.0006)
        ),
        "current": _TRUEVOLT_AMPS,
    },
    "34401A": {
        "voltage": _VOLTS_34401A,
        "current": {0.01: (0.05, 0.02), 0.1: (0.05, 0.005), 1.0: (0.1, 0.01), 3.0: (0.12, 0.02)},
    },
    "8846A": {
        "voltage": _data_sheet_volts(
            (0.0037, 0.0035), (0.0025, 0.0007), (0.0024, 0.0005), (0.0038, 0.0006), (0.0041, 0.001)
        ),
        "current": {
            1e-4: (0.05, 0.025),
            1e-3: (0.05, 0.005),
            1e-2: (0.05, 0.02),
            0.1: (0.05, 0.005),
            0.4: (0.05, 0.005),
            1.0: (0.05, 0.02),
            3.0: (0.1, 0.02),
            10.0: (0.15, 0.008),
        },
    },
    "DMM6500": {
        "voltage": _data_sheet_volts(
            (0.003, 0.0035), (0.0025, 0.0006), (0.0025, 0.0005), (0.004, 0.0006), (0.004, 0.0006)
        )
    },
    "SDM3065X": {
        "voltage": {
            0.2: (0.004, 0.0023),
            2.0: (0.0035, 0.0006),
            20.0: (0.004, 0.0004),
            200.0: (0.005, 0.0005),
            1000.0: (0.0055, 0.0008),
        },
        "current": {
            2e-4: (0.05, 0.005),
            2e-3: (0.05, 0.002),
            0.02: (0.05, 0.005),
            0.2: (0.05, 0.002),
            2.0: (0.1, 0.012),
            10.0: (0.15, 0.005),
        },
    },
    "UT61E": {
        "voltage": {
            0.22: (0.1, 100 * 5 / _UT61E_COUNTS),
            2.2: (0.1, 100 * 2 / _UT61E_COUNTS),
            22.0: (0.1, 100 * 2 / _UT61E_COUNTS),
            220.0: (0.1, 100 * 2 / _UT61E_COUNTS),
            1000.0: (0.1, 100 * 5 / 10_000),
        },
        "current": {
            **dict.fromkeys((220e-6, 2200e-6, 22e-3, 220e-3), (0.5, 100 * 10 / _UT61E_COUNTS)),
            10.0: (1.2, 100 * 50 / 10_000),
        },
    },
}

K204: Final = Accuracy(0.002, 1.0 + 2.2, "Thermologger 309, and the probe that comes with it")
"""°C, below 200 °C."""
DP832: Final[Mapping[str, Accuracy]] = {
    "voltage": Accuracy(0.05e-2, 10e-3, "DP832 data sheet, readback of CH1 and CH2"),
    "current": Accuracy(0.15e-2, 5e-3, "DP832 data sheet, readback of CH1 and CH2"),
}


def ina226(shunt_ohm: float) -> Mapping[str, Accuracy]:
    """Volts, and amps through an exact shunt: gain 0.1 %, offsets 7.5 mV and 10 µV."""
    source = "SBOS547B, maxima at 25 °C"
    return {
        "voltage": Accuracy(0.1e-2, 7.5e-3, source),
        "current": Accuracy(0.1e-2, 10e-6 / shunt_ohm, source),
    }


def multimeter(model: str, function: str, range_: float) -> Accuracy | None:
    """The limits of a range in V or A; None where no data sheet here has it."""
    found = MULTIMETERS.get(model, {}).get(function, {}).get(range_)
    if found is None:
        return None
    of_reading, of_range = found
    return Accuracy(of_reading / 100, of_range / 100 * range_, f"data sheet of the {model}")
