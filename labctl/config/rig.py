"""Rigs: one bench as data – the drives, their rails and temperatures, the instruments.

A rig is a TOML file; ``rigs/`` has examples. Rails and temperatures name channels as
``instrument.channel``; what an instrument takes besides ``driver`` and ``required`` belongs to
its driver. A rig has one drive (``[drive]``) or several that are tested at once
(``[drives.NAME]``): see docs/decisions/0014.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import (
    ValidationError,
)

from instruments import drivers
from instruments.errors import DriverUnusable
from instruments.instrument import Instrument
from instruments.reading import Channel, Quantity
from labctl.config.rig_file import FIO_INSTRUMENT, TAKEN_RAIL, Drive, RigFile
from labctl.config.sweeps import ASYNC_ENGINES
from labctl.config.used_twice import used_twice
from labctl.errors import ConfigurationError, Mistake
from labctl.record.header import (
    ChannelInfo,
    DriveInfo,
    HostPowerInfo,
    RailInfo,
    SensorOf,
    is_of_drive,
)
from labctl.record.layout import CHANNEL_NAME, HOST_INSTRUMENT
from labctl.record.phase import Phase
from labctl.toml_reading import meant, mistakes_of, parse_toml, read_configuration, validated

_CHIPS_OF_DRIVES = ("nvme", "drivetemp")
"""What the kernel's hwmon calls the sensors of drives."""


