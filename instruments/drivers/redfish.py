"""Redfish: the watts of a machine, as its board controller (BMC) measures them.

DMTF's schemas (DSP8010, as in the mock-ups of DSP2043): a chassis has ``EnvironmentMetrics`` with
``PowerWatts`` and the sensor that it comes from (``DataSourceUri``), on older controllers
``Power`` with ``PowerControl[0].PowerConsumedWatts``. The sensor is read where there is one: it may
say when it was read (``ReadingTime``), and a reading that was given before is none.

Over how long a controller averages, how old and how exact what it gives is, the schemas leave open.
So a reading is taken for no older than ``time_u_s``, and without limits of error in the rig no
uncertainty is claimed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import Field

from instruments.driver_kit.base_settings import (
    AccuracySettings,
    NotNegative,
    PolledSettings,
    Positive,
)
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.polling_ticks import Ticks, dither_share
from instruments.drivers import Driver
from instruments.errors import ProtocolError, WrongInstrument
from instruments.reading import (
    NO_STATED_ACCURACY,
    Batch,
    Channel,
    Clock,
    ClockPair,
    HostClock,
    Identity,
    Quantity,
    Status,
)
from instruments.transports.https_json import HttpsJson, HttpsSettings

_CHASSIS: Final = "/redfish/v1/Chassis"
_PATH: Final = re.compile(r"/redfish/v1/[A-Za-z0-9_.~%/-]{1,500}")
_MOST_WATTS: Final = 1e6
_SHOWN: Final = 80
_WAIT_S: Final = 0.45
_STALE_AFTER: Final = 4
"""Repetitions of one reading from which they are reported: now and then the controller is asked
just before it has a new one."""


class RedfishSettings(HttpsSettings, AccuracySettings, PolledSettings):
    """Which controller, and which chassis of it."""

    chassis: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{0,64}$")] = ""
    """Its ``Id``; empty: the only one."""
    interval_s: Annotated[float, Field(ge=1, le=60)] = 2.0
    aperture_s: NotNegative = 0.0
    """Over how long the controller averages, where its manual says so."""
    time_u_s: Positive | None = None
    """How old a reading may be when it is given; default one interval."""


@dataclass(frozen=True, slots=True)
class RedfishPower:
    """Watts in a resource: a status where it has none. ``stamp``: when the controller read them, by
    its own clock, as it writes it; empty where it does not say. ``source``: path of the sensor
    behind it, empty for none."""

    watts: float | Status
    stamp: str = ""
    source: str = ""


def decode_power(resource: dict[str, Any]) -> RedfishPower | None:
    """The watts in EnvironmentMetrics, in Power, or in a sensor of them; None where it has no place
    for them."""
    if isinstance(metrics := resource.get("PowerWatts"), dict):
        return RedfishPower(
            _redfish_watts(metrics.get("Reading")), source=path_in(metrics, "DataSourceUri")
        )
    controls = resource.get("PowerControl")
    if isinstance(controls, list) and controls and isinstance(controls[0], dict):
        if "PowerConsumedWatts" in controls[0]:
            return RedfishPower(_redfish_watts(controls[0]["PowerConsumedWatts"]))
        return None
    if "Reading" in resource and resource.get("ReadingUnits") in ("W", "Watts"):
        stamp = resource.get("ReadingTime")
        return RedfishPower(
            _redfish_watts(resource["Reading"]), stamp[:_SHOWN] if isinstance(stamp, str) else ""
        )
    return None


def path_in(resource: dict[str, Any], key: str) -> str:
    """The path of another resource of the same server, which ``key`` gives or links to; empty
    where it does not."""
    value = resource.get(key)
    if isinstance(value, dict):
        value = value.get("@odata.id")
    return value if isinstance(value, str) and _PATH.fullmatch(value) else ""


def _redfish_watts(value: object) -> float | Status:
    """A machine that is off, or a controller that is busy, gives null."""
    if value is None:
        return Status.NO_VALUE
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Status.UNREADABLE
    if not math.isfinite(value) or not 0 <= value < _MOST_WATTS:
        return Status.UNREADABLE
    return float(value)


class Redfish:
    """One channel, ``power``, on the host's clock."""

    def __init__(self, name: str, settings: RedfishSettings, clock: HostClock) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._line = HttpsJson(name, settings)
        self._ticks = Ticks(settings.interval_s, dither=settings.dither)
        self._path = ""
        self._asked_ns: int | None = None
        self._before: RedfishPower | None = None
        self._repeats = 0
        self.channels = (
            Channel(
                name="power",
                quantity=Quantity.POWER,
                clock=Clock.HOST,
                interval_s=settings.interval_s,
                aperture_s=settings.aperture_s,
                accuracy=settings.rig_accuracy or NO_STATED_ACCURACY,
                time_u_s=settings.time_u_s or settings.interval_s,
                dither=dither_share(settings.dither, settings.interval_s, settings.aperture_s),
            ),
        )

    def open(self) -> Identity:
        """Connect, and find what has the watts of the chassis."""
        self._asked_ns = None
        self._line.open()
        chassis = self._line.get(self._chassis_path())
        self._path = self._power_path(chassis)
        maker, model, serial = (
            value if isinstance(value := chassis.get(key), str) else ""
            for key in ("Manufacturer", "Model", "SerialNumber")
        )
        where = f"{self._settings.url}{self._path}"
        return Identity(maker or "Redfish", model or "chassis", serial, notes=(where,))

    def _chassis_path(self) -> str:
        members = self._line.get(_CHASSIS).get("Members")
        links = (
            [one for one in members if isinstance(one, dict)] if isinstance(members, list) else []
        )
        paths = [path for one in links if (path := path_in({"link": one}, "link"))]
        wanted = self._settings.chassis
        found = [path for path in paths if not wanted or path.rstrip("/").endswith(f"/{wanted}")]
        if len(found) == 1:
            return found[0]
        there = ", ".join(path.rstrip("/").rpartition("/")[2][:_SHOWN] for path in paths) or "none"
        raise WrongInstrument(
            f"{self._name}: {self._settings.url} has "
            f"{f'no chassis {wanted}' if wanted else f'{len(paths)} chassis'}; there are: {there}; "
            "name one with chassis"
        )

    def _power_path(self, chassis: dict[str, Any]) -> str:
        """That of the sensor, of EnvironmentMetrics, or of Power, in this order."""
        for key in ("EnvironmentMetrics", "Power"):
            path = path_in(chassis, key)
            power = decode_power(self._line.get(path)) if path else None
            if power is None:
                continue
            behind = decode_power(self._line.get(power.source)) if power.source else None
            return path if behind is None else power.source
        raise WrongInstrument(
            f"{self._name}: this chassis of {self._settings.url} shows no watts (neither "
            "EnvironmentMetrics nor Power): another one, with chassis?"
        )

    def start(self) -> None:
        """Nothing is set."""
        self._before, self._repeats = None, 0
        self._ticks.restart()

    def read(self) -> Batch:
        """The watts at each tick; its answer may come with a later call."""
        if self._asked_ns is None:
            if not self._ticks.wait(_WAIT_S):
                return Batch()
            self._asked_ns = self._clock()
            self._line.ask(self._path)
        answer = self._line.answer(_WAIT_S)
        if answer is None:
            return Batch()
        asked_ns, answered_ns = self._asked_ns, self._clock()
        t_ns = (asked_ns + answered_ns) // 2 - round(self._settings.aperture_s / 2 * 1e9)
        self._asked_ns = None
        power = decode_power(answer)
        if power is None:
            raise ProtocolError(f"{self._name}: {self._path} shows no watts any more")
        again = bool(power.stamp) and power == self._before
        self._repeats = self._repeats + 1 if again else 0
        self._before = power
        if 0 < self._repeats < _STALE_AFTER:
            return Batch()
        watts = Status.DUPLICATE if again else power.watts
        detail = "as the controller gave it before" if again else ""
        batch = batch_of_readings([("power", t_ns, watts, detail)])
        took_ns = answered_ns - asked_ns
        if took_ns > 2e9 * self.channels[0].time_u_s:
            return replace(batch, clock_pairs=(ClockPair("power", t_ns, answered_ns, took_ns),))
        return batch

    def close(self) -> None:
        """Close the connection."""
        self._line.close()


DRIVER: Final = Driver(RedfishSettings, Redfish)
