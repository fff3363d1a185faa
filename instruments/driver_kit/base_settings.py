"""Base classes of drivers' settings: accuracy, serial port, host files, VISA, multimeter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from instruments.driver_kit import specifications
from instruments.reading import Accuracy, Channel, Clock, Quantity
from instruments.transports.addresses import checked_resource
from instruments.transports.host_files import HostFiles, host_files
from instruments.transports.lines import SerialFormat
from instruments.transports.serial_line import SerialLine
from instruments.transports.ssh import DESTINATION_PATTERN
from instruments.transports.visa_line import PYVISA_PY, VisaLine

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
DcFunction = Literal["voltage", "current"]

_FLOOR_UNITS: Final = {
    Quantity.VOLTAGE: "volts",
    Quantity.CURRENT: "amps",
    Quantity.POWER: "watts",
    Quantity.ENERGY: "wh",
}


def accuracy_from_rig(pct_of_reading: float, floor: float) -> Accuracy:
    """Limits of error that the rig gives: percent of reading, and a floor in the channel's unit."""
    return Accuracy(pct_of_reading / 100, floor, "the rig")


def require_one_of(value: float, allowed: Sequence[float]) -> None:
    """Raises ValueError for another value than those allowed."""
    if value not in allowed:
        raise ValueError(f"must be one of {', '.join(f'{one:g}' for one in allowed)}")


def require_between(value: float, least: float, most: float) -> None:
    """Raises ValueError for a value outside ``least`` to ``most``."""
    if not least <= value <= most:
        raise ValueError(f"must be from {least:g} to {most:g}")


def require_nplc(value: float, model: str) -> None:
    """Raises ValueError for an integration time (in mains periods) that a model does not have."""
    if model in specifications.NPLC:
        require_one_of(value, specifications.NPLC[model])
    elif model in specifications.NPLC_BETWEEN:
        require_between(value, *specifications.NPLC_BETWEEN[model])


def require_together(settings: BaseModel, first: str, second: str) -> None:
    """Raises ValueError where only one of two keys has a value."""
    if (getattr(settings, first, None) is None) != (getattr(settings, second, None) is None):
        raise ValueError(f"{first} and {second} belong together")


class DriverSettings(BaseModel):
    """Frozen, and unknown keys are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AccuracySettings(DriverSettings):
    """Limits of error from a calibration certificate, in place of the manual's."""

    accuracy_pct_of_reading: NotNegative | None = None
    accuracy_floor: NotNegative | None = None
    """In the unit of the channel (V, A)."""

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        require_together(self, "accuracy_pct_of_reading", "accuracy_floor")
        return self

    @property
    def rig_accuracy(self) -> Accuracy | None:
        """The limits of error in the rig; None where it gives none."""
        if self.accuracy_pct_of_reading is None or self.accuracy_floor is None:
            return None
        return accuracy_from_rig(self.accuracy_pct_of_reading, self.accuracy_floor)


class QuantityLimits(DriverSettings):
    """Limits of error of each quantity, in two keys that a driver declares for what it measures:
    ``voltage_pct_of_reading`` and ``voltage_floor_volts``, and so on."""

    @model_validator(mode="after")
    def _limits_belong_together(self) -> Self:
        for quantity in _FLOOR_UNITS:
            require_together(self, *_limit_keys(quantity))
        return self

    def rig_limits(self, quantity: Quantity) -> Accuracy | None:
        """The limits of error in the rig; None where it gives none."""
        pct, floor = (getattr(self, key, None) for key in _limit_keys(quantity))
        return None if pct is None or floor is None else accuracy_from_rig(pct, floor)

    def manual_limits(self, quantity: Quantity) -> Accuracy | None:
        """Those of the maker's manual; None where they are not known here."""
        return None

    def limits(self, quantity: Quantity) -> Accuracy:
        """The rig's, or else the manual's. Raises ValueError where neither says."""
        found = self.rig_limits(quantity) or self.manual_limits(quantity)
        if found is None:
            pct, floor = _limit_keys(quantity)
            raise ValueError(
                f"the limits of error of its {quantity} are not known here: set {pct} and {floor} "
                "from its manual"
            )
        return found


def _limit_keys(quantity: Quantity) -> tuple[str, str]:
    return f"{quantity}_pct_of_reading", f"{quantity}_floor_{_FLOOR_UNITS[quantity]}"


class PolledSettings(DriverSettings):
    """An instrument that is asked for each reading."""

    dither: bool = True
    """It is asked at a random moment of each interval, so that no load can keep in step with it:
    see :class:`~instruments.driver_kit.polling_ticks.Ticks`."""


class SerialSettings(DriverSettings):
    """An instrument on a serial port."""

    line_format: ClassVar[SerialFormat]
    """Format of its bytes on the line."""

    port: Annotated[str, Field(min_length=1)]
    """A path, best ``/dev/serial/by-id/…``, or ``usb:…``: see
    :mod:`instruments.transports.serial_ports`."""

    def line(self, name: str) -> SerialLine:
        """The line to the instrument, not opened yet."""
        return SerialLine(name, self.port, self.line_format)


class HostFilesSettings(DriverSettings):
    """An instrument that is read from small files of a machine."""

    host: Annotated[str, Field(pattern=DESTINATION_PATTERN)] = "local"
    """``local``, or an ssh destination; the rig's ``host`` if left out."""

    def files(self, name: str) -> HostFiles:
        """The files of that machine, not connected yet."""
        return host_files(name, self.host)


