"""Makes each kind of simulated meter from its configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from instruments import drivers
from instruments.driver_kit import specifications
from instruments.driver_kit.base_settings import accuracy_from_rig
from instruments.drivers.supply import SupplySettings
from instruments.reading import Accuracy, Channel, Quantity
from instruments.simulated.drive.state_ring import StateReader
from instruments.simulated.meter_kit.clock import MeterClock
from instruments.simulated.meter_kit.config import MeterConfig
from instruments.simulated.meter_kit.dc_meter import ErrorsOf
from instruments.simulated.meter_kit.faults import SimulatedMeter
from instruments.simulated.meter_kit.probe import Errors, Probe, rng_of, true_shunt_ohm
from instruments.simulated.meter_kit.serial_meter import PushingMeter, SerialMeter
from instruments.simulated.meters.brymen_bm25x import Bm257Meter
from instruments.simulated.meters.dmm6500 import Dmm6500Meter
from instruments.simulated.meters.es51922 import Ut61eMeter
from instruments.simulated.meters.extech380803 import ExtechMeter
from instruments.simulated.meters.free_running_dmm import Dm3058Meter, Xdm1041Meter
from instruments.simulated.meters.fs9721 import Vc820Meter
from instruments.simulated.meters.ina2xx import make_ina226
from instruments.simulated.meters.k204 import K204Meter
from instruments.simulated.meters.powersensor3 import FrameNumbers, PowerSensor3Meter, Rails
from instruments.simulated.meters.scpi_dmm import Keithley2000Meter, PolledMeter
from instruments.simulated.meters.supply import Dp832Supply
from instruments.simulated.meters.truevolt import TruevoltMeter

Rngs = Callable[[str], np.random.Generator]
"""The random numbers of a meter, by their purpose."""

SCPI_DRIVERS: Final = {
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
    config: MeterConfig, directory: Path, probe: Probe, trace: StateReader, rngs: Rngs
) -> SimulatedMeter:
    """The meter that ``config`` describes; its kind is one of :data:`SCPI_DRIVERS`."""
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
    """The limits of error in the rig, for meters without a table of them."""
    settings = config.settings
    return accuracy_from_rig(
        float(settings["accuracy_pct_of_reading"]), float(settings["accuracy_floor"])
    )


def _supply_errors(config: MeterConfig, quantity: Quantity, rngs: Rngs) -> Errors:
    settings = SupplySettings.model_validate({"resource": "-", **config.settings})
    limits = settings.limits(quantity)
    assert limits is not None
    return Errors.draw(limits, rngs(quantity), _SUPPLY_NOISE, config.error_scale)


SERIAL_DRIVERS: Final = {
    "ut61e": "es51922",
    "k204": "k204",
    "powersensor3": "powersensor3",
    "vc820": "fs9721",
    "bm257": "brymen_bm25x",
    "extech380803": "extech380803",
}
"""The driver of each kind."""


_PUSHING: Final[Mapping[str, type[PushingMeter]]] = {
    "ut61e": Ut61eMeter,
    "vc820": Vc820Meter,
    "bm257": Bm257Meter,
}

_DISPLAY_NOISE_OF_RANGE: Final = 5e-6
_K204_NOISE_KELVIN: Final = 0.03
_POWER_SENSOR_POINTS: Final = ("12V.current", "12V.voltage", "3V3.current", "3V3.voltage")


def make_serial_meter(
    config: MeterConfig,
    directory: Path,
    trace: StateReader,
    shunt_ohm: float | None,
    rngs: Rngs,
) -> SerialMeter:
    """The meter that ``config`` describes; its kind is one of :data:`SERIAL_DRIVERS`."""
    clock = MeterClock(config.clock_offset_s, config.drift_ppm)
    match config.kind:
        case "powersensor3":
            return _power_sensor(config, directory, trace, clock, rngs)
        case "extech380803":
            return _extech(config, directory, trace, clock, rngs)
    probe = Probe(trace, config.point, shunt_ohm, config.leads_add)
    rng = rngs("noise")
    channel = _channels(config)[0]
    pushing = _PUSHING.get(config.kind)
    if pushing is None:
        errors = _errors(config, channel, "errors", _K204_NOISE_KELVIN, rngs)
        return K204Meter(config.name, directory, probe, errors, clock, rng)
    noise = _DISPLAY_NOISE_OF_RANGE * (channel.range or 0.0)
    errors = _errors(config, channel, "errors", noise, rngs)
    return pushing(
        config.name, directory, probe, errors, clock, rng, channel.name, channel.interval_s
    )


def _channels(config: MeterConfig) -> tuple[Channel, ...]:
    """The channels that the driver makes of the meter's settings."""
    settings = {"port": "-", **config.settings}
    driver = SERIAL_DRIVERS[config.kind]
    return drivers.create(config.name, driver, settings, time.monotonic_ns).channels


def _errors(config: MeterConfig, channel: Channel, what: str, noise: float, rngs: Rngs) -> Errors:
    """Drawn within the limits of error of a channel."""
    return Errors.draw(channel.accuracy, rngs(what), noise, config.error_scale)


def _extech(
    config: MeterConfig, directory: Path, trace: StateReader, clock: MeterClock, rngs: Rngs
) -> ExtechMeter:
    channels = {channel.name: channel for channel in _channels(config)}
    volts, amps = [
        (
            Probe(trace, f"12V.{quantity}"),
            _errors(config, channels[quantity], f"{quantity} errors", 0.0, rngs),
        )
        for quantity in ("voltage", "current")
    ]
    return ExtechMeter(config.name, directory, volts, amps, clock, rngs("noise"))


def _power_sensor(
    config: MeterConfig, directory: Path, trace: StateReader, clock: MeterClock, rngs: Rngs
) -> PowerSensor3Meter:
    name, rng = config.name, rngs("noise")
    if config.point == "frame_numbers":
        return PowerSensor3Meter(name, directory, FrameNumbers(), clock, rng)
    channels = {channel.quantity.value: channel for channel in _channels(config)}
    probes = tuple(Probe(trace, point) for point in _POWER_SENSOR_POINTS)
    errors = tuple(
        _errors(config, channels[point.partition(".")[2]], f"errors of {point}", 0.0, rngs)
        for point in _POWER_SENSOR_POINTS
    )
    return PowerSensor3Meter(name, directory, Rails(probes, errors, rng), clock, rng)


DRIVERS: Final = {**SCPI_DRIVERS, **SERIAL_DRIVERS, "ina226": "ina2xx"}
"""The driver of each kind of meter."""


def make_meter(
    config: MeterConfig, seed: int, directory: Path, trace: StateReader
) -> SimulatedMeter:
    """The meter that ``config`` describes. Its errors follow from ``seed`` and its name."""
    rngs = partial(rng_of, seed, config.name)
    shunt_ohm = true_shunt_ohm(config, seed)
    if config.kind in SCPI_DRIVERS:
        probe = Probe(trace, config.point, shunt_ohm, config.leads_add)
        return make_scpi_meter(config, directory, probe, trace, rngs)
    if config.kind in SERIAL_DRIVERS:
        return make_serial_meter(config, directory, trace, shunt_ohm, rngs)
    return make_ina226(config, directory, trace, rngs)
