"""Yokogawa WT300 power analysers: WT310, WT332, WT333, their HC, E and EH variants.

Facts from the communication manual IM WT310E-17EN (messages: chapter 5; condition register: page
7-5), the guides IM WT310E-02EN and IM WT310-02EN (accuracy: page 7-7; overrange: page 1-12), the
user's manual IM WT310E-01EN (current ranges: page 2-7), and the commands that yoko-tool sends.

The meter updates its numbers each ``update_s`` by a timer of its own, and integrates from one
update to the next: with every update read once nothing is missed. The end of an update is a bit
of the extended event register (UPD going from 1 to 0), which is asked for around the moment at
which the next one is due. So a window ended **between two questions**, and its middle is half an
update earlier. How long the meter computes after the end of a window the manual does not say:
``_COMPUTING_S`` is an assumption, and part of the time's uncertainty.

Watts are the meter's own: active power, which volts times amps are not on AC. A number beyond 140 %
of the range is ``INF``, and what was clipped shows in the condition register (peak over): both are
an overload, never a value. Watt-hours are the meter's integration; where it stopped, ended or
failed, they are a status with its word.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from instruments.driver_kit.base_settings import (
    NotNegative,
    Positive,
    QuantityLimits,
    VisaAddress,
    require_one_of,
)
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.front_panel import FrontPanelCheck
from instruments.driver_kit.scpi import ScpiSession, parse_quantity, parse_reading
from instruments.drivers import Driver
from instruments.errors import ProtocolError, SettingRefused
from instruments.reading import (
    Accuracy,
    Batch,
    Channel,
    Clock,
    ClockPair,
    HostClock,
    Identity,
    Quantity,
    Status,
    StatusReading,
)
from instruments.transports.lines import MessageLine

Coupling = Literal["ac", "dc"]
Wanted = Literal["power", "voltage", "current"]

_POLL_S: Final = 0.015
_AHEAD_S: Final = 0.04
"""Asked from this long before the next update is due: the meter's timer and the host's differ."""
_WAIT_S: Final = 0.45
_COMPUTING_S: Final = 0.02
_MOST: Final = 1e6
"""Watts and watt-hours: 600 V times 40 A are 24 kW."""
_UPDATED: Final = 1
_LOST_FROM: Final = 1.5
"""Updates further apart than this many have others between them."""
_ITEMS: Final = {
    Quantity.POWER: "P",
    Quantity.VOLTAGE: "U",
    Quantity.CURRENT: "I",
    Quantity.ENERGY: "WH",
}
_ERRORS: Final = ":STAT:ERR?"

VOLTS: Final = (15.0, 30.0, 60.0, 150.0, 300.0, 600.0)
"""Ranges of volts with crest factor 3."""
_AMPS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_SMALL_AMPS: Final = (5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2)
_LARGE_AMPS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0)

_GUIDE: Final = "Yokogawa IM WT310-02EN, page 7-7, 12 months"
_GUIDE_E: Final = "Yokogawa IM WT310E-02EN, page 7-7, 12 months"


@dataclass(frozen=True, slots=True)
class _Model:
    """Watts: (% of reading, % of range) at power factor 1; AC is 45 to 66 Hz."""

    elements: int
    amps: tuple[float, ...]
    dc_watts: tuple[float, float]
    ac_watts: tuple[float, float]
    source: str


MODELS: Mapping[str, _Model] = {
    "WT310": _Model(1, (*_SMALL_AMPS, *_AMPS), (0.1, 0.2), (0.1, 0.1), _GUIDE),
    "WT310HC": _Model(1, _LARGE_AMPS, (0.3, 0.2), (0.1, 0.1), _GUIDE),
    "WT332": _Model(2, _AMPS, (0.1, 0.2), (0.1, 0.1), _GUIDE),
    "WT333": _Model(3, _AMPS, (0.1, 0.2), (0.1, 0.1), _GUIDE),
    "WT310E": _Model(1, (*_SMALL_AMPS, *_AMPS), (0.1, 0.2), (0.1, 0.05), _GUIDE_E),
    "WT310EH": _Model(1, _LARGE_AMPS, (0.3, 0.2), (0.1, 0.05), _GUIDE_E),
    "WT332E": _Model(2, _AMPS, (0.1, 0.2), (0.1, 0.05), _GUIDE_E),
    "WT333E": _Model(3, _AMPS, (0.1, 0.2), (0.1, 0.05), _GUIDE_E),
}
"""Elements, current ranges with crest factor 3, and accuracy of the active power."""

_RATES: Final = {0.1: "100MS", 0.25: "250MS", 0.5: "500MS", 1.0: "1S", 2.0: "2S", 5.0: "5S"}
_RATE: Final = re.compile(r"(\d+\.?\d*(?:E[+-]?\d+)?)(MS|S)?", re.IGNORECASE)
_MODES: Final[Mapping[Coupling, str]] = {"ac": "RMS", "dc": "DC"}


class Wt300Settings(VisaAddress, QuantityLimits):
    """One element, on locked ranges."""

    model: Literal["WT310", "WT310HC", "WT332", "WT333", "WT310E", "WT310EH", "WT332E", "WT333E"]
    element: Annotated[int, Field(ge=1, le=3)] = 1
    coupling: Coupling
    """``dc``: volts and amps are means; ``ac``: they are rms. Watts are active power in both."""
    voltage_range: Positive
    current_range: Positive
    update_s: Positive = 0.25
    """How often the meter has new numbers: 0.1, 0.25, 0.5, 1, 2 or 5."""
    quantities: Annotated[tuple[Wanted, ...], Field(min_length=1)] = ("power",)
    integrate: bool = False
    """Starts the meter's integration from zero, and records its watt-hours as ``energy``."""
    power_pct_of_reading: NotNegative | None = None
    power_floor_watts: NotNegative | None = None
    voltage_pct_of_reading: NotNegative | None = None
    voltage_floor_volts: NotNegative | None = None
    current_pct_of_reading: NotNegative | None = None
    current_floor_amps: NotNegative | None = None
    energy_pct_of_reading: NotNegative | None = None
    energy_floor_wh: NotNegative | None = None

    @field_validator("voltage_range")
    @classmethod
    def _has_voltage_range(cls, value: float) -> float:
        require_one_of(value, VOLTS)
        return value

    @field_validator("current_range")
    @classmethod
    def _has_current_range(cls, value: float, info: ValidationInfo) -> float:
        if "model" in info.data:
            require_one_of(value, MODELS[info.data["model"]].amps)
        return value

    @field_validator("update_s")
    @classmethod
    def _has_rate(cls, value: float) -> float:
        require_one_of(value, tuple(_RATES))
        return value

    @model_validator(mode="after")
    def _has_element_and_limits(self) -> Self:
        if self.element > MODELS[self.model].elements:
            raise ValueError(f"element: a {self.model} has {MODELS[self.model].elements}")
        if len(set(self.quantities)) < len(self.quantities):
            raise ValueError("quantities: each at most once")
        for quantity in self.measured:
            self.limits(quantity)
        return self

    @property
    def measured(self) -> tuple[Quantity, ...]:
        """What it yields, in the order of its items."""
        found = tuple(Quantity(name) for name in self.quantities)
        return (*found, Quantity.ENERGY) if self.integrate else found

    def manual_limits(self, quantity: Quantity) -> Accuracy | None:
        """The manual's for watts."""
        if quantity is not Quantity.POWER:
            return None
        model = MODELS[self.model]
        of_reading, of_range = model.dc_watts if self.coupling == "dc" else model.ac_watts
        watts = self.voltage_range * self.current_range
        return Accuracy(of_reading / 100, of_range / 100 * watts, model.source)


