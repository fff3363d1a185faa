"""TI INA219/220/226/230/231/238 power monitors that the Linux kernel reads.

hwmon files (kernel: Documentation/hwmon/ina2xx.rst, ina238.rst): ``in0_input`` volts across the
shunt in mV, ``in1_input`` bus volts in mV, ``curr1_input`` mA, ``shunt_resistor`` µΩ,
``update_interval`` ms. The kernel divides by the shunt that it was configured with, so that is
verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from instruments.driver_kit.base_settings import (
    HostFilesSettings,
    NotNegative,
    PolledSettings,
    Positive,
    accuracy_from_rig,
)
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.hwmon_files import (
    chip_name,
    directory_on_host,
    find_directory,
    number_in_file,
)
from instruments.driver_kit.polling_ticks import Ticks, dither_share
from instruments.drivers import Driver
from instruments.errors import SettingRefused, WrongInstrument
from instruments.reading import (
    Accuracy,
    Batch,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
    Status,
)
from instruments.transports.host_files import HostFiles

Model = Literal["ina219", "ina220", "ina226", "ina230", "ina231", "ina238"]
SHUNT_LIMIT_MV: Final[Mapping[str, float]] = {
    "ina219": 319.9,
    "ina220": 319.9,
    "ina226": 81.9,
    "ina230": 81.9,
    "ina231": 81.9,
    "ina238": 163.8,
}
"""Volts across the shunt at which the converter is at its end, in the range the kernel sets."""
_INA226: Final = "TI INA226 data sheet SBOS547B, maxima at 25 °C"
_INA226_GAIN: Final = 0.001
_INA226_BUS_OFFSET_VOLTS: Final = 7.5e-3
_INA226_SHUNT_OFFSET_VOLTS: Final = 10e-6
_HALF_MILLI: Final = 0.5e-3
"""The kernel gives whole mV and mA."""
_SHUNT_AGREES: Final = 1e-3
_INTERVAL_AGREES: Final = 0.1


class Ina2xxSettings(HostFilesSettings, PolledSettings):
    """Which chip, its shunt, and limits of error where no data sheet is built in."""

    model: Model
    directory: str = ""
    """A directory or a pattern (``/sys/bus/i2c/devices/1-0040/hwmon/hwmon*``); empty: the model."""
    shunt_ohm: Positive
    shunt_tolerance_pct: NotNegative
    interval_s: Positive = 0.1
    update_interval_s: NotNegative = 0.0
    """What the chip averages over, as its ``update_interval`` must say; 0: whatever it is."""
    voltage_pct_of_reading: NotNegative | None = None
    voltage_floor_volts: NotNegative | None = None
    current_pct_of_reading: NotNegative | None = None
    current_floor_amps: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None

    @model_validator(mode="after")
    def _has_limits(self) -> Self:
        limits = (
            self.voltage_pct_of_reading,
            self.voltage_floor_volts,
            self.current_pct_of_reading,
            self.current_floor_amps,
        )
        if None in limits and (self.model != "ina226" or set(limits) != {None}):
            raise ValueError(
                "voltage_pct_of_reading, voltage_floor_volts, current_pct_of_reading and "
                "current_floor_amps belong together, and only an ina226 may be without them"
            )
        return self

    def accuracy(self, quantity: Quantity) -> Accuracy:
        """Limits of error; those of the current include the shunt's tolerance."""
        shunt = self.shunt_tolerance_pct / 100
        if self.voltage_pct_of_reading is None:
            if quantity is Quantity.VOLTAGE:
                floor = _INA226_BUS_OFFSET_VOLTS + _HALF_MILLI
                return Accuracy(_INA226_GAIN, floor, _INA226)
            floor = _INA226_SHUNT_OFFSET_VOLTS / self.shunt_ohm + _HALF_MILLI
            return Accuracy(_INA226_GAIN + shunt, floor, f"{_INA226}, and the shunt's tolerance")
        if quantity is Quantity.VOLTAGE:
            return accuracy_from_rig(self.voltage_pct_of_reading, self.voltage_floor_volts or 0.0)
        return Accuracy(
            (self.current_pct_of_reading or 0.0) / 100 + shunt,
            self.current_floor_amps or 0.0,
            "the rig, and the shunt's tolerance",
        )


