"""What a stretch of a status means for the readings, in words."""

from __future__ import annotations

import pytest

from labctl.analysis.readings.channel_statuses import ChannelStatus


@pytest.mark.parametrize(
    ("status", "count", "words"),
    [
        ("duplicate", 3, "v: readings came twice (duplicate)"),
        ("stuck", 1, "v: readings stayed the same (stuck)"),
        ("low_battery", 1, "v: low battery"),
        ("range_changed", 2, "v: range changed"),
        ("lost", 1, "v: 1 reading lost"),
        ("overload", 5, "v: 5 readings lost to overload"),
        (
            "memory_overflow",
            1,
            "v: memory overflow: readings were lost (their number is not known)",
        ),
    ],
)
def test_what_it_means(status: str, count: int, words: str) -> None:
    assert ChannelStatus("v", status, 0, 1, count).words() == words
