"""Reads a Joulescope's JLS file (version 2) with its maker's library, as means over a millisecond.

A Joulescope writes millions of samples a second. Volts are the mean of a millisecond, and amps are
what with these volts gives the mean of its watts: that of the product, not the product of means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labctl.importing.headings import kind_of, known_unit
from labctl.importing.mapping import Column, Meter, not_there
from labctl.importing.opening import first_bytes
from labctl.importing.table import Floats, Table, TablePart
from labctl.importing.times import Ints
from labctl.installed import Extra, need
from labctl.printable import printable

if TYPE_CHECKING:
    from pyjls import Reader, SignalDef

MEAN_S = 1e-3
SAMPLES_AT_ONCE = 1 << 20

_LENGTH_AT, _LENGTH_BYTES = 16, 8
"""Of a file's header: its length, which is written when it is closed (``jls/format.h``)."""

_SECOND = 1 << 30
_EPOCH_S = 1_514_764_800
"""JLS counts 2**-30 s since the begin of 2018, UTC (``jls/time.h``)."""

_SINCE_EPOCH = 86_400 * _SECOND
"""Of a file whose recorder had no time of day, its first sample is at 0."""


def signals_of(file: Path) -> tuple[dict[str, SignalDef], bool]:
    """Its volts, amps and watts by their name, and whether their times are moments.

    Raises ConfigurationError, and MissingPart where the library is missing.
    """
    with _opened(file) as reader:
        named = _jls_signals_by_name(reader)
        if not named:
            raise not_there(file, "signals", None, "has no volts, amps or watts")
        rates = {(one.sample_rate, one.sample_id_offset) for one in named.values()}
        if len(rates) > 1:
            raise not_there(file, "signals", None, "have several rates or begins: save one alone")
        first = next(iter(named.values()))
        if first.length < 2:
            raise not_there(file, "signals", None, "there is no reading in it")
        known = reader.time_map_get(first.signal_id)
        return named, bool(len(known) and known[0]["timestamp"] > _SINCE_EPOCH)


def samples_a_mean(rate_hz: float) -> int:
    """How many samples become one reading."""
    return max(1, round(rate_hz * MEAN_S))


class JlsTable(Table):
    """A JLS file as its mapping says it is; a line is a sample, from 1."""

    def __init__(self, file: Path, meter: Meter) -> None:
        self._signals, _ = signals_of(file)
        super().__init__(file, meter, ["time", *self._signals], 1 + len(self._signals))

    def unit(self, column: Column) -> str:
        """Its unit as the file has it."""
        return column.unit or known_unit(self._signal(column).units)

    def _signal(self, column: Column) -> SignalDef:
        place = self.place(column.column)
        if place == 0:
            raise not_there(self.file, "column", column.column, "is the time")
        return list(self._signals.values())[place - 1]

    def parts(self) -> Iterator[TablePart]:
        """Its readings, means over a millisecond. Raises ConfigurationError."""
        pairs = [
            (rail.volts, rail.amps) for rail in self.meter.rails.values()
            if rail.volts is not None and rail.amps is not None
        ]  # fmt: skip
        factors = self.factors()
        wanted = {one: self._signal(one) for one in factors}
        first = next(iter(self._signals.values()))
        many = samples_a_mean(first.sample_rate)
        step = max(SAMPLES_AT_ONCE // many, 1) * many
        length = min(one.length for one in self._signals.values()) // many * many
        with _opened(self.file) as reader:
            for begin in range(0, length, step):
                count = min(step, length - begin)
                raw = {
                    one: _jls_samples(self.file, reader, signal, begin, count) * factors[one]
                    for one, signal in wanted.items()
                }
                found = {one: each.mean(axis=1) for one, each in _jls_samples_by(raw, many).items()}
                for volts, amps in pairs:
                    watts = (raw[volts] * raw[amps]).reshape(-1, many).mean(axis=1)
                    found[amps] = np.where(found[volts] > 0, watts / found[volts], found[amps])
                missing = ~np.isfinite(np.stack(list(found.values()))).all(axis=0)
                if missing.any():
                    self.seen.no_reading += int(missing.sum())
                    at = begin + int(np.flatnonzero(missing)[0]) * many + 1
                    self.seen.first_no_reading = self.seen.first_no_reading or at
                begins = np.arange(begin, begin + count, many)
                lines = begins + 1
                t_ns = _jls_sample_times(reader, first, begins) + round(
                    many / first.sample_rate * 5e8
                )
                self.share = (begin + count) / length
                yield self._checked(t_ns, found, lines, long=False)


def _jls_samples_by(raw: dict[Column, Floats], many: int) -> dict[Column, Floats]:
    return {one: values.reshape(-1, many) for one, values in raw.items()}


def _jls_signals_by_name(reader: Reader) -> dict[str, SignalDef]:
    """Signals by name, with that of their source where there are several."""
    found = [
        one
        for one in reader.signals.values()
        if one.signal_type == 0 and known_unit(one.units) and kind_of(f"x ({one.units})")
    ]
    several = len({one.source_id for one in found}) > 1
    return {
        f"{reader.sources[one.source_id].name}.{one.name}" if several else one.name: one
        for one in found
    }


def _jls_samples(file: Path, reader: Reader, signal: SignalDef, begin: int, count: int) -> Floats:
    try:
        return np.asarray(reader.fsr(signal.signal_id, begin, count), np.float64)
    except (RuntimeError, ValueError) as error:
        words = f"cannot be read: {printable(str(error))}"
        raise not_there(file, f"sample {begin + 1} of {signal.name}", None, words) from error


def _jls_sample_times(reader: Reader, signal: SignalDef, begins: Sequence[int] | Ints) -> Ints:
    """When samples were, ns since 1970."""
    stamps = np.asarray(reader.sample_id_to_timestamp(signal.signal_id, begins), np.int64)
    seconds, rest = stamps >> 30, stamps & (_SECOND - 1)
    t_ns: Ints = (seconds + _EPOCH_S) * 10**9 + (rest * 10**9 >> 30)
    return t_ns


def _opened(file: Path) -> Any:
    """The file for reading. One that was not closed would be mended where it is: it is refused."""
    need(Extra.JLS)
    from pyjls import Reader

    start = first_bytes(file)
    length = int.from_bytes(start[_LENGTH_AT : _LENGTH_AT + _LENGTH_BYTES], "little")
    if length != file.stat().st_size:
        allowed = (
            "was not closed, or is cut off: open it in the Joulescope UI, which mends it, and "
            "import what that saved"
        )
        raise not_there(file, "file", None, allowed)
    try:
        return Reader(str(file))
    except (RuntimeError, ValueError, OSError) as error:
        raise not_there(file, "JLS", None, f"cannot be read: {printable(str(error))}") from error
