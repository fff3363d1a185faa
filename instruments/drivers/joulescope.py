"""Joulescope JS110 and JS220 on USB, through the maker's library ``pyjoulescope_driver``.

One instrument is in one rail: volts and amps of it, up to two million times a second, which are
reduced to means as they come (:mod:`instruments.drivers.joulescope_reduction`).

Device time is the number of the sample by its rate. The library maps it to UTC, by a clock of this
machine that may be set; here the arrivals map it, as for any device that only sends. Each start
begins a new epoch (see :class:`~instruments.reading.ClockPair`), and so does a reset of the
instrument.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from instruments.driver_kit.arrival_pairs import ArrivalPairs
from instruments.driver_kit.base_settings import NotNegative, QuantityLimits, require_one_of
from instruments.drivers import Driver
from instruments.drivers.joulescope_reduction import Reduced, Reduction, SampleBlock
from instruments.errors import ConnectionLost, InstrumentError, SettingRefused
from instruments.install_command import install_command
from instruments.reading import (
    EPOCH_NS,
    Batch,
    Block,
    Channel,
    Clock,
    ClockPair,
    HostClock,
    Identity,
    Quantity,
    Status,
    StatusReading,
)

LIBRARY: Final = "pyjoulescope_driver>=1.9,<3"
"""The library, as the package's extra ``joulescope`` requires it."""
SAMPLE_RATES: Final = {"JS110": 2_000_000, "JS220": 1_000_000}
"""The fastest of each model (the library's own recorder uses them)."""
VOLTS_RANGES: Final = {"JS110": (15.0, 5.0), "JS220": (15.0,)}
"""A JS220 chooses its range by itself, up to 15 V, as the library's own recorder sets it."""
_DATA: Final = {"s/v/!data": True, "s/i/!data": False}
"""Topics of the samples: whether they are volts."""
_CONTROLS: Final = ("s/v/ctrl", "s/i/ctrl")
_BATCH_S: Final = 0.1
_READ_S: Final = 0.4
_PAUSE_S: Final = 0.02
_MOST_BLOCKS: Final = 2_000
"""What waits at most for a program that does not read: 8 s at 2 MS/s, in whole blocks of 64 kB
(jsdrv.h, JSDRV_STREAM_DATA_SIZE)."""
_TIME_U_S: Final = 2e-3
"""The least time from a sample to the arrival of its block is not published: an assumption."""
_CLOSE_S: Final = 0.3
_LEAST_VOLTS: Final = 0.1
_ADDRESS: Final = re.compile(r"^[a-z]/js[0-9]{3}/[A-Za-z0-9]+$")


def is_address(text: str) -> bool:
    """Whether it is written like the address of a Joulescope: ``u/js220/000415``."""
    return _ADDRESS.fullmatch(text) is not None


class JoulescopeSettings(QuantityLimits):
    """Which instrument, its range, how far to reduce, and limits of error."""

    model: Literal["JS110", "JS220"]
    resource: Annotated[str, Field(pattern=_ADDRESS.pattern)]
    """As the library lists it: ``u/js220/000415``."""
    volts_range: float = 15.0
    interval_s: Annotated[float, Field(ge=1e-5, le=1.0)] = 1e-3
    current_from: Literal["power", "mean"] = "power"
    """``power``: the amps that, times the mean volts, are the mean watts; ``mean``: mean amps."""
    extremes: bool = False
    """Channels with the least and the most watts of a single sample in each reading."""
    voltage_pct_of_reading: NotNegative
    voltage_floor_volts: NotNegative
    current_pct_of_reading: NotNegative
    current_floor_amps: NotNegative

    @field_validator("resource")
    @classmethod
    def _of_the_model(cls, value: str, info: ValidationInfo) -> str:
        model = str(info.data.get("model", ""))
        if model and f"/{model.lower()}/" not in value:
            raise ValueError(f"is not the address of a {model}")
        return value

    @field_validator("volts_range")
    @classmethod
    def _has_range(cls, value: float, info: ValidationInfo) -> float:
        if "model" in info.data:
            require_one_of(value, VOLTS_RANGES[info.data["model"]])
        return value


