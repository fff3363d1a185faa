"""Makes the simulated serial meters from what the bench's configuration says of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from instruments import drivers
from instruments.reading import Channel
from instruments.simulated.drive.state_ring import TraceReader
from instruments.simulated.meter_kit.clock import MeterClock
from instruments.simulated.meter_kit.probe import Errors, Probe
from instruments.simulated.meters.handheld import K204Meter, PushingMeter, SerialMeter, Ut61eMeter
from instruments.simulated.meters.lcd_meters import Bm257Meter, ExtechMeter, Vc820Meter
from instruments.simulated.meters.power_sensor import FrameNumbers, PowerSensor3Meter, Rails

if TYPE_CHECKING:
    from collections.abc import Callable

    from instruments.simulated.meters.process import MeterConfig

    Rngs = Callable[[str], np.random.Generator]
    """The random numbers of a meter, by what they are for."""

DRIVERS: Final = {
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
    trace: TraceReader,
    shunt_ohm: float | None,
    rngs: Rngs,
) -> SerialMeter:
    """The meter that ``config`` describes; its kind is one of :data:`DRIVERS`."""
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
    driver = DRIVERS[config.kind]
    return drivers.create(config.name, driver, settings, time.monotonic_ns).channels


def _errors(config: MeterConfig, channel: Channel, what: str, noise: float, rngs: Rngs) -> Errors:
    """Drawn within the limits of error of a channel."""
    return Errors.draw(channel.accuracy, rngs(what), noise, config.error_scale)


def _extech(
    config: MeterConfig, directory: Path, trace: TraceReader, clock: MeterClock, rngs: Rngs
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
    config: MeterConfig, directory: Path, trace: TraceReader, clock: MeterClock, rngs: Rngs
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
