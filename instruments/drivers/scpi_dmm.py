"""SCPI multimeters that are asked for each reading: ``READ?``.

Siglent SDM3045X, SDM3055, SDM3065X; HP, Agilent or Keysight 34401A, 34460A, 34461A; Fluke 8845A,
8846A; and others as ``generic``.

``READ?`` triggers the measurement, so its integration window lies between sending and receiving:
the reading's time is the **middle of the two**, and half of (round trip - aperture) is what
stays unknown. Half an aperture must not be taken off besides: that is for meters that run by
themselves and answer their last reading. Auto-zero is switched off after one zero where the
meter can, because a second integration would move the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from pydantic import ValidationInfo, field_validator, model_validator

from instruments.drivers import specifications
from instruments.drivers.pacing import Ticks
from instruments.drivers.panel import PanelCheck
from instruments.drivers.settings import DcFunction, Positive, VisaSettings
from instruments.drivers.sorting import sort_readings
from instruments.errors import ProtocolError
from instruments.reading import (
    Accuracy,
    Batch,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
    Status,
    StatusReading,
)
from instruments.scpi import QUIET_S, ScpiSession, parse_reading
from instruments.transports import MessageLine, VisaLine

_RESET_S: Final = 1.8
_LONGEST_APERTURE_S: Final = 0.4
"""So that a reading is over before anybody takes the meter for dead."""
_LATE_S: Final = 0.1
"""A reading whose place is not known better than ± half of this is a status."""


@dataclass(frozen=True, slots=True)
class _Model:
    """``idn`` is what its *IDN? contains; ``overhead_s`` a usual round trip less the aperture."""

    idn: str
    nplc: tuple[float, ...]
    overhead_s: float
    auto_zero_off: str = ""
    """Command, ``{node}`` for ``VOLT:DC``; empty where it has none."""


_NPLC_HP = (0.02, 0.2, 1.0, 10.0, 100.0)
_NPLC_5_DIGITS = (0.3, 1.0, 10.0)
MODELS: Mapping[str, _Model] = {
    "SDM3045X": _Model("SDM3045X", _NPLC_5_DIGITS, 0.02),
    "SDM3055": _Model("SDM3055", _NPLC_5_DIGITS, 0.02),
    "SDM3065X": _Model("SDM3065X", (0.005, 0.05, 0.5, 1.0, 10.0, 100.0), 0.01, "{node}:AZ OFF"),
    "34401A": _Model("34401A", _NPLC_HP, 0.02, "ZERO:AUTO ONCE"),
    "34460A": _Model("34460A", _NPLC_HP, 0.01, "{node}:ZERO:AUTO ONCE"),
    "34461A": _Model("34461A", _NPLC_HP, 0.01, "{node}:ZERO:AUTO ONCE"),
    "8845A": _Model("8845A", _NPLC_HP, 0.02, "ZERO:AUTO ONCE"),
    "8846A": _Model("8846A", _NPLC_HP, 0.02, "ZERO:AUTO ONCE"),
    "generic": _Model("", (), 0.05),
}


class ScpiDmmSettings(VisaSettings):
    """DC volts or DC amps on one fixed range, asked for each ``interval_s`` seconds."""

    model: Literal[
        "SDM3045X",
        "SDM3055",
        "SDM3065X",
        "34401A",
        "34460A",
        "34461A",
        "8845A",
        "8846A",
        "generic",
    ]
    function: DcFunction
    range: Positive
    """V or A."""
    nplc: Positive
    """Integration time in mains periods."""
    interval_s: Positive

    @field_validator("range")
    @classmethod
    def _has_range(cls, value: float, info: ValidationInfo) -> float:
        if {"model", "function"} <= info.data.keys():
            ranges = specifications.allowed_ranges(info.data["model"], info.data["function"])
            if ranges and value not in ranges:
                raise ValueError(f"must be one of {', '.join(f'{r:g}' for r in ranges)}")
        return value

    @field_validator("nplc")
    @classmethod
    def _has_nplc(cls, value: float, info: ValidationInfo) -> float:
        allowed = MODELS[info.data["model"]].nplc if "model" in info.data else ()
        if allowed and value not in allowed:
            raise ValueError(f"must be one of {', '.join(f'{n:g}' for n in allowed)}")
        mains_hz: int = info.data.get("mains_hz", 50)
        if value / mains_hz > _LONGEST_APERTURE_S:
            raise ValueError(f"must be at most {_LONGEST_APERTURE_S * mains_hz:g} here")
        return value

    @field_validator("interval_s")
    @classmethod
    def _fits_aperture(cls, value: float, info: ValidationInfo) -> float:
        if {"nplc", "mains_hz"} <= info.data.keys():
            aperture_s = info.data["nplc"] / info.data["mains_hz"]
            if value <= aperture_s:
                raise ValueError(f"must be more than the integration time, {aperture_s:g} s")
        return value

    @model_validator(mode="after")
    def _has_accuracy(self) -> Self:
        known = specifications.accuracy(self.model, self.function, self.range)
        if known is None and self.own_accuracy is None:
            raise ValueError(
                f"the accuracy of a {self.model} is not known here: set "
                "accuracy_pct_of_reading and accuracy_floor from its manual"
            )
        return self

    @property
    def aperture_s(self) -> float:
        """Integration time."""
        return self.nplc / self.mains_hz


def accuracy_of(settings: ScpiDmmSettings) -> Accuracy:
    """The rig's limits of error, or those of the manual and of the auto-zero that is off."""
    if settings.own_accuracy is not None:
        return settings.own_accuracy
    model, function, range_ = settings.model, settings.function, settings.range
    limits = specifications.accuracy(model, function, range_)
    assert limits is not None
    if not MODELS[model].auto_zero_off:
        return limits
    return specifications.without_auto_zero(limits, model, function, range_)


