"""Linux hwmon: temperatures that the kernel reads from a drive (or anything else).

``/sys/class/hwmon/hwmonN/temp*_input`` in millidegrees, named by ``temp*_label`` (kernel:
Documentation/hwmon/sysfs-interface.rst). NVMe drives need no root for it. The numbers N change
from boot to boot, so a rig names the chip or a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from instruments.driver_kit.base_settings import (
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


class HwmonSettings(HostFilesSettings, PolledSettings):
    """Where the files are and which of them to read."""

    directory: Annotated[str, Field(min_length=1)]
    """A chip name (``nvme``), a directory, or a pattern (``/sys/class/nvme/nvme0/hwmon*``)."""
    sensors: Annotated[tuple[SensorName, ...], Field(min_length=1)] = ("composite",)
    """Labels in lower case, ``_`` for spaces; ``temp1`` where there is no label."""
    interval_s: Positive = 1.0
    limit_kelvin: NotNegative = 3.0
    """Limit of error. Drives do not state one: 3 K is an assumption."""


def sensor_name(label: str) -> str:
    """A label as a channel name: ``Sensor 1`` is ``sensor_1``."""
    return re.sub(r"[^a-z0-9]+", "_", label.strip().lower()).strip("_")


def find_sensors(directory: str, files: HostFiles) -> dict[str, str]:
    """The ``temp*_input`` files by sensor name."""
    sensors: dict[str, str] = {}
    texts = files.texts([f"{directory}/temp*_input", f"{directory}/temp*_label"])
    for path in sorted(path for path in texts if path.endswith("_input")):
        stem = path.removesuffix("_input")
        label = texts.get(f"{stem}_label")
        sensors[sensor_name(label) if label else stem.rpartition("/")[2]] = path
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
        accuracy = Accuracy(0.0, settings.limit_kelvin, "assumed (limit_kelvin of the rig)")
        self.channels = tuple(
            Channel(
                name=sensor,
                quantity=Quantity.TEMPERATURE,
                clock=Clock.HOST,
                interval_s=settings.interval_s,
                aperture_s=0.0,
                accuracy=accuracy,
                time_u_s=_SENSOR_CYCLE_S,
                dither=dither_share(settings.dither, settings.interval_s, 0.0),
            )
            for sensor in settings.sensors
        )

    def open(self) -> Identity:
        """Find the directory."""
        self._files.open()
        directory = find_directory(self._name, self._settings.directory, self._files)
        self._paths = find_sensors(directory, self._files)
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
        t_ns = (asked_ns + self._clock()) // 2
        return batch_of_readings(
            (sensor, t_ns, self._celsius(self._paths[sensor], texts), "")
            for sensor in self._settings.sensors
        )

    def close(self) -> None:
        """Close the connection to another host."""
        self._files.close()

    def _celsius(self, path: str, texts: Mapping[str, str | None]) -> float | Status:
        millidegrees = number_in_file(self._name, path, texts)
        if isinstance(millidegrees, Status):
            return millidegrees
        celsius = millidegrees / 1000
        return celsius if _COLDEST_CELSIUS < celsius < _HOTTEST_CELSIUS else Status.NO_VALUE


DRIVER: Final = Driver(HwmonSettings, Hwmon)
