"""SCPI multimeters that measure continuously and answer their last reading.

Rigol DM3058, DM3058E, DM3068 in Rigol's own command set, and Owon XDM1041, XDM1241. Facts from
the DM3058 Programming Guide (``:RATE``: page 3-46; BenchLink, a public program, has found that a
DM3068 takes it, and no NPLC) and, for the Owon, whose maker publishes no list of commands, from
the list that its users have made by trying (TheHWcave/OWON-XDM1041).

These meters are not triggered: the answer is the reading that was finished last, at some moment
of the ``refresh_s`` before. So its window ended half of that ago, give or take as much, and its
middle is half an aperture earlier. How long such a meter integrates is not documented; it
cannot be longer than ``refresh_s``, which is taken for it.

Asked faster than it measures it answers each reading twice: ``interval_s`` must be longer.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from pydantic import model_validator

from instruments.driver_kit.base_settings import MultimeterSettings, PolledSettings, Positive
from instruments.driver_kit.polling_ticks import LONGER, Ticks, dither_share
from instruments.driver_kit.scpi import DC_FUNCTIONS, parse_quantity
from instruments.driver_kit.scpi_multimeter import LATE_S, ScpiMultimeter, ask_reading, late_answer
from instruments.driver_kit.stuck_readings import StuckReadingDetector
from instruments.drivers import Driver
from instruments.errors import NoAnswer, ProtocolError, SettingRefused
from instruments.reading import (
    Batch,
    Clock,
    ClockPair,
    HostClock,
    Status,
    StatusReading,
)
from instruments.transports.lines import MessageLine

Rate = Literal["slow", "medium", "fast"]

_SETTLE_S: Final = 4.0
"""Rigol's own example waits 3 s after a change of function and range."""
_ASK_AGAIN_S: Final = 0.2
_OVERHEAD_S: Final = 0.02
_WORD: Final = re.compile(r"[A-Z0-9]*[A-Z][A-Z0-9 :]*")
_RATES: Mapping[str, str] = {"slow": "S", "medium": "M", "fast": "F"}


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How a family is set up, verified and asked.

    Commands have ``{node}`` for ``VOLT:DC``, ``{literal}`` for the range as its list of commands
    writes it, ``{index}`` for the place of the range among its ranges, and ``{rate}``.
    """

    setup: tuple[str, ...]
    read: str
    functions: Mapping[str, tuple[str, ...]]
    """What ``function_query`` answers for each function."""
    function_query: str
    range_query: str
    rate_query: str
    range_of: Callable[[str, tuple[float, ...]], float]
    """The range in effect, from the answer and the ranges. Raises ProtocolError."""
    local: tuple[str, ...] = ()
    baud: int = 9600
    serial_end: bytes = b"\n"
    """What ends a command on a serial port."""


def rigol_range(answer: str, ranges: tuple[float, ...]) -> float:
    """The DM3058 answers the range's number, from 0. Raises ProtocolError."""
    index = int(parse_quantity(answer))
    if not 0 <= index < len(ranges):
        raise ProtocolError(f"expected the number of a range, got {answer[:60]!r}")
    return ranges[index]


def owon_range(answer: str, _ranges: tuple[float, ...]) -> float:
    """The XDM1041 answers its range as on its display: ``50 V``. Raises ProtocolError."""
    return parse_quantity(answer.replace(" ", "").strip('"'))


def _decode_display_text(answer: bytes) -> str:
    """An XDM1041 sends the omega of its display in GBK, so the mu, too."""
    for encoding in ("utf-8", "gbk"):
        with contextlib.suppress(UnicodeDecodeError):
            return answer.decode(encoding).strip()
    return answer.decode("latin-1").strip()


def owon_literal(range_: float) -> str:
    """A range in a command to an XDM1041: ``500E-3``, ``5``."""
    if range_ >= 1:
        return f"{range_:g}"
    return f"{range_ * 1e3:g}E-3" if range_ >= 1e-3 else f"{range_ * 1e6:g}E-6"


