"""A number in a sentence: as many digits as mean something, and never an exponent."""

from __future__ import annotations


def rounded(number: float, digits: int = 3) -> str:
    """``number`` with at most so many significant digits: 110.4 with 2 is ``110``, not
    ``1.1e+02``, which the format ``.2g`` makes of it."""
    return f"{float(f'{number:.{digits}g}'):.12g}"
