"""What ``make chaos`` judges by: what is lost or differs is reported, and nothing else."""

from __future__ import annotations

import pytest

from labctl.sinks.follow.event_points import WITHDRAWN
from tests.chaos.judging import Agreement, _difference, limit_of
from tests.chaos.tables import kills_table
from tests.chaos.troubles import Trouble
from tests.servers.influx_lines import Stored


def point(name: str, t_ns: int, **fields: float | str) -> Stored:
    return {(name, (("run", "r"),), t_ns): dict(fields)}


PHASE = point("phase", 5, index=1.0, watts=2.0, outcome="completed")


def test_the_same_points_differ_in_nothing() -> None:
    assert _difference(dict(PHASE), dict(PHASE)) == []


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({}, "1 × phase is missing"),
        (PHASE | point("event", 6, title="x"), "1 × event should not be there"),
        (point("phase", 5, index=1.0, watts=2.1, outcome="completed"), "{'watts': 2.1}"),
        (point("phase", 5, index=1.0, outcome="completed"), "not {'watts': 2.0}"),
        (PHASE | point("phase", 5, index=1.0, watts=2.0, iops=1.0, outcome="completed"), "iops"),
        (PHASE | point("phase", 1, watts=3.0, outcome="interrupted"), "should not be there"),
    ],
)
def test_what_differs_is_reported(stored: Stored, message: str) -> None:
    (line,) = _difference(stored, PHASE)
    assert message in line


def test_what_the_database_marks_as_withdrawn_is_no_difference() -> None:
    assert _difference(PHASE | point("event", 7, title=WITHDRAWN), PHASE) == []


@pytest.mark.parametrize(
    ("late_s", "most_s"), [(0.0, 0.25), (0.05, 0.3), (0.06, 0.5), (0.2, 0.5), (1.0, 1.25)]
)
def test_a_busy_machine_may_lose_more(late_s: float, most_s: float) -> None:
    assert limit_of(late_s) == pytest.approx(most_s)


def test_the_table_has_each_kind_of_kill_and_says_what_was_wrong() -> None:
    troubles = [
        Trouble("run killed", True, 1, when="in a phase", lost_s={"a": 0.01, "b": -0.1}),
        Trouble("run killed", True, 2, when="in a phase", lost_s={"a": 0.03}, resumed_s=4.0),
        Trouble("disk full", False, 3),
    ]
    agreement = Agreement()
    agreement.true += [0.1, 0.5, 1.5]
    text = "\n".join(kills_table(troubles, agreement, ["something"]))
    assert "| run | in a phase | 2 | 20 ms | 30 ms | 4.0 s |" in text
    assert "1 × disk full" in text and "66.7% of 3" in text and "- something" in text