class JoulescopeLibrary(Protocol):
    """What is used of the library's ``Driver``."""

    def device_paths(self) -> list[str]:
        """The instruments that are connected."""
        ...

    def open(self, device_prefix: str, mode: str | None = None) -> None:
        """Open one."""
        ...

    def close(self, device_prefix: str, timeout: float | None = None) -> None:
        """Close it."""
        ...

    def publish(self, topic: str, value: object, timeout: float | None = None) -> None:
        """Set something."""
        ...

    def query(self, topic: str) -> Any:
        """Ask for something."""
        ...

    def subscribe(self, topic: str, flags: str, fn: Callable[[str, Any], None]) -> None:
        """Call ``fn`` for what is published, in a thread of the library."""
        ...

    def unsubscribe(
        self, topic: str, fn: Callable[[str, Any], None], timeout: float | None = None
    ) -> None:
        """Call it no more."""
        ...

    def finalize(self, timeout: float | None = None) -> None:
        """End its threads."""
        ...


def load_library() -> JoulescopeLibrary:
    """The library, started. Raises SettingRefused where it is missing or unusable."""
    try:
        from pyjoulescope_driver import Driver as Library
    except ImportError as error:
        raise SettingRefused(
            f"a Joulescope needs the library pyjoulescope_driver ({error}): "
            f"{install_command(LIBRARY)}"
        ) from error
    library: JoulescopeLibrary = Library()
    return library


def connected_joulescopes(load: Callable[[], JoulescopeLibrary] = load_library) -> list[str]:
    """The addresses of the Joulescopes on this machine; none where the library is missing or does
    not answer."""
    try:
        library = load()
    except (InstrumentError, RuntimeError, OSError):
        return []
    try:
        return sorted(library.device_paths())
    except (RuntimeError, OSError, ValueError):
        return []
    finally:
        library.finalize()


