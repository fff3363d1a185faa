"""The drivers: a name in a rig, its settings, and how to make the instrument.

Importing this is cheap: a driver's module is imported when its name is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from pydantic import BaseModel

from instruments.instrument import Instrument
from instruments.reading import HostClock

__all__ = ["create", "names", "settings_model"]


@dataclass(frozen=True, slots=True)
class _Entry:
    module: str
    settings: str
    instrument: str


_TABLE: Mapping[str, _Entry] = {
    "brymen_bm25x": _Entry("brymen_bm25x", "BrymenBm25xSettings", "BrymenBm25x"),
    "es51922": _Entry("es51922", "Es51922Settings", "Es51922"),
    "extech380803": _Entry("extech380803", "Extech380803Settings", "Extech380803"),
    "fs9721": _Entry("fs9721", "Fs9721Settings", "Fs9721"),
    "hwmon": _Entry("hwmon", "HwmonSettings", "Hwmon"),
    "ina2xx": _Entry("ina2xx", "Ina2xxSettings", "Ina2xx"),
    "k204": _Entry("k204", "K204Settings", "K204"),
    "mqtt": _Entry("mqtt", "MqttSettings", "Mqtt"),
    "powersensor3": _Entry("powersensor3", "PowerSensor3Settings", "PowerSensor3"),
    "scpi_dmm": _Entry("scpi_dmm", "ScpiDmmSettings", "ScpiDmm"),
    "sigrok": _Entry("sigrok", "SigrokSettings", "Sigrok"),
    "truevolt": _Entry("truevolt", "TruevoltSettings", "Truevolt"),
}


def names() -> tuple[str, ...]:
    """The names of all drivers."""
    return tuple(_TABLE)


def settings_model(driver: str) -> type[BaseModel]:
    """The settings of ``driver``. Raises KeyError for an unknown name."""
    return cast(type[BaseModel], _load(driver, _TABLE[driver].settings))


def create(
    name: str,
    driver: str,
    settings: Mapping[str, Any],
    clock: HostClock,
    line: object | None = None,
) -> Instrument:
    """An instrument called ``name``, not opened yet; on ``line``, if one is given.

    Raises KeyError for an unknown driver and :class:`pydantic.ValidationError` for its settings,
    all mistakes at once.
    """
    validated = settings_model(driver).model_validate(dict(settings))
    made = _load(driver, _TABLE[driver].instrument)
    return cast(Instrument, made(name, validated, clock, *(() if line is None else (line,))))


def _load(driver: str, attribute: str) -> Any:
    return getattr(import_module(f"{__name__}.{_TABLE[driver].module}"), attribute)
