"""SCPI multimeters that measure on request: ``READ?``.

Siglent SDM3045X, SDM3055, SDM3065X; HP, Agilent or Keysight 34401A, 34410A, 34411A, 34460A,
34461A, 34465A, 34470A; Keithley 2000, 2015; Fluke 8845A, 8846A; and others as ``generic``.

``READ?`` triggers the measurement, so its integration window lies between sending and receiving:
the reading's time is the **middle of the two**, and half of (round trip - aperture) is what
stays unknown. Half an aperture must not be taken off besides: that is for meters that run by
themselves and answer their last reading. Auto-zero is switched off after one zero where the
meter can, because a second integration would move the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from pydantic import ValidationInfo, field_validator, model_validator

from instruments.driver_kit.base_settings import NplcSettings, PolledSettings
from instruments.driver_kit.polling_ticks import Ticks, dither_share
from instruments.driver_kit.scpi import QUIET_S, parse_quantity
from instruments.driver_kit.scpi_multimeter import (
    LATE_S,
    ScpiMultimeter,
    ask_reading,
    late_answer,
    require_answer_in_time,
)
from instruments.driver_kit.stuck_readings import StuckReadingDetector
from instruments.drivers import GENERIC, Driver
from instruments.errors import ProtocolError
from instruments.reading import (
    Accuracy,
    Batch,
    Clock,
    ClockPair,
    HostClock,
    Status,
    StatusReading,
)
from instruments.transports.lines import MessageLine

_CONTROL_C: Final = "\x03"
"""34420A User's Guide, Using Device Clear; 8845A Programmers Manual, RS-232 Modes of Operation;
Model 2750 User's Manual, RS-232 interface operation. A Keithley answers DCL."""

_HP_SETUP = ("CONF:{node} {range:g}", "{node}:NPLC {nplc:g}")
_GENERIC_SETUP = ("CONF:{node}", "{node}:RANG {range:g}", "{node}:NPLC {nplc:g}")
"""The range by itself: SCPI-99 has both, and not each meter takes a range with its CONF."""
_KEITHLEY_2000_SETUP = (
    "FORM:ELEM READ",
    "FUNC '{node}'",
    "{node}:RANG {range:g}",
    "{node}:NPLC {nplc:g}",
    "{node}:AVER:STAT OFF",
    "TRIG:COUN 1",
    "SAMP:COUN 1",
)
"""Of the Model 2000 User's Manual: its CONF takes no range, and its filter is on after *RST.

*RST leaves it idle, where its panel shows the last reading for ever; INIT:CONT ON ends that.
"""


@dataclass(frozen=True, slots=True)
class _Model:
    """What differs between models; commands have ``{node}`` for ``VOLT:DC``."""

    overhead_s: float
    """A usual round trip less the aperture."""
    auto_zero_off: str = ""
    """Empty where it has no such command."""
    setup: tuple[str, ...] = _HP_SETUP
    remote_on_lan: bool = False
    """It needs SYST:REM on LAN too."""
    local_by_command: bool = True
    """SYST:LOC on every interface; else only after SYST:REM: other buses have a local state."""
    stop: tuple[str, ...] = ("ABOR",)
    """Empty where it has none: a measurement ends with the answer to ``READ?``."""
    control_c: bool = False
    """On RS-232 the character 3 is the device clear of other buses."""


_AGILENT = _Model(0.01, "{node}:ZERO:AUTO ONCE")
_HP_34401A = _Model(0.02, "ZERO:AUTO ONCE", local_by_command=False, stop=(), control_c=True)
_FLUKE = replace(_HP_34401A, remote_on_lan=True)
_KEITHLEY_2000 = _Model(
    0.02,
    "SYST:AZER:STAT OFF",
    setup=_KEITHLEY_2000_SETUP,
    local_by_command=False,
    stop=("ABOR", "INIT:CONT ON"),
    control_c=True,
)

MODELS: Mapping[str, _Model] = {
    "SDM3045X": _Model(0.02),
    "SDM3055": _Model(0.02),
    "SDM3065X": _Model(0.01, "{node}:AZ OFF"),
    "34401A": _HP_34401A,
    "34410A": _AGILENT,
    "34411A": _AGILENT,
    "34460A": _AGILENT,
    "34461A": _AGILENT,
    "34465A": _AGILENT,
    "34470A": _AGILENT,
    "2000": _KEITHLEY_2000,
    "2015": _KEITHLEY_2000,
    "8845A": _FLUKE,
    "8846A": _FLUKE,
    GENERIC: _Model(0.05, setup=_GENERIC_SETUP, stop=()),
}


class ScpiDmmSettings(NplcSettings, PolledSettings):
    """DC volts or DC amps, asked for once in ``interval_s`` seconds."""

    model: Literal[
        "SDM3045X",
        "SDM3055",
        "SDM3065X",
        "34401A",
        "34410A",
        "34411A",
        "34460A",
        "34461A",
        "34465A",
        "34470A",
        "2000",
        "2015",
        "8845A",
        "8846A",
        "generic",
    ]
    autorange: bool = False
    """The meter chooses its range, up to ``range``, whose limits of error are taken for all."""

    @field_validator("nplc")
    @classmethod
    def _answers_in_time(cls, value: float, info: ValidationInfo) -> float:
        require_answer_in_time(value, info.data.get("mains_hz", 50))
        return value

    @model_validator(mode="after")
    def _fits_aperture(self) -> Self:
        if self.interval_s <= self.aperture_s:
            raise ValueError(
                f"interval_s must be more than the integration time, {self.aperture_s:g} s"
            )
        return self


