"""The temperature function of bench multimeters: an RTD, a thermistor or a thermocouple.

Keysight Truevolt 34460A, 34461A, 34465A, 34470A (Command Quick Reference in the maker's help:
``CONFigure:TEMPerature {FRTD|RTD|FTHermistor|THERmistor|TCouple},<type>``), and Keithley DMM6500,
DAQ6510, DMM7510 (DMM6500-901-01: ``SENS:TEMP:TRAN``; commands as public programs for a DMM6500 and
a DAQ6510 send them).

Each reading is asked for with ``READ?``: its time is the middle between sending and receiving, as
for ``scpi_dmm``, but auto-zero stays on: a thermocouple's microvolts need it. So a reading takes up
to three integrations, and which of them was the sensor's stays unknown. The meter converts ohms or
volts to °C by the standard curve of the sensor's type.
An open sensor, and one outside of its curve, is 9.9E37: a status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from instruments.driver_kit.base_settings import (
    NotNegative,
    PolledSettings,
    Positive,
    VisaAddress,
    accuracy_from_rig,
    require_nplc,
)
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.front_panel import FrontPanelCheck
from instruments.driver_kit.polling_ticks import Ticks, dither_share
from instruments.driver_kit.scpi import QUIET_S, ScpiSession
from instruments.driver_kit.scpi_multimeter import (
    LATE_S,
    ask_reading,
    late_answer,
    require_answer_in_time,
)
from instruments.drivers import Driver
from instruments.errors import SettingRefused
from instruments.reading import (
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

Sensor = Literal["rtd", "rtd_4wire", "thermistor", "thermistor_4wire", "thermocouple"]

_OVERHEAD_S: Final = 0.02
_ZERO_APERTURES: Final = 2
"""Auto-zero integrates a zero (Truevolt), or a reference and a zero (Keithley), too."""


@dataclass(frozen=True, slots=True)
class _Family:
    """Commands have ``{type}``, ``{ohms}`` and ``{reference}``."""

    sensors: Mapping[Sensor, tuple[tuple[str, ...], tuple[str, ...]]]
    """For each sensor: the types it may have, and how it is set up."""
    own_junction: tuple[str, ...]
    """With the meter's own reference junction; empty: it has none."""
    fixed_junction: tuple[str, ...]
    unit: str
    stop: tuple[str, ...]


_OHMS: Final = {"PT100": "100", "PT1000": "1000"}
_TRUEVOLT_RTDS: Final = tuple(_OHMS)
_KEITHLEY_RTDS: Final = ("PT100", "PT385", "PT3916", "D100", "F100")
_TRUEVOLT: Final = _Family(
    sensors={
        "rtd": (_TRUEVOLT_RTDS, ("CONF:TEMP RTD,85", "TEMP:TRAN:RTD:RES {ohms}")),
        "rtd_4wire": (_TRUEVOLT_RTDS, ("CONF:TEMP FRTD,85", "TEMP:TRAN:FRTD:RES {ohms}")),
        "thermistor": (("5000",), ("CONF:TEMP THER,5000",)),
        "thermistor_4wire": (("5000",), ("CONF:TEMP FTH,5000",)),
    },
    own_junction=(),
    fixed_junction=(),
    unit="UNIT:TEMP C",
    stop=("ABOR", "SYST:LOC"),
)
_TRUEVOLT_WITH_TC: Final = _Family(
    sensors={
        **_TRUEVOLT.sensors,
        "thermocouple": (("E", "J", "K", "N", "R", "T"), ("CONF:TEMP TC,{type}",)),
    },
    own_junction=("TEMP:TRAN:TC:RJUN:TYPE INT",),
    fixed_junction=("TEMP:TRAN:TC:RJUN:TYPE FIX", "TEMP:TRAN:TC:RJUN {reference}"),
    unit=_TRUEVOLT.unit,
    stop=_TRUEVOLT.stop,
)
_KEITHLEY_FUNCTION: Final = 'SENS:FUNC "TEMP"'
_KEITHLEY: Final = _Family(
    sensors={
        "rtd": (
            _KEITHLEY_RTDS,
            (_KEITHLEY_FUNCTION, "SENS:TEMP:TRAN RTD", "SENS:TEMP:RTD:TWO {type}"),
        ),
        "rtd_4wire": (
            _KEITHLEY_RTDS,
            (_KEITHLEY_FUNCTION, "SENS:TEMP:TRAN FRTD", "SENS:TEMP:RTD:FOUR {type}"),
        ),
        "thermistor": (
            ("2252", "5000", "10000"),
            (_KEITHLEY_FUNCTION, "SENS:TEMP:TRAN THER", "SENS:TEMP:THER {type}"),
        ),
        "thermocouple": (
            ("B", "E", "J", "K", "N", "R", "S", "T"),
            (_KEITHLEY_FUNCTION, "SENS:TEMP:TRAN TC", "SENS:TEMP:TC:TYPE {type}"),
        ),
    },
    own_junction=(),  # its front and rear terminals have no sensor
    fixed_junction=("SENS:TEMP:TC:RJUN:RSEL SIM", "SENS:TEMP:TC:RJUN:SIM {reference}"),
    unit="SENS:TEMP:UNIT CELS",
    stop=("ABOR", "TRIG:CONT REST", "logout"),
)
FAMILIES: Final[Mapping[str, _Family]] = {
    "34460A": _TRUEVOLT,
    "34461A": _TRUEVOLT,
    "34465A": _TRUEVOLT_WITH_TC,
    "34470A": _TRUEVOLT_WITH_TC,
    "DMM6500": _KEITHLEY,
    "DAQ6510": _KEITHLEY,
    "DMM7510": _KEITHLEY,
}


