"""Bench supplies that measure their own output: volts and amps of one output.

Rigol DP811A, DP821A, DP831A, DP832, DP832A; Keysight E36311A, E36312A, E36313A; and ``generic``
ones with ``MEAS:VOLT?`` and ``MEAS:CURR?``. Facts from the DP800 Programming Guide (``:MEASure:ALL?
CH1`` answers volts, amps and watts in one) and the E36300 Programming Guide (``MEAS:VOLT? (@1)``).

A supply feeds the drive, so nothing here sets it up: no reset, no voltage, no current limit, and
closing leaves the output as it is. With ``power_cycle = true`` the output may be
switched on request, by ``Supply.switch``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from instruments.driver_kit.base_settings import (
    NotNegative,
    PolledSettings,
    Positive,
    QuantityLimits,
    VisaAddress,
)
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.polling_ticks import LONGER, Ticks, dither_share
from instruments.driver_kit.scpi import ScpiSession, parse_reading
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
)
from instruments.transports.lines import MessageLine

_LATE_S: Final = 0.2
_SWITCH_S: Final = 2.0
"""How long the output may take to say that it has switched."""
_QUANTITIES: Final = (Quantity.VOLTAGE, Quantity.CURRENT)
_ALL_FIELDS: Final = 3
"""Volts, amps and watts: what one query for all answers."""


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Commands, with ``{output}`` for the number of the output."""

    measure: tuple[str, ...]
    """One query for both (answer: volts,amps,…), or one for each."""
    switch: str
    """With ``{state}``: ON or OFF."""
    state: str


_RIGOL = _Dialect((":MEAS:ALL? CH{output}",), ":OUTP CH{output},{state}", ":OUTP? CH{output}")
_KEYSIGHT = _Dialect(
    ("MEAS:VOLT? (@{output})", "MEAS:CURR? (@{output})"),
    "OUTP {state},(@{output})",
    "OUTP? (@{output})",
)
_GENERIC = _Dialect(("MEAS:VOLT?", "MEAS:CURR?"), "OUTP {state}", "OUTP?")

_RIGOL_AMPS = "Rigol DP800 Performance Verification Manual, annual readback accuracy"
_RIGOL_VOLTS = "Rigol DP832 data sheet, annual readback accuracy"


@dataclass(frozen=True, slots=True)
class _Model:
    dialect: _Dialect
    outputs: int
    volts: Accuracy | None = None
    amps: Accuracy | None = None


MODELS: Mapping[str, _Model] = {
    "DP811A": _Model(_RIGOL, 1, amps=Accuracy(0.1e-2, 10e-3, _RIGOL_AMPS)),
    "DP821A": _Model(_RIGOL, 2, amps=Accuracy(0.15e-2, 10e-3, _RIGOL_AMPS)),
    "DP831A": _Model(_RIGOL, 3, amps=Accuracy(0.2e-2, 10e-3, _RIGOL_AMPS)),
    "DP832": _Model(
        _RIGOL,
        3,
        Accuracy(0.05e-2, 10e-3, _RIGOL_VOLTS),
        Accuracy(0.15e-2, 5e-3, _RIGOL_AMPS),
    ),
    "DP832A": _Model(_RIGOL, 3, amps=Accuracy(0.15e-2, 5e-3, _RIGOL_AMPS)),
    "E36311A": _Model(_KEYSIGHT, 3),
    "E36312A": _Model(_KEYSIGHT, 3),
    "E36313A": _Model(_KEYSIGHT, 3),
    "generic": _Model(_GENERIC, 1),
}


_VOLTS: Final = AliasChoices("voltage_floor_volts", "voltage_floor")
_AMPS: Final = AliasChoices("current_floor_amps", "current_floor")
"""The keys with their units, as in other drivers, and what they were called before 0.2."""


class SupplySettings(VisaAddress, PolledSettings, QuantityLimits):
    """One output of a supply, asked for once in ``interval_s`` seconds."""

    model: Literal[
        "DP811A",
        "DP821A",
        "DP831A",
        "DP832",
        "DP832A",
        "E36311A",
        "E36312A",
        "E36313A",
        "generic",
    ]
    output: Annotated[int, Field(ge=1, le=3)] = 1
    interval_s: Positive = 0.5
    refresh_s: Positive = 0.4
    """How long the supply takes from measurement to measurement. Manuals do not say; lxi-tools'
    wiki saw a DP832 measure two to three times a second."""
    voltage_pct_of_reading: NotNegative | None = None
    voltage_floor_volts: NotNegative | None = Field(None, validation_alias=_VOLTS)
    current_pct_of_reading: NotNegative | None = None
    current_floor_amps: NotNegative | None = Field(None, validation_alias=_AMPS)
    power_cycle: bool = False

    @model_validator(mode="after")
    def _has_output_and_accuracy(self) -> Self:
        model = MODELS[self.model]
        if self.output > model.outputs:
            raise ValueError(f"output: a {self.model} has {model.outputs}")
        if self.interval_s <= self.refresh_s:
            raise ValueError("interval_s must be more than refresh_s: else readings come twice")
        for quantity in _QUANTITIES:
            self.limits(quantity)
        return self

    def manual_limits(self, quantity: Quantity) -> Accuracy | None:
        """The readback accuracy of the model, where it is known."""
        model = MODELS[self.model]
        return model.volts if quantity is Quantity.VOLTAGE else model.amps


