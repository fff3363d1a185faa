"""How far the mean of a phase is from that of a longer one, from the slowest parts it shows.

The mean is the part of frequency zero. Its neighbours, the cosine coefficients of the lowest
frequencies 1/2T, 2/2T … of a phase of T seconds, scatter like it: so much is its variance (equally
weighted cosines: U. K. Müller, *J. Econometrics* 141 (2007) 1331; E. Lazarus et al., *J. Bus.
Econ. Stat.* 36 (2018) 541). The lowest one is nearly all of a straight line, and is left for that.

Where they rise towards the mean, it scatters more than they do. Of 1/f noise the mean has all that
is slower than the phase, without end: it counts down to one period in ``SLOWEST_S``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from labctl.analysis.steady_state.time_cells import Floats

COEFFICIENTS = 128
"""Of the lowest frequencies, at most half as many as there are cells."""

FEWEST, MOST = 8, 32
"""Of which the variance of the mean is taken. The more, the fewer periods of what comes again fit
below: of eight, a period is no part of it from a fifth of the phase on."""

HIGHER = 3.0
"""Times as large as all below that those up to twice their frequency are where something comes
again: what is below counts alone. F(8, 8) passes it once in fourteen, F(16, 16) once in sixty."""

SHAPES = tuple(2.0**power for power in range(-1, 13))
"""θ of the spectra 1 + θ/j that flat ones are told from: white noise with 1/f noise beneath it, up
to 1/f noise alone."""

RISES = 1.64
"""Twice the logarithm of how much likelier a spectrum of 1 + θ/j is than a flat one, from which it
counts as one that rises towards the mean: that of white noise does so once in twelve."""

SLOWEST_S = 86_400.0
"""Slower than once a day no phase is expected to say anything of."""

OF_FLICKER = 1.5 - float(np.euler_gamma) - math.log(2 * math.pi)
"""The mean over T of 1/f noise from the frequency f up has ln(1/fT) + this times the variance of
the lowest coefficient: the integral of (sin πfT / πfT)² / f."""

OF_A_LINE = math.pi**2 / 2**2.5
"""How far from its mean a straight line ends, in lowest coefficients."""


@dataclass(frozen=True, slots=True)
class SlowPart:
    """What the slowest parts of ``n`` cells say; in their unit."""

    u: float
    """Standard uncertainty of the mean."""
    dof: float
    end: float
    """How far from the mean a straight line through the phase ends, up or down; its standard
    uncertainty is ``OF_A_LINE · u``. A line that goes on moves the mean by as much when the phase
    becomes twice as long."""
    flicker: float
    """Standard deviation of the lowest coefficient of 1/f noise; 0 where the spectrum is flat."""

    def u_of_mean(self, seconds: float) -> float:
        """The standard uncertainty of the mean over so many ``seconds``, 1/f noise and all."""
        slower = max(math.log(SLOWEST_S / seconds) + OF_FLICKER, 0.0)
        return math.hypot(self.u, self.flicker * math.sqrt(slower))

    @property
    def u_of_line(self) -> float:
        """The standard uncertainty of the lowest coefficient."""
        return math.hypot(self.u, self.flicker)


def slow_part(cells: Floats) -> SlowPart:
    """Of at least four ``cells``, means over equal times."""
    n = len(cells)
    number = np.arange(1, min(COEFFICIENTS, n // 2) + 1)
    apart = cells - cells.mean()
    turned = np.fft.rfft(np.concatenate([apart, apart[::-1]]))[number]
    found = (turned * np.exp(-0.5j * np.pi / n * number)).real / (math.sqrt(2) * n)
    squares = found**2
    below = squares[: 1 + below_a_line(squares[1:])]
    of_mean = below[1 : 1 + MOST]
    return SlowPart(
        u=math.sqrt(float(of_mean.mean())),
        dof=float(len(of_mean)),
        end=OF_A_LINE * abs(float(found[0])),
        flicker=flicker(below),
    )


def below_a_line(squares: Floats) -> int:
    """How many of the lowest no spectral line stands out of: all, or FEWEST times a power of 2."""
    count = min(FEWEST, len(squares))
    while count < len(squares):
        if squares[count : 2 * count].mean() > HIGHER * squares[:count].mean():
            break
        count *= 2
    return min(count, len(squares))


def flicker(squares: Floats) -> float:
    """The standard deviation of the lowest coefficient of 1/f noise beside white noise, if they are
    likelier with a spectrum of 1 + θ/j than with a flat one (P. Whittle, *Ark. Mat.* 2 (1953) 423):
    by ``RISES``; else 0."""
    count = len(squares)
    shapes = 1 + np.outer(SHAPES, 1 / np.arange(1, count + 1))
    level = (squares / shapes).mean(axis=1)
    if not level.min() > 0:
        return 0.0
    likely = count * np.log(squares.mean() / level) - np.log(shapes).sum(axis=1)
    best = int(likely.argmax())
    if likely[best] <= RISES:
        return 0.0
    return math.sqrt(level[best] * SHAPES[best])