class ScpiThermometerSettings(VisaAddress, PolledSettings):
    """One sensor at the meter's terminals, asked for once in ``interval_s`` seconds."""

    mains_hz: Literal[50, 60] = 50
    model: Literal["34460A", "34461A", "34465A", "34470A", "DMM6500", "DAQ6510", "DMM7510"]
    sensor: Sensor
    sensor_type: str
    """``PT100``, ``PT1000`` …; a thermistor's ohms at 25 °C; a thermocouple's letter."""
    reference_celsius: Annotated[float, Field(ge=-20, le=80)] | None = None
    """Of a thermocouple's reference junction; None: measured by the meter."""
    nplc: Positive = 1.0
    interval_s: Positive = Field(1.0, le=3600)
    accuracy_pct_of_reading: NotNegative
    accuracy_floor: NotNegative
    """°C, of the sensor and the meter."""

    @field_validator("nplc")
    @classmethod
    def _has_nplc(cls, value: float, info: ValidationInfo) -> float:
        require_nplc(value, info.data.get("model", ""))
        require_answer_in_time(value, info.data.get("mains_hz", 50))
        return value

    @model_validator(mode="after")
    def _meter_knows_the_sensor(self) -> Self:
        family = FAMILIES[self.model]
        if self.sensor not in family.sensors:
            known = ", ".join(family.sensors)
            raise ValueError(f"sensor: a {self.model} takes {known}")
        types, _ = family.sensors[self.sensor]
        if self.sensor_type not in types:
            raise ValueError(f"sensor_type: a {self.model} has {', '.join(types)} for this sensor")
        if self.sensor != "thermocouple" and self.reference_celsius is not None:
            raise ValueError("reference_celsius: only for a thermocouple")
        needs_reference = self.sensor == "thermocouple" and not family.own_junction
        if needs_reference and self.reference_celsius is None:
            raise ValueError(
                f"a {self.model} does not measure its terminals' temperature: set "
                "reference_celsius, what they are at"
            )
        if self.interval_s <= self.aperture_s:
            raise ValueError(
                f"interval_s must be more than the integration time, {self.aperture_s:g} s"
            )
        return self

    @property
    def aperture_s(self) -> float:
        """Integration time."""
        return self.nplc / self.mains_hz

    @property
    def default_baud(self) -> int:
        """See :class:`~instruments.driver_kit.base_settings.VisaAddress`."""
        return 115_200

    def setup(self) -> tuple[str, ...]:
        """The commands that select the sensor."""
        family = FAMILIES[self.model]
        _, commands = family.sensors[self.sensor]
        if self.sensor == "thermocouple":
            own = self.reference_celsius is None
            commands += family.own_junction if own else family.fixed_junction
        values = {
            "type": self.sensor_type,
            "ohms": _OHMS.get(self.sensor_type, ""),
            "reference": f"{self.reference_celsius or 0:g}",
        }
        return tuple(command.format(**values) for command in (*commands, family.unit))