class Ina2xx:
    """One chip. Channels ``voltage`` and ``current``, on the host's clock."""

    def __init__(
        self,
        name: str,
        settings: Ina2xxSettings,
        clock: HostClock,
        files: HostFiles | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._files = files or settings.files(name)
        self._ticks = Ticks(settings.interval_s, dither=settings.dither)
        self._directory = ""
        # Where in its own cycle the chip stands is not known.
        time_u_s = max(settings.update_interval_s, settings.interval_s) / 2
        self.channels = tuple(
            Channel(
                name=quantity.value,
                quantity=quantity,
                clock=Clock.HOST,
                interval_s=settings.interval_s,
                aperture_s=settings.update_interval_s,
                accuracy=settings.accuracy(quantity),
                time_u_s=time_u_s,
                dither=dither_share(
                    settings.dither, settings.interval_s, settings.update_interval_s
                ),
            )
            for quantity in (Quantity.VOLTAGE, Quantity.CURRENT)
        )

    def open(self) -> Identity:
        """Find the chip and make sure of its model."""
        settings = self._settings
        self._files.open()
        self._directory = find_directory(
            self._name, settings.directory or settings.model, self._files
        )
        chip = chip_name(self._directory, self._files)
        if chip != settings.model:
            raise WrongInstrument(
                f"{self._name}: {self._directory} is an {chip}, the rig says {settings.model}"
            )
        return Identity(
            "Texas Instruments", chip, notes=(directory_on_host(settings.host, self._directory),)
        )

    def start(self) -> None:
        """Make sure of shunt and averaging. Raises SettingRefused."""
        settings = self._settings
        shunt_ohm = self._number("shunt_resistor", 1e-6)
        if shunt_ohm is None or abs(shunt_ohm / settings.shunt_ohm - 1) > _SHUNT_AGREES:
            found = "gives no shunt" if shunt_ohm is None else f"reckons {shunt_ohm:g} Ω"
            raise SettingRefused(
                f"{self._name}: the kernel {found}, the rig says {settings.shunt_ohm:g} Ω: write "
                f"{settings.shunt_ohm * 1e6:.0f} to {self._directory}/shunt_resistor"
            )
        wanted_s = settings.update_interval_s
        update_s = self._number("update_interval", 1e-3)
        if wanted_s and update_s is not None and abs(update_s / wanted_s - 1) > _INTERVAL_AGREES:
            raise SettingRefused(
                f"{self._name}: the chip averages over {update_s:g} s, the rig says {wanted_s:g}: "
                f"write {wanted_s * 1e3:.0f} to {self._directory}/update_interval"
            )
        self._ticks.restart()

    def read(self) -> Batch:
        """Both quantities at each tick. A file that vanished is a ConnectionLost."""
        if not self._ticks.wait(0.5):
            return Batch()
        asked_ns = self._clock()
        inputs = [f"{self._directory}/{name}" for name in ("in1_input", "curr1_input", "in0_input")]
        texts = self._files.texts(inputs)
        middle_ns = (asked_ns + self._clock()) // 2
        t_ns = middle_ns - round(self._settings.update_interval_s / 2 * 1e9)
        numbers = [number_in_file(self._name, path, texts) for path in inputs]
        readings = [milli if isinstance(milli, Status) else milli / 1000 for milli in numbers[:2]]
        shunt_mv, detail = numbers[2], ""
        limit_mv = SHUNT_LIMIT_MV[self._settings.model]
        if not isinstance(shunt_mv, Status) and abs(shunt_mv) >= limit_mv:
            readings[1], detail = Status.OVERLOAD, f"{shunt_mv:g} mV across the shunt"
        volts, amps = readings
        return batch_of_readings((("voltage", t_ns, volts, ""), ("current", t_ns, amps, detail)))

    def close(self) -> None:
        """Close the connection to another host."""
        self._files.close()

    def _number(self, name: str, unit: float) -> float | None:
        """A setting of the chip; None where the kernel does not have it."""
        path = f"{self._directory}/{name}"
        texts = self._files.texts([path])
        number = number_in_file(self._name, path, texts) if path in texts else Status.UNREADABLE
        return None if isinstance(number, Status) else number * unit


DRIVER: Final = Driver(Ina2xxSettings, Ina2xx)
