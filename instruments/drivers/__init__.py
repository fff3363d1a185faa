"""The drivers: a name in a rig, its settings, and how to make the instrument.

Importing this is cheap: a driver's module is imported when its name is first used. Other
packages add drivers by an entry point of the group ``labctl.instruments`` whose object is a
``Driver``; their metadata are looked at when a name is asked for that is not in the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import BaseModel

from instruments.errors import DriverUnusable
from instruments.instrument import Instrument
from instruments.reading import HostClock

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from instruments.driver_kit.serial_sign import SerialSign

__all__ = [
    "GROUP",
    "Driver",
    "create",
    "driver_knowing",
    "names",
    "serial_signs",
    "settings_model",
]

POLLED: Final = "scpi_dmm"
"""The driver that asks a multimeter for each reading."""
_LAST: Final = (POLLED, "scpi_thermometer")
GENERIC: Final = "generic"
"""What a driver calls a model that it knows nothing of."""
GROUP = "labctl.instruments"
"""The group of entry points that add drivers."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver: its settings and its instrument. An entry point must lead to one.

    ``settings`` validates the keys of the rig (frozen, unknown keys forbidden); ``instrument``
    is called with the instrument's name, the settings and the host's clock. ``recognise`` is how
    its meter is found at a serial port, for one that is on a serial port and takes no ``*IDN?``;
    several for a driver whose meters have several signs.
    """

    settings: type[BaseModel]
    instrument: Callable[[str, Any, HostClock], Instrument]
    recognise: SerialSign | tuple[SerialSign, ...] | None = None


BUILT_IN: Final = (
    "brymen_bm25x",
    "daq6510_scan",
    "dmm6500",
    "dcmi",
    "elmorlabs_pmd",
    "es51922",
    "extech380803",
    "fixed_voltage",
    "free_running_dmm",
    "fs9721",
    "hwmon",
    "ina2xx",
    "joulescope",
    "k204",
    "mqtt",
    "powersensor3",
    "quarch",
    "rapl",
    "redfish",
    "scpi_dmm",
    "scpi_thermometer",
    "sigrok",
    "supply",
    "truevolt",
    "wt300",
)
"""The drivers of this package: each is the ``DRIVER`` of the module of that name."""


def names() -> tuple[str, ...]:
    """The names of all drivers: those here, then those of other packages."""
    return (*BUILT_IN, *_others())


def settings_model(driver: str) -> type[BaseModel]:
    """The settings of ``driver``. Raises KeyError for an unknown name, and DriverUnusable."""
    return _load(driver).settings


def create(
    name: str,
    driver: str,
    settings: Mapping[str, Any],
    clock: HostClock,
    line: object | None = None,
) -> Instrument:
    """An instrument called ``name``, not opened yet; on ``line``, if one is given.

    Raises KeyError for an unknown driver, pydantic.ValidationError for its settings, all
    mistakes at once, and DriverUnusable where another package's driver cannot be loaded.
    """
    loaded = _load(driver)
    validated = loaded.settings.model_validate(dict(settings))
    return loaded.instrument(name, validated, clock, *(() if line is None else (line,)))


def driver_knowing(model: str) -> tuple[str, str] | None:
    """The driver that knows this model, and the model as its settings spell it; None: no driver.

    ``scpi_dmm`` comes last because it asks for each reading: a driver that reads the meter's
    memory, with the meter's clock, is better. After it comes the one for the same meters'
    temperatures. Drivers that cannot be loaded are left out.
    """
    from instruments.driver_kit.scpi import is_model

    for name in sorted(names(), key=lambda name: (name in _LAST and _LAST.index(name) + 1, name)):
        try:
            field = settings_model(name).model_fields.get("model")
        except DriverUnusable:
            continue
        for known in get_args(field.annotation) if field is not None else ():
            if known != GENERIC and is_model(str(known), model):
                return name, str(known)
    return None


def serial_signs() -> list[tuple[str, SerialSign]]:
    """The drivers whose meters can be found at a serial port, and how, in the order of asking.

    Those that send by themselves come first. Then long questions before short ones: a meter that
    takes one letter for a command has the fewest of them to misunderstand. Drivers that cannot be
    loaded are left out.
    """
    found: list[tuple[str, SerialSign]] = []
    for name in names():
        try:
            signs = _load(name).recognise
        except DriverUnusable:
            continue
        if signs is not None:
            found += [(name, sign) for sign in (signs if isinstance(signs, tuple) else (signs,))]
    return sorted(found, key=lambda one: _order_of_asking(one[1]))


def _order_of_asking(sign: SerialSign) -> tuple[bool, int, str]:
    """Those that send by themselves, format by format, then by the length of their question."""
    listens = not sign.question
    return not listens, -len(sign.question), str(sign.line_format) if listens else ""


def _load(driver: str) -> Driver:
    if driver in BUILT_IN:
        built_in: Driver = import_module(f"{__name__}.{driver}").DRIVER
        return built_in
    point = _others()[driver]
    package = point.dist.name if point.dist is not None else point.value
    try:
        loaded = point.load()
    except Exception as error:  # another package's code may raise anything
        raise DriverUnusable(
            f"driver {driver} of {package} cannot be loaded: {type(error).__name__}: {error}; "
            "repair or uninstall that package"
        ) from error
    if not isinstance(loaded, Driver):
        raise DriverUnusable(
            f"driver {driver} of {package}: {point.value} is a {type(loaded).__name__}, not an "
            "instruments.drivers.Driver; ask its author for a newer version"
        )
    return loaded


def _others() -> Mapping[str, EntryPoint]:
    """Drivers of other packages by name; they cannot replace a built-in one."""
    return _installed_drivers(tuple(sys.path))


@lru_cache(maxsize=1)
def _installed_drivers(_path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points  # takes 20 ms: only for such a driver

    return {point.name: point for point in entry_points(group=GROUP) if point.name not in BUILT_IN}
