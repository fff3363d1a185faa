"""The moments of a run that a person means."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from labctl.analysis.run.marks import moment_of
from labctl.analysis.run_summary import Mark

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


def test_a_run_begins_within_the_second_that_a_clock_shows() -> None:
    begin_ns = BEGIN_NS + 900_000_000
    for text, seconds in (("23:30:00Z", 0.0), ("23:30:01Z", 0.1), ("23:30:00.5Z", 86399.6)):
        found = moment_of(text, begin_ns, MARKS, EAST)
        assert (found - begin_ns) / 1e9 == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("begin", "text", "hours"),
    [
        (datetime(2026, 3, 29, 0, 30, tzinfo=UTC), "01:30:00", 0.0),
        (datetime(2026, 3, 29, 0, 30, tzinfo=UTC), "03:30:00", 1.0),
        (datetime(2026, 3, 29, 0, 30, tzinfo=UTC), "02:45:00", 24.25),
        (datetime(2026, 3, 29, 0, 30, tzinfo=UTC), "01:00:00", 22.5),
        (datetime(2026, 10, 24, 23, 30, tzinfo=UTC), "02:00:00", 0.5),
        (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "02:00:00", 0.5),
        (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "03:30:00", 2.0),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_clock_that_changes_to_or_from_summer_time(
    begin: datetime, text: str, hours: float, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        begin_ns = int(begin.timestamp()) * 10**9
        found = moment_of(text, begin_ns, (), ZoneInfo("Europe/Berlin") if named else None)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (found - begin_ns) / 3600e9 == pytest.approx(hours)


def test_a_time_that_the_clock_leaves_out_on_the_next_day_is_none() -> None:
    noon_ns = int(datetime(2026, 3, 28, 12, 0, tzinfo=UTC).timestamp()) * 10**9
    with pytest.raises(ValueError, match="to the end of the next day"):
        moment_of("02:30", noon_ns, (), ZoneInfo("Europe/Berlin"))


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
