"""Two readings of the same data sheets: the drivers' tables, and those of the simulated meters."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from instruments.driver_kit import specifications
from instruments.drivers import ina2xx, k204, supply
from instruments.reading import Accuracy, Quantity
from instruments.simulated.meter_kit import data_sheets
from instruments.simulated.meter_kit.config import MeterConfig
from instruments.simulated.meter_kit.parts import SHARE_OF_LIMITS, MeterParts

RANGES = [
    (model, function, range_)
    for model, functions in data_sheets.MULTIMETERS.items()
    for function, ranges in functions.items()
    for range_ in ranges
    if specifications.accuracy(model, function, range_)
]


def numbers(limits: Accuracy | None) -> Any:
    assert limits is not None
    return pytest.approx((limits.of_reading, limits.floor))


@pytest.mark.parametrize(("model", "function", "range_"), RANGES)
def test_a_range_has_the_same_limits_in_both(model: str, function: str, range_: float) -> None:
    told = data_sheets.multimeter(model, function, range_)
    known = specifications.accuracy(model, function, range_)
    assert known is not None
    assert (known.of_reading, known.floor) == numbers(told)


def test_others_are_never_wider_than_their_drivers_say() -> None:
    """A driver adds what a kernel rounds."""
    settings = k204.K204Settings.model_validate({"port": "/dev/x"})
    assert numbers(data_sheets.K204) == (
        k204.accuracy_of(settings).of_reading,
        k204.accuracy_of(settings).floor,
    )
    dp832 = supply.MODELS["DP832"]
    assert dp832.volts is not None and dp832.amps is not None
    assert numbers(data_sheets.DP832["voltage"]) == (dp832.volts.of_reading, dp832.volts.floor)
    assert numbers(data_sheets.DP832["current"]) == (dp832.amps.of_reading, dp832.amps.floor)
    chip = ina2xx.Ina2xxSettings.model_validate(
        {"model": "ina226", "device": "i2c-1-0x40", "shunt_ohm": 0.02, "shunt_tolerance_pct": 1.0}
    )
    for quantity, limits in data_sheets.ina226(0.02).items():
        of_shunt = 0.01 if quantity == "current" else 0.0
        said = chip.accuracy(Quantity(quantity))
        assert limits.of_reading + of_shunt == pytest.approx(said.of_reading)
        assert limits.floor == pytest.approx(said.floor - 0.5e-3)


def parts(seed: int, **settings: float) -> MeterParts:
    config = MeterConfig(
        name="v12",
        kind="sdm3065x",
        point="12V.voltage",
        settings={"model": "SDM3065X", "function": "voltage", "range": 20.0, **settings},
    )
    return MeterParts(config, seed, Path("/nowhere"), SimpleNamespace())  # type: ignore[arg-type]


def worst_share(limits: Accuracy, **settings: float) -> float:
    """Of 50 such meters at 12 V: their largest errors, as shares of ``limits``."""
    drawn = [
        parts(seed, **settings).range_errors("SDM3065X", "voltage", 20.0, 0.0) for seed in range(50)
    ]
    return float(np.max([abs(12 * one.gain + one.offset) / limits.limit(12) for one in drawn]))


def test_a_limit_that_a_driver_has_ten_times_too_small_does_not_make_the_meter_better() -> None:
    known = specifications.accuracy("SDM3065X", "voltage", 20.0)
    assert known is not None
    assert 0.5 < worst_share(known) <= SHARE_OF_LIMITS
    wrong = Accuracy(known.of_reading / 10, known.floor / 10, "a slip of the pen")
    assert worst_share(wrong) > 5


def test_a_certificate_in_the_settings_goes_before_the_data_sheet() -> None:
    given = Accuracy(1e-5, 1e-5, "a certificate")
    settings = {"accuracy_pct_of_reading": 1e-3, "accuracy_floor": 1e-5}
    assert 0.5 < worst_share(given, **settings) <= SHARE_OF_LIMITS


def test_a_meter_of_which_nothing_is_known_is_refused() -> None:
    with pytest.raises(ValueError, match="v12: no limits of error of accuracy"):
        parts(1).range_errors("another", "voltage", 20.0, 0.0)
