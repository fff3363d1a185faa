"""Linux hwmon: temperatures that the kernel reads from a drive (or anything else).

``/sys/class/hwmon/hwmonN/temp*_input`` in millidegrees, named by ``temp*_label`` (kernel:
Documentation/hwmon/sysfs-interface.rst). NVMe drives need no root for it. The numbers N change
from boot to boot, so a rig names the chip or a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from instruments.remote import Files, files_of
from instruments.ssh import DESTINATION_PATTERN

CLASS_DIRECTORY: Final = Path("/sys/class/hwmon")
_SENSOR_CYCLE_S: Final = 1.0
"""Drives refresh their sensors about once a second."""

SensorName = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]


class HwmonSettings(DriverSettings):
    """Where the files are and which of them to read."""

    host: Annotated[str, Field(pattern=DESTINATION_PATTERN)] = "local"
    """``local``, or an ssh destination; the rig's ``host`` if left out."""
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


def find_directory(who: str, directory: str, files: Files) -> Path:
    """The one directory meant. Raises ConnectionLost (none), WrongInstrument (several)."""
    if "/" in directory:
        found = sorted(
            {
                Path(file).parent
                for file in files.texts([f"{directory}/name", f"{directory}/temp*_input"])
            }
        )
    else:
        names = files.texts([f"{CLASS_DIRECTORY}/hwmon*/name"])
        found = sorted(
            Path(file).parent for file, text in names.items() if (text or "").strip() == directory
        )
    if not found:
        raise ConnectionLost(f"{who}: no hwmon directory {directory}; is the drive there?")
    if len(found) > 1:
        raise WrongInstrument(
            f"{who}: {directory} means several: {', '.join(map(str, found))}; name one of them, "
            "or a pattern under /sys/class/nvme/nvme0"
        )
    return found[0]


def find_sensors(directory: Path, files: Files) -> dict[str, str]:
    """The ``temp*_input`` files by sensor name."""
    sensors: dict[str, str] = {}
    texts = files.texts([f"{directory}/temp*_input", f"{directory}/temp*_label"])
    for path in sorted(path for path in texts if path.endswith("_input")):
        stem = path.removesuffix("_input")
        label = texts.get(f"{stem}_label")
        sensors[Path(stem).name if label is None else sensor_name(label)] = path
    return sensors


class Hwmon:
    """The sensors of one chip: a channel each, on the host's clock."""

    def __init__(self, name: str, settings: HwmonSettings, clock: HostClock) -> None:
        self._who = name
        self._settings = settings
        self._clock = clock
        self._files = files_of(name, settings.host)
        self._ticks = Ticks(settings.interval_s)
        self._paths: dict[str, str] = {}
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
        self._files.open()
        directory = find_directory(self._who, self._settings.directory, self._files)
        self._paths = find_sensors(directory, self._files)
        chip = (self._files.texts([f"{directory}/name"]).get(f"{directory}/name") or "").strip()
        where = "" if self._settings.host == "local" else f"{self._settings.host}:"
        return Identity("Linux hwmon", chip or directory.name, notes=(f"{where}{directory}",))

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
        asked_ns = self._clock()
        texts = self._files.texts([self._paths[sensor] for sensor in self._settings.sensors])
        t_ns = (asked_ns + self._clock()) // 2
        for sensor in self._settings.sensors:
            celsius = self._celsius(self._paths[sensor], texts)
            found, said = sort_readings(sensor, [t_ns], [celsius])
            blocks += found
            statuses += said
        return Batch(tuple(blocks), tuple(statuses))

    def close(self) -> None:
        """Let go of the host, if it is another machine."""
        self._files.close()

    def _celsius(self, path: str, texts: Mapping[str, str | None]) -> float | Status:
        if path not in texts:
            raise ConnectionLost(f"{self._who}: {path} vanished; is the drive gone?")
        text = texts[path]
        return Status.UNREADABLE if text is None else parse_millidegrees(text)