def parse_rate(text: str) -> float:
    """An update interval in seconds, from ``250MS``, ``1S`` or ``0.25``. Raises ProtocolError."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ProtocolError(f"expected an update interval, got {text[:60]!r}")
    return float(match[1]) * (1e-3 if (match[2] or "").upper() == "MS" else 1.0)


def parse_condition(text: str) -> int:
    """A register. Raises ProtocolError."""
    if not text.strip().lstrip("+").isdigit():
        raise ProtocolError(f"expected a register, got {text[:60]!r}")
    return int(text)


def peak_over(condition: int, element: int) -> frozenset[Quantity]:
    """What was clipped in an element: bits POV and POA of page 7-5, and the watts with either."""
    first = 3 * element + 3
    volts, amps = condition >> (first + 1) & 1, condition >> (first + 2) & 1
    found = [(volts, Quantity.VOLTAGE), (amps, Quantity.CURRENT), (volts | amps, Quantity.POWER)]
    return frozenset(quantity for over, quantity in found if over)


class Wt300:
    """One element. Channels ``power``, ``voltage`` …, ``energy``, on the host's clock."""

    def __init__(
        self,
        name: str,
        settings: Wt300Settings,
        clock: HostClock,
        line: MessageLine | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._scpi = ScpiSession(name, line or settings.line(name), settings.timeout_s)
        self._panel = FrontPanelCheck(self._scpi, self._mismatch)
        self._update_ns = round(settings.update_s * 1e9)
        self._asked_ns = 0
        self._ended_ns: int | None = None
        self._unread = 0
        """Answers about the end of an update that could not be read, since the last one."""
        self.channels = tuple(self._describe(quantity) for quantity in settings.measured)

    def open(self) -> Identity:
        """Connect and make sure of the model."""
        self._scpi.open()
        self._scpi.resynchronise()
        self._scpi.send(":COMM:REM ON")
        self._scpi.send(":COMM:HEAD OFF")
        return self._scpi.expect_identity(self._settings.model, self._settings.serial)

    def start(self) -> None:
        """Reset, set up, verify; begin to integrate where the rig says so."""
        settings, scpi = self._settings, self._scpi
        # An integration that is on would refuse every setting.
        scpi.reset(":INTEG:STOP", ":INTEG:RES")
        scpi.send(":COMM:HEAD OFF")
        scpi.send(":STAT:QMES ON")
        scpi.send(f":INP:MODE {_MODES[settings.coupling]}")
        scpi.send(f":INP:VOLT:RANG {settings.voltage_range:g}")
        scpi.send(f":INP:CURR:RANG {settings.current_range:g}")
        scpi.send(f":RATE {_RATES[settings.update_s]}")
        scpi.send(":NUM:FORM ASC")
        scpi.send(f":NUM:NORM:NUM {len(settings.measured)}")
        for number, quantity in enumerate(settings.measured, 1):
            scpi.send(f":NUM:NORM:ITEM{number} {_ITEMS[quantity]},{settings.element}")
        scpi.send(":STAT:FILT1 FALL")
        if settings.integrate:
            scpi.send(":INTEG:MODE NORM")
            scpi.send(":INTEG:TIM 0,0,0")
        scpi.wait_until_done()
        scpi.raise_device_errors("its settings", _ERRORS)
        if wrong := self._mismatch():
            raise SettingRefused(f"{scpi.name}: {wrong[1]} after it was set")
        if settings.integrate:
            scpi.send(":INTEG:STAR")
            scpi.raise_device_errors("to integrate", _ERRORS)
        scpi.ask(":STAT:EESR?")
        self._asked_ns = self._clock()
        self._ended_ns, self._unread = None, 0
        self._panel.restart(self._asked_ns)

    def read(self) -> Batch:
        """The numbers of the next update; empty where none comes within half a second."""
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline:
            due_ns = self._asked_ns + round(_POLL_S * 1e9)
            if self._ended_ns is not None:
                due_ns = max(due_ns, self._ended_ns + self._update_ns - round(_AHEAD_S * 1e9))
            wait_s = (due_ns - self._clock()) * 1e-9
            left_s = deadline - time.monotonic()
            time.sleep(min(max(wait_s, 0.0), max(left_s, 0.0)))
            if wait_s > left_s:
                return Batch()
            before_ns, self._asked_ns = self._asked_ns, self._clock()
            try:
                updated = parse_condition(self._scpi.ask(":STAT:EESR?")) & _UPDATED
            except ProtocolError as error:
                self._scpi.resynchronise()
                self._unread += 1
                return self._all(Status.UNREADABLE, self._asked_ns, str(error))
            while updated:
                asked_ns = self._clock()
                batch = self._updated(before_ns, asked_ns)
                if batch is not None:
                    return batch
                before_ns, self._asked_ns = self._asked_ns, asked_ns
                updated = time.monotonic() < deadline
        return Batch()

    def close(self) -> None:
        """Give the front panel back. An integration goes on: it is the user's to look at."""
        self._scpi.close(":COMM:REM OFF")

    def _updated(self, before_ns: int, answered_ns: int) -> Batch | None:
        """The numbers of an update that ended between two moments; None where the next one was over
        before they came: then they may be of either."""
        ended_ns = (before_ns + answered_ns) // 2
        t_ns = ended_ns - round(_COMPUTING_S * 0.5e9) - self._update_ns // 2
        if changed := self._panel.changed(answered_ns):
            self.start()
            return self._all(changed[0], t_ns, changed[1])
        measured, integrate = self._settings.measured, self._settings.integrate
        query = ":NUM:NORM:VAL?;:STAT:COND?" + ";:INTEG:STAT?" * integrate + ";:STAT:EESR?"
        try:
            answers = self._scpi.ask(query).split(";")
            if len(answers) != query.count("?"):
                raise ProtocolError(f"expected {query.count('?')} answers, got {answers}")
            values = [parse_reading(text, _MOST) for text in answers[0].split(",")]
            if len(values) != len(measured):
                raise ProtocolError(f"expected {len(measured)} numbers, got {answers[0][:60]!r}")
            clipped = peak_over(parse_condition(answers[1]), self._settings.element)
            if parse_condition(answers[-1]) & _UPDATED:
                return None
        except ProtocolError as error:
            self._scpi.resynchronise()
            self._ended_ns = ended_ns
            return self._all(Status.UNREADABLE, t_ns, str(error))
        previous_ns, self._ended_ns = self._ended_ns, ended_ns
        readings: list[tuple[str, int, float | Status, str]] = []
        for quantity, value in zip(measured, values, strict=True):
            detail = ""
            if quantity in clipped:
                value, detail = Status.OVERLOAD, "peak over its range"
            if quantity is Quantity.ENERGY:
                # It is of the end of the window, not of its middle.
                if not answers[2].strip().upper().startswith("STAR"):
                    value, detail = Status.NO_VALUE, f"integration: {answers[2].strip()[:20]}"
                readings.append((quantity, ended_ns, value, detail))
            else:
                readings.append((quantity, t_ns, value, detail))
        batch = batch_of_readings(readings)
        pairs: tuple[ClockPair, ...] = ()
        unknown_ns = answered_ns - before_ns
        if unknown_ns > 2 * _POLL_S * 1e9:
            pairs = tuple(
                ClockPair(channel, at, answered_ns, unknown_ns) for channel, at, _, _ in readings
            )
        return Batch(batch.blocks, (*self._lost(previous_ns), *batch.statuses), pairs)

    def _lost(self, previous_ns: int | None) -> tuple[StatusReading, ...]:
        """Updates between the one before and this one, without those said to be unreadable."""
        said, self._unread = self._unread, 0
        if previous_ns is None or self._ended_ns is None:
            return ()
        apart = (self._ended_ns - previous_ns) / self._update_ns
        if apart < _LOST_FROM:
            return ()
        at_ns = previous_ns + self._update_ns // 2
        count = max(round(apart) - 1, 1) - said
        if count <= 0:
            return ()
        detail = f"{count} updates were not asked for in time"
        return tuple(
            StatusReading(channel.name, at_ns, Status.LOST, detail, count)
            for channel in self.channels
            if channel.quantity is not Quantity.ENERGY  # which counts on
        )

    def _all(self, status: Status, t_ns: int, detail: str) -> Batch:
        """One status for each channel."""
        return batch_of_readings((channel.name, t_ns, status, detail) for channel in self.channels)

    def _mismatch(self) -> tuple[Status, str] | None:
        """Status and detail of a setting that differs. Raises ProtocolError, NoAnswer."""
        scpi, settings = self._scpi, self._settings
        mode = scpi.ask(":INP:MODE?").upper()
        if mode != _MODES[settings.coupling]:
            return Status.WRONG_FUNCTION, f"measures {mode[:20]}, not {_MODES[settings.coupling]}"
        for query, unit, wanted in (
            (":INP:VOLT:RANG?", "V", settings.voltage_range),
            (":INP:CURR:RANG?", "A", settings.current_range),
        ):
            found = parse_quantity(scpi.ask(query))
            if abs(found - wanted) > 0.01 * wanted:
                return Status.RANGE_CHANGED, f"range {found:g} {unit}, not {wanted:g}"
        rate_s = parse_rate(scpi.ask(":RATE?"))
        if abs(rate_s - settings.update_s) > 0.01 * settings.update_s:
            return Status.RANGE_CHANGED, f"updates each {rate_s:g} s, not {settings.update_s:g}"
        return None

    def _describe(self, quantity: Quantity) -> Channel:
        settings = self._settings
        ranges = {
            Quantity.VOLTAGE: settings.voltage_range,
            Quantity.CURRENT: settings.current_range,
            Quantity.POWER: settings.voltage_range * settings.current_range,
        }
        return Channel(
            name=quantity.value,
            quantity=quantity,
            clock=Clock.HOST,
            interval_s=settings.update_s,
            aperture_s=0.0 if quantity is Quantity.ENERGY else settings.update_s,
            accuracy=settings.limits(quantity),
            range=ranges.get(quantity),
            time_u_s=_POLL_S + _COMPUTING_S / 2,
        )


DRIVER: Final = Driver(Wt300Settings, Wt300)
