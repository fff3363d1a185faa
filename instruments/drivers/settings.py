"""What the settings of several drivers have in common."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from instruments.reading import Accuracy

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
DcFunction = Literal["voltage", "current"]


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
        if (self.accuracy_pct_of_reading is None) != (self.accuracy_floor is None):
            raise ValueError("accuracy_pct_of_reading and accuracy_floor belong together")
        return self

    @property
    def own_accuracy(self) -> Accuracy | None:
        """What the rig says of the accuracy, if it does."""
        if self.accuracy_pct_of_reading is None or self.accuracy_floor is None:
            return None
        return Accuracy(self.accuracy_pct_of_reading / 100, self.accuracy_floor, "the rig")


class SerialSettings(DriverSettings):
    """An instrument on a serial port."""

    port: Annotated[str, Field(min_length=1)]
    """A path, best ``/dev/serial/by-id/…``, or ``usb:…``: see :mod:`instruments.serial_ports`."""


class VisaSettings(AccuracySettings):
    """A multimeter on a VISA resource."""

    resource: Annotated[str, Field(min_length=1)]
    """``TCPIP0::192.168.1.20::5025::SOCKET``, ``USB0::…::INSTR``, ``GPIB0::22::INSTR``."""
    visa_library: str = "@py"
    serial: str = ""
    """Serial number it must have; empty: any."""
    timeout_s: Annotated[float, Field(gt=0, le=1.8)] = 1.5
    mains_hz: Literal[50, 60] = 50
