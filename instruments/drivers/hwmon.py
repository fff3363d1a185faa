"""Linux hwmon: temperatures or watts that the kernel reads from a drive (or anything else).

``/sys/class/hwmon/hwmonN/temp*_input`` in millidegrees, named by ``temp*_label`` (kernel:
Documentation/hwmon/sysfs-interface.rst). NVMe drives need no root for it. The numbers N change
from boot to boot, so a rig names the chip or a pattern.

Watts are ``power*_average`` (µW, a mean that the chip keeps), or ``power*_input`` where there is
none: of the whole machine for an ACPI power meter (chip ``power_meter``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from instruments.driver_kit.base_settings import (
    AccuracySettings,
    HostFilesSettings,
    NotNegative,
    PolledSettings,
    Positive,
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
from instruments.errors import SettingRefused
from instruments.reading import (
    NO_STATED_ACCURACY,
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

_SENSOR_CYCLE_S: Final = 1.0
"""Drives refresh their sensors about once a second."""
_COLDEST_CELSIUS, _HOTTEST_CELSIUS = -200.0, 1000.0
"""What is beyond is no temperature: the nvme driver makes -273.15 of 0 K."""

SensorName = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]


_MOST_WATTS: Final = 1e5
_KINDS: Final = {"temperature": ("temp*_input",), "power": ("power*_average", "power*_input")}


class HwmonSettings(HostFilesSettings, AccuracySettings, PolledSettings):
    """Where the files are and which of them to read."""

    directory: Annotated[str, Field(min_length=1)]
    """A chip name (``nvme``), a directory, or a pattern (``/sys/class/nvme/nvme0/hwmon*``)."""
    quantity: Literal["temperature", "power"] = "temperature"
    sensors: Annotated[tuple[SensorName, ...], Field(min_length=1)] = ("composite",)
    """Labels in lower case, ``_`` for spaces; ``temp1``, ``power1`` where there is no label."""
    interval_s: Positive = 1.0
    limit_kelvin: NotNegative = 3.0
    """Limit of error. Drives do not state one: 3 K is an assumption."""
    averaged_s: NotNegative = 0.0
    """Over how long the chip averages watts, where that is known."""

    @model_validator(mode="after")
    def _keys_of_its_quantity(self) -> Self:
        of_power = {"averaged_s", "accuracy_pct_of_reading", "accuracy_floor"}
        wrong = {"limit_kelvin"} if self.quantity == "power" else of_power
        if given := sorted(wrong & self.model_fields_set):
            raise ValueError(f"{given[0]}: not for a {self.quantity}")
        return self

    @property
    def limits(self) -> Accuracy:
        """The limits of error; of watts those of the rig, or none."""
        if self.quantity == "power":
            return self.rig_accuracy or NO_STATED_ACCURACY
        return Accuracy(0.0, self.limit_kelvin, "assumed (limit_kelvin of the rig)")


def hwmon_sensor_name(label: str) -> str:
    """A label as a channel name: ``Sensor 1`` is ``sensor_1``."""
    return re.sub(r"[^a-z0-9]+", "_", label.strip().lower()).strip("_")


def find_sensors(
    directory: str, files: HostFiles, kinds: Sequence[str] = ("temp*_input",)
) -> dict[str, str]:
    """The files of one kind by sensor name; of several kinds, the first that a sensor has."""
    sensors: dict[str, str] = {}
    for kind in kinds:
        stems, _, ending = kind.rpartition("_")
        texts = files.texts([f"{directory}/{kind}", f"{directory}/{stems}_label"])
        for path in sorted(path for path in texts if path.endswith(f"_{ending}")):
            stem = path.removesuffix(f"_{ending}")
            label = texts.get(f"{stem}_label")
            sensors.setdefault(hwmon_sensor_name(label) if label else stem.rpartition("/")[2], path)
    return sensors


class Hwmon:
    """The sensors of one chip: a channel each, on the host's clock."""

    def __init__(
        self,
        name: str,
        settings: HwmonSettings,
        clock: HostClock,
        files: HostFiles | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._files = files or settings.files(name)
        self._ticks = Ticks(settings.interval_s, dither=settings.dither)
        self._paths: dict[str, str] = {}
        self.channels = tuple(
            Channel(
                name=sensor,
                quantity=Quantity(settings.quantity),
                clock=Clock.HOST,
                interval_s=settings.interval_s,
                aperture_s=settings.averaged_s,
                accuracy=settings.limits,
                time_u_s=_SENSOR_CYCLE_S,
                dither=dither_share(settings.dither, settings.interval_s, 0.0),
            )
            for sensor in settings.sensors
        )

    def open(self) -> Identity:
        """Find the directory."""
        self._files.open()
        directory = find_directory(self._name, self._settings.directory, self._files)
        kinds = _KINDS[self._settings.quantity]
        self._paths = find_sensors(directory, self._files, kinds)
        notes = (directory_on_host(self._settings.host, directory),)
        return Identity("Linux hwmon", chip_name(directory, self._files), notes=notes)

    def start(self) -> None:
        """Make sure that each sensor is there. Raises SettingRefused."""
        missing = [name for name in self._settings.sensors if name not in self._paths]
        if missing:
            raise SettingRefused(
                f"{self._name}: no sensor {', '.join(missing)}; there are: "
                f"{', '.join(self._paths) or 'none'}"
            )
        self._ticks.restart()

    def read(self) -> Batch:
        """All sensors at each tick. A file that vanished is a ConnectionLost."""
        if not self._ticks.wait(0.5):
            return Batch()
        asked_ns = self._clock()
        texts = self._files.texts([self._paths[sensor] for sensor in self._settings.sensors])
        # what a chip gives is the mean of the time before it
        t_ns = (asked_ns + self._clock()) // 2 - round(self._settings.averaged_s / 2 * 1e9)
        return batch_of_readings(
            (sensor, t_ns, self._value(self._paths[sensor], texts), "")
            for sensor in self._settings.sensors
        )

    def close(self) -> None:
        """Close the connection to another host."""
        self._files.close()

    def _value(self, path: str, texts: Mapping[str, str | None]) -> float | Status:
        number = number_in_file(self._name, path, texts)
        if isinstance(number, Status):
            return number
        if self._settings.quantity == "power":
            watts = number * 1e-6
            return watts if 0 <= watts < _MOST_WATTS else Status.NO_VALUE
        celsius = number / 1000
        return celsius if _COLDEST_CELSIUS < celsius < _HOTTEST_CELSIUS else Status.NO_VALUE


DRIVER: Final = Driver(HwmonSettings, Hwmon)
