"""DCMI: the watts of a machine, as its board controller (BMC) gives them over IPMI.

``ipmitool dcmi power reading`` asks (DCMI: Get Power Reading), and its text is read, as ipmitool
1.8.19 prints it. Each reading is a run of the program, which makes a session with the controller.

The password is in a file that ipmitool itself reads (``-f``): it is on no command line and in no
environment. Over how long a controller averages its "instantaneous" watts, and how exact they are,
DCMI leaves open; without limits of error in the rig no uncertainty is claimed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, field_validator, model_validator

from instruments.driver_kit.base_settings import (
    AccuracySettings,
    NotNegative,
    PolledSettings,
    Positive,
)
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.polling_ticks import Ticks, dither_share
from instruments.drivers import Driver
from instruments.errors import NoAnswer, SettingRefused, WrongInstrument
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
from instruments.transports.process_line import ProcessLine

_WATTS: Final = re.compile(r"^\s*Instantaneous power reading:\s*(\d{1,5}) Watts\s*$", re.MULTILINE)
_STATE: Final = re.compile(r"^\s*Power reading state is:\s*(\w+)", re.MULTILINE)
_WAIT_S: Final = 0.45
_ANSWER_WITHIN_S: Final = 25.0
"""ipmitool gives up after 20 s without an answer."""
_SHOWN: Final = 80


class Privilege(StrEnum):
    """The level of the session, as ipmitool names it."""

    USER = "user"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


class DcmiSettings(AccuracySettings, PolledSettings):
    """Which controller, and how to log in."""

    host: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9.:-]{0,252})?$")] = ""
    """Over the network; empty: that of this machine, by ``/dev/ipmi0``."""
    port: Annotated[int, Field(ge=1, le=65535)] = 623
    user: Annotated[str, Field(pattern=r"^([A-Za-z0-9_.@][A-Za-z0-9_.@-]{0,15})?$")] = ""
    password_file: str | None = None
    privilege: Privilege = Privilege.USER
    """Of the session: a controller may ask for more."""
    cipher_suite: Annotated[int, Field(ge=0, le=17)] | None = None
    """Default: that of ipmitool."""
    interval_s: Annotated[float, Field(ge=1, le=60)] = 5.0
    aperture_s: NotNegative = 0.0
    """Over how long the controller averages, where its manual says so."""
    time_u_s: Positive | None = None
    """How old a reading may be when it is given; default one interval."""

    @field_validator("password_file")
    @classmethod
    def _has_a_home(cls, value: str | None) -> str | None:
        try:
            return None if value is None else str(Path(value).expanduser())
        except RuntimeError as error:
            raise ValueError(f"has no such home: {error}; give the whole path") from error

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if bool(self.user) != bool(self.password_file):
            raise ValueError("user and password_file belong together")
        if bool(self.host) != bool(self.user):
            raise ValueError("a host is asked with user and password_file, this machine without")
        return self

    def arguments(self) -> list[str]:
        """The command line of ipmitool."""
        asked = ["dcmi", "power", "reading"]
        if not self.host or self.password_file is None:
            return ["ipmitool", "-I", "open", *asked]
        command = ["ipmitool", "-I", "lanplus", "-H", self.host, "-p", str(self.port)]
        command += ["-U", self.user, "-f", self.password_file]
        command += ["-L", self.privilege.value.upper()]
        if self.cipher_suite is not None:
            command += ["-C", str(self.cipher_suite)]
        return [*command, *asked]


def decode_reading(text: str) -> float | Status | None:
    """The watts in what ipmitool printed: a status while the controller does not measure, None
    where it shows no watts."""
    found, state = _WATTS.search(text), _STATE.search(text)
    if found is None or state is None:
        return None
    return float(found[1]) if state[1] == "activated" else Status.NO_VALUE


class Dcmi:
    """One channel, ``power``, on the host's clock."""

    def __init__(self, name: str, settings: DcmiSettings, clock: HostClock) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        advice = "does the controller know DCMI, and may this user read?"
        self._line = ProcessLine(name, settings.arguments(), "ipmitool", advice)
        self._ticks = Ticks(settings.interval_s, dither=settings.dither)
        self._asked_ns: int | None = None
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
        """Read once, to see that the controller answers."""
        self.close()
        if self._settings.password_file is not None:
            try:
                Path(self._settings.password_file).read_bytes()
            except OSError as error:
                raise SettingRefused(
                    f"{self._name}: password_file cannot be read: {error}"
                ) from error
        self._ask()
        while (text := self._answer()) is None:
            pass
        self._watts(text)
        where = self._settings.host or "this machine"
        return Identity("DCMI", "power reading", notes=(f"by ipmitool from {where}",))

    def start(self) -> None:
        """Nothing is set."""
        self._ticks.restart()

    def read(self) -> Batch:
        """The watts at each tick; its answer may come with a later call."""
        if self._asked_ns is None:
            if not self._ticks.wait(_WAIT_S):
                return Batch()
            self._ask()
        asked_ns = self._asked_ns
        text = self._answer()
        if text is None or asked_ns is None:
            return Batch()
        answered_ns = self._clock()
        t_ns = (asked_ns + answered_ns) // 2 - round(self._settings.aperture_s / 2 * 1e9)
        batch = batch_of_readings([("power", t_ns, self._watts(text), "")])
        took_ns = answered_ns - asked_ns
        if took_ns > 2e9 * self.channels[0].time_u_s:
            return replace(batch, clock_pairs=(ClockPair("power", t_ns, answered_ns, took_ns),))
        return batch

    def _ask(self) -> None:
        self._asked_ns = self._clock()
        self._line.open()

    def _answer(self) -> str | None:
        """What ipmitool printed, once it has ended."""
        assert self._asked_ns is not None
        text = self._line.output_at_end(_WAIT_S)
        if text is not None:
            self.close()
        elif self._clock() - self._asked_ns > _ANSWER_WITHIN_S * 1e9:
            self.close()
            raise NoAnswer(f"{self._name}: no answer within {_ANSWER_WITHIN_S:g} s")
        return text

    def _watts(self, text: str) -> float | Status:
        watts = decode_reading(text)
        if watts is None:
            said = " ".join(text.split())[:_SHOWN] or "nothing"
            raise WrongInstrument(f"{self._name}: ipmitool shows no power reading: {said}")
        return watts

    def close(self) -> None:
        """End what was asked."""
        self._asked_ns = None
        self._line.close()


DRIVER: Final = Driver(DcmiSettings, Dcmi)