def accuracy_of(settings: ScpiDmmSettings) -> Accuracy:
    """The rig's limits of error, or those of the manual and of the auto-zero that is off."""
    if MODELS[settings.model].auto_zero_off:
        return settings.limits_without_auto_zero()
    return settings.limits()


class ScpiDmm(ScpiMultimeter[ScpiDmmSettings]):
    """One polled multimeter. Its channel is ``voltage`` or ``current``, on the host's clock."""

    def __init__(
        self,
        name: str,
        settings: ScpiDmmSettings,
        clock: HostClock,
        line: MessageLine | None = None,
    ) -> None:
        self._model = MODELS[settings.model]
        busy_s = settings.aperture_s + self._model.overhead_s
        channel = settings.channel(
            Clock.HOST,
            accuracy_of(settings),
            settings.aperture_s,
            self._model.overhead_s / 2,
            mains_hz=settings.mains_hz,
            dither=dither_share(settings.dither, settings.interval_s, busy_s),
        )
        super().__init__(name, settings, clock, line, channel)
        if settings.autorange:
            self._range = None
        self._repeats = StuckReadingDetector()
        self._chosen_range = settings.range
        self._ticks = Ticks(settings.interval_s, dither=settings.dither)

    def _prepare_remote_control(self) -> None:
        if self._model.control_c and self._settings.is_serial:
            # A meter that still waits for a trigger obeys nothing else. Some answer it.
            self._scpi.send(_CONTROL_C)
            self._scpi.resynchronise()
        if self._is_remote_by_command():
            # In local mode it may refuse commands.
            self._scpi.send("SYST:REM")

    def _expected_model(self) -> str:
        return "" if self._settings.model == GENERIC else self._settings.model

    def start(self) -> None:
        """Reset, set up, verify."""
        settings, scpi, node = self._settings, self._scpi, self._node
        scpi.reset()
        for command in (*self._model.setup, self._model.auto_zero_off):
            if command:
                scpi.send(command.format(node=node, range=settings.range, nplc=settings.nplc))
        scpi.send("TRIG:SOUR IMM")
        self._verify_settings(settings.nplc)
        if settings.autorange:
            scpi.send(f"{node}:RANG:AUTO ON")
        self._chosen_range = settings.range
        self._panel.restart(self._clock())
        self._repeats.restart()
        self._ticks.restart()

    def read(self) -> Batch:
        """One reading at each tick."""
        if not self._ticks.wait(0.5):
            return Batch()
        reading, unreadable, asked_ns, answered_ns = ask_reading(
            self._scpi, self._clock, "READ?", self._settings.aperture_s + QUIET_S
        )
        t_ns = (asked_ns + answered_ns) // 2
        name = self._channel.name
        if changed := self._panel.changed(answered_ns):
            self.start()
            return Batch(statuses=(StatusReading(name, t_ns, *changed),))
        if unreadable:
            return self._status_batch(t_ns, unreadable)
        clock_pairs: tuple[ClockPair, ...] = ()
        late_s = (answered_ns - asked_ns) * 1e-9 - self._channel.aperture_s
        if late_s > LATE_S + self._model.overhead_s:
            return self._status_batch(t_ns, late_answer(late_s))
        if self._settings.autorange and (range_change := self._range_changed()):
            return Batch(statuses=(StatusReading(name, t_ns, Status.RANGE_CHANGED, range_change),))
        if late_s > self._model.overhead_s:
            clock_pairs = (ClockPair(name, t_ns, answered_ns, round(late_s * 1e9)),)
        return Batch(*self._repeats.sort(name, t_ns, reading), clock_pairs)

    def close(self) -> None:
        """Give the front panel back."""
        local = self._model.local_by_command or self._is_remote_by_command()
        self._scpi.close(*self._model.stop, *(["SYST:LOC"] if local else []))

    def _is_remote_by_command(self) -> bool:
        """Whether the interface has no remote state of its own, so that commands set it."""
        settings = self._settings
        return settings.is_serial or (settings.is_lan and self._model.remote_on_lan)

    def _range_changed(self) -> str:
        """How the range that the meter chose changed since the last reading; empty: it did not."""
        try:
            now = parse_quantity(self._scpi.ask(self._range_query()))
        except ProtocolError:
            self._scpi.resynchronise()
            return ""
        before, self._chosen_range = self._chosen_range, now
        if now > self._settings.range * 1.01:
            return f"chose range {now:g}: above {self._settings.range:g} its limits are not known"
        if now != before:
            return f"range {now:g}, was {before:g}"
        return ""


DRIVER: Final = Driver(ScpiDmmSettings, ScpiDmm)