class Joulescope:
    """One instrument. Channels ``voltage`` and ``current``, and of power as the settings say."""

    def __init__(
        self,
        name: str,
        settings: JoulescopeSettings,
        clock: HostClock,
        library: JoulescopeLibrary | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._given = library
        self._library: JoulescopeLibrary | None = None
        self._arrived: deque[tuple[int, bool, SampleBlock]] = deque(maxlen=_MOST_BLOCKS)
        self._reduction = Reduction(settings.interval_s)
        self._base_ns = 0
        self._origin_id: int | None = None
        self._newest_ns = self._arrived_ns = 0
        volts, amps, watts = Quantity.VOLTAGE, Quantity.CURRENT, Quantity.POWER
        named = [("voltage", volts), ("current", amps)]
        named += [("power", watts)] if settings.current_from == "mean" else []
        named += [("power_least", watts), ("power_most", watts)] if settings.extremes else []
        self.channels = tuple(self._channel(name, quantity) for name, quantity in named)
        self._clock_pairs = ArrivalPairs(self.channels)

    def _channel(self, name: str, quantity: Quantity) -> Channel:
        settings = self._settings
        volts, amps = settings.limits(Quantity.VOLTAGE), settings.limits(Quantity.CURRENT)
        # Of watts: both shares, and the floors at the end of the range and at an amp.
        watts = replace(
            volts,
            of_reading=volts.of_reading + amps.of_reading,
            floor=volts.floor + amps.floor * settings.volts_range,
        )
        limits = {Quantity.VOLTAGE: volts, Quantity.CURRENT: amps, Quantity.POWER: watts}
        rate = SAMPLE_RATES[settings.model]
        single = name in ("power_least", "power_most")
        return Channel(
            name=name,
            quantity=quantity,
            clock=Clock.DEVICE,
            interval_s=settings.interval_s,
            aperture_s=1 / rate if single else settings.interval_s,
            accuracy=limits[quantity],
            clock_tick_s=1 / rate,
            time_u_s=_TIME_U_S,
        )

    def open(self) -> Identity:
        """Find it among those connected and open it with the library's defaults."""
        settings = self._settings
        self.close()
        self._library = library = self._given or load_library()
        try:
            paths = library.device_paths()
            if settings.resource not in paths:
                others = f"there are: {', '.join(paths)}" if paths else "there is none"
                raise ConnectionLost(
                    f"{self._name}: no {settings.resource}; {others}. Is it plugged in, and does "
                    "the maker's udev rule allow you to open it?"
                )
            library.open(settings.resource, mode="defaults")
            firmware = ""
            if settings.model == "JS220":
                firmware = _joulescope_version(library.query(f"{settings.resource}/c/fw/version"))
        except (RuntimeError, TimeoutError, OSError, ValueError) as error:
            raise ConnectionLost(
                f"{self._name}: {settings.resource}: {error or type(error).__name__}; does "
                "another program use it (the Joulescope UI)?"
            ) from error
        _, model, serial = settings.resource.split("/")
        return Identity("Jetperch", model.upper(), serial, firmware)

    def start(self) -> None:
        """Choose rate and ranges and begin to stream. Raises SettingRefused."""
        settings, library = self._settings, self._opened()
        device = settings.resource
        wanted: list[tuple[str, object]] = [("h/fs", SAMPLE_RATES[settings.model])]
        if settings.model == "JS110":
            volts = f"{settings.volts_range:g} V"
            wanted += [("s/i/range/select", "auto"), ("s/v/range/select", volts)]
        else:
            wanted += [("s/i/range/mode", "auto"), ("s/v/range/mode", "auto")]
        self._arrived.clear()
        self._reduction = Reduction(settings.interval_s)
        self._new_epoch()
        try:
            for topic, value in wanted:
                library.publish(f"{device}/{topic}", value)
            for topic in _DATA:
                library.subscribe(f"{device}/{topic}", "pub", self._on_data)
            for topic in _CONTROLS:
                library.publish(f"{device}/{topic}", 1)
        except (RuntimeError, TimeoutError, OSError, ValueError) as error:
            raise SettingRefused(
                f"{self._name}: {topic} is refused: {error or type(error).__name__}; is its "
                "firmware old (the Joulescope UI brings it up to date)?"
            ) from error

    def read(self) -> Batch:
        """The readings of about 0.1 s."""
        deadline = time.monotonic() + _READ_S
        blocks: list[Block] = []
        statuses: list[StatusReading] = []
        pairs: tuple[ClockPair, ...] = ()
        until = time.monotonic() + _BATCH_S
        while time.monotonic() < until or (not blocks and time.monotonic() < deadline):
            while self._arrived:
                arrived_ns, is_voltage, block = self._arrived.popleft()
                if not self._reduction.follows(is_voltage, block):
                    if (before := self._reduction.take()) is not None:
                        self._append(before, blocks, statuses)
                    statuses.append(self._jumped(arrived_ns))
                    self._new_epoch()
                self._reduction.add(is_voltage, block)
                self._arrived_ns = arrived_ns
                if self._origin_id is None:
                    self._origin_id = block.sample_id
                end_id = block.sample_id + len(block.samples) * block.decimate_factor
                pairs += self._clock_pairs.add(self._device_ns(end_id), arrived_ns)
            reduced = self._reduction.take()
            if reduced is not None:
                self._append(reduced, blocks, statuses)
            time.sleep(_PAUSE_S)
        return Batch(tuple(blocks), tuple(statuses), pairs)

    def close(self) -> None:
        """Stop the stream, close the instrument, end the library's threads."""
        library, self._library = self._library, None
        if library is None:
            return
        device = self._settings.resource
        for topic in _CONTROLS:
            with contextlib.suppress(Exception):
                library.publish(f"{device}/{topic}", 0, timeout=_CLOSE_S)
        for topic in _DATA:
            with contextlib.suppress(Exception):
                library.unsubscribe(f"{device}/{topic}", self._on_data, timeout=_CLOSE_S)
        with contextlib.suppress(Exception):
            library.close(device, timeout=_CLOSE_S)
        if self._given is None:
            with contextlib.suppress(Exception):
                library.finalize(timeout=_CLOSE_S)

    def _opened(self) -> JoulescopeLibrary:
        if self._library is None:
            raise ConnectionLost(f"{self._name}: not open")
        return self._library

    def _on_data(self, topic: str, value: Any) -> None:
        """In the library's thread: nothing but to keep it, with the time of its arrival."""
        arrived_ns = self._clock()
        is_voltage = _DATA[topic.removeprefix(f"{self._settings.resource}/")]
        samples = np.asarray(value["data"], np.float32)
        block = SampleBlock(
            int(value["sample_id"]),
            int(value["decimate_factor"]),
            int(value["sample_rate"]),
            samples,
        )
        self._arrived.append((arrived_ns, is_voltage, block))

    def _jumped(self, arrived_ns: int) -> StatusReading:
        """The loss where the numbers of the samples do not go on, since the last arrival."""
        seconds = (arrived_ns - self._arrived_ns) * 1e-9
        count = max(round(seconds / self._settings.interval_s), 1)
        detail = "the numbers of its samples jumped; in all channels, by the host's clock"
        channel = self.channels[0].name
        return StatusReading(channel, self._newest_ns, Status.LOST, detail, count)

    def _new_epoch(self) -> None:
        """Device time goes on at the next epoch, from the next sample."""
        if self._origin_id is not None:
            self._base_ns = (self._newest_ns // EPOCH_NS + 1) * EPOCH_NS
        self._origin_id = None
        self._clock_pairs.restart()

    def _device_ns(self, sample_id: float) -> int:
        self._newest_ns = int(self._device_times(np.array([sample_id]))[0])
        return self._newest_ns

    def _device_times(self, sample_ids: NDArray[np.float64]) -> NDArray[np.int64]:
        assert self._origin_id is not None
        since_ns = np.rint((sample_ids - self._origin_id) * 1e9 / self._reduction.sample_rate)
        return self._base_ns + np.maximum(since_ns, 0.0).astype(np.int64)

    def _append(self, reduced: Reduced, blocks: list[Block], statuses: list[StatusReading]) -> None:
        settings = self._settings
        t_ns = self._device_times(reduced.sample_id)
        if len(t_ns):
            self._newest_ns = int(t_ns[-1])
        amps = reduced.amps
        if settings.current_from == "power":
            enough = np.abs(reduced.volts) >= _LEAST_VOLTS
            amps = np.where(
                enough, reduced.watts / np.where(enough, reduced.volts, 1.0), reduced.amps
            )
        values = {
            "voltage": reduced.volts,
            "current": amps,
            "power": reduced.watts,
            "power_least": reduced.least_watts,
            "power_most": reduced.most_watts,
        }
        first = self.channels[0].name
        if len(reduced):
            blocks += [Block(channel.name, t_ns, values[channel.name]) for channel in self.channels]
        for sample_id, count in reduced.lost:
            detail = "samples are missing; in all channels"
            statuses.append(
                StatusReading(first, self._device_ns(sample_id), Status.LOST, detail, count)
            )
        if reduced.duplicates:
            detail = f"{reduced.duplicates} samples came twice and were left out"
            statuses.append(
                StatusReading(first, self._newest_ns, Status.DUPLICATE, detail, reduced.duplicates)
            )


def _joulescope_version(number: object) -> str:
    """A version as the library packs it: 8, 8 and 16 bits."""
    if not isinstance(number, int):
        return str(number)
    return f"{number >> 24 & 0xFF}.{number >> 16 & 0xFF}.{number & 0xFFFF}"


DRIVER: Final = Driver(JoulescopeSettings, Joulescope)