@dataclass(frozen=True)
class Rig:
    """A validated rig with the text it came from."""

    file: RigFile
    text: str
    path: str
    channels: dict[str, tuple[Channel, ...]]
    """Channels of each instrument, by the instrument's name."""
    drive_key: str = "drive"
    """What the drive's table is called in the file; of a rig's :meth:`each_drive`."""

    @property
    def name(self) -> str:
        """The rig's name."""
        return self.file.name

    @property
    def channel_infos(self) -> tuple[ChannelInfo, ...]:
        """The channels of the rig's instruments, as a run's header has them."""
        return tuple(
            ChannelInfo.of(name, channel)
            for name, channels in self.channels.items()
            for channel in channels
        )

    @property
    def drive(self) -> Drive:
        """The drive under test, where it is one: see :meth:`each_drive`.

        Raises ConfigurationError where there are several.
        """
        if self.file.drive is None:
            allowed = "has several, and this is done with one: name a rig of one drive"
            raise ConfigurationError([Mistake(self.path, "drive", None, allowed)])
        return self.file.drive

    @property
    def drives(self) -> Mapping[str, Drive]:
        """Every drive by its name; a rig's only drive has an empty one."""
        return self.file.drives or {"": self.drive}

    def each_drive(self) -> dict[str, Rig]:
        """This rig as seen from each drive: with that one alone, its rails and sensors.

        By the drive's name; a rig with one drive is itself.
        """
        if not self.file.drives:
            return {"": self}
        return {name: self._seen_from(name, drive) for name, drive in self.file.drives.items()}

    def _seen_from(self, name: str, drive: Drive) -> Rig:
        rails = {key: rail for key, rail in self.file.rails.items() if rail.drive == name}
        sensors = {key: item for key, item in self.file.temperatures.items() if item.drive == name}
        update = {"drive": drive, "drives": {}, "rails": rails, "temperatures": sensors}
        file = self.file.model_copy(update=update)
        return replace(self, file=file, drive_key=f"drives.{name}")

    @property
    def size_bytes(self) -> int | None:
        """The size that the rig says, of several drives the smallest: so much of each is tested.

        None where one of them does not say.
        """
        return smallest([drive.size_bytes for drive in self.drives.values()])

    @property
    def write_bytes_per_s(self) -> int:
        """For estimates: of the slowest drive, which the others wait for."""
        return min(drive.write_bytes_per_s for drive in self.drives.values())

    @property
    def targets(self) -> str:
        """What is tested, for a person and for telling rigs apart."""
        return " ".join(drive.target for drive in self.drives.values())

    @property
    def serials(self) -> str:
        """The serial numbers that the rig names."""
        return " ".join(filter(None, (drive.serial for drive in self.drives.values())))

    @property
    def engines(self) -> tuple[str, ...]:
        """The fio engines that are needed, each once."""
        return tuple(dict.fromkeys(drive.engine for drive in self.drives.values()))

    @property
    def tools(self) -> str:
        """The folder of ``drive.tools``; the drives of a rig have the same."""
        return next(iter(self.drives.values())).tools

    @property
    def temperatures(self) -> dict[str, str]:
        """The channel of each temperature."""
        return {name: item.channel for name, item in self.file.temperatures.items()}

    def create_instruments(self, clock: Callable[[], int]) -> dict[str, Instrument]:
        """Fresh instruments (not opened), whose host times come from ``clock``."""
        return {
            name: drivers.create(name, entry.driver, self.settings_of(name), clock)
            for name, entry in self.file.instruments.items()
        }

    def settings_of(self, name: str) -> dict[str, Any]:
        """An entry's settings; what reads files of a machine reads those of the drive's host."""
        entry = self.file.instruments[name]
        if "host" not in drivers.settings_model(entry.driver).model_fields:
            return entry.settings
        return {"host": self.file.host, **entry.settings}

    def rail_infos(self) -> tuple[RailInfo, ...]:
        """The rails as the run's header keeps them."""
        return tuple(
            RailInfo(
                name=name,
                nominal_volts=rail.nominal_volts,
                tolerance_pct=rail.tolerance_pct,
                voltage=rail.voltage,
                volts_at=rail.volts_at,
                current=rail.current.channel,
                **rail.current.model_dump(exclude={"channel"}),
                load_swing_amps=rail.load_swing_amps,
                drive=rail.drive or "",
            )
            for name, rail in self.file.rails.items()
        )

    def host_power_infos(self) -> tuple[HostPowerInfo, ...]:
        """What measures the host's watts, as the run's header keeps it."""
        return tuple(
            HostPowerInfo(name=name, channel=item.channel, includes_drive=item.includes_drive)
            for name, item in self.file.host_power.items()
        )

    def drive_infos(self) -> dict[str, DriveInfo]:
        """Each drive as the run's header keeps it, by its name."""
        left_out = {"destructive", "write_bytes_per_s", "smart_device", "tools"}
        return {
            name: DriveInfo(**drive.model_dump(exclude=left_out))
            for name, drive in self.drives.items()
        }

    def temperature_drives(self) -> dict[str, str]:
        """Whose sensor it is, by the sensor, of those that are one drive's."""
        items = self.file.temperatures.items()
        return {name: item.drive for name, item in items if item.drive is not None}

    def temperature_of(self) -> dict[str, SensorOf]:
        """What a sensor measures, by the sensor, where that is known: as the rig says, and the
        drive for a chip that the kernel shows for a drive (``nvme``, ``drivetemp``)."""
        found = {}
        for name, item in self.file.temperatures.items():
            entry = self.file.instruments.get(item.channel.partition(".")[0])
            chip = entry.settings.get("directory", "") if entry is not None else ""
            if item.of is not None:
                found[name] = item.of
            elif any(word in str(chip) for word in _CHIPS_OF_DRIVES):
                found[name] = SensorOf.DRIVE
        return found

    def own_sensors(self) -> tuple[str, ...]:
        """The temperatures that are a drive's own."""
        of = self.temperature_of()
        return tuple(
            name
            for name, channel in self.temperatures.items()
            if is_of_drive(channel, of.get(name))
        )

    @property
    def fingerprint(self) -> str:
        """See :attr:`RigFile.fingerprint`."""
        return self.file.fingerprint

    def mistakes_with(self, phases: tuple[Phase, ...], plan_file: str) -> list[Mistake]:
        """What a plan asks that this rig cannot do."""
        mistakes = []
        depths = sorted({phase.queue_depth for phase in phases if phase.queue_depth > 1})
        for one in self.each_drive().values() if depths else ():
            if one.drive.engine not in ASYNC_ENGINES:
                allowed = (
                    f"is synchronous: fio would silently run {plan_file}'s queue depths "
                    f"{', '.join(map(str, depths))} as 1; use io_uring or libaio"
                )
                key = f"{one.drive_key}.engine"
                mistakes.append(Mistake(self.path, key, one.drive.engine, allowed))
        return mistakes


