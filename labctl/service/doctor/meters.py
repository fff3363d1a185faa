"""Checks of the meters: each is opened, set up, read for a few seconds, and left local."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from instruments.reading import BESIDE_VALUES, Channel, Clock, Quantity, Status
from instruments.transports.udev_rule import UDEV_TODO, may_not_open, udev_rule
from labctl.analysis.readings.clock_fit import fit_clock
from labctl.capture.meters.acquisition import Acquisition, Owner, State
from labctl.capture.meters.closing_gaps import samplings
from labctl.capture.meters.listening import ChannelReadings, Listening
from labctl.config.calibration_file import calibration_in_force
from labctl.config.rig import Rig
from labctl.record.calibration_used import day_of
from labctl.record.layout import CLOCK_PAIR
from labctl.record.timebase import NS_PER_MS, NS_PER_S, Timebase
from labctl.rounded import rounded
from labctl.service.doctor.checks import Check, Level, ok, trouble, warning
from labctl.service.doctor.rails import check_rails

CONNECT_WITHIN_S = 8.0
LISTEN_S = 3.0
LISTEN_AT_MOST_S = 8.0
INTERVALS = 4
"""Readings of the slowest channel to wait for."""
SLOW_FACTOR = 1.5
"""A mean interval longer than this many times the configured one gives a warning."""
VAGUE_CLOCK_NS = 20 * NS_PER_MS
COARSE_FLOOR = 0.02
"""An accuracy floor above this fraction of the mean reading gives a warning."""
NONZERO_FLOORS = 3.0
"""A mean below this many accuracy floors may be zero: its range is not judged."""

TODO_OF_STATUS = {
    Status.OVERLOAD: "a larger range: labctl range finds it",
    Status.HOLD: "press HOLD on the meter",
    Status.WRONG_FUNCTION: "turn the meter to the function that the rig names",
    Status.OPEN_SENSOR: "plug the thermocouple in",
    Status.LOW_BATTERY: "a new battery: it will not last the night",
    Status.LOST: "a longer interval_s, or a faster line",
    Status.MEMORY_OVERFLOW: "a longer interval_s, or a faster line",
    Status.STUCK: "is the meter measuring?",
    Status.UNREADABLE: "is this machine busy, or the line noisy?",
}


def listen(rig: Rig, timebase: Timebase, stop: threading.Event) -> list[Check]:
    """Read every meter of ``rig`` for a few seconds: checks of meters, zeros, rails and sensors.

    Ends early when ``stop`` is set.
    """
    listening = Listening(rig)
    group = Acquisition(rig.create_instruments(timebase.now_ns), timebase.now_ns, listening)
    group.start()
    try:
        group.wait_settled(CONNECT_WITHIN_S)
        if any(owner.state is State.READING for owner in group.owners.values()):
            slowest_s = max(readings.channel.interval_s for readings in listening.readings.values())
            stop.wait(min(max(LISTEN_S, INTERVALS * slowest_s), LISTEN_AT_MOST_S))
        states = {name: (owner.state, owner.reason) for name, owner in group.owners.items()}
    finally:
        stuck = group.stop()
    checks = [
        check
        for name, owner in group.owners.items()
        for check in _meter(rig, name, owner, *states[name], listening)
    ]
    checks += _check_meter_calibration(rig, group.identities())
    checks += [trouble(name, "it did not let go: its panel may be locked") for name in stuck]
    checks += [*check_rails(rig, listening.readings), *_blind_spots(rig)]
    checks += _check_meter_temperatures(rig, listening.readings)
    checks += _host_power(rig, listening.readings)
    return checks


def _meter(
    rig: Rig, name: str, owner: Owner, state: State, reason: str, listening: Listening
) -> Iterator[Check]:
    needed = rig.file.instruments[name].required != "never"
    if state is not State.READING:
        optional = "" if needed else " (the rig says that it may be missing)"
        settings = rig.file.instruments[name].settings
        rule = udev_rule(str(settings.get("port") or settings.get("resource") or ""))
        level = Level.TROUBLE if needed else Level.WARNING
        if rule and may_not_open(reason):
            yield Check(name, level, reason + optional, UDEV_TODO, rule)
        else:
            yield Check(name, level, reason + optional)
        return
    summaries = []
    bad = False
    for channel in rig.channels[name]:
        readings = listening.readings[f"{name}.{channel.name}"]
        for check in _doctor_channel(name, readings):
            bad = True
            yield check
        summaries.append(_meter_channel_summary(readings))
    if not bad:
        yield ok(name, f"{owner.identity}; {'; '.join(summaries)}")


def _meter_channel_summary(readings: ChannelReadings) -> str:
    channel = readings.channel
    value = "" if readings.mean is None else f"{readings.mean:.5g} {channel.unit}, "
    interval_s = _interval_s(readings)
    rate = f"every {rounded(interval_s * 1e3, 4)} ms" if interval_s else "1 reading"
    clock = _clock_u_ns(readings)
    text = f"{value}{rate}{_meter_integration_text(channel)}"
    return text if clock is None else f"{text}, clock ±{clock / NS_PER_MS:.2f} ms"


def _meter_integration_text(channel: Channel) -> str:
    """What part of the time it integrates, where that is known."""
    if not channel.aperture_s or not channel.interval_s:
        return ""
    share = min(channel.aperture_s / channel.interval_s, 1.0)
    return f", integrates {share:.0%}" + (" at random moments" if channel.dither else "")


def _interval_s(readings: ChannelReadings) -> float | None:
    if len(readings.t_ns) < 2:
        return None
    return (readings.t_ns[-1] - readings.t_ns[0]) / (len(readings.t_ns) - 1) / NS_PER_S


def _clock_u_ns(readings: ChannelReadings) -> float | None:
    """Uncertainty of a device clock, ns (half-width); None for a host clock or without pairs."""
    if readings.channel.clock is not Clock.DEVICE or not readings.pairs:
        return None
    pairs = np.array(
        [(pair.device_ns, pair.host_ns, pair.round_trip_ns) for pair in readings.pairs], CLOCK_PAIR
    )
    tick_s = readings.channel.clock_tick_s
    first, last = int(pairs["device_ns"].min()), int(pairs["device_ns"].max())
    return fit_clock(pairs, tick_s, first, last).u_ns


def _doctor_channel(name: str, readings: ChannelReadings) -> Iterator[Check]:
    channel = readings.channel
    for status, count in readings.statuses.items():
        text = f"{channel.name}: {status.value.replace('_', ' ')} ({count}×)"
        if status is Status.MARKER:
            continue
        level = warning if readings.few(status) or status in BESIDE_VALUES else trouble
        yield level(name, text, TODO_OF_STATUS.get(status, ""))
    if not readings.values and not readings.statuses:
        yield trouble(name, f"{channel.name}: no reading came", "is the meter triggering?")
        return
    interval_s = _interval_s(readings)
    if interval_s is not None and interval_s > SLOW_FACTOR * channel.interval_s > 0:
        yield warning(
            name,
            f"{channel.name}: a reading every {rounded(interval_s * 1e3, 4)} ms, wanted were "
            f"{rounded(channel.interval_s * 1e3, 4)} ms",
            "a shorter integration (nplc), or a longer interval_s in the rig",
        )
    if channel.clock is Clock.DEVICE:
        u_ns = _clock_u_ns(readings)
        if u_ns is None:
            yield warning(name, f"{channel.name}: it sent no time of its clock: no alignment")
        elif u_ns > VAGUE_CLOCK_NS:
            yield warning(
                name,
                f"{channel.name}: its clock is known to ±{u_ns / NS_PER_MS:.0f} ms only",
                "a busy line or a slow network: connect the meter more directly",
            )
    yield from _check_meter_range(name, readings)


def _check_meter_range(name: str, readings: ChannelReadings) -> Iterator[Check]:
    """A range far too large: the floor of the accuracy, mostly a fraction of the range, is large
    compared with the mean, though the mean is clearly not zero."""
    channel, mean = readings.channel, readings.mean
    if mean is None or channel.range is None or channel.quantity is Quantity.TEMPERATURE:
        return
    floor = channel.accuracy.floor
    if NONZERO_FLOORS * floor < abs(mean) < floor / COARSE_FLOOR and abs(mean) < channel.range / 20:
        yield warning(
            name,
            f"{channel.name}: ±{rounded(floor, 2)} {channel.unit} of the range {channel.range:g} "
            f"is {floor / abs(mean):.0%} of what it reads",
            "a smaller range may do: labctl range",
        )


def _check_meter_calibration(rig: Rig, identities: dict[str, str]) -> Iterator[Check]:
    """The zeros that a run would subtract, and why any of them is no longer valid."""
    used = calibration_in_force(rig, identities, datetime.now(UTC))
    if used is None:
        return
    for problem in used.problems:
        yield warning("calibration", problem)
    if used.zeros and not used.problems:
        oldest = min(day_of(zero.taken) for zero in used.zeros)
        yield ok("calibration", f"zeros of {len(used.zeros)} channels, the oldest of {oldest}")


def _blind_spots(rig: Rig) -> Iterator[Check]:
    """The meters of a rail's current that may miss a load in step with them; what closes that."""
    for found in samplings(rig):
        if not found.spot.noteworthy:
            continue
        yield warning(
            found.instrument,
            f"{found.gap_in_words}: a load that repeats in step with it could be misread by "
            f"{found.spot.misread:.0%} of its swing",
            "; or ".join(found.remedies) or "a meter that integrates without a gap beside it",
        )


def _check_meter_temperatures(rig: Rig, readings: dict[str, ChannelReadings]) -> Iterator[Check]:
    if not rig.file.temperatures:
        yield warning(
            "temperatures",
            "the rig has none: throttling is judged without temperatures",
            "add [temperatures], such as the drive's own sensor (driver hwmon)",
        )
    for sensor, name in rig.temperatures.items():
        celsius = readings[name].mean
        if celsius is None:
            yield warning(sensor, f"{name} gave no temperature")
        else:
            yield ok(sensor, f"{celsius:.1f} °C")


def _host_power(rig: Rig, readings: dict[str, ChannelReadings]) -> Iterator[Check]:
    for name, power in rig.file.host_power.items():
        found = readings[power.channel]
        if found.mean is None:
            yield warning(name, f"{power.channel} gave no watts of the host")
            continue
        accuracy = found.channel.accuracy
        limits = (
            "limits of error not known: no uncertainty"
            if not accuracy.source
            else (f"±{rounded(accuracy.limit(found.mean))} W by its limits of error")
        )
        yield ok(name, f"the host draws {found.mean:.1f} W, {limits}")
