"""Guesses the dialect and the columns of a meter's CSV from its first lines, for a person to see.

Nothing is guessed from values but what can be one thing alone: what is volts and what is amps, a
heading says, or the person.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labctl.errors import ConfigurationError, Mistake
from labctl.importing.dialect import CLOCKLIKE, Sniffed, fields, sniff
from labctl.importing.headings import headings_of, kind_of, known_unit, time_unit_of
from labctl.importing.jls_table import JlsTable, samples_a_mean, signals_of
from labctl.importing.mapping import UNITS, Column, Meter, not_there
from labctl.importing.opening import JLS, PARQUET, UNREADABLE, first_bytes, opened, why
from labctl.importing.parquet_table import ParquetTable, sniff_parquet
from labctl.importing.rails import (
    Given,
    as_column,
    place_of,
    rail_column_name,
    rails_in,
    used_rail_columns,
    with_stated,
)
from labctl.importing.ready import Recognised, recognise
from labctl.importing.table import Table
from labctl.importing.times import (
    EPOCHS,
    ISO,
    ROWS,
    SINCE_START,
    TimeReader,
    guess_format,
    name_their_zone,
)
from labctl.record.timebase import NS_PER_S
from labctl.toml_reading import validated

_TIME = re.compile(
    r"\b(time|timestamp|date|datetime|datum|zeit|uhrzeit|epoch|elapsed|clock|t|seconds?|sec)\b|"
    r"time ?stamp|_time|time_",
    re.IGNORECASE,
)
_DATE = re.compile(r"\b(date|datum)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Guess:
    """What a file was taken for: its mapping, and the ready one that knew it."""

    meter: Meter
    known: Recognised | None = None


def guess(file: Path, given: Given, ready: str = "") -> Guess:
    """The mapping of a file, as far as a person did not give it; ``ready``: the name of the ready
    mapping to take, else the one that knows the file is taken, if there is one.

    Raises ConfigurationError: what cannot be recognised, with what to say.
    """
    start = _beginning_for_guess(file)
    if start.startswith(JLS):
        _check_guess_says_itself(file, given, ready)
        return Guess(_of_jls(file, given))
    found = sniff_parquet(file) if start.startswith(PARQUET) else sniff(file)
    known, found = recognise(found, ready)
    if known is not None and known.ready.refuse:
        raise not_there(file, f"line {max(known.line, 1)}", None, known.ready.refuse)
    data: dict[str, Any] = {
        "name": _guessed_instrument_name(file),
        "delimiter": "tab" if found.delimiter == "\t" else found.delimiter,
        "decimal": found.decimal,
        "encoding": found.encoding,
        "heading_line": found.heading_line,
        "first_line": found.first_line,
        "zone": given.zone,
        "accuracy_pct": given.accuracy_pct,
        "aperture_s": given.aperture_s,
    }
    data |= _guessed_times(file, found, given, known)
    data |= rails_in(file, found, given, data["time"], known)
    if known is not None:
        data["stamp"] = known.ready.stamp
        if known.ready.mean_over_interval and given.aperture_s is None:
            data["aperture_s"] = _interval_s(found, data)
    return Guess(validated(Meter, data, str(file)), known)


def mapped_table(file: Path, meter: Meter) -> Table:
    """A file to be read by a mapping. Raises ConfigurationError."""
    start = _beginning_for_guess(file)
    if start.startswith(JLS):
        return JlsTable(file, meter)
    if start.startswith(PARQUET):
        found = sniff_parquet(file)
        return ParquetTable(file, meter, found.headings, found.width)
    found = sniff(file)
    headings = found.headings
    if meter.heading_line != found.heading_line or meter.field_end != found.delimiter:
        headings = _line_for_guess(file, meter, meter.heading_line) if meter.heading_line else ()
    first = _line_for_guess(file, meter, meter.first_line)
    if not first:
        raise not_there(file, f"line {meter.first_line}", None, "there is no reading in it")
    return Table(file, meter, headings, len(first))


def _beginning_for_guess(file: Path) -> bytes:
    try:
        return first_bytes(file)
    except OSError as error:
        raise not_there(file, "file", None, error.strerror or str(error)) from error


def _check_guess_says_itself(file: Path, given: Given, ready: str) -> None:
    """Refuse what a person says of a JLS file that it says itself. Raises ConfigurationError."""
    said = {
        "--mapping": ready,
        "--time": " ".join(given.time),
        "--time-format": given.time_format,
        "--zone": given.zone,
        "--aperture-s": given.aperture_s,
        "--volts": " ".join(given.volts),
        "--amps": " ".join(given.amps),
        "--watts": " ".join(given.watts),
    }
    allowed = "a JLS file says itself what its signals and times are: leave it out"
    mistakes = [
        Mistake(str(file), option, value, allowed)
        for option, value in said.items()
        if value not in ("", None)
    ]
    if mistakes:
        raise ConfigurationError(mistakes)


def _of_jls(file: Path, given: Given) -> Meter:
    """The mapping of a JLS file, whose signals say what they are."""
    signals, absolute = signals_of(file)
    rails: dict[str, dict[str, Column]] = {}
    for name, signal in signals.items():
        source = name.rpartition(".")[0]
        columns = rails.setdefault(source or "drive", {})
        columns[UNITS[known_unit(signal.units)][0]] = Column(column=name)
    if given.rail and len(rails) > 1:
        raise not_there(file, "--rail", given.rail, f"the file has several: {', '.join(rails)}")
    rate_hz = next(iter(signals.values())).sample_rate
    data = {
        "name": _guessed_instrument_name(file),
        "time": ["time"],
        "time_format": "epoch_ns" if absolute else "ns",
        "aperture_s": samples_a_mean(rate_hz) / rate_hz,
        "stamp": "middle",
        "accuracy_pct": given.accuracy_pct,
        "rails": {
            given.rail or re.sub(r"[^A-Za-z0-9_-]+", "-", name): with_stated(
                used_rail_columns(columns), given
            )
            for name, columns in rails.items()
        },
    }
    return validated(Meter, data, str(file))


def _line_for_guess(file: Path, meter: Meter, number: int) -> tuple[str, ...]:
    try:
        with opened(file) as data:
            stream = io.TextIOWrapper(data, encoding=meter.encoding, errors="replace", newline="")
            for at, line in enumerate(stream, 1):
                if at == number:
                    return headings_of(fields(line.rstrip("\r\n"), meter.field_end))
    except (*UNREADABLE, LookupError) as error:
        raise not_there(file, "file", None, why(error)) from error
    return ()


def column_text(found: Sniffed, column: str | int) -> list[str]:
    """The fields of a column in the first rows."""
    place = place_of(found, column)
    return [] if place is None else [row[place] for row in found.rows if place < len(row)]


def _guessed_times(
    file: Path, found: Sniffed, given: Given, known: Recognised | None
) -> dict[str, Any]:
    """Where the times are, and how they are written."""
    ready = None if known is None else known.ready
    interval_s = None if ready is None else ready.interval_s(found.opening)
    place = None if ready is None else ready.time_heading(found.headings)
    if given.time:
        time = tuple(map(as_column, given.time))
    elif place is not None:
        time = (rail_column_name(found, place),)
    elif interval_s is not None:
        return {"time": [], "time_format": ROWS, "interval_s": interval_s}
    elif ready is not None and ready.interval is not None:
        allowed = "has no times, and does not say how far its rows are apart: record it with times"
        raise not_there(file, f"line {found.first_line}", None, allowed)
    else:
        time = _time_columns(file, found)
    form = given.time_format or ("" if ready is None else ready.time_format)
    if not form and place is not None and interval_s is not None:
        form = _unit_by_steps(found, place, interval_s)
    form = form or _time_format(file, found, time)
    times = {"time": list(time), "time_format": form}
    if form == ISO and not given.zone and name_their_zone(_stamps_for_guess(found, time)):
        times["zone"] = "UTC"  # of times without one: there are none
    return times


def _stamps_for_guess(found: Sniffed, time: Sequence[str | int]) -> list[str]:
    """The times of the first rows; none where a column is not there."""
    columns = [column_text(found, one) for one in time]
    return [" ".join(row) for row in zip(*columns, strict=True)] if all(columns) else []


def _unit_by_steps(found: Sniffed, place: int, interval_s: float) -> str:
    """The unit of counted times whose heading says none: the smallest in which a step is as long as
    readings are apart."""
    heading = found.heading(place)
    step = min(
        _steps_for_guess([row[place] for row in found.rows], "s", found.decimal), default=0.0
    )
    fit = (one for one, ns in SINCE_START.items() if step * ns >= interval_s * NS_PER_S / 2)
    return time_unit_of(heading) or min(fit, key=SINCE_START.__getitem__, default="")


def _interval_s(found: Sniffed, data: dict[str, Any]) -> float | None:
    """How far the first readings are apart."""
    if data["time_format"] == ROWS:
        interval_s: float = data["interval_s"]
        return interval_s
    steps = sorted(
        _steps_for_guess(_stamps_for_guess(found, data["time"]), data["time_format"], found.decimal)
    )
    return float(f"{steps[len(steps) // 2]:.6g}") if steps else None


def _steps_for_guess(texts: Sequence[str], form: str, decimal: str) -> list[float]:
    """By how much times rise, s."""
    import pyarrow as pa

    t_ns, good = TimeReader(form, decimal, "").read(pa.array(texts, pa.string()))
    rises = itertools.pairwise(t_ns[good].tolist())
    return [(b - a) / NS_PER_S for a, b in rises if b > a]


def _time_columns(file: Path, found: Sniffed) -> tuple[str | int, ...]:
    named = [i for i, one in enumerate(found.headings) if _TIME.search(one) and not kind_of(one)]
    if not named:
        clocks = [
            i
            for i in range(found.width)
            if all(CLOCKLIKE.fullmatch(row[i].strip()) for row in found.rows)
        ]
        named = clocks or ([0] if _column_rises_for_guess(found, 0) else [])
    if not named:
        raise not_there(
            file, f"line {found.heading_line or found.first_line}", None,
            "no column is called time, date or timestamp: say which one it is (--time COLUMN)",
        )  # fmt: skip
    dates = [i for i in named if _DATE.search(found.heading(i))]
    whole = [i for i in named if any(":" in row[i] for row in found.rows)]
    if dates and whole and dates[0] not in whole:
        return (rail_column_name(found, dates[0]), rail_column_name(found, whole[0]))
    return (rail_column_name(found, whole[0] if whole else named[0]),)


def _column_rises_for_guess(found: Sniffed, place: int) -> bool:
    try:
        values = [float(row[place].replace(found.decimal, ".")) for row in found.rows]
    except ValueError:
        return False
    return len(values) > 1 and all(a < b for a, b in itertools.pairwise(values))


def _time_format(file: Path, found: Sniffed, time: Sequence[str | int]) -> str:
    samples = _stamps_for_guess(found, time)
    if not samples:
        known = ", ".join(map(repr, found.headings)) or "the file has no headings"
        raise not_there(file, "--time", list(time), f"there is no such column: {known}")
    heading = time[0] if isinstance(time[0], str) else found.heading(time[0] - 1)
    formats = guess_format(samples, found.decimal, time_unit_of(heading) or "s")
    if len(formats) == 1:
        return formats[0]
    where = f"line {found.first_line}"
    if not formats:
        forms = ", ".join(("iso", *EPOCHS, *SINCE_START))
        raise not_there(
            file, where, samples[0], f"is no time that can be told: say --time-format, one of "
            f"{forms}, or strptime's directives such as '%d.%m.%Y %H:%M:%S'"
        )  # fmt: skip
    raise not_there(
        file, where, samples[0], f"may be {' or '.join(map(repr, formats))}: say which "
        "(--time-format)"
    )  # fmt: skip


def _guessed_instrument_name(file: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", file.stem).strip("-_")[:40]
    return name or "meter"
