"""Limits of error as makers' manuals print them, against those of the drivers.

Typed from the pages named below, without a look at the drivers' tables: what a manual gives as
limits at an input, or as % of reading and % of range.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from instruments.driver_kit import specifications
from instruments.drivers.k204 import K204, K204Settings
from instruments.drivers.supply import MODELS
from instruments.reading import Accuracy

AT_AN_INPUT: dict[str, list[tuple[str, float, float, float]]] = {
    # model: function, range, input, error from nominal after one year
    "34401A": [  # Service Guide, page 69, gain verification; 3 A is tested with 2 A
        ("voltage", 0.1, 0.1, 8.5e-6),
        ("voltage", 1.0, 1.0, 47e-6),
        ("voltage", 10.0, 10.0, 400e-6),
        ("voltage", 100.0, 100.0, 5.1e-3),
        ("voltage", 1000.0, 1000.0, 55e-3),
        ("current", 0.01, 0.01, 7e-6),
        ("current", 0.1, 0.1, 55e-6),
        ("current", 1.0, 1.0, 1.1e-3),
        ("current", 3.0, 2.0, 3.0e-3),
    ],
    "DM3068": [  # Performance Verification Guide, page 2-2, table 2-2
        ("voltage", 0.2, 0.2, 13e-6),
        ("voltage", 2.0, 2.0, 82e-6),
        ("voltage", 20.0, 20.0, 900e-6),
        ("voltage", 200.0, 200.0, 11.2e-3),
    ],
    "DMM6500": [("voltage", 10.0, 10.0, 0.3e-3)],  # DMM6500-905-01 Rev. A, page 2-4
    "2015": [
        ("voltage", 10.0, 10.0, 0.35e-3),  # Service Manual, page 1-5
        ("voltage", 10.0, 5.0, 0.2e-3),  # page A-9
    ],
}

PRINTED: dict[str, dict[str, dict[float, tuple[float, float]]]] = {
    # model: function: range: (% of measurement, % of range), one year, 23 ± 5 °C
    "8846A": {
        "voltage": {  # Users Manual, page 1-12
            0.1: (0.0037, 0.0035),
            1.0: (0.0025, 0.0007),
            10.0: (0.0024, 0.0005),
            100.0: (0.0038, 0.0006),
            1000.0: (0.0041, 0.001),
        },
        "current": {  # page 1-17
            100e-6: (0.05, 0.025),
            1e-3: (0.05, 0.005),
            10e-3: (0.05, 0.02),
            100e-3: (0.05, 0.005),
            400e-3: (0.05, 0.005),
            1.0: (0.05, 0.02),
            3.0: (0.1, 0.02),
            10.0: (0.15, 0.008),
        },
    },
    "DMM6500": {
        "voltage": {  # SPEC-DMM6500 Rev. A, April 2018, as a public project transcribed it
            0.1: (0.0030, 0.0035),
            1.0: (0.0025, 0.0006),
            10.0: (0.0025, 0.0005),
            100.0: (0.0040, 0.0006),
            1000.0: (0.0040, 0.0006),
        },
    },
    "SDM3055": {
        "voltage": {  # DataSheet-2021.05, as the same project transcribed it
            0.2: (0.015, 0.004),
            2.0: (0.015, 0.003),
            20.0: (0.015, 0.004),
            200.0: (0.015, 0.003),
            1000.0: (0.015, 0.003),
        },
    },
    "34461A": {
        "voltage": {  # 5991-1983EN, June 20, 2022, as the same project transcribed it
            0.1: (0.0050, 0.0035),
            1.0: (0.0040, 0.0007),
            10.0: (0.0035, 0.0005),
            100.0: (0.0045, 0.0006),
            1000.0: (0.0045, 0.0010),
        },
    },
    "8845A": {
        "voltage": {  # page 1-12
            0.1: (0.005, 0.0035),
            1.0: (0.004, 0.0007),
            10.0: (0.0035, 0.0005),
            100.0: (0.0045, 0.0006),
            1000.0: (0.0045, 0.0010),
        },
        "current": {  # page 1-17
            100e-6: (0.05, 0.025),
            1e-3: (0.05, 0.005),
            10e-3: (0.05, 0.02),
            100e-3: (0.05, 0.005),
            400e-3: (0.05, 0.005),
            1.0: (0.05, 0.02),
            3.0: (0.10, 0.02),
            10.0: (0.15, 0.008),
        },
    },
}


@pytest.mark.parametrize("model", AT_AN_INPUT)
def test_limits_at_an_input_are_those_of_the_manual(model: str) -> None:
    for function, range_, value, error in AT_AN_INPUT[model]:
        known = specifications.accuracy(model, function, range_)
        assert known is not None, (function, range_)
        assert known.limit(value) == pytest.approx(error, rel=1e-3), (function, range_)


@pytest.mark.parametrize("model", PRINTED)
def test_every_range_of_a_manual_has_its_limits(model: str) -> None:
    for function, ranges in PRINTED[model].items():
        assert specifications.allowed_ranges(model, function) == tuple(ranges)
        for range_, (of_reading, of_range) in ranges.items():
            known = specifications.accuracy(model, function, range_)
            assert known is not None
            assert known.of_reading == pytest.approx(of_reading / 100), range_
            assert known.floor == pytest.approx(of_range / 100 * range_), range_


def test_the_10_v_of_a_34460a_are_not_those_of_a_34461a() -> None:
    """5991-1983EN: 0.0075 % of the reading, twice as much (a warning in the same transcript)."""
    known = specifications.accuracy("34460A", "voltage", 10.0)
    assert known is not None and known.of_reading == pytest.approx(0.0075e-2)


def test_a_k204_has_the_limits_of_its_manual() -> None:
    """Voltcraft Thermologger 309: ±(0.2 % + 1 K) to 200 °C; its probe TP-K01 ±2.2 K (the appendix
    of the maker's manual of a Center 305)."""
    settings = K204Settings.model_validate({"port": "/dev/ttyUSB0"})
    (channel, *_) = K204("k", settings, time.monotonic_ns).channels
    assert channel.accuracy is not None
    assert channel.accuracy.limit(60.0) == pytest.approx(0.002 * 60.0 + 1.0 + 2.2)


def test_auto_zero_off_adds_what_keithley_prints() -> None:
    """Model 2015 Service Manual, page A-5; Model 2000 data sheet, page 3: 2 ppm of range + 5 µV."""
    exact = Accuracy(0.0, 0.0, "nothing else")
    for model in ("2000", "2015"):
        added = specifications.without_auto_zero(exact, model, "voltage", 10.0)
        assert added.floor == pytest.approx(10.0 * 2e-6 + 5e-6)


def test_supplies_read_their_amps_back_as_their_manual_says() -> None:
    """Rigol DP800 Performance Verification Manual, CC readback accuracy, of CH1."""
    printed = {
        "DP831A": (0.2, 10e-3),
        "DP832A": (0.15, 5e-3),
        "DP832": (0.15, 5e-3),
        "DP821A": (0.15, 10e-3),
        "DP811A": (0.1, 10e-3),
    }
    for model, (of_output, offset) in printed.items():
        amps = MODELS[model].amps
        assert isinstance(amps, Accuracy)
        assert (amps.of_reading, amps.floor) == pytest.approx((of_output / 100, offset)), model


def test_the_page_lists_the_ranges_and_integration_times_that_a_rig_may_name() -> None:
    page = (Path(__file__).parents[4] / "docs" / "drivers.md").read_text(encoding="utf-8")
    told = page.split("| models | volts | amps | `nplc` |\n|---|---|---|---|\n")[1].split("\n\n")[0]
    listed = set()
    for row in told.splitlines():
        models, volts, amps, times = (cell.strip() for cell in row.strip("|").split(" | "))
        for model in models.split(", "):
            listed.add(model)
            for function, cell in (("voltage", volts), ("current", amps)):
                ranges = () if cell == "any" else tuple(float(one) for one in cell.split(", "))
                assert specifications.allowed_ranges(model, function) == ranges, (model, function)
            if " to " in times:
                between = tuple(float(one) for one in times.split(" to "))
                assert specifications.NPLC_BETWEEN[model] == between, model
            elif times != "–":
                assert specifications.NPLC[model] == tuple(map(float, times.split(", "))), model
    assert listed >= {*specifications.NPLC, *specifications.NPLC_BETWEEN, *specifications.RANGES}