def smallest(sizes: Sequence[int | None]) -> int | None:
    """The smallest of drives' sizes; None where one is not known."""
    return min((size for size in sizes if size), default=None) if all(sizes) else None


def parse_rig_file(text: str, path: str) -> RigFile:
    """The rig of a record as data: no driver of it is made, which parse_rig does.

    Raises ConfigurationError with every mistake.
    """
    return validated(RigFile, parse_toml(text, path), path)


def parse_rig(text: str, path: str) -> Rig:
    """The rig of this machine that ``text`` (TOML) says: its instruments can be opened. Of a
    record's rig see parse_rig_file. Raises ConfigurationError with every mistake."""
    data = parse_toml(text, path)
    mistakes: list[Mistake] = []
    file: RigFile | None = None
    try:
        file = RigFile.model_validate(data)
    except ValidationError as error:
        mistakes += mistakes_of(error, path, model=RigFile)
    channels: dict[str, tuple[Channel, ...]] = {}
    entries = data.get("instruments")
    for name, entry in (entries if isinstance(entries, dict) else {}).items():
        if isinstance(entry, dict) and isinstance(entry.get("driver"), str):
            found = _channels_of(name, entry, path, mistakes)
            if found is not None:
                channels[name] = found
    if "drive" not in data and not data.get("drives"):
        mistakes.append(Mistake(path, "drive", None, "is missing (or several: [drives.NAME])"))
    if "drive" in data and "drives" in data:
        mistakes.append(Mistake(path, "drives", None, "is there beside drive: use one of them"))
    if file is not None:
        mistakes += _wrong_references(file, channels, path)
        mistakes += used_twice(file, channels, path)
        mistakes += _wrong_drives(file, path)
    if mistakes or file is None:
        raise ConfigurationError(mistakes)
    return Rig(file, text, path, channels)


def _channels_of(
    name: str, entry: dict[str, Any], path: str, mistakes: list[Mistake]
) -> tuple[Channel, ...] | None:
    """The channels an instrument entry yields, or None with the mistakes noted."""
    driver = entry["driver"]
    settings = {key: value for key, value in entry.items() if key not in ("driver", "required")}
    prefix = f"instruments.{name}"
    if name == FIO_INSTRUMENT:
        mistakes.append(Mistake(path, prefix, None, "this name is kept for what fio reports"))
    if name == HOST_INSTRUMENT:
        mistakes.append(Mistake(path, prefix, None, "this name is kept for the host's clock"))
    if driver not in drivers.names():
        mistakes.append(Mistake(path, f"{prefix}.driver", driver, _no_driver(driver, settings)))
        return None
    try:
        channels = drivers.create(name, driver, settings, time.monotonic_ns).channels
    except ValidationError as error:
        mistakes += mistakes_of(error, path, prefix, drivers.settings_model(driver))
        mistakes += _of_another_driver(error, driver, path, prefix)
    except DriverUnusable as error:
        mistakes.append(Mistake(path, f"{prefix}.driver", driver, str(error)))
    else:
        names = (f"{name}.{channel.name}" for channel in channels)
        wrong = [one for one in names if not CHANNEL_NAME.fullmatch(one)]
        allowed = "is no name of a file of at most 200 letters, digits and _ . + -"
        mistakes += [Mistake(path, prefix, one, allowed) for one in wrong]
        return channels
    return None


def _no_driver(driver: str, settings: Mapping[str, Any]) -> str:
    """That there is no such driver, and which was meant: of this name, or for this model."""
    known = drivers.names()
    if question := meant(driver, known):
        return f"is no driver{question}"
    for model in (driver, str(settings.get("model", ""))):
        reads = drivers.driver_knowing(model)
        if reads is not None:
            return f"is no driver; {reads[0]!r} reads a {reads[1]}"
    return f"must be one of {', '.join(known)}"


