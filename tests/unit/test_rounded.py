"""Numbers in sentences: "1.1e+02 % of IOPS" is nothing that a person reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.compare.gate import GateCheck, GateVerdict
from labctl.analysis.phase_result import length_text
from labctl.record.point_end import PointNumber, PointState
from labctl.rounded import rounded


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (110.4, 2, "110"),
        (3600.0, 3, "3600"),
        (0.0123, 2, "0.012"),
        (-1234.5, 3, "-1230"),
        (5, 3, "5"),
    ],
)
def test_digits_that_mean_something(number: float, digits: int, text: str) -> None:
    assert rounded(number, digits) == text


@given(st.floats(1e-3, 1e11), st.integers(1, 4))
def test_never_an_exponent_and_as_near_as_the_digits_allow(number: float, digits: int) -> None:
    text = rounded(number, digits)
    assert "e" not in text
    assert float(text) == pytest.approx(number, rel=0.51 * 10.0 ** (1 - digits))


def test_no_sentence_about_a_large_number_has_an_exponent() -> None:
    little_known = PointNumber(120.0, 0.5, 119.0, 150.0)
    check = GateCheck("B", "QD 1", "IOPS", "IOPS", 5, 230, 1500, GateVerdict.UNDECIDED)
    sentences = [
        PointState(watts=little_known, iops=little_known).numbers(settled=True),
        PointState(watts=little_known, iops=little_known).numbers(settled=False),
        str(check),
        length_text(7201),
    ]
    assert [text for text in sentences if "e+" in text] == []


def test_no_text_of_the_program_is_formatted_with_an_exponent() -> None:
    """``.3g`` makes 1.54e+04 GB of a drive of 15.4 TB; with a sign it is a small difference."""
    package = Path(rounded.__code__.co_filename).parent
    found = [
        f"{file.relative_to(package)}: {match}"
        for file in sorted(package.rglob("*.py"))
        for match in re.findall(r"\{[^{}]*:,?\.[1-4]g\}", file.read_text())
    ]
    assert found == []