class ScpiDmm:
    """One polled multimeter. Its channel is ``voltage`` or ``current``, on the host's clock."""

    def __init__(
        self,
        name: str,
        settings: ScpiDmmSettings,
        clock: HostClock,
        line: MessageLine | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._model = MODELS[settings.model]
        self._scpi = ScpiSession(
            name,
            line or VisaLine(name, settings.resource, settings.visa_library),
            settings.timeout_s,
        )
        self._node = "VOLT:DC" if settings.function == "voltage" else "CURR:DC"
        self._panel = PanelCheck(self._scpi, settings.function, settings.range)
        self._ticks = Ticks(settings.interval_s)
        self._channel = Channel(
            name=settings.function,
            quantity=Quantity(settings.function),
            clock=Clock.HOST,
            interval_s=settings.interval_s,
            aperture_s=settings.aperture_s,
            accuracy=accuracy_of(settings),
            range=settings.range,
            time_u_s=self._model.overhead_s / 2,
            mains_hz=settings.mains_hz,
        )

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The one channel."""
        return (self._channel,)

    def open(self) -> Identity:
        """Connect and make sure of the model."""
        self._scpi.open()
        self._scpi.resynchronise()
        return self._scpi.expect_identity(self._model.idn, self._settings.serial)

    def start(self) -> None:
        """Reset, set up, verify."""
        settings, scpi, node = self._settings, self._scpi, self._node
        scpi.send("*RST")
        scpi.send("*CLS")
        scpi.ask("*OPC?", _RESET_S)
        scpi.send(f"CONF:{node} {settings.range:g}")
        scpi.send(f"{node}:NPLC {settings.nplc:g}")
        if self._model.auto_zero_off:
            scpi.send(self._model.auto_zero_off.format(node=node))
        scpi.send("TRIG:SOUR IMM")
        scpi.ask("*OPC?", _RESET_S)
        scpi.refuse_errors("its settings")
        scpi.expect_function(settings.function)
        scpi.expect_quantity(f"{node}:RANG?", settings.range, "the range")
        scpi.expect_quantity(f"{node}:NPLC?", settings.nplc, "NPLC")
        self._panel.restart()
        self._ticks.restart()

    def read(self) -> Batch:
        """One reading at each tick."""
        if not self._ticks.wait(0.5):
            return Batch()
        asked_ns = self._clock()
        answer = self._scpi.ask_bytes("READ?")
        answered_ns = self._clock()
        t_ns = (asked_ns + answered_ns) // 2
        name = self._channel.name
        if self._panel.due(answered_ns) and (detail := self._panel.moved()):
            self.start()
            return Batch(statuses=(StatusReading(name, t_ns, Status.WRONG_FUNCTION, detail),))
        try:
            reading = parse_reading(answer.decode("ascii", errors="replace"))
        except ProtocolError as error:
            # A stale answer: the right one may still be on its way.
            self._scpi.resynchronise(self._settings.aperture_s + QUIET_S)
            return Batch(statuses=(StatusReading(name, t_ns, Status.UNREADABLE, str(error)),))
        late_s = (answered_ns - asked_ns) * 1e-9 - self._settings.aperture_s
        if late_s > _LATE_S + self._model.overhead_s:
            detail = f"answered {late_s:.2f} s late: its time is not known"
            return Batch(statuses=(StatusReading(name, t_ns, Status.UNREADABLE, detail),))
        return Batch(*sort_readings(name, [t_ns], [reading]))

    def close(self) -> None:
        """Give the front panel back."""
        self._scpi.close("ABOR", "SYST:LOC")
