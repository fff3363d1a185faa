"""Numbers for people: rounded to what is known, and never another number."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis import numbers
from labctl.analysis.estimate import Estimate

SIZES = st.floats(1e-9, 1e12)
VALUES = st.one_of(st.just(0.0), SIZES, SIZES.map(lambda size: -size))
SMALL = st.floats(1e-9, 1e6)


def number_of(text: str) -> float:
    factor = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1.0)
    return float(text.rstrip("kMG").replace(numbers.MINUS, "-")) * factor


@given(VALUES, SMALL)
def test_value_and_uncertainty_are_rounded_to_two_digits_of_the_uncertainty(
    value: float, u: float
) -> None:
    shown, _, shown_u = numbers.with_uncertainty(Estimate(value, u)).partition(" ± ")
    assert abs(number_of(shown_u) - u) <= 0.0501 * u
    assert abs(number_of(shown) - value) <= 0.0501 * u + 1e-12 * abs(value)
    digits = shown_u.replace(".", "").strip("0")
    assert 1 <= len(digits) <= 2
    if "." in shown_u:
        assert len(shown.partition(".")[2]) == len(shown_u.partition(".")[2])


@given(VALUES, st.integers(1, 6))
def test_significant_digits_lose_no_more_than_half_of_the_last(value: float, digits: int) -> None:
    text = numbers.significant(value, digits)
    assert "e" not in text
    assert math.isclose(number_of(text), value, rel_tol=0.51 * 10 ** (1 - digits))


@given(st.floats(1e-3, 1e12), st.integers(3, 6))
def test_a_prefix_never_changes_the_number(value: float, digits: int) -> None:
    text = numbers.prefixed(value, digits)
    assert math.isclose(number_of(text), value, rel_tol=0.51 * 10 ** (1 - digits))
    assert value >= 999e9 or abs(number_of(text.rstrip("kMG"))) < 1000.5


@given(st.floats(1.0, 1e9), st.floats(1e-4, 0.5))
def test_value_and_uncertainty_have_the_same_prefix(value: float, relative: float) -> None:
    shown, u = numbers.prefixed_parts(Estimate(value, value * relative))
    assert shown.lstrip("0123456789.") == u.lstrip("0123456789.")
    assert math.isclose(number_of(u), value * relative, rel_tol=0.0501)


@pytest.mark.parametrize(
    ("value", "u", "text"),
    [
        (12.3456, 0.0451, "12.346 ± 0.045"),
        (12.3456, 0.0996, "12.35 ± 0.10"),
        (1234.6, 123.0, "1230 ± 120"),
        (-0.0004, 0.1, "0.00 ± 0.10"),
        (-3.21, 0.11, "−3.21 ± 0.11"),
        (5.0, 0.0, "5.000 ± 0"),
        (5.0, math.inf, "5.000 ± –"),
        (math.nan, 0.1, "–"),
    ],
)
def test_examples_of_values_with_uncertainty(value: float, u: float, text: str) -> None:
    assert numbers.with_uncertainty(Estimate(value, u)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(440123.0, "440.1k"), (999_999.0, "1.000M"), (812.34, "812.3"), (0.0, "0"), (None, "–")],
)
def test_examples_of_prefixes(value: float | None, text: str) -> None:
    assert numbers.prefixed(value) == text


def test_what_was_not_measured_is_a_dash_everywhere() -> None:
    assert numbers.value_only(None) == "–"
    assert numbers.with_uncertainty(None) == "–"
    assert numbers.prefixed_value(None) == "–"
    assert numbers.prefixed_with_uncertainty(None) == "–"
    assert numbers.duration(None) == "–"
    assert numbers.scaled(None, 2.0) is None


def test_an_uncertainty_is_scaled_with_its_value() -> None:
    assert numbers.prefixed_with_uncertainty(Estimate(35654.0, 130.0)) == "35.65k ± 0.13k"
    assert numbers.scaled(Estimate(2e6, 1e4), 1e-6) == Estimate(2.0, 0.01)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.04, "2.0 s"),
        (45.4, "45 s"),
        (60.0, "1 min"),
        (200.0, "3 min 20 s"),
        (3600.0, "1 h"),
        (25510.0, "7 h 5 min"),
    ],
)
def test_durations_are_as_exact_as_a_person_wants(seconds: float, text: str) -> None:
    assert numbers.duration(seconds) == text
