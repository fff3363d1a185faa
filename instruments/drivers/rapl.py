"""RAPL: the energy that a machine's processors and memory count of themselves, as Linux shows it.

powercap files (kernel: Documentation/power/powercap/powercap.rst): a directory a zone below
``/sys/class/powercap``, ``intel-rapl:0`` with ``intel-rapl:0:0`` and so on below it, each with
``name``, ``energy_uj`` (a counter in µJ) and ``max_energy_range_uj``, from which it begins again at
0. AMD's processors have the same files. Kernels since 5.10 let only root read ``energy_uj``.

A counter has no gaps: its difference over the time is the mean of just that time. It is of the
processor package, of memory, or of what the maker calls the platform (``psys``): never of the
drive. How exact it is nobody states; without limits of error in the rig no uncertainty is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from instruments.driver_kit.base_settings import AccuracySettings, HostFilesSettings
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.hwmon_files import directory_on_host, number_in_file
from instruments.driver_kit.polling_ticks import Ticks
from instruments.drivers import Driver
from instruments.errors import ConnectionLost, SettingRefused
from instruments.reading import (
    NO_STATED_ACCURACY,
    Batch,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
    Status,
)
from instruments.transports.host_files import HostFiles

CLASS_DIRECTORY: Final = "/sys/class/powercap"
_UPDATE_S: Final = 1e-3
"""A counter is renewed about once a millisecond (Intel SDM, volume 3B, 15.10: RAPL interfaces)."""
_LONGEST_S: Final = 60.0
"""Over a longer time between two readings the counter may have begun again more than once: at 32
bits of 15 µJ (memory) after a minute at 1.1 kW, of 61 µJ (package) at 4.4 kW."""

ZoneName = Annotated[str, Field(pattern=r"^[a-z0-9_]+$", max_length=64)]


class RaplSettings(HostFilesSettings, AccuracySettings):
    """Which zones of which machine."""

    zones: Annotated[tuple[ZoneName, ...], Field(min_length=1)] = ("package_0",)
    """Names with ``_`` for other letters, a zone's after that of the zone it is in: ``package_0``,
    ``package_0_dram``, ``psys``."""
    directory: Annotated[str, Field(pattern=r"^/")] = CLASS_DIRECTORY
    interval_s: Annotated[float, Field(ge=0.1, le=_LONGEST_S / 2)] = 1.0


def find_zones(directory: str, files: HostFiles) -> dict[str, str]:
    """The directories of RAPL's zones by name."""
    texts = files.texts([f"{directory}/intel-rapl:*/name"])
    own = {path.rpartition("/")[0]: (text or "").strip() for path, text in texts.items()}
    zones: dict[str, str] = {}
    for path in sorted(own):
        # intel-rapl:0:1 is in intel-rapl:0
        parent = path.rpartition(":")[0]
        parts = (own[parent], own[path]) if parent in own else (own[path],)
        name = "_".join(part.lower().replace("-", "_") for part in parts)
        zones.setdefault(name, path)
    return zones


@dataclass(frozen=True, slots=True)
class EnergyReading:
    """A counter of energy at a moment of the host's clock; ``range_uj``: where it begins again."""

    t_ns: int
    energy_uj: float
    range_uj: float


def watts_between(before: EnergyReading, after: EnergyReading) -> float | Status:
    """The mean watts between two readings of a counter; a status where it was set to 0 between."""
    joules = (after.energy_uj - before.energy_uj) * 1e-6
    seconds = (after.t_ns - before.t_ns) * 1e-9
    if joules < 0:
        joules += after.range_uj * 1e-6
        # more than could be drawn without it having begun again unseen: it was reset
        if joules < 0 or joules / seconds > after.range_uj * 1e-6 / _LONGEST_S:
            return Status.UNREADABLE
    return joules / seconds


class Rapl:
    """The zones of one machine: a channel each, on the host's clock."""

    def __init__(
        self,
        name: str,
        settings: RaplSettings,
        clock: HostClock,
        files: HostFiles | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._files = files or settings.files(name)
        self._ticks = Ticks(settings.interval_s)
        self._paths: dict[str, str] = {}
        self._before: dict[str, EnergyReading] = {}
        self.channels = tuple(
            Channel(
                name=zone,
                quantity=Quantity.POWER,
                clock=Clock.HOST,
                interval_s=settings.interval_s,
                aperture_s=settings.interval_s,
                accuracy=settings.rig_accuracy or NO_STATED_ACCURACY,
                time_u_s=_UPDATE_S,
            )
            for zone in settings.zones
        )

    def open(self) -> Identity:
        """Find the zones."""
        self._files.open()
        directory = self._settings.directory
        self._paths = find_zones(directory, self._files)
        if not self._paths:
            raise ConnectionLost(
                f"{self._name}: no intel-rapl zone below {directory}: is the kernel's module "
                "intel_rapl_msr loaded, and is this no virtual machine?"
            )
        notes = (directory_on_host(self._settings.host, directory),)
        return Identity("Linux powercap", "intel-rapl", notes=notes)

    def start(self) -> None:
        """Make sure that each zone is there and can be read. Raises SettingRefused."""
        missing = [zone for zone in self._settings.zones if zone not in self._paths]
        if missing:
            raise SettingRefused(
                f"{self._name}: no zone {', '.join(missing)}; there are: {', '.join(self._paths)}"
            )
        texts = self._read_files()
        for zone in self._settings.zones:
            path = f"{self._paths[zone]}/energy_uj"
            if isinstance(number_in_file(self._name, path, texts), Status):
                raise SettingRefused(
                    f"{self._name}: {path} cannot be read: kernels let only root read it; let "
                    "labctl's user, too (a udev rule), or measure as root"
                )
        self._before.clear()
        self._ticks.restart()

    def read(self) -> Batch:
        """The mean watts of all zones since the last tick. A file that vanished is a
        ConnectionLost."""
        if not self._ticks.wait(0.5):
            return Batch()
        asked_ns = self._clock()
        texts = self._read_files()
        t_ns = (asked_ns + self._clock()) // 2
        readings: list[tuple[str, int, float | Status, str]] = []
        for zone in self._settings.zones:
            energy_uj, range_uj = (
                number_in_file(self._name, f"{self._paths[zone]}/{file}", texts)
                for file in ("energy_uj", "max_energy_range_uj")
            )
            before = self._before.pop(zone, None)
            if isinstance(energy_uj, Status) or isinstance(range_uj, Status):
                readings.append((zone, t_ns, Status.UNREADABLE, "energy_uj"))
                continue
            now = self._before[zone] = EnergyReading(t_ns, energy_uj, range_uj)
            if before is None or t_ns - before.t_ns > _LONGEST_S * 1e9:
                continue
            middle_ns = (before.t_ns + t_ns) // 2
            readings.append((zone, middle_ns, watts_between(before, now), "the counter was reset"))
        return batch_of_readings(readings)

    def _read_files(self) -> Mapping[str, str | None]:
        paths = (self._paths[zone] for zone in self._settings.zones)
        return self._files.texts(
            [f"{path}/{file}" for path in paths for file in ("energy_uj", "max_energy_range_uj")]
        )

    def close(self) -> None:
        """Close the connection to another host."""
        self._files.close()


DRIVER: Final = Driver(RaplSettings, Rapl)
