"""Reads a meter's CSV part by part, in bounded memory, and names the line of what is wrong.

pyarrow cuts the file into rows and fields; what a field means is decided here. A text that a meter
writes where it could not measure (``OL``, an empty field) is no reading and is counted; any other
text is a mistake with its line.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.numbers import utc
from labctl.importing.headings import known_unit, unit_of
from labctl.importing.mapping import UNITS, Column, Meter, micro_as_u, not_there
from labctl.importing.opening import UNREADABLE, opened, position, why
from labctl.importing.times import Ints, TimeReader, is_absolute, open_zone
from labctl.printable import printable
from labctl.record.timebase import NS_PER_S
from labctl.rounded import rounded

Floats = NDArray[np.float64]

BLOCK_BYTES = 1 << 22
"""Of the file at a time."""

OVERLOADS = frozenset(("ol", "0l", "-ol", "o.l", "o.l.", "overload", "ovld", "overflow"))
NO_READING = OVERLOADS | frozenset(
    ("", "ovrflw", "nan", "inf",
     "-inf", "+inf", "n/a", "na", "null", "none", "-", "--", "---", "----", "9.9e37", "open")
)  # fmt: skip
"""What meters and their programs write where there is no number, in lower case."""

OVERFLOW_FROM = 1e30
"""SCPI meters write 9.9E+37 for an overload."""

SET_BACK_S = 5.0
"""A row is this much older than the one before: the clock was set, and nobody knows by how much.
Programs that log from several threads swap rows by less."""

MOST_NAMED = 5


@dataclass(slots=True)
class Seen:
    """What of a file was no reading, and where; for a person and for the record."""

    rows: int = 0
    no_reading: int = 0
    first_no_reading: int = 0
    repeated: int = 0
    first_repeated: int = 0
    swapped: int = 0
    first_swapped: int = 0
    gaps: list[tuple[float, int]] = field(default_factory=list)
    """Longest steps in s, and the line behind each; of those far longer than the usual one."""
    first_ns: int = 0
    last_ns: int = 0
    cut_line: int = 0
    """A last line that was not written whole."""

    def lines(self, file: str) -> list[str]:
        """A line for each thing that a reader must know."""
        found = []
        if self.no_reading:
            found.append(
                f"{file} line {self.first_no_reading}: no reading there; {self.no_reading} in all"
            )
        if self.repeated:
            found.append(
                f"{file} line {self.first_repeated}: the same time as the line before, "
                f"{self.repeated} in all; the mean of such lines is taken"
            )
        if self.swapped:
            found.append(
                f"{file} line {self.first_swapped}: older than the line before; put in order, "
                f"{self.swapped} in all"
            )
        if self.cut_line:
            found.append(f"{file} line {self.cut_line}: the last line is cut off; left out")
        for seconds, line in sorted(self.gaps, reverse=True)[:MOST_NAMED]:
            found.append(f"{file} line {line}: nothing for {rounded(seconds)} s before it")
        return found


@dataclass(frozen=True, slots=True)
class TablePart:
    """Some rows: times in ns, ascending but for swapped rows, and the columns that were asked for,
    NaN where there is no reading."""

    t_ns: Ints
    columns: dict[Column, Floats]


class Table:
    """A file as its mapping says it is."""

    def __init__(self, file: Path, meter: Meter, headings: Sequence[str], width: int) -> None:
        """``headings`` of the file (empty: it has none), ``width``: its fields a row."""
        self.file, self.meter = file, meter
        self._headings, self._width = list(headings), width
        self.seen = Seen()
        self._time = TimeReader(meter.time_format, meter.decimal, meter.zone)
        self._usual_ns: float | None = None
        self._kinds: dict[Column, str] = {}
        self.share = 0.0
        """Of the file, what was read."""

    def factors(self) -> dict[Column, float]:
        """The columns of its rails, and what makes volts, amps or watts of their numbers.

        Raises ConfigurationError where a unit is of something else, or a column of two kinds.
        """
        found = {}
        taken: dict[tuple[int, str], str] = {}
        for name, rail in self.meter.rails.items():
            for kind, column in rail.columns():
                before = taken.setdefault((self.place(column.column), column.channel), kind)
                if before != kind:
                    place, allowed = f"rails.{name}.{kind}", f"is {before} already"
                    raise not_there(self.file, place, column.column, allowed)
                self._kinds[column] = kind
                unit = self.unit(column)
                of, size = UNITS[unit] if unit else (kind, 1.0)
                if of != kind:
                    place, allowed = (
                        f"rails.{name}.{kind}",
                        f"is in {unit}, which is no unit of {kind}",
                    )
                    raise not_there(self.file, place, column.column, allowed)
                found[column] = size
        return found

    def place(self, column: str | int) -> int:
        """Where a column stands, from 0. Raises ConfigurationError."""
        if isinstance(column, int):
            if column > self._width:
                allowed = f"is not there: a line has {self._width} fields"
                raise not_there(self.file, "column", column, allowed)
            return column - 1
        names = [one.casefold() for one in self._headings]
        if column.casefold() in names:
            return names.index(column.casefold())
        known = ", ".join(map(repr, self._headings)) if self._headings else "the file has none"
        raise not_there(self.file, "column", column, f"there is no such heading: {known}")

    def unit(self, column: Column) -> str:
        """Its unit as the mapping or its heading says it, empty where neither does."""
        if column.unit or column.unit_column is not None:
            return column.unit
        place = self.place(column.column)
        return unit_of(self._headings[place]) if place < len(self._headings) else ""

    def parts(self) -> Iterator[TablePart]:
        """Its readings. Raises ConfigurationError naming the line of the first that is none."""
        import pyarrow.compute as pc

        factors = self.factors()
        times = [self.place(one) for one in self.meter.time]
        places = {one: self.place(one.column) for one in factors}
        channel = self.meter.channel_column
        label = None if channel is None else self.place(channel)
        units = {one: self.place(one.unit_column) for one in factors if one.unit_column is not None}
        labels = [] if label is None else [label]
        needed = {*times, *places.values(), *units.values(), *labels}
        for batch, lines in self._batches(sorted(needed)):
            stamps = [batch.column(str(one)) for one in times]
            if not stamps:
                t_ns = self._counted(batch.num_rows)
            else:
                text = pc.binary_join_element_wise(*stamps, " ")
                t_ns, good = self._time.read(text)
                if not good.all():
                    self._no_time(text, good, lines)
            found = {one: self._values(batch.column(str(at)), lines) for one, at in places.items()}
            for one, factor in factors.items():
                values = found[one] * factor
                if one in units:
                    sizes = self._sizes(batch.column(str(units[one])), self._kinds[one])
                    self._count_none(np.isfinite(values) & ~np.isfinite(sizes), lines)
                    values = values * sizes
                if label is not None and one.channel:
                    rows = pc.equal(pc.utf8_trim_whitespace(batch.column(str(label))), one.channel)
                    values = np.where(rows.to_numpy(zero_copy_only=False), values, np.nan)
                found[one] = values
            yield self._checked(t_ns, found, lines, long=label is not None)
        if not self.seen.rows:
            raise not_there(
                self.file, f"line {self.meter.first_line}", None, "there is no reading in it"
            )

    def _counted(self, count: int) -> Ints:
        """The times of the next rows of a file without times."""
        rows = np.arange(self.seen.rows, self.seen.rows + count)
        interval_s = self.meter.interval_s or 0.0
        t_ns: Ints = np.rint(rows * (interval_s * NS_PER_S)).astype(np.int64)
        return t_ns

    def _batches(self, needed: Sequence[int]) -> Iterator[tuple[Any, Ints]]:
        """Rows as texts, and the line of each."""
        import pyarrow as pa
        from pyarrow import csv

        names = [str(one) for one in range(self._width)]
        bad: list[tuple[int, int, str]] = []
        found: list[tuple[int, int, str]] = []

        def invalid(row: Any) -> str:
            found.append((row.number, row.actual_columns, row.text))
            return "skip"

        try:
            for block, line in self._blocks():
                found.clear()
                rows = csv.read_csv(
                    pa.BufferReader(block),
                    read_options=csv.ReadOptions(
                        use_threads=False, block_size=len(block), column_names=names
                    ),
                    parse_options=csv.ParseOptions(
                        delimiter=self.meter.field_end,
                        quote_char=self.meter.quote or False,
                        ignore_empty_lines=False,
                        invalid_row_handler=invalid,
                    ),
                    convert_options=csv.ConvertOptions(
                        column_types=dict.fromkeys(names, pa.string()),
                        include_columns=[str(one) for one in needed],
                        strings_can_be_null=False,
                    ),
                )
                # rows that were left out stand between those of this block
                lines = np.arange(line, line + rows.num_rows + len(found), dtype=np.int64)
                lines = np.delete(lines, [number - 1 for number, _, _ in found])
                bad += [(line + number - 1, fields, text) for number, fields, text in found]
                if rows.num_rows:
                    yield rows.combine_chunks().to_batches()[0], lines
        except pa.ArrowInvalid as error:
            words = printable(str(error).splitlines()[0])
            raise not_there(self.file, "CSV", None, f"cannot be read: {words}") from error
        except (*UNREADABLE, UnicodeError) as error:
            raise not_there(self.file, "file", None, why(error)) from error
        self._judge(bad)

    def _blocks(self) -> Iterator[tuple[bytes, int]]:
        """Whole lines from the first reading on, as UTF-8, and the line of the first.

        Read in this thread: a reader of pyarrow's own reads ahead in another one, and the
        interpreter aborts if it ends meanwhile.
        """
        with self._open() as stream:
            for _ in range(self.meter.first_line - 1):
                stream.readline()
            line, rest, size = self.meter.first_line, b"", max(self.file.stat().st_size, 1)
            while more := stream.read(BLOCK_BYTES):
                block = rest + (more.encode() if isinstance(more, str) else more)
                self.share = min(position(stream) / size, 1.0)
                end = block.rfind(b"\n") + 1
                block, rest = block[:end], block[end:]
                if block:
                    yield _valid_table_lines(block), line
                line += block.count(b"\n")
                if len(rest) > BLOCK_BYTES:
                    allowed = f"has no end within {len(rest)} bytes: this is no table of readings"
                    raise not_there(self.file, f"line {line}", None, allowed)
            if rest:
                yield _valid_table_lines(rest), line

    def _open(self) -> IO[Any]:
        """The file: bytes where it is UTF-8 already, without a byte-order mark; texts else."""
        encoding = self.meter.encoding.lower()
        if encoding not in ("utf-8", "utf-8-sig", "ascii"):
            stream = opened(self.file)
            return io.TextIOWrapper(stream, self.meter.encoding, errors="replace", newline="")
        stream = opened(self.file)
        if stream.read(3) != b"\xef\xbb\xbf":
            stream.seek(0)
        return stream

    def _judge(self, bad: Sequence[tuple[int, int, str]]) -> None:
        """Rows with another number of fields: empty lines, comments and a cut last line are none;
        of any other nobody knows what it is."""
        last = self.meter.first_line + self.seen.rows + len(bad) - 1
        for line, fields, text in bad:
            if not text.strip() or text.lstrip()[:1] in ("#", ";"):
                continue
            if line >= last and fields < self._width:
                self.seen.cut_line = line
                continue
            allowed = f"has {fields} fields where the others have {self._width}"
            raise not_there(self.file, f"line {line}", text[:60], allowed)

    def _no_time(self, texts: Any, good: NDArray[np.bool_], lines: Ints) -> None:
        at = int(np.flatnonzero(~good)[0])
        text = texts[at].as_py()
        allowed = f"is no time of the form {self.meter.time_format}"
        if not text.strip():
            allowed = "there is no time in it"
        raise not_there(self.file, f"line {int(lines[at])}", text, allowed)

    def _values(self, texts: Any, lines: Ints) -> Floats:
        """Numbers in the unit that stands there; NaN where there is no reading."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = pc.utf8_trim_whitespace(texts)
        if self.meter.decimal == ",":
            texts = pc.replace_substring(texts, ",", ".")
        try:
            values = pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)
            if np.abs(values).max(initial=0.0) < OVERFLOW_FROM:
                return np.asarray(values, np.float64)
        except pa.ArrowInvalid:
            values = self._mixed(texts, lines)
        values = np.where(np.abs(values) < OVERFLOW_FROM, values, np.nan)
        self._count_none(~np.isfinite(values), lines)
        return values

    def _count_none(self, none: NDArray[np.bool_], lines: Ints) -> None:
        """Note that rows have no reading."""
        missing = np.flatnonzero(none)
        if len(missing):
            self.seen.no_reading += len(missing)
            self.seen.first_no_reading = self.seen.first_no_reading or int(lines[missing[0]])

    def _sizes(self, texts: Any, kind: str) -> Floats:
        """By what each reading is multiplied for the unit beside it; NaN: a unit of something
        else."""
        import pyarrow.compute as pc

        coded = pc.dictionary_encode(texts)
        worth = []
        for text in coded.dictionary.to_pylist():
            of, size = UNITS.get(known_unit(text), ("", 0.0))
            worth.append(size if of == kind else np.nan)
        sizes: Floats = np.array(worth, np.float64)[coded.indices.to_numpy(zero_copy_only=False)]
        return sizes

    def _mixed(self, texts: Any, lines: Ints) -> Floats:
        """Numbers among other texts: each different text is looked at once."""
        import pyarrow.compute as pc

        coded = pc.dictionary_encode(texts)
        worth = np.array([self._one(one) for one in coded.dictionary.to_pylist()], np.float64)
        strange = np.flatnonzero(np.isneginf(worth))
        codes = coded.indices.to_numpy(zero_copy_only=False)
        if len(strange):
            at = int(np.flatnonzero(np.isin(codes, strange))[0])
            text = texts[at].as_py()
            raise not_there(
                self.file, f"line {int(lines[at])}", text, "is no number, where a reading stands"
            )
        found: Floats = worth[codes]
        return found

    def _one(self, text: str) -> float:
        """A number; one with its unit; NaN: no reading; -inf: neither."""
        if text.casefold() in NO_READING:
            return float("nan")
        number, unit = text, ""
        for name in sorted(UNITS, key=len, reverse=True):
            written = micro_as_u(text)
            if written.endswith(name):
                number, unit = written.removesuffix(name).strip(), name
                break
        try:
            return float(number) * (UNITS[unit][1] if unit else 1.0)
        except ValueError:
            return float("-inf")

    def _checked(
        self, t_ns: Ints, found: dict[Column, Floats], lines: Ints, *, long: bool
    ) -> TablePart:
        """The rows without those whose time came before; gaps are noted."""
        seen = self.seen
        before = np.concatenate([[seen.last_ns if seen.rows else t_ns[0] - 1], t_ns[:-1]])
        steps = t_ns - before
        if not seen.rows:
            seen.first_ns = int(t_ns[0])
            self._usual_ns = float(np.median(steps[1:])) if len(steps) > 2 else None
        back = np.flatnonzero(steps < 0)
        if len(back):
            worst = back[int(np.argmin(steps[back]))]
            seconds = -int(steps[worst]) / NS_PER_S
            if seconds > SET_BACK_S:
                raise not_there(
                    self.file,
                    f"line {int(lines[worst])}",
                    self._time_text(int(t_ns[worst])),
                    f"is {seconds:.6g} s before the line above it: its clock was set, or two "
                    "recordings are in one file; cut it there and name both files",
                )
            seen.swapped += len(back)
            seen.first_swapped = seen.first_swapped or int(lines[back[0]])
        again = steps == 0
        if not long and again.any():
            seen.repeated += int(again.sum())
            seen.first_repeated = seen.first_repeated or int(lines[np.flatnonzero(again)[0]])
            found = {one: _table_row_means(values, again) for one, values in found.items()}
        usual = self._usual_ns
        if usual:
            far = np.flatnonzero(steps > max(20 * usual, 1e9))
            start = 0 if seen.rows else 1
            seen.gaps += [(int(steps[i]) / NS_PER_S, int(lines[i])) for i in far if i >= start]
            seen.gaps = sorted(seen.gaps, reverse=True)[: 10 * MOST_NAMED]
        seen.rows += len(t_ns)
        seen.last_ns = int(t_ns[-1])
        return TablePart(t_ns if long else t_ns[~again], found)

    def _time_text(self, t_ns: int) -> str:
        form = self.meter.time_format
        if is_absolute(form):
            return utc(t_ns) if open_zone(form, self.meter.zone) else f"{utc(t_ns)} UTC"
        return f"{t_ns / NS_PER_S:g} s"


def _valid_table_lines(block: bytes) -> bytes:
    """Lines as UTF-8; what is none is replaced, so that the line with it can be named."""
    try:
        block.decode()
    except UnicodeDecodeError:
        return block.decode("utf-8", "replace").encode()
    return block


def _table_row_means(values: Floats, again: NDArray[np.bool_]) -> Floats:
    """Of rows, the means of those that have the time of the row before with it. What a part begins
    with may go on from the part before, which is written already: it is left out."""
    first = np.flatnonzero(~again)
    if not len(first):
        return values[:0]
    good = np.isfinite(values)
    counts = np.add.reduceat(good, first, dtype=np.int64)
    sums = np.add.reduceat(np.where(good, values, 0.0), first)
    found: Floats = np.divide(sums, counts, out=np.full(len(first), np.nan), where=counts > 0)
    return found
