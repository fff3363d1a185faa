"""How wide ± must be to cover 95 % of a sum of errors, from their distributions.

k = 2 holds where many errors of about the same size add up. Where one error with limits is larger
than the others, twice the standard uncertainty is more than the limits allow; and an error that a
meter has near its limit is not covered by what covers it on average over all meters. So errors are
propagated as distributions (JCGM 101:2008), here by the product of their characteristic functions,
which is exact and the same at every call, where a Monte Carlo is neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

COVERED = 0.9545
"""Probability that ± must cover: that of k = 2 for a normal distribution."""

RECTANGULAR = math.sqrt(3.0)
"""Half-width of a rectangular distribution over its standard deviation (GUM 4.3.7)."""

_TERMS = 256
"""Terms of the series, and points between 0 and the end of the range."""

_REACH = 8.0
"""Standard deviations beyond which nothing is counted."""

_ANGLES = np.cos(np.pi * (np.arange(256) + 0.5) / 256)
"""A U-shaped distribution of amplitude 1 as so many equally probable values."""

_ORDERS = np.arange(_TERMS)

_SMALL = 0.005
"""Share of the variance up to which an error's distribution makes no difference: it counts as
normal."""


def half_width(
    normal_u: float,
    limits: Sequence[float] = (),
    amplitudes: Sequence[float] = (),
    standing: float = 0.0,
) -> float:
    """The U for which ``COVERED`` of ``standing`` + the sum of independent errors is within ±U.

    ``normal_u``: standard deviation of the normal errors together; ``limits``: half-widths of
    rectangular ones; ``amplitudes`` of U-shaped ones; all ≥ 0. ``standing`` ≥ 0 is an error that
    is always at this value. Accurate to about 0.1 %.
    """
    squares = normal_u**2 + sum(a * a for a in limits) / 3 + sum(a * a for a in amplitudes) / 2
    if squares <= 0.0 or not math.isfinite(squares):
        return standing + math.sqrt(squares)
    if not limits and not amplitudes and not standing:
        return 2.0 * normal_u
    small = [a for a in limits if a * a / 3 < _SMALL * squares]
    limits = [a for a in limits if a * a / 3 >= _SMALL * squares]
    normal_u = math.hypot(normal_u, *(a / RECTANGULAR for a in small))
    ends = sum(limits) + sum(amplitudes) + _REACH * normal_u
    reach = min(ends, _REACH * math.sqrt(squares)) * 1.01
    inside = _above_zero(reach, normal_u, limits, amplitudes)
    points = np.linspace(0.0, reach, _TERMS + 1)
    widths = np.linspace(max(standing - reach, 0.0), standing + reach, 2 * _TERMS + 1)
    beyond = np.interp(widths + standing, points, inside)
    before = np.sign(widths - standing) * np.interp(np.abs(widths - standing), points, inside)
    covered = np.maximum.accumulate(beyond + before)
    return float(np.interp(COVERED, covered, widths))


def _above_zero(
    reach: float, normal_u: float, limits: Sequence[float], amplitudes: Sequence[float]
) -> NDArray[np.float64]:
    """Probability that a symmetric sum of errors is between 0 and each of ``_TERMS`` + 1 points
    up to ``reach``, from the Fourier series of its distribution function."""
    at = _ORDERS * (math.pi / reach)
    series = np.exp(-0.5 * (normal_u * at) ** 2)
    for limit in limits:
        series *= np.sinc(limit / reach * _ORDERS)
    for amplitude in amplitudes:
        series *= np.cos(np.outer(at * amplitude, _ANGLES)).mean(axis=1)
    sines = np.zeros(_TERMS + 1, np.complex128)
    sines[1:_TERMS] = -1j * series[1:] / (math.pi * _ORDERS[1:]) * _TERMS
    wave = np.fft.irfft(sines, 2 * _TERMS)[: _TERMS + 1]
    wave[_TERMS] = 0.0
    result: NDArray[np.float64] = np.arange(_TERMS + 1) / (2 * _TERMS) + wave
    return result