_RIGOL = _Dialect(
    setup=(
        "CMDSET RIGOL",
        ":FUNC:{node}",
        ":MEAS:{node} {index}",
        ":RATE:{node} {rate}",
        ":TRIG:SOUR AUTO",
    ),
    read=":MEAS:{node}?",
    functions={"voltage": ("DCV",), "current": ("DCI",)},
    function_query=":FUNC?",
    range_query=":MEAS:{node}:RANG?",
    rate_query=":RATE:{node}?",
    range_of=rigol_range,
    serial_end=b"\r\n",  # with a line feed alone a DM3058 answers now and then (WaveBench)
)
_OWON = _Dialect(
    setup=("CONF:{node} {literal}", "RATE {rate}"),
    read="MEAS1?",
    functions=DC_FUNCTIONS,
    function_query="FUNC?",
    range_query="RANGE?",
    rate_query="RATE?",
    range_of=owon_range,
    local=("SYST:LOC",),
    baud=115_200,
)


@dataclass(frozen=True, slots=True)
class _Model:
    dialect: _Dialect
    refresh_s: Mapping[str, float]
    """Time between readings at each rate; empty where its maker does not say."""


_RIGOL_REFRESH_S = {"slow": 0.4, "medium": 0.05, "fast": 0.008}
"""2.5, 20 and 123 readings a second: DM3058 Programming Guide, :TRIGger:AUTO:INTErval."""
_DM3068_REFRESH_S = {"medium": 1 / 250, "fast": 1 / 2500}
"""LabLink's driver of the DM3068 has these of its Programming Guide, and for slow one reading in
2 s, longer than an answer may take here."""

MODELS: Mapping[str, _Model] = {
    "DM3058": _Model(_RIGOL, _RIGOL_REFRESH_S),
    "DM3058E": _Model(_RIGOL, _RIGOL_REFRESH_S),
    "DM3068": _Model(_RIGOL, _DM3068_REFRESH_S),
    "XDM1041": _Model(_OWON, {}),
    "XDM1241": _Model(_OWON, {}),
}


class FreeRunningDmmSettings(MultimeterSettings, PolledSettings):
    """DC volts or DC amps on one fixed range, asked for once in ``interval_s`` seconds."""

    model: Literal["DM3058", "DM3058E", "DM3068", "XDM1041", "XDM1241"]
    rate: Rate = "medium"
    refresh_s: Positive | None = None
    """How long the meter takes from reading to reading; None: what its maker says."""

    @model_validator(mode="after")
    def _fits_refresh(self) -> Self:
        known = MODELS[self.model].refresh_s
        if known and self.rate not in known:
            raise ValueError(
                f"rate must be one of {', '.join(known)}: a {self.model} integrates longer than an "
                f"answer may take at rate {self.rate}"
            )
        if self.refresh_s is None and not known:
            raise ValueError(
                f"how fast a {self.model} measures is not known here: set refresh_s, the seconds "
                "from reading to reading at this rate (count how often its display changes)"
            )
        if self.interval_s <= self.refreshed_s:
            raise ValueError(
                f"interval_s must be more than {self.refreshed_s:g} s, the time it takes from "
                "reading to reading at this rate; else each one is read twice"
            )
        return self

    @property
    def refreshed_s(self) -> float:
        """Seconds from reading to reading."""
        return self.refresh_s or MODELS[self.model].refresh_s[self.rate]

    @property
    def default_baud(self) -> int:
        """See :class:`~instruments.driver_kit.base_settings.VisaAddress`."""
        return MODELS[self.model].dialect.baud


