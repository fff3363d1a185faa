"""TI INA219/220/226/228/230/231/237/238 power monitors that the Linux kernel reads.

hwmon files (kernel: Documentation/hwmon/ina2xx.rst, ina238.rst): ``in0_input`` volts across the
shunt in mV, ``in1_input`` bus volts in mV, ``curr1_input`` mA, ``energy1_input`` µJ (INA228),
``shunt_resistor`` µΩ and ``update_interval`` ms (INA219 to INA231). The kernel divides by the shunt
that it was configured with, so that is verified: by ``shunt_resistor``; where there is none
(drivers/hwmon/ina238.c) by the device tree's ``shunt-resistor``, and by what ``in0_input`` says
beside ``curr1_input``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from instruments.driver_kit.base_settings import (
    HostFilesSettings,
    NotNegative,
    PolledSettings,
    Positive,
    QuantityLimits,
)
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.hwmon_files import (
    CLASS_DIRECTORY,
    chip_name,
    directory_on_host,
    find_directory,
    number_in_file,
)
from instruments.driver_kit.i2c_chips import NAME_PATTERN, hwmon_pattern
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

Model = Literal[
    "ina219", "ina220", "ina226", "ina228", "ina230", "ina231", "ina237", "ina238"
]  # fmt: skip
SHUNT_LIMIT_MV: Final[Mapping[str, float]] = {
    "ina219": 319.9,
    "ina220": 319.9,
    "ina226": 81.9,
    "ina228": 163.8,
    "ina230": 81.9,
    "ina231": 81.9,
    "ina237": 163.8,
    "ina238": 163.8,
}
"""Volts across the shunt at which the converter is at its end, in the range the kernel sets."""
SMALL_RANGE_LIMIT_MV: Final = 40.9
"""The same where the device tree has ``ti,shunt-gain = <1>`` (INA228, INA237, INA238)."""
INA238_FAMILY: Final = ("ina228", "ina237", "ina238")
"""Those of the kernel's ina238 driver: no ``shunt_resistor``, no ``update_interval``."""
_CYCLE_S: Final = 3 * 1.052e-3
"""Bus, shunt and temperature, as the kernel sets the family (ADC_CONFIG 0xfb6a)."""
_AVERAGED_S: Final = 16 * _CYCLE_S
_SHUNT_STEP_VOLTS: Final = 20e-6
"""Of the family's ``curr1_input`` in kernels that set SHUNT_CAL to 16384, four steps of the
converter; later ones set 4096, and round instead of cutting off."""
_BUS_STEP_VOLTS: Final = 3.125e-3
_ENERGY_LIMIT: Final = 0.01
"""INA228-Q1 data sheet SLYS022A, page 1: energy accuracy 1.0 % (maximum). It has the oscillator's
±0.5 % in it."""
_LEAST_ENERGY_INTERVAL_S: Final = 0.1
"""32 conversion cycles: the register counts whole ones (data sheet, 7.3.2: energy is accumulated
for each conversion cycle and is not averaged)."""
_LEAST_VOLTS: Final = 0.5
"""Below this there are no amps to be had from joules."""
_DISAGREE_AT_ONCE: Final = 10
"""So many readings in a row whose shunt volts do not fit the amps: no change of load does that."""
_DISAGREE_MV: Final = 2.0
_DISAGREE_SHARE: Final = 0.1
_INA226: Final = "TI INA226 data sheet SBOS547B, maxima at 25 °C"
_INA226_GAIN: Final = 0.001
_INA226_BUS_OFFSET_VOLTS: Final = 7.5e-3
_INA226_SHUNT_OFFSET_VOLTS: Final = 10e-6
_HALF_MILLI: Final = 0.5e-3
"""The kernel gives whole mV and mA."""
_SHUNT_AGREES: Final = 1e-3
_INTERVAL_AGREES: Final = 0.1


