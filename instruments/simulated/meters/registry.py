"""Makes the simulated SCPI meters from what the bench's configuration says of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from instruments.driver_kit import specifications
from instruments.drivers.supply import SupplySettings
from instruments.reading import Accuracy, Quantity
from instruments.simulated.drive.state_ring import TraceReader
from instruments.simulated.meter_kit.clock import MeterClock
from instruments.simulated.meter_kit.faults import SimulatedMeter
from instruments.simulated.meter_kit.probe import Errors, Probe
from instruments.simulated.meters.dmm6500 import Dmm6500Meter
from instruments.simulated.meters.free_running import Dm3058Meter, Xdm1041Meter
from instruments.simulated.meters.polled import Keithley2000Meter, PolledMeter
from instruments.simulated.meters.supply import Dp832Supply
from instruments.simulated.meters.truevolt import ErrorsOf, TruevoltMeter

if TYPE_CHECKING:
    from collections.abc import Callable

    from instruments.simulated.meters.process import MeterConfig

    Rngs = Callable[[str], np.random.Generator]
    """The random numbers of a meter, by what they are for."""

DRIVERS: Final = {
    "truevolt": "truevolt",
    "dmm6500": "dmm6500",
    "sdm3065x": "scpi_dmm",
    "34401a": "scpi_dmm",
    "keithley2000": "scpi_dmm",
    "dm3058": "free_running_dmm",
    "xdm1041": "free_running_dmm",
    "dp832": "supply",
}
"""The driver of each kind."""

_NOISE_OF_RANGE: Final = 3e-6
_COARSE_NOISE_OF_RANGE: Final = 2e-5
"""Of a 5½ digit meter: a few digits."""
_SUPPLY_NOISE: Final = 2e-4
_MODELS: Final = {
    "sdm3065x": "SDM3065X",
    "34401a": "34401A",
    "keithley2000": "2000",
    "dmm6500": "DMM6500",
    "dm3058": "DM3058",
    "xdm1041": "XDM1041",
}


def make_scpi_meter(
    config: MeterConfig, directory: Path, probe: Probe, trace: TraceReader, rngs: Rngs
) -> SimulatedMeter:
    """The meter that ``config`` describes; its kind is one of :data:`DRIVERS`."""
    name, kind, port = config.name, config.kind, config.tcp_port
    clock = MeterClock(config.clock_offset_s, config.drift_ppm)
    rng = rngs("noise")
    if kind == "dp832":
        volts, amps = (
            (Probe(trace, f"{config.point}.{quantity}"), _supply_errors(config, quantity, rngs))
            for quantity in (Quantity.VOLTAGE, Quantity.CURRENT)
        )
        return Dp832Supply(name, volts, amps, clock, rng, port)
    model = _MODELS.get(kind) or str(config.settings["model"])
    errors_of = _errors_of(model, config, rngs)
    match kind:
        case "truevolt":
            return TruevoltMeter(name, model, probe, errors_of, clock, rng, config.memory, port)
        case "dmm6500":
            return Dmm6500Meter(name, probe, errors_of, clock, rng, config.memory, port)
        case "keithley2000":
            return Keithley2000Meter(name, probe, errors_of, clock, rng, port)
        case "dm3058":
            return Dm3058Meter(name, probe, errors_of, clock, rng, port)
        case "xdm1041":
            return Xdm1041Meter(name, directory, probe, errors_of, clock, rng)
        case _:
            return PolledMeter(name, model, probe, errors_of, clock, rng, port)


def _errors_of(model: str, config: MeterConfig, rngs: Rngs) -> ErrorsOf:
    coarse = config.kind in ("dm3058", "xdm1041")
    noise = _COARSE_NOISE_OF_RANGE if coarse else _NOISE_OF_RANGE

    def errors_of(function: str, range_: float) -> Errors:
        limits = specifications.accuracy(model, function, range_) or _own_limits(config)
        rng = rngs(f"{function} {range_:g}")
        return Errors.draw(limits, rng, noise * range_, config.error_scale)

    return errors_of


def _own_limits(config: MeterConfig) -> Accuracy:
    """What the rig says, for meters whose manual is not known here."""
    of_reading = float(config.settings["accuracy_pct_of_reading"]) / 100
    return Accuracy(of_reading, float(config.settings["accuracy_floor"]), "the rig")


def _supply_errors(config: MeterConfig, quantity: Quantity, rngs: Rngs) -> Errors:
    settings = SupplySettings.model_validate({"resource": "-", **config.settings})
    limits = settings.limits(quantity)
    assert limits is not None
    return Errors.draw(limits, rngs(quantity), _SUPPLY_NOISE, config.error_scale)