def _of_another_driver(
    error: ValidationError, driver: str, path: str, prefix: str
) -> Iterator[Mistake]:
    """The driver that knows a model which this one does not."""
    for item in error.errors(include_url=False):
        if item["loc"] == ("model",) and item["type"] == "literal_error":
            reads = drivers.driver_knowing(str(item["input"]))
            if reads is not None:
                allowed = f"does not read a {item['input']}, {reads[0]!r} does"
                yield Mistake(path, f"{prefix}.driver", driver, allowed)


def _wrong_references(
    file: RigFile, channels: dict[str, tuple[Channel, ...]], path: str
) -> list[Mistake]:
    by_name = {
        f"{instrument}.{channel.name}": channel
        for instrument, found in channels.items()
        for channel in found
    }
    unknown = {name for name in file.instruments if name not in channels}
    mistakes: list[Mistake] = []

    def check(key: str, name: str, wanted: Quantity | None = None) -> None:
        if name.split(".")[0] in unknown:
            return
        if name not in by_name:
            there = ", ".join(by_name) or "none"
            mistakes.append(Mistake(path, key, name, f"no such channel; there are: {there}"))
        elif wanted is not None and by_name[name].quantity is not wanted:
            measured = by_name[name].quantity
            mistakes.append(Mistake(path, key, name, f"measures {measured}, must be {wanted}"))

    for rail_name, rail in file.rails.items():
        key = f"rails.{rail_name}"
        if TAKEN_RAIL.fullmatch(rail_name):
            allowed = f"watts_{rail_name} is another number in the results: name it otherwise"
            mistakes.append(Mistake(path, key, None, allowed))
        check(f"{key}.voltage", rail.voltage, Quantity.VOLTAGE)
        through_shunt = rail.current.shunt_ohm is not None
        wanted = Quantity.VOLTAGE if through_shunt else Quantity.CURRENT
        check(f"{key}.current", rail.current.channel, wanted)
        if rail.current.shunt_temperature is not None:
            name = rail.current.shunt_temperature
            check(f"{key}.current.shunt_temperature", name, Quantity.TEMPERATURE)
    for sensor, temperature in file.temperatures.items():
        check(f"temperatures.{sensor}", temperature.channel, Quantity.TEMPERATURE)
    for name, power in file.host_power.items():
        check(f"host_power.{name}", power.channel, Quantity.POWER)
    for number, pair in enumerate(file.calibration.compare):
        for name in pair:
            check(f"calibration.compare.{number}", name)
    return mistakes


def _wrong_drives(file: RigFile, path: str) -> list[Mistake]:
    """Drives that are named twice or by a relative path, and rails and temperatures of drives that
    there are not."""
    mistakes = []
    drives = {f"drives.{name}": drive for name, drive in file.drives.items()}
    drives |= {"drive": file.drive} if file.drive is not None else {}
    for key, drive in drives.items():
        if drive.engine != "nbd" and not drive.target.startswith("/"):
            allowed = "must be an absolute path"
            if file.host == "local":
                allowed += f": from here, that is {str(Path(drive.target).resolve())!r}"
            mistakes.append(Mistake(path, f"{key}.target", drive.target, allowed))
    for key in ("target", "serial"):
        seen: dict[str, str] = {}
        for name, drive in file.drives.items():
            value = getattr(drive, key).strip()
            if value and value in seen:
                allowed = f"is that of drives.{seen[value]}, too: each drive is named once"
                mistakes.append(Mistake(path, f"drives.{name}.{key}", value, allowed))
            seen.setdefault(value, name)
    tools = {drive.tools for drive in file.drives.values()}
    if len(tools) > 1:
        mistakes.append(Mistake(path, "drives", None, "must have the same tools"))
    known = ", ".join(file.drives) or "one drive only, without a name: leave it out"
    for table, items in (("rails", file.rails), ("temperatures", file.temperatures)):
        for name, item in items.items():
            if item.drive is not None and item.drive not in file.drives:
                allowed = f"no such drive; there are: {known}"
                mistakes.append(Mistake(path, f"{table}.{name}.drive", item.drive, allowed))
    return mistakes


def load_rig(path: str | Path) -> Rig:
    """The rig in a file. Raises ConfigurationError."""
    text = read_configuration(Path(path))
    return parse_rig(text, str(path))