class FreeRunningDmm(ScpiMultimeter[FreeRunningDmmSettings]):
    """One such multimeter. Its channel is ``voltage`` or ``current``, on the host's clock."""

    def __init__(
        self,
        name: str,
        settings: FreeRunningDmmSettings,
        clock: HostClock,
        line: MessageLine | None = None,
    ) -> None:
        self._dialect = MODELS[settings.model].dialect
        end = self._dialect.serial_end if settings.is_serial else b"\n"
        refreshed_s = settings.refreshed_s
        channel = settings.channel(
            Clock.HOST,
            settings.limits(),
            refreshed_s,
            (refreshed_s + _OVERHEAD_S) / 2,
            dither=dither_share(settings.dither, settings.interval_s, refreshed_s),
        )
        super().__init__(name, settings, clock, line, channel, end)
        self._repeats = StuckReadingDetector()
        self._ticks = Ticks(
            settings.interval_s, dither=settings.dither, least_s=LONGER * settings.refreshed_s
        )

    def start(self) -> None:
        """Set up, and query until the settings are in effect: the meter has no ready signal."""
        settings = self._settings
        index = settings.ranges.index(settings.range)
        literal, rate = owon_literal(settings.range), _RATES[settings.rate]
        for command in self._dialect.setup:
            self._scpi.send(
                command.format(node=self._node, literal=literal, index=index, rate=rate)
            )
        deadline = time.monotonic() + _SETTLE_S
        while (wrong := self._settling_problem()) and time.monotonic() < deadline:
            time.sleep(_ASK_AGAIN_S)
        if wrong:
            raise SettingRefused(
                f"{self._scpi.name}: {wrong} after it was set; is its panel in a menu?"
            )
        self._panel.restart(self._clock())
        self._repeats.restart()
        self._ticks.restart()

    def read(self) -> Batch:
        """The last reading, at each tick."""
        if not self._ticks.wait(0.5):
            return Batch()
        reading, unreadable, asked_ns, answered_ns = ask_reading(
            self._scpi, self._clock, self._dialect.read.format(node=self._node)
        )
        # Half of refresh_s since its window ended, and half of the window to its middle.
        t_ns = (asked_ns + answered_ns) // 2 - round(self._settings.refreshed_s * 1e9)
        name = self._channel.name
        if changed := self._panel.changed(answered_ns):
            self.start()
            return Batch(statuses=(StatusReading(name, t_ns, *changed),))
        if unreadable:
            return self._status_batch(t_ns, unreadable)
        late_s = (answered_ns - asked_ns) * 1e-9 - self._settings.refreshed_s
        if late_s > LATE_S + _OVERHEAD_S:
            return self._status_batch(t_ns, late_answer(late_s))
        clock_pairs: tuple[ClockPair, ...] = ()
        if late_s > _OVERHEAD_S:
            unknown_s = self._settings.refreshed_s + late_s
            clock_pairs = (ClockPair(name, t_ns, answered_ns, round(unknown_s * 1e9)),)
        return Batch(*self._repeats.sort(name, t_ns, reading), clock_pairs)

    def close(self) -> None:
        """Give the front panel back."""
        self._scpi.close(*self._dialect.local)

    def _settling_problem(self) -> str:
        """Which setting is not in effect, or why it cannot be read; empty: all are."""
        try:
            wrong = self._mismatch()
        except (ProtocolError, NoAnswer) as error:
            self._scpi.resynchronise()
            return str(error)
        return wrong[1] if wrong else ""

    def _mismatch(self) -> tuple[Status, str] | None:
        """Status and detail of a setting that differs. Raises ProtocolError, NoAnswer."""
        dialect, node = self._dialect, self._node
        function = self._scpi.ask(dialect.function_query).strip('"').upper()
        if not _WORD.fullmatch(function):
            raise ProtocolError(f"expected a function, got {function[:60]!r}")
        if function not in dialect.functions[self._settings.function]:
            wanted = self._settings.function
            return Status.WRONG_FUNCTION, f"measures {function[:20]}, not DC {wanted}"
        answer = _decode_display_text(self._scpi.ask_bytes(dialect.range_query.format(node=node)))
        range_ = dialect.range_of(answer, self._settings.ranges)
        if abs(range_ - self._settings.range) > 0.01 * self._settings.range:
            return Status.RANGE_CHANGED, f"range {range_:g}, not {self._settings.range:g}"
        rate = self._scpi.ask(dialect.rate_query.format(node=node)).strip('"').upper()
        if rate[:1] != _RATES[self._settings.rate]:
            return Status.RANGE_CHANGED, f"rate {rate[:20]}, not {self._settings.rate}"
        return None


DRIVER: Final = Driver(FreeRunningDmmSettings, FreeRunningDmm)
