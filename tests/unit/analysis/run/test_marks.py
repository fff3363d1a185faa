"""The moments of a run that a person means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from labctl.analysis.results import Mark
from labctl.analysis.run.marks import moment_of

BEGIN = datetime(2026, 1, 1, 23, 30, 0, tzinfo=UTC)
BEGIN_NS = int(BEGIN.timestamp()) * 10**9
MARKS = (
    Mark(BEGIN_NS + 5_000_000_000, "step load", "output"),
    Mark(BEGIN_NS + 7_500_000_000, "step index", "output"),
    Mark(BEGIN_NS + 9_000_000_000, "90", "person"),
)
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("12.5", 12.5),
        ("90", 90.0),
        ("90s", 90.0),
        ("1.5min", 90.0),
        (" 2 h ", 7200.0),
        ("23:30:01Z", 1.0),
        ("23:31 UTC", 60.0),
        ("00:10:00Z", 2400.0),
        ("01:30:02.25", 2.25),
        ("step load", 5.0),
        ("index", 7.5),
        ("mark:90", 9.0),
    ],
)
def test_a_moment_has_many_names(text: str, seconds: float) -> None:
    found = moment_of(text, BEGIN_NS, MARKS, EAST)
    assert (found - BEGIN_NS) / 1e9 == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("step", "2 marks.*5.000, 7.500"),
        ("nothing", "'step load', 'step index', '90'"),
        ("", "no time"),
        ("-5", "no time"),
        ("24:00:00", "no clock"),
        ("12:60", "no clock"),
    ],
)
def test_what_is_no_moment_is_told(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        moment_of(text, BEGIN_NS, MARKS, EAST)
