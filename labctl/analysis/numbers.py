"""Numbers as a person reads them: rounded to what is known, never more and never less.

A value with an uncertainty is rounded to two digits of the uncertainty (GUM, JCGM 100:2008,
7.2.6). A value without one gets four significant digits. Units are not included: the heading above
a number names its unit.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

from labctl.analysis.estimate import Estimate

NOTHING = "–"
"""Shown where nothing was measured."""

MINUS = "−"
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def _leading_place(number: float) -> int:
    """The power of ten of the first digit: 0.034 → -2."""
    return int(f"{abs(number):e}".partition("e")[2])


def _fixed_number(number: float, decimals: int) -> str:
    rounded = round(number, decimals)
    text = f"{rounded:.{max(decimals, 0)}f}"
    if not any(digit in text for digit in "123456789"):
        text = text.removeprefix("-")
    return text.replace("-", MINUS)


def decimals_of(u: float, digits: int = 2) -> int | None:
    """Decimals that show ``digits`` digits of ``u``; None when ``u`` is of no use.

    Negative for tens and hundreds: 1234 → -2.
    """
    if not math.isfinite(u) or u <= 0:
        return None
    place = _leading_place(u)
    # 0.0996 becomes 0.10, one place further left
    if round(u, digits - 1 - place) >= 10.0 ** (place + 1):
        place += 1
    return digits - 1 - place


def significant(number: float | None, digits: int = 4) -> str:
    """``number`` with ``digits`` significant digits, no exponent: 0.012346 → ``0.01235``."""
    if number is None or not math.isfinite(number):
        return NOTHING
    if number == 0:
        return "0"
    decimals = decimals_of(abs(number), digits)
    assert decimals is not None
    return _fixed_number(number, decimals)


def value_only(estimate: Estimate | None) -> str:
    """The value, rounded to two digits of its uncertainty."""
    if estimate is None or not math.isfinite(estimate.value):
        return NOTHING
    decimals = decimals_of(estimate.u)
    return (
        significant(estimate.value) if decimals is None else _fixed_number(estimate.value, decimals)
    )


def with_uncertainty(estimate: Estimate | None) -> str:
    """``12.345 ± 0.045``, both rounded to two digits of the uncertainty."""
    if estimate is None or not math.isfinite(estimate.value):
        return NOTHING
    decimals = decimals_of(estimate.u)
    if decimals is None:
        return f"{significant(estimate.value)} ± {NOTHING if estimate.u else '0'}"
    return f"{_fixed_number(estimate.value, decimals)} ± {_fixed_number(estimate.u, decimals)}"


def latency_text(us: float | None) -> str:
    """Microseconds in the unit that suits them: ``605 µs``, ``36.2 ms``, ``1.20 s``."""
    if us is None or not math.isfinite(us):
        return NOTHING
    for factor, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= factor * 0.9995:
            return f"{significant(us / factor, 3)} {unit}"
    return f"{significant(us, 3)} µs"


def _number_scale(number: float) -> tuple[float, str]:
    for factor, prefix in _PREFIXES:
        if abs(number) >= factor * 0.99995:
            return factor, prefix
    return 1.0, ""


def prefixed(number: float | None, digits: int = 4) -> str:
    """A large number with an SI prefix: 440123 → ``440.1k``."""
    if number is None or not math.isfinite(number):
        return NOTHING
    factor, prefix = _number_scale(number)
    return significant(number / factor, digits) + prefix


def prefixed_parts(estimate: Estimate) -> tuple[str, str]:
    """Value and uncertainty, each with the same SI prefix: ``35.65k``, ``0.13k``."""
    if not math.isfinite(estimate.value):
        return NOTHING, ""
    factor, prefix = _number_scale(estimate.value)
    text = with_uncertainty(estimate.scaled(1.0 / factor))
    value, _, u = text.partition(" ± ")
    return value + prefix, u if u in (NOTHING, "0") else u + prefix


def prefixed_value(estimate: Estimate | None) -> str:
    """:func:`value_only` with an SI prefix: 35654 ± 130 → ``35.65k``."""
    return NOTHING if estimate is None else prefixed_parts(estimate)[0]


def prefixed_with_uncertainty(estimate: Estimate | None) -> str:
    """:func:`with_uncertainty` with an SI prefix: ``35.65k ± 0.13k``."""
    if estimate is None:
        return NOTHING
    value, u = prefixed_parts(estimate)
    return f"{value} ± {u}" if u else value


def repeatable_text(estimate: Estimate) -> str:
    """A value ± its repeatability, with an SI prefix; the value alone where that is not known."""
    if estimate.repeatability is None:
        return prefixed(estimate.value)
    return prefixed_with_uncertainty(Estimate(estimate.value, estimate.repeatability))


def scaled(estimate: Estimate | None, factor: float) -> Estimate | None:
    """The estimate in another unit: all its parts times ``factor``."""
    return None if estimate is None else estimate.scaled(factor)


def estimate_columns(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """The columns of a number with its uncertainty: ``name`` and ``name_u``; None where unknown."""
    if estimate is None:
        return {name: None, f"{name}_u": None}
    return {name: estimate.value, f"{name}_u": estimate.u}


def repeatable_columns(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """:func:`estimate_columns`, and ``name_repeatability``."""
    again = None if estimate is None else estimate.repeatability
    return {**estimate_columns(name, estimate), f"{name}_repeatability": again}


def duration(seconds: float | None) -> str:
    """``45 s``, ``3 min 20 s``, ``7 h 5 min``: as exact as a person wants it."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds < 10:
        return f"{significant(seconds, 2)} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def utc(t_ns: int, pattern: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A time of the run in UTC, as a person reads it."""
    return datetime.fromtimestamp(t_ns / 1e9, tz=UTC).strftime(pattern)