class Supply:
    """One output. Its channels are ``voltage`` and ``current``, on the host's clock."""

    def __init__(
        self,
        name: str,
        settings: SupplySettings,
        clock: HostClock,
        line: MessageLine | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._dialect = MODELS[settings.model].dialect
        self._scpi = ScpiSession(name, line or settings.line(name), settings.timeout_s)
        self._ticks = Ticks(
            settings.interval_s, dither=settings.dither, least_s=LONGER * settings.refresh_s
        )
        self.channels = tuple(self._describe(quantity) for quantity in _QUANTITIES)

    def open(self) -> Identity:
        """Connect and make sure of the model."""
        self._scpi.open()
        self._scpi.resynchronise()
        model = "" if self._settings.model == "generic" else self._settings.model
        return self._scpi.expect_identity(model, self._settings.serial)

    def start(self) -> None:
        """Make sure that it measures; nothing is set."""
        self._scpi.send("*CLS")
        self._measure()
        self._scpi.raise_device_errors("to measure its output")
        self._ticks.restart()

    def read(self) -> Batch:
        """Volts and amps at each tick."""
        if not self._ticks.wait(0.5):
            return Batch()
        try:
            measured = self._measure()
        except ProtocolError as error:
            self._scpi.resynchronise()
            now_ns = self._clock()
            return batch_of_readings(
                (name, now_ns, Status.UNREADABLE, str(error)) for name in _QUANTITIES
            )
        readings: list[tuple[str, int, float | Status, str]] = []
        clock_pairs: list[ClockPair] = []
        refresh_ns = round(self._settings.refresh_s * 1e9)
        for quantity, (reading, asked_ns, answered_ns) in measured.items():
            detail = ""
            took_ns = answered_ns - asked_ns
            if took_ns > _LATE_S * 1e9 + refresh_ns:
                reading, detail = Status.UNREADABLE, "answered late: its time is not known"
            # It was measured at some moment of the refresh_s before.
            t_ns = (asked_ns + answered_ns) // 2 - refresh_ns // 2
            readings.append((quantity, t_ns, reading, detail))
            if took_ns > refresh_ns:
                clock_pairs.append(ClockPair(quantity, t_ns, answered_ns, refresh_ns + took_ns))
        return replace(batch_of_readings(readings), clock_pairs=tuple(clock_pairs))

    def close(self) -> None:
        """Give the front panel back; the output stays as it is."""
        self._scpi.close("SYST:LOC")

    @property
    def may_switch(self) -> bool:
        """Whether the rig says ``power_cycle = true``."""
        return self._settings.power_cycle

    def switch(self, on: bool) -> None:
        """Switch the output. Raises SettingRefused, and whatever the line raises."""
        if not self._settings.power_cycle:
            raise SettingRefused(
                f"{self._scpi.name}: the rig does not allow it: set power_cycle = true there, if "
                "the drive on this output may lose its power"
            )
        output = self._settings.output
        state, wanted = ("ON", ("ON", "1", "+1")) if on else ("OFF", ("OFF", "0", "+0"))
        self._scpi.send(self._dialect.switch.format(output=output, state=state))
        deadline = time.monotonic() + _SWITCH_S
        while (
            answer := self._scpi.ask(self._dialect.state.format(output=output)).upper()
        ) not in wanted:
            if time.monotonic() > deadline:
                raise SettingRefused(
                    f"{self._scpi.name}: output {output} is {answer[:20]!r} after switching it "
                    f"{state}; has its protection tripped?"
                )
            time.sleep(0.1)

    def _measure(self) -> dict[Quantity, tuple[float | Status, int, int]]:
        """Volts and amps, each with when it was asked for and answered.

        Raises NoAnswer, ProtocolError.
        """
        together = len(self._dialect.measure) == 1
        measured: list[tuple[str, int, int]] = []
        for query in self._dialect.measure:
            asked_ns = self._clock()
            answer = self._scpi.ask(query.format(output=self._settings.output))
            answered_ns = self._clock()
            texts = answer.split(",") if together else [answer]
            if together and len(texts) != _ALL_FIELDS:  # twice as many, with commas for points
                raise ProtocolError(f"expected volts, amps and watts, got {answer[:60]!r}")
            measured += [(text, asked_ns, answered_ns) for text in texts]
        return {
            quantity: (parse_reading(text), asked_ns, answered_ns)
            for quantity, (text, asked_ns, answered_ns) in zip(_QUANTITIES, measured, strict=False)
        }

    def _describe(self, quantity: Quantity) -> Channel:
        settings = self._settings
        return Channel(
            name=quantity,
            quantity=quantity,
            clock=Clock.HOST,
            interval_s=settings.interval_s,
            aperture_s=settings.refresh_s,
            accuracy=settings.limits(quantity),
            time_u_s=settings.refresh_s,
            dither=dither_share(settings.dither, settings.interval_s, settings.refresh_s),
        )


DRIVER: Final = Driver(SupplySettings, Supply)