class ScpiThermometer:
    """One sensor. Its channel is ``temperature``, on the host's clock."""

    def __init__(
        self,
        name: str,
        settings: ScpiThermometerSettings,
        clock: HostClock,
        line: MessageLine | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._scpi = ScpiSession(name, line or settings.line(name), settings.timeout_s)
        self._panel = FrontPanelCheck(self._scpi, self._mismatch)
        self._ticks = Ticks(settings.interval_s, dither=settings.dither)
        busy_s = settings.aperture_s + _OVERHEAD_S
        self._channel = Channel(
            name=Quantity.TEMPERATURE.value,
            quantity=Quantity.TEMPERATURE,
            clock=Clock.HOST,
            interval_s=settings.interval_s,
            aperture_s=settings.aperture_s,
            accuracy=accuracy_from_rig(settings.accuracy_pct_of_reading, settings.accuracy_floor),
            time_u_s=_OVERHEAD_S / 2,
            mains_hz=settings.mains_hz,
            dither=dither_share(settings.dither, settings.interval_s, busy_s),
        )
        self.channels = (self._channel,)

    def open(self) -> Identity:
        """Connect and make sure of the model."""
        self._scpi.open()
        self._scpi.resynchronise()
        return self._scpi.expect_identity(self._settings.model, self._settings.serial)

    def start(self) -> None:
        """Reset, select the sensor, verify."""
        scpi, settings = self._scpi, self._settings
        scpi.reset("ABOR")
        for command in settings.setup():
            scpi.send(command)
        scpi.send(f"SENS:TEMP:NPLC {settings.nplc:g}")
        scpi.wait_until_done()
        scpi.raise_device_errors("its settings")
        if wrong := self._mismatch():
            raise SettingRefused(f"{scpi.name}: {wrong[1]} after it was set")
        scpi.expect_quantity("SENS:TEMP:NPLC?", settings.nplc, "NPLC")
        self._panel.restart(self._clock())
        self._ticks.restart()

    def read(self) -> Batch:
        """One reading at each tick."""
        if not self._ticks.wait(0.5):
            return Batch()
        reading, detail, asked_ns, answered_ns = ask_reading(
            self._scpi, self._clock, "READ?", self._settings.aperture_s + QUIET_S
        )
        t_ns = (asked_ns + answered_ns) // 2
        name = self._channel.name
        if changed := self._panel.changed(answered_ns):
            self.start()
            return Batch(statuses=(StatusReading(name, t_ns, *changed),))
        if reading is Status.OVERLOAD:
            reading, detail = Status.OPEN_SENSOR, "open, or out of its range"
        late_s = (answered_ns - asked_ns) * 1e-9 - self._channel.aperture_s
        if late_s > LATE_S + _OVERHEAD_S + _ZERO_APERTURES * self._channel.aperture_s:
            reading, detail = Status.UNREADABLE, late_answer(late_s)
        batch = batch_of_readings([(name, t_ns, reading, detail)])
        if late_s <= _OVERHEAD_S:
            return batch
        pair = ClockPair(name, t_ns, answered_ns, round(late_s * 1e9))
        return Batch(batch.blocks, batch.statuses, (pair,))

    def close(self) -> None:
        """Give the front panel back."""
        self._scpi.close(*FAMILIES[self._settings.model].stop)

    def _mismatch(self) -> tuple[Status, str] | None:
        """Status and detail of a function that differs. Raises NoAnswer."""
        function = self._scpi.ask("FUNC?").strip('"').upper()
        if function.startswith("TEMP"):
            return None
        return Status.WRONG_FUNCTION, f"measures {function[:20]}, not a temperature"


DRIVER: Final = Driver(ScpiThermometerSettings, ScpiThermometer)