class Ina2xxSettings(HostFilesSettings, PolledSettings, QuantityLimits):
    """Which chip, its shunt, and limits of error where no data sheet is built in."""

    model: Model
    device: Annotated[str, Field(pattern=f"^$|{NAME_PATTERN}")] = ""
    """Bus and address, ``i2c-1-0x40``: what does not change from boot to boot."""
    directory: str = ""
    """In its place a directory or a pattern; both empty: the only chip of this model."""
    shunt_ohm: Positive
    shunt_tolerance_pct: NotNegative
    kernel_shunt_ohm: Positive | None = None
    """What the kernel divides by where it cannot be told of the shunt; default ``shunt_ohm``."""
    current_from: Literal["register", "energy"] = "register"
    """``energy`` (INA228): the amps that, times the volts, are the joules between two readings."""
    interval_s: Positive = 0.1
    update_interval_s: NotNegative = 0.0
    """What the chip averages over, as its ``update_interval`` must say; 0: whatever it is."""
    voltage_pct_of_reading: NotNegative | None = None
    voltage_floor_volts: NotNegative | None = None
    current_pct_of_reading: NotNegative | None = None
    current_floor_amps: NotNegative | None = None

    @field_validator("directory")
    @classmethod
    def _no_number(cls, value: str) -> str:
        if re.fullmatch(rf"{CLASS_DIRECTORY}/hwmon\d+/?", value):
            raise ValueError(
                f"{value.rstrip('/').rpartition('/')[2]} may be another chip after the next boot: "
                'use device = "i2c-1-0x40" (its bus and address: labctl instruments lists them)'
            )
        return value

    @model_validator(mode="after")
    def _fits_the_chip(self) -> Self:
        if self.device and self.directory:
            raise ValueError("device and directory: only one of both")
        if self.kernel_shunt_ohm is not None and self.model not in INA238_FAMILY:
            raise ValueError("kernel_shunt_ohm: this chip's shunt can be written to shunt_resistor")
        if self.current_from == "energy":
            if self.model != "ina228":
                raise ValueError("current_from = energy: only an ina228 counts energy")
            if self.interval_s < _LEAST_ENERGY_INTERVAL_S:
                least = f"{_LEAST_ENERGY_INTERVAL_S:g} or more"
                raise ValueError(f"current_from = energy: interval_s must be {least}")
        return self

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

    @property
    def place(self) -> str:
        """Where its files are: a directory, a pattern, or the name of the chip."""
        return hwmon_pattern(self.device) if self.device else self.directory or self.model

    @property
    def averaged_s(self) -> float:
        """The time over which the chip averages; 0: not known."""
        if self.model in INA238_FAMILY:
            return self.update_interval_s or _AVERAGED_S
        return self.update_interval_s

    @property
    def shunt_of_kernel_ohm(self) -> float:
        """The shunt that the kernel divides by."""
        return self.kernel_shunt_ohm or self.shunt_ohm

    def accuracy(self, quantity: Quantity) -> Accuracy:
        """Limits of error with what the kernel rounds; the current's with the shunt's tolerance."""
        shunt = self.shunt_tolerance_pct / 100
        rig = self.rig_limits(quantity)
        if rig is None:
            if quantity is Quantity.VOLTAGE:
                floor = _INA226_BUS_OFFSET_VOLTS + _HALF_MILLI
                return Accuracy(_INA226_GAIN, floor, _INA226)
            floor = _INA226_SHUNT_OFFSET_VOLTS / self.shunt_ohm + _HALF_MILLI
            return Accuracy(_INA226_GAIN + shunt, floor, f"{_INA226}, and the shunt's tolerance")
        family = self.model in INA238_FAMILY
        if quantity is Quantity.VOLTAGE:
            rounded = _BUS_STEP_VOLTS / 2 + 2 * _HALF_MILLI if family else 0.0
            return replace(rig, floor=rig.floor + rounded)
        if self.current_from == "energy":
            source = "INA228-Q1 data sheet SLYS022A (energy), the rig, and the shunt's tolerance"
            return Accuracy(max(rig.of_reading, _ENERGY_LIMIT) + shunt, rig.floor, source)
        rounded = _SHUNT_STEP_VOLTS / 2 / self.shunt_ohm + 2 * _HALF_MILLI if family else 0.0
        source = "the rig, and the shunt's tolerance"
        return Accuracy(rig.of_reading + shunt, rig.floor + rounded, source)


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
        self._of_energy = settings.current_from == "energy"
        self._ticks = Ticks(settings.interval_s, dither=settings.dither and not self._of_energy)
        self._directory = ""
        self._shunt_limit_mv = SHUNT_LIMIT_MV[settings.model]
        self._disagreed = 0
        self._energy: tuple[int, float] | None = None
        self.channels = (self._channel(Quantity.VOLTAGE), self._channel(Quantity.CURRENT))

    def _channel(self, quantity: Quantity) -> Channel:
        settings, interval_s = self._settings, self._settings.interval_s
        averaged_s = settings.averaged_s
        dither = dither_share(settings.dither and not self._of_energy, interval_s, averaged_s)
        # Where in its own cycle the chip stands is not known.
        family = settings.model in INA238_FAMILY
        cycle_s = averaged_s if family else max(averaged_s, interval_s)
        gapless = self._of_energy and quantity is Quantity.CURRENT
        return Channel(
            name=quantity.value,
            quantity=quantity,
            clock=Clock.HOST,
            interval_s=interval_s,
            aperture_s=interval_s if gapless else averaged_s,
            accuracy=settings.accuracy(quantity),
            time_u_s=_CYCLE_S if gapless else cycle_s / 2,
            dither=dither,
        )

    def open(self) -> Identity:
        """Find the chip and make sure of its model."""
        settings = self._settings
        self._files.open()
        self._directory = find_directory(self._name, settings.place, self._files)
        chip = chip_name(self._directory, self._files)
        if chip != settings.model:
            raise WrongInstrument(
                f"{self._name}: {self._directory} is an {chip}, the rig says {settings.model}"
            )
        return Identity(
            "Texas Instruments", chip, notes=(directory_on_host(settings.host, self._directory),)
        )

    def start(self) -> None:
        """Make sure of shunt, averaging and energy register. Raises SettingRefused."""
        settings = self._settings
        if settings.model in INA238_FAMILY:
            self._verify_device_tree()
        else:
            self._verify_shunt_resistor()
        wanted_s = settings.update_interval_s
        update_s = self._number("update_interval", 1e-3)
        if wanted_s and update_s is not None and abs(update_s / wanted_s - 1) > _INTERVAL_AGREES:
            raise SettingRefused(
                f"{self._name}: the chip averages over {update_s:g} s, the rig says {wanted_s:g}: "
                f"write {wanted_s * 1e3:.0f} to {self._directory}/update_interval"
            )
        if self._of_energy and self._number("energy1_input", 1e-6) is None:
            raise SettingRefused(
                f"{self._name}: this kernel shows no energy1_input of its ina228: "
                'current_from = "register", or a newer kernel'
            )
        self._disagreed, self._energy = 0, None
        self._ticks.restart()

    def _verify_shunt_resistor(self) -> None:
        settings = self._settings
        shunt_ohm = self._number("shunt_resistor", 1e-6)
        if shunt_ohm is None or abs(shunt_ohm / settings.shunt_ohm - 1) > _SHUNT_AGREES:
            found = "gives no shunt" if shunt_ohm is None else f"reckons {shunt_ohm:g} Ω"
            raise SettingRefused(
                f"{self._name}: the kernel {found}, the rig says {settings.shunt_ohm:g} Ω: write "
                f"{settings.shunt_ohm * 1e6:.0f} to {self._directory}/shunt_resistor"
            )

    def _verify_device_tree(self) -> None:
        """Where there is one: its cells are four bytes, the highest first."""
        node = f"{self._directory}/device/of_node"
        texts = self._files.texts([f"{node}/shunt-resistor", f"{node}/ti,shunt-gain"])
        said = texts.get(f"{node}/shunt-resistor")
        micro_ohm = round(self._settings.shunt_of_kernel_ohm * 1e6)
        # As a text a cell is not its bytes (above 127, line ends): so the other one is made a text.
        expected = micro_ohm.to_bytes(4, "big").decode("utf-8", "replace")
        if (
            said is not None
            and said.startswith("\0")
            and _one_line_end(said) != _one_line_end(expected)
        ):
            readable = all(ord(letter) < 128 and letter not in "\r\n" for letter in said)
            found = f"{int.from_bytes(said.encode(), 'big')} µΩ" if readable else "another shunt"
            raise SettingRefused(
                f"{self._name}: the device tree says {found} (shunt-resistor), the rig "
                f"{micro_ohm} µΩ: set it there, or kernel_shunt_ohm in the rig"
            )
        if texts.get(f"{node}/ti,shunt-gain") == "\0\0\0\1":
            self._shunt_limit_mv = SMALL_RANGE_LIMIT_MV

    def read(self) -> Batch:
        """Both quantities at each tick. A file that vanished is a ConnectionLost."""
        if not self._ticks.wait(0.5):
            return Batch()
        asked_ns = self._clock()
        names = ["in1_input", "curr1_input", "in0_input"]
        names += ["energy1_input"] if self._of_energy else []
        inputs = [f"{self._directory}/{name}" for name in names]
        texts = self._files.texts(inputs)
        middle_ns = (asked_ns + self._clock()) // 2
        numbers = [number_in_file(self._name, path, texts) for path in inputs]
        t_ns = middle_ns - round(self._settings.averaged_s / 2 * 1e9)
        volts = _ina2xx_from_milli(numbers[0])
        amps, detail = self._amps(_ina2xx_from_milli(numbers[1]), numbers[2])
        if not self._of_energy:
            return batch_of_readings(
                (("voltage", t_ns, volts, ""), ("current", t_ns, amps, detail))
            )
        readings: list[tuple[str, int, float | Status, str]] = [("voltage", t_ns, volts, "")]
        counted = self._since_last(middle_ns, numbers[3])
        if isinstance(amps, Status):
            readings.append(("current", t_ns, amps, detail))
        elif counted is not None:
            t_ns, watts, detail = counted
            if not isinstance(watts, Status) and not isinstance(volts, Status):
                watts = watts / volts if volts >= _LEAST_VOLTS else Status.NO_VALUE
            readings.append(("current", t_ns, watts, detail))
        return batch_of_readings(readings)

    def _amps(self, amps: float | Status, shunt_mv: float | Status) -> tuple[float | Status, str]:
        """The amps through the shunt that there is, or why they are none."""
        if isinstance(shunt_mv, Status) or isinstance(amps, Status):
            return amps, ""
        if abs(shunt_mv) >= self._shunt_limit_mv:
            return Status.OVERLOAD, f"{shunt_mv:g} mV across the shunt"
        settings = self._settings
        if settings.model in INA238_FAMILY:
            expected_mv = amps * settings.shunt_of_kernel_ohm * 1e3
            allowed_mv = _DISAGREE_MV + _DISAGREE_SHARE * abs(shunt_mv)
            agrees = abs(expected_mv - shunt_mv) <= allowed_mv
            self._disagreed = 0 if agrees else self._disagreed + 1
            if self._disagreed >= _DISAGREE_AT_ONCE:
                return Status.WRONG_FUNCTION, (
                    f"{shunt_mv:g} mV at {amps:g} A: the kernel reckons with another shunt than "
                    f"{settings.shunt_of_kernel_ohm:g} Ω; set kernel_shunt_ohm"
                )
        return amps * (settings.shunt_of_kernel_ohm / settings.shunt_ohm), ""

    def _since_last(
        self, now_ns: int, micro_joules: float | Status
    ) -> tuple[int, float | Status, str] | None:
        """Middle, mean watts and detail of the time since the energy was last read."""
        before = self._energy
        if isinstance(micro_joules, Status):
            self._energy = None
            return now_ns, micro_joules, "energy1_input"
        self._energy = (now_ns, micro_joules)
        if before is None:
            return None
        began_ns, began = before
        # What the register has is half a conversion cycle old on average, at both ends.
        middle_ns = (began_ns + now_ns) // 2 - round(_CYCLE_S / 2 * 1e9)
        if micro_joules < began:
            return middle_ns, Status.UNREADABLE, "the energy register began anew"
        settings = self._settings
        watts = (micro_joules - began) * 1e3 / (now_ns - began_ns)
        return middle_ns, watts * (settings.shunt_of_kernel_ohm / settings.shunt_ohm), ""

    def close(self) -> None:
        """Close the connection to another host."""
        self._files.close()

    def _number(self, name: str, unit: float) -> float | None:
        """A setting of the chip; None where the kernel does not have it."""
        path = f"{self._directory}/{name}"
        texts = self._files.texts([path])
        number = number_in_file(self._name, path, texts) if path in texts else Status.UNREADABLE
        return None if isinstance(number, Status) else number * unit


def _one_line_end(text: str) -> str:
    return text.replace("\r", "\n")


def _ina2xx_from_milli(milli: float | Status) -> float | Status:
    return milli if isinstance(milli, Status) else milli / 1000


DRIVER: Final = Driver(Ina2xxSettings, Ina2xx)
