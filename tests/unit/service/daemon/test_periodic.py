"""When periodic tasks of the daemon are due."""

from __future__ import annotations

import time

import pytest

from labctl.service.daemon.periodic import next_time_s


def test_the_next_morning_is_tomorrow_when_todays_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also across the hour that daylight saving takes: 29 March 2026 in Berlin has 23 hours."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        before = time.mktime((2026, 3, 28, 8, 0, 0, 0, 0, -1))
        assert next_time_s("07:30", before) - before == 22.5 * 3600
        assert next_time_s("08:30", before) - before == 1800
    finally:
        monkeypatch.undo()
        time.tzset()
