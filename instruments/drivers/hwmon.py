"""Linux hwmon: temperatures that the kernel reads from a drive (or anything else).

``/sys/class/hwmon/hwmonN/temp*_input`` in millidegrees, named by ``temp*_label`` (kernel:
Documentation/hwmon/sysfs-interface.rst). NVMe drives need no root for it. The numbers N change
from boot to boot, so a rig names the chip or a pattern.
"""

from __future__ import annotations

import errno
import glob
import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from instruments.drivers.pacing import Ticks
from instruments.drivers.settings import DriverSettings, NotNegative, Positive
from instruments.drivers.sorting import sort_readings
from instruments.errors import ConnectionLost, SettingRefused, WrongInstrument
from instruments.reading import (
    Accuracy,
    Batch,
    Block,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
    Status,
    StatusReading,
)

CLASS_DIRECTORY: Final = Path("/sys/class/hwmon")
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ENXIO)
_SENSOR_CYCLE_S: Final = 1.0
"""Drives refresh their sensors about once a second."""

SensorName = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]


class HwmonSettings(DriverSettings):
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


def parse_millidegrees(text: str) -> float | Status:
    """Content of a ``temp*_input`` file in °C."""
    try:
        return int(text) / 1000
    except ValueError:
        return Status.UNREADABLE


def find_directory(who: str, directory: str) -> Path:
    """The one directory meant. Raises ConnectionLost (none), WrongInstrument (several)."""
    if "/" in directory:
        found = sorted(Path(match) for match in glob.glob(directory))  # noqa: PTH207 absolute
    else:
        named = ((path, path / "name") for path in CLASS_DIRECTORY.glob("hwmon*"))
        found = sorted(
            path for path, name in named if name.exists() and name.read_text().strip() == directory
        )
    if not found:
        raise ConnectionLost(f"{who}: no hwmon directory {directory}; is the drive there?")
    if len(found) > 1:
        raise WrongInstrument(
            f"{who}: {directory} means several: {', '.join(map(str, found))}; name one of them, "
            "or a pattern under /sys/class/nvme/nvme0"
        )
    return found[0]


def find_sensors(directory: Path) -> dict[str, Path]:
    """The ``temp*_input`` files by sensor name."""
    sensors: dict[str, Path] = {}
    for path in sorted(directory.glob("temp*_input")):
        stem = path.name.removesuffix("_input")
        label = path.with_name(f"{stem}_label")
        try:
            sensors[sensor_name(label.read_text())] = path
        except OSError:
            sensors[stem] = path
    return sensors


class Hwmon:
    """The sensors of one chip: a channel each, on the host's clock."""

    def __init__(self, name: str, settings: HwmonSettings, clock: HostClock) -> None:
        self._who = name
        self._settings = settings
        self._clock = clock
        self._ticks = Ticks(settings.interval_s)
        self._paths: dict[str, Path] = {}
        accuracy = Accuracy(0.0, settings.limit_kelvin, "assumed (limit_kelvin of the rig)")
        self._channels = tuple(
            Channel(
                name=sensor,
                quantity=Quantity.TEMPERATURE,
                clock=Clock.HOST,
                interval_s=settings.interval_s,
                aperture_s=0.0,
                accuracy=accuracy,
                time_u_s=_SENSOR_CYCLE_S,
            )
            for sensor in settings.sensors
        )

    @property
    def channels(self) -> tuple[Channel, ...]:
        """One for each sensor in the settings."""
        return self._channels

    def open(self) -> Identity:
        """Find the directory."""
        directory = find_directory(self._who, self._settings.directory)
        self._paths = find_sensors(directory)
        try:
            chip = (directory / "name").read_text().strip()
        except OSError:
            chip = directory.name
        return Identity("Linux hwmon", chip, notes=(str(directory),))

    def start(self) -> None:
        """Make sure that each sensor is there. Raises SettingRefused."""
        missing = [name for name in self._settings.sensors if name not in self._paths]
        if missing:
            raise SettingRefused(
                f"{self._who}: no sensor {', '.join(missing)}; there are: "
                f"{', '.join(self._paths) or 'none'}"
            )
        self._ticks.restart()

    def read(self) -> Batch:
        """All sensors at each tick. A file that vanished is a ConnectionLost."""
        if not self._ticks.wait(0.5):
            return Batch()
        blocks: list[Block] = []
        statuses: list[StatusReading] = []
        for sensor in self._settings.sensors:
            t_ns = self._clock()
            found, said = sort_readings(sensor, [t_ns], [self._celsius(self._paths[sensor])])
            blocks += found
            statuses += said
        return Batch(tuple(blocks), tuple(statuses))

    def close(self) -> None:
        """Nothing is held open."""

    def _celsius(self, path: Path) -> float | Status:
        try:
            return parse_millidegrees(path.read_text())
        except OSError as error:
            if error.errno in _GONE:
                raise ConnectionLost(f"{self._who}: {path} vanished; is the drive gone?") from error
            return Status.UNREADABLE
