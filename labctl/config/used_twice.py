"""What no two entries of a rig can both use: a meter, a directory of sensors, a channel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from instruments.reading import Channel
from instruments.transports.addresses import ADDRESS_KEYS, canonical_address
from labctl.config.rig_file import RigFile
from labctl.errors import Mistake

_PART = "output"
"""A key that says which part of a device is meant: two parts are two meters."""


def used_twice(
    file: RigFile, channels: Mapping[str, tuple[Channel, ...]], path: str
) -> Iterator[Mistake]:
    """A mistake for each second use."""
    yield from _meters_used_twice(file, path)
    yield from _directories_used_twice(file, channels, path)
    yield from _currents_used_twice(file, path)
    yield from _voltages_used_twice(file, path)


def _meters_used_twice(file: RigFile, path: str) -> Iterator[Mistake]:
    seen: dict[tuple[str, Any], str] = {}
    for name, entry in file.instruments.items():
        for key in ADDRESS_KEYS:
            address = entry.settings.get(key)
            if not isinstance(address, str) or not address:
                continue
            meter = canonical_address(address), entry.settings.get(_PART)
            if first := seen.get(meter):
                allowed = f"is that of instruments.{first}, too: each meter has one of its own"
                yield Mistake(path, f"instruments.{name}.{key}", address, allowed)
            seen.setdefault(meter, name)


def _directories_used_twice(
    file: RigFile, channels: Mapping[str, tuple[Channel, ...]], path: str
) -> Iterator[Mistake]:
    """Two instruments may read different sensors of one chip, but not the same one."""
    seen: dict[tuple[str, str, str], str] = {}
    for name, entry in file.instruments.items():
        key = "device" if "device" in entry.settings else "directory"
        directory = entry.settings.get(key)
        if not isinstance(directory, str):
            continue
        host = str(entry.settings.get("host", ""))
        for channel in channels.get(name, ()):
            sensor = host, directory.rstrip("/"), channel.name
            if first := seen.get(sensor):
                allowed = (
                    f"instruments.{first} reads {channel.name} there, too: each chip has a "
                    "directory of its own (ls -l /sys/class/hwmon)"
                )
                yield Mistake(path, f"instruments.{name}.{key}", directory, allowed)
                break
            seen[sensor] = name


def _currents_used_twice(file: RigFile, path: str) -> Iterator[Mistake]:
    seen: dict[str, str] = {}
    for name, rail in file.rails.items():
        current = rail.current.channel
        if current == rail.voltage:
            yield Mistake(path, f"rails.{name}.current", current, "gives the rail's volts, too")
        elif first := seen.get(current):
            allowed = f"is the current of rails.{first}, too: its watts would count twice"
            yield Mistake(path, f"rails.{name}.current", current, allowed)
        seen.setdefault(current, name)


def _voltages_used_twice(file: RigFile, path: str) -> Iterator[Mistake]:
    first: dict[str, str] = {}
    for name, rail in file.rails.items():
        before = first.setdefault(rail.voltage, name)
        both = rail.voltage_is_shared and file.rails[before].voltage_is_shared
        if before != name and not both:
            allowed = (
                f"is the voltage of rails.{before}, too; if one supply feeds both, say "
                "voltage_is_shared = true in both"
            )
            yield Mistake(path, f"rails.{name}.voltage", rail.voltage, allowed)
