"""How many I/Os took how long: fio's bins in steps that can be seen.

fio's bins are 1.5 % wide, sixty-four from a latency to its double. A histogram has four, which are
of equal width on a logarithmic axis. A bin of fio belongs to where its middle is, so that the edges
of a step are true to half a bin.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from labctl.rounded import rounded

STEPS_PER_DOUBLING = 4
STEP = 2.0 ** (1 / STEPS_PER_DOUBLING)
"""The upper end of a step is its lower end times this."""


def histogram(bins_us: Iterable[Mapping[float, int]]) -> dict[str, int]:
    """The I/Os of all these bins by the lower end of their step in µs, as text, from fast to slow;
    steps without any are left out."""
    found: Counter[int] = Counter()
    for bins in bins_us:
        for us, ios in bins.items():
            if us > 0:
                found[math.floor(math.log2(us) * STEPS_PER_DOUBLING)] += ios
    return {_histogram_step_name(step): found[step] for step in sorted(found)}


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Several histograms as one; empty where one of them is."""
    known = list(parts)
    if not all(known):
        return {}
    found: Counter[str] = Counter()
    for part in known:
        found.update(part)
    return {name: found[name] for name in sorted(found, key=float)}


def _histogram_step_name(step: int) -> str:
    us = 2.0 ** (step / STEPS_PER_DOUBLING)
    return f"{rounded(us, 4)}" if us < 1000 else f"{us:.0f}"
