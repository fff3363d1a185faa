"""What of a meter's file becomes channels and rails of the run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from labctl.errors import ConfigurationError, Mistake
from labctl.importing.guess import mapped_table
from labctl.importing.mapping import (
    ASSUMED_ACCURACY_PCT,
    Column,
    Meter,
    RailColumns,
    not_there,
)
from labctl.importing.table import Table, TablePart
from labctl.record.header import ChannelInfo, RailInfo
from labctl.record.timebase import NS_PER_S

_NOMINAL = re.compile(r"(\d+)V(\d*)")
WATTS_VOLTS = 12.0
"""Where a file has watts alone, the volts that amps are stated for; watts do not depend on it."""

STATED = "not measured: the tolerance that was stated"
ASSUMED = f"assumed: ±{ASSUMED_ACCURACY_PCT:g} % of reading, since no accuracy was given"
GIVEN = "given with the import"
EXACT = "not measured: watts were, and amps are watts over these volts"


@dataclass(frozen=True, slots=True)
class MeterFile:
    """A meter's file, and what its columns are."""

    file: Path
    meter: Meter
    known: str = ""
    """By what its columns were recognised, in words."""


@dataclass(frozen=True, slots=True)
class Output:
    """One channel of a file: from which column, times what, or a constant."""

    info: ChannelInfo
    rail: str
    column: Column
    factor: float = 1.0
    constant: float | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A file of a meter, begun to be read: how often it has a reading, and its channels."""

    source: MeterFile
    table: Table
    parts: Iterator[TablePart]
    interval_s: float
    outputs: tuple[Output, ...]


def with_names(sources: Sequence[MeterFile]) -> Iterator[MeterFile]:
    """The sources, each meter with a name of its own."""
    taken: set[str] = {"fio", "host", "drive"}
    for source in sources:
        name, number = source.meter.name, 1
        while name in taken:
            number += 1
            name = f"{source.meter.name}-{number}"
        taken.add(name)
        yield MeterFile(source.file, source.meter.model_copy(update={"name": name}))


def open_source(source: MeterFile) -> Opened:
    """A file with its first part read: that says how often it has a reading."""
    meter = source.meter
    table = mapped_table(source.file, meter)
    parts = table.parts()
    first = next(parts)
    steps = np.diff(np.unique(first.t_ns))
    if not len(steps):
        allowed = "there is one reading in it: no more than a moment"
        raise not_there(source.file, f"line {meter.first_line}", None, allowed)
    interval_s = float(np.median(steps)) / NS_PER_S
    outputs = chain.from_iterable(
        _outputs(meter, name, rail, interval_s, source.file) for name, rail in meter.rails.items()
    )
    return Opened(source, table, chain([first], parts), interval_s, tuple(outputs))


def _outputs(
    meter: Meter, name: str, rail: RailColumns, interval_s: float, file: Path
) -> Iterator[Output]:
    """The channels of a rail in a file."""
    unknown_s = 0.0 if meter.aperture_s is not None else interval_s / 2
    unknown_s += {None: interval_s / 2, "middle": 0.0}.get(meter.stamp, 0.0)

    def info(what: str, accuracy: tuple[float, float, str]) -> ChannelInfo:
        volts = what == "volts"
        return ChannelInfo(
            name=f"{meter.name}.{name}-{what}",
            quantity="voltage" if volts else "current",
            unit="V" if volts else "A",
            clock="device",
            interval_s=interval_s,
            aperture_s=meter.aperture_s or 0.0,
            accuracy_of_reading=accuracy[0],
            accuracy_floor=accuracy[1],
            accuracy_source=accuracy[2],
            time_u_s=unknown_s,
        )

    pct = ASSUMED_ACCURACY_PCT if meter.accuracy_pct is None else meter.accuracy_pct
    source = ASSUMED if meter.accuracy_pct is None else GIVEN
    if rail.volts is not None:
        yield Output(info("volts", (pct / 100, meter.accuracy_volts, source)), name, rail.volts)
    if rail.amps is not None:
        yield Output(info("amps", (pct / 100, meter.accuracy_amps, source)), name, rail.amps)
        if rail.stated is not None:
            limits = (rail.stated.tolerance_pct / 100, 0.0, STATED)
            constant = rail.stated.volts
            yield Output(info("volts", limits), name, rail.amps, constant=constant)
    elif rail.watts is not None:
        if rail.volts is not None:
            raise not_there(
                file, f"rails.{name}", None, "has watts and volts: give amps and volts, or watts"
            )
        volts = nominal_volts(name)
        amps = info("amps", (pct / 100, meter.accuracy_amps, source))
        yield Output(amps, name, rail.watts, factor=1 / volts)
        yield Output(info("volts", (0.0, 0.0, EXACT)), name, rail.watts, constant=volts)


def nominal_volts(rail: str) -> float:
    """The volts that a rail's name says: ``12V``, ``3V3``; 12 where it says none."""
    match = _NOMINAL.search(rail)
    return float(f"{match[1]}.{match[2] or 0}") if match else WATTS_VOLTS


def rails_of(opened: Sequence[Opened]) -> tuple[RailInfo, ...]:
    """Every rail with its volts and amps, of whatever file. Raises ConfigurationError."""
    found: dict[str, dict[str, str]] = {}
    mistakes = []
    for one in opened:
        for output in one.outputs:
            quantity, own = output.info.quantity, found.setdefault(output.rail, {})
            if quantity in own:
                allowed = f"{own[quantity]} is its {quantity} already: call it another rail"
                key = f"rails.{output.rail}"
                mistakes.append(Mistake(str(one.source.file), key, None, allowed))
            own[quantity] = output.info.name
    for name, own in found.items():
        for quantity, words in (("voltage", "volts"), ("current", "amps or watts")):
            if quantity not in own:
                files = ", ".join(str(one.source.file) for one in opened)
                hint = "name a file that has them"
                if quantity == "voltage":
                    hint += ", or state them (--stated-volts 12 --stated-tolerance-pct 5)"
                if len(found) > 1:
                    hint += "; of columns that belong together say so: "
                    hint += "--volts NAME=COLUMN --amps NAME=COLUMN"
                mistakes.append(Mistake(files, f"rails.{name}", None, f"has no {words}: {hint}"))
    if mistakes:
        raise ConfigurationError(mistakes)
    return tuple(
        RailInfo(
            name=name,
            nominal_volts=nominal_volts(name),
            voltage=own["voltage"],
            current=own["current"],
        )
        for name, own in found.items()
    )
