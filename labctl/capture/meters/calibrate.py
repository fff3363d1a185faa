"""Calibrating a rig: zero offsets with the drive off, and two meters against each other.

Nothing here touches the drive, but for the output of a supply that the rig allows to be switched
(``power_cycle = true``), and only when a person asked for it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from instruments.errors import InstrumentError
from instruments.instrument import Instrument, PowerSwitch
from instruments.reading import Quantity
from labctl.analysis.power.cross_check import ComparedChannel, MeterDifference, meter_difference
from labctl.analysis.power.zero_offset import why_not_zero
from labctl.analysis.stats.running_stats import mean_and_scatter
from labctl.capture.host.ssh import machine_at
from labctl.capture.identity.identify import identify
from labctl.capture.meters.listening import ChannelReadings, CollectedReadings, collect_readings
from labctl.config.calibration_file import (
    Calibration,
    calibration_file,
    calibration_in_force,
    load_calibration,
    save_calibration,
)
from labctl.config.rig import Rig
from labctl.errors import ConfigurationError, Mistake, Refused, RunFailed
from labctl.record.calibration_used import CrossCheck, UsedCalibration, Zero, utc_now
from labctl.record.header import ChannelInfo, RailInfo

FEWEST_READINGS = 10
SETTLE_S = 3.0
"""After its supply is off, a drive's capacitors empty through the drive itself in about a second;
after it is on again a drive needs about as long before anybody may ask it."""


def channels_of_rails(rig: Rig) -> list[str]:
    """The channels that watts are made of, each once."""
    rails = rig.rail_infos()
    return list(dict.fromkeys(name for rail in rails for name in (rail.current, rail.voltage)))


def known_channels(rig: Rig, names: Sequence[str], key: str) -> list[str]:
    """``names``, each of which must be a channel of the rig. Raises ConfigurationError."""
    there = [f"{name}.{one.name}" for name, found in rig.channels.items() for one in found]
    mistakes = [
        Mistake(rig.path, key, name, f"no such channel; there are: {', '.join(there)}")
        for name in names
        if name not in there
    ]
    if mistakes:
        raise ConfigurationError(mistakes)
    return list(names)


def take_zeros(rig: Rig, names: Sequence[str], seconds: float) -> tuple[Zero, ...]:
    """The zeros of channels that have nothing to read.

    Raises Refused when one of them obviously reads something, RunFailed when one cannot be read.
    """
    session = collect_readings(rig, names, seconds, FEWEST_READINGS)
    obvious = [
        why
        for name, readings in session.readings.items()
        if (
            why := why_not_zero(_calibrated_channel_info(name, readings), np.array(readings.values))
        )
    ]
    if obvious:
        raise Refused(_not_off(rig, names, obvious))
    taken = utc_now()
    return tuple(_calibrated_zero(name, session, taken) for name in names)


def _calibrated_channel_info(name: str, readings: ChannelReadings) -> ChannelInfo:
    return ChannelInfo.of(name.partition(".")[0], readings.channel)


def _calibrated_zero(name: str, session: CollectedReadings, taken: str) -> Zero:
    readings = session.readings[name]
    info = _calibrated_channel_info(name, readings)
    mean, scatter = mean_and_scatter(np.array(readings.values))
    return Zero(
        channel=name,
        unit=info.unit,
        value=mean,
        u=scatter.u,
        dof=scatter.dof,
        n=len(readings.values),
        range=info.range,
        identity=session.identities[name.partition(".")[0]],
        taken=taken,
    )


def _not_off(rig: Rig, names: Sequence[str], obvious: Sequence[str]) -> str:
    currents = [rail.current for rail in rig.rail_infos() if rail.current in names]
    quiet = [name for name in currents if not any(why.startswith(f"{name} ") for why in obvious)]
    advice = "switch the drive's supply off, or pull the drive, and try again"
    if quiet and len(quiet) < len(names):
        named = " ".join(dict.fromkeys(quiet))
        advice += (
            "; with the drive pulled and the supply on, take the zeros of the currents alone: "
            f"labctl calibrate {rig.path} {named}"
        )
    return "\n".join([*obvious, f"that is no zero, the drive or its supply is on: {advice}"])


def store_zeros(rig: Rig, zeros: Sequence[Zero]) -> None:
    """Keep them beside the rig. Raises ConfigurationError, JournalError."""
    path = calibration_file(rig.path)
    before = load_calibration(path) or Calibration(rig.fingerprint)
    save_calibration(path, before.with_zeros(zeros, rig.fingerprint))


def store_calibration_check(rig: Rig, check: CrossCheck) -> None:
    """Keep it beside the rig. Raises ConfigurationError, JournalError."""
    path = calibration_file(rig.path)
    before = load_calibration(path) or Calibration(rig.fingerprint)
    save_calibration(path, before.with_check(check))


def cross_check(
    rig: Rig, pair: tuple[str, str], seconds: float
) -> tuple[CrossCheck, MeterDifference, UsedCalibration | None]:
    """Two channels against each other, with the zeros that hold for them taken off.

    Raises ConfigurationError when they do not measure the same, RunFailed when they cannot be read.
    """
    sides = _calibration_shunts(rig, pair)
    warm = [rail.shunt_temperature for rail in sides if rail is not None]
    names = dict.fromkeys([*pair, *(name for name in warm if name is not None)])
    session = collect_readings(rig, [*names], seconds, FEWEST_READINGS)
    used = calibration_in_force(rig, session.identities, datetime.now(UTC))
    try:
        first, second = (
            ComparedChannel(
                session.readings[name].series(
                    name,
                    1.0 if rail is None or rail.shunt_ohm is None else 1.0 / rail.shunt_ohm,
                    None if used is None else used.zero_of(name),
                ),
                rail,
                None
                if rail is None or rail.shunt_temperature is None
                else session.readings[rail.shunt_temperature].series(rail.shunt_temperature),
            )
            for name, rail in zip(pair, sides, strict=True)
        )
    except ValueError as error:
        raise RunFailed(f"{' and '.join(pair)}: {error}") from error
    found = meter_difference(first, second)
    if found is None:
        raise RunFailed(f"{' and '.join(pair)} have too few readings at the same time (--seconds)")
    unit = "A" if any(sides) else session.readings[pair[0]].channel.unit
    who = tuple(session.identities[name.partition(".")[0]] for name in pair)
    check = CrossCheck(
        channels=pair,
        identities=(who[0], who[1]),
        unit=unit,
        means=found.means,
        difference=found.difference,
        u=found.u,
        en=found.en,
        n=found.n,
        taken=utc_now(),
    )
    return check, found, used


def _calibration_shunts(rig: Rig, pair: tuple[str, str]) -> tuple[RailInfo | None, RailInfo | None]:
    """The rail whose shunt turns a side's volts into amps, where the two sides need it.

    Raises ConfigurationError when they do not measure the same.
    """
    known_channels(rig, pair, "--against")
    quantities = {
        f"{name}.{one.name}": one.quantity for name, found in rig.channels.items() for one in found
    }
    first, second = (quantities[name] for name in pair)
    if pair[0] == pair[1]:
        raise ConfigurationError([Mistake(rig.path, "--against", pair[0], "names one twice")])
    if first == second:
        return None, None
    shunts = {rail.current: rail for rail in rig.rail_infos() if rail.shunt_ohm}
    found = tuple(
        shunts.get(name) if quantities[name] is Quantity.VOLTAGE else None for name in pair
    )
    if {first, second} != {Quantity.VOLTAGE, Quantity.CURRENT} or not any(found):
        raise ConfigurationError(
            [
                Mistake(
                    rig.path,
                    "--against",
                    " ".join(pair),
                    f"measure {first} and {second}: two that measure the same are needed, or "
                    "volts across a rail's shunt and amperes",
                )
            ]
        )
    return found[0], found[1]


def power_switches(instruments: Mapping[str, Instrument]) -> dict[str, PowerSwitch]:
    """Instruments that feed the drive and may be switched."""
    return {
        name: instrument
        for name, instrument in instruments.items()
        if isinstance(instrument, PowerSwitch) and instrument.may_switch
    }


def refuse_switching(rig: Rig) -> list[str]:
    """The supplies that may be switched. Raises Refused: there is none, or the drive is in use."""
    names = list(power_switches(rig.create_instruments(time.monotonic_ns)))
    if not names:
        raise Refused(
            "no supply of the rig may be switched: set power_cycle = true in one that feeds the "
            "drive, or switch it off yourself"
        )
    machine = machine_at(rig.file.host)
    state = identify(machine, rig.drive.target, rig.drive.engine, rig.drive.smart_device)
    if state.in_use:
        raise Refused(f"the drive is in use: {'; '.join(state.in_use)}; let go of it first")
    return names


@contextlib.contextmanager
def drive_off(rig: Rig, names: Sequence[str]) -> Iterator[None]:
    """Switch these supplies off, and on again in the end, also after an error.

    With none the drive is left as it is: the person has switched it off. Raises RunFailed when one
    of them cannot be switched.
    """
    if not names:
        yield
        return
    off: list[str] = []
    try:
        for name in names:
            off.append(name)
            _switch_for_calibration(rig, name, on=False)
        time.sleep(SETTLE_S)
        yield
    finally:
        failed = []
        for name in off:
            try:
                _switch_for_calibration(rig, name, on=True)
            except RunFailed as error:
                failed.append(f"{error}: THE DRIVE MAY STILL BE OFF, switch it on yourself")
        if failed:
            raise RunFailed("\n".join(failed))
        time.sleep(SETTLE_S)


def _switch_for_calibration(rig: Rig, name: str, *, on: bool) -> None:
    """An instrument has one owner at a time: it is opened for this alone, and closed again."""
    instrument = rig.create_instruments(time.monotonic_ns)[name]
    assert isinstance(instrument, PowerSwitch)
    try:
        instrument.open()
        instrument.switch(on)
    except InstrumentError as error:
        raise RunFailed(f"{name}: {error}") from error
    finally:
        instrument.close()
