"""What readings outside a run are refused for."""

from __future__ import annotations

import numpy as np
import pytest

from instruments.reading import Accuracy, Batch, Block, Channel, Status, StatusReading
from labctl.capture.meters.listening import ChannelReadings, Listening, _no_values
from labctl.config.find_rig import EXAMPLES
from labctl.config.rig import load_rig


def problems(count: int, status: Status, values: int = 40) -> list[str]:
    channel = Channel("voltage", "voltage", "V", 0.1, 0.02, Accuracy(0.0, 0.0, ""))
    readings = ChannelReadings(channel, values=[1.0] * values, statuses={status: count})
    return list(_no_values("v12.voltage", readings, 10))


def test_a_late_answer_among_many_readings_is_one_reading_less() -> None:
    assert problems(4, Status.UNREADABLE) == []
    assert problems(1, Status.UNREADABLE, values=10) == []


def test_it_is_listened_until_late_answers_are_few_among_the_readings() -> None:
    """As a host that was busy in the beginning has them: 3 late ones, then readings."""
    rig = load_rig(EXAMPLES / "nvme-adapter.toml")
    listening = Listening(rig)
    name, instrument = "v12.voltage", "v12"
    wanted = [listening.readings[name]]

    def arrive(values: int, late: int = 0) -> None:
        block = Block("voltage", np.zeros(values, np.int64), np.ones(values))
        status = StatusReading("voltage", 0, Status.UNREADABLE, count=late)
        listening.batch(instrument, Batch((block,), (status,) if late else ()))

    arrive(10, late=3)
    assert not listening.have_come(wanted, 10)
    arrive(19)
    assert not listening.have_come(wanted, 10)
    arrive(1)
    assert listening.have_come(wanted, 10)
    assert not listening.have_come(wanted, 31)
    assert list(_no_values(name, listening.readings[name], 10)) == []


@pytest.mark.parametrize(("count", "status"), [(5, Status.UNREADABLE), (1, Status.OVERLOAD)])
def test_many_of_them_or_an_overload_are_put_right_first(count: int, status: Status) -> None:
    (problem,) = problems(count, status)
    assert problem.endswith(f"({count}×): put that right first")