class VisaAddress(DriverSettings):
    """The address of a VISA instrument, and the settings of its line."""

    visa_library: str = PYVISA_PY
    resource: Annotated[str, Field(min_length=1)]
    """``TCPIP0::192.168.1.20::5025::SOCKET``, ``TCPIP0::…::INSTR`` (VXI-11), ``…::hislip0::INSTR``,
    ``USB0::…::INSTR``, ``GPIB0::22::INSTR``, ``ASRL/dev/ttyUSB0::INSTR``."""
    serial: str = ""
    """Serial number it must have; empty: any."""
    timeout_s: Annotated[float, Field(gt=0, le=1.8)] = 1.5
    baud: Annotated[int, Field(gt=0)] | None = None
    """Of a serial resource; None: the factory setting."""
    data_bits: Literal[7, 8] = 8
    parity: Literal["none", "even", "odd"] = "none"
    stop_bits: Literal[1, 2] = 1

    @field_validator("resource")
    @classmethod
    def _pyvisa_py_can_open_it(cls, value: str, info: ValidationInfo) -> str:
        return checked_resource(value) if info.data.get("visa_library") == PYVISA_PY else value

    @model_validator(mode="after")
    def _serial_keys_have_a_serial_resource(self) -> Self:
        if not self.is_serial:
            given = self.model_fields_set & {"baud", "data_bits", "parity", "stop_bits"}
            if given:
                raise ValueError(
                    f"{', '.join(sorted(given))}: only for serial resources (ASRL…::INSTR)"
                )
        return self

    @property
    def is_serial(self) -> bool:
        """Whether it is on a serial port."""
        return self.resource.upper().startswith("ASRL")

    @property
    def is_lan(self) -> bool:
        """Whether it is on the network."""
        return self.resource.upper().startswith("TCPIP")

    @property
    def default_baud(self) -> int:
        """The factory setting of its serial port."""
        return 9600

    def line(self, name: str) -> VisaLine:
        """The line to the instrument, not opened yet."""
        serial_format = SerialFormat(
            self.baud or self.default_baud, self.data_bits, self.parity[0].upper(), self.stop_bits
        )
        return VisaLine(name, self.resource, self.visa_library, serial_format)


class MultimeterSettings(VisaAddress, AccuracySettings):
    """DC volts or DC amps on one range, a reading each ``interval_s`` seconds.

    A driver narrows ``model`` to the models it knows.
    """

    mains_hz: Literal[50, 60] = 50
    model: str
    function: DcFunction
    range: Positive
    """V or A."""
    interval_s: Positive = Field(le=3600)

    @field_validator("range")
    @classmethod
    def _has_range(cls, value: float, info: ValidationInfo) -> float:
        if {"model", "function"} <= info.data.keys():
            ranges = specifications.allowed_ranges(info.data["model"], info.data["function"])
            if ranges:
                require_one_of(value, ranges)
        return value

    @model_validator(mode="after")
    def _has_accuracy(self) -> Self:
        known = specifications.accuracy(self.model, self.function, self.range)
        if known is None and self.rig_accuracy is None:
            raise ValueError(
                f"the accuracy of a {self.model} on this range is not known here: set "
                "accuracy_pct_of_reading and accuracy_floor from its manual"
            )
        return self

    @property
    def ranges(self) -> tuple[float, ...]:
        """The ranges of this model and function, ascending; empty where they are not known."""
        return specifications.allowed_ranges(self.model, self.function)

    def limits(self) -> Accuracy:
        """The limits of error in the rig, or else those of the manual."""
        if self.rig_accuracy is not None:
            return self.rig_accuracy
        known = specifications.accuracy(self.model, self.function, self.range)
        assert known is not None
        return known

    def limits_without_auto_zero(self) -> Accuracy:
        """The limits of error while auto-zero is off; the rig's hold for that state."""
        if self.rig_accuracy is not None:
            return self.rig_accuracy
        return specifications.without_auto_zero(
            self.limits(), self.model, self.function, self.range
        )

    def channel(
        self,
        clock: Clock,
        accuracy: Accuracy,
        aperture_s: float,
        time_u_s: float,
        *,
        clock_tick_s: float = 0.0,
        mains_hz: float = 0.0,
        dither: float = 0.0,
    ) -> Channel:
        """The channel of a meter with these settings: see :class:`~instruments.reading.Channel`."""
        return Channel(
            name=self.function,
            quantity=Quantity(self.function),
            clock=clock,
            interval_s=self.interval_s,
            aperture_s=aperture_s,
            accuracy=accuracy,
            range=self.range,
            clock_tick_s=clock_tick_s,
            time_u_s=time_u_s,
            mains_hz=mains_hz,
            dither=dither,
        )


class NplcSettings(MultimeterSettings):
    """A multimeter whose integration time is set in mains periods."""

    nplc: Positive
    """At least 1 rejects the mains."""

    @field_validator("nplc")
    @classmethod
    def _has_nplc(cls, value: float, info: ValidationInfo) -> float:
        require_nplc(value, info.data.get("model", ""))
        return value

    @model_validator(mode="after")
    def _fits_aperture(self) -> Self:
        if self.interval_s < self.aperture_s:
            raise ValueError(
                f"interval_s must be at least the integration time, {self.aperture_s:g} s"
            )
        return self

    @property
    def aperture_s(self) -> float:
        """Integration time."""
        return self.nplc / self.mains_hz

    @property
    def nplcs(self) -> tuple[float, ...]:
        """What ``nplc`` may be; empty: any value within the meter's limits."""
        return specifications.NPLC.get(self.model, ())

    @property
    def sets_interval(self) -> bool:
        """Whether ``interval_s`` is set; else it follows from ``nplc``."""
        return True
