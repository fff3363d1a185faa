"""A Joulescope JS110 at 2,000,000 samples a second: what their reduction on arrival takes.

No instrument and no library: blocks as the library hands them on, in both signals in turn. The
control makes the same means, least and most of all samples at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from instruments.drivers.joulescope_reduction import Reduction, SampleBlock
from tests.benchmarks.figures import Figure, core_share, in_turns, judged, show

RATE_HZ = 2_000_000
SECONDS = 4
BLOCKS = (16_000, 500)
"""Samples of a full block of the library (64 kB), and of ones that a slow line leaves small."""
INTERVALS_S = (1e-3, 1.0)
AT_MOST = {16_000: 3.0, 500: 8.0}
"""Measured 0.9 (blocks stay in the processor's cache) to 1.9, and 3.5 to 5.6."""
Samples = NDArray[np.float32]


def samples() -> tuple[Samples, Samples]:
    """Volts that droop as the amps of a drive rise."""
    rng = np.random.default_rng(1)
    amps = (0.4 + 2.0 * (rng.random(RATE_HZ * SECONDS) > 0.7)).astype(np.float32)
    return (3.33 - 0.08 * amps).astype(np.float32), amps


def reduced(volts: Samples, amps: Samples, interval_s: float, block: int) -> float:
    """Joules of all readings."""
    reduction = Reduction(interval_s)
    joules = 0.0
    for begin in range(0, len(volts), block):
        for is_voltage, signal in ((True, volts), (False, amps)):
            part = signal[begin : begin + block]
            reduction.add(is_voltage, SampleBlock(begin, 1, RATE_HZ, part))
        if (found := reduction.take()) is not None:
            joules += float(found.watts.sum()) * interval_s
    return joules


def plain_numpy(volts: Samples, amps: Samples, interval_s: float) -> float:
    """The same joules."""
    window = round(interval_s * RATE_HZ)
    rows = [one.reshape(-1, window).astype(np.float64) for one in (volts, amps)]
    watts = rows[0] * rows[1]
    for one in rows:
        one.mean(axis=1)
    watts.min(axis=1), watts.max(axis=1)
    return float(watts.mean(axis=1).sum()) * interval_s


def share(work: Callable[[], float]) -> float:
    """Of a core, at the rate of the instrument."""
    cpu = time.process_time()
    work()
    return (time.process_time() - cpu) / SECONDS


def main() -> None:
    volts, amps = samples()
    joules = float(np.dot(volts.astype(np.longdouble), amps.astype(np.longdouble))) / RATE_HZ
    worst = 0.0
    figures: list[Figure] = []
    for interval_s in INTERVALS_S:
        for block in BLOCKS:
            worst = max(worst, abs(reduced(volts, amps, interval_s, block) / joules - 1))
            pairs = in_turns(
                lambda i=interval_s, b=block: share(lambda: reduced(volts, amps, i, b)),
                lambda i=interval_s: share(lambda: plain_numpy(volts, amps, i)),
            )  # fmt: skip
            what = f"Joulescope 2 MS/s, blocks of {block:,}, {interval_s:g} s"
            why = "the same means, least and most of all samples at once"
            figures.append(
                judged(f"{what}: CPU", pairs, AT_MOST[block], core_share, "plain numpy", why)
            )
    show(
        Figure("Joulescope 2 MS/s: joules, off by", "≤ 1e-12", f"{worst:.1g}", worst <= 1e-12),
        *figures,
    )


main()
