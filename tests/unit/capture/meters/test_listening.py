"""What readings outside a run are refused for."""

from __future__ import annotations

import pytest

from instruments.reading import Accuracy, Channel, Status
from labctl.capture.meters.listening import ChannelReadings, _no_values


def problems(count: int, status: Status, values: int = 40) -> list[str]:
    channel = Channel("voltage", "voltage", "V", 0.1, 0.02, Accuracy(0.0, 0.0, ""))
    readings = ChannelReadings(channel, values=[1.0] * values, statuses={status: count})
    return list(_no_values("v12.voltage", readings, 10))


def test_a_late_answer_among_many_readings_is_one_reading_less() -> None:
    assert problems(4, Status.UNREADABLE) == []
    assert problems(1, Status.UNREADABLE, values=10) == []


@pytest.mark.parametrize(("count", "status"), [(5, Status.UNREADABLE), (1, Status.OVERLOAD)])
def test_many_of_them_or_an_overload_are_put_right_first(count: int, status: Status) -> None:
    (problem,) = problems(count, status)
    assert problem.endswith(f"({count}×): put that right first")
