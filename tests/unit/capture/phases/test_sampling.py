"""What a phase is sampled for: when a point may end, and what kept it going for how long."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from labctl.capture.phases import sampling
from labctl.capture.phases.early_end import point_end
from labctl.capture.phases.sampling import DriveSamples
from labctl.config.plan import parse_plan
from labctl.record.phase import Phase
from labctl.record.point_end import PointEnd, PointEnding, PointState

STEP_NS = 500_000_000


class Drive:
    """A drive of which each look gives the next of ``states``; a look takes half a second."""

    def __init__(self, states: Sequence[PointState | None]) -> None:
        self.now_ns = 0
        self._states = iter(states)

    def celsius(self) -> float | None:
        return None

    def watts(self) -> float | None:
        return 5.0

    def point_began(self, phase: Phase, t_ns: int) -> None:
        pass

    def point_state(self) -> PointState | None:
        self.now_ns += STEP_NS
        return next(self._states)


def point() -> Phase:
    text = 'name = "p"\nuntil = "settled"\n[[sweeps]]\npattern = "read"\nduration_s = 60\n'
    (phase,) = (one for one in parse_plan(text, "p").expand(1 << 30) if one.until is not None)
    return phase


async def sampled(states: Sequence[PointState | None]) -> PointEnd:
    phase, drive = point(), Drive(states)
    samples = DriveSamples(phase, drive, lambda: drive.now_ns, 0, lambda state: None)
    task = asyncio.create_task(samples.keep())
    while not samples.enough.is_set() and not task.done():
        await asyncio.sleep(0)
    task.cancel()
    end = point_end(phase, samples.point, samples.kept_s)
    assert end is not None
    return end


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SAMPLE_EVERY_S", 0)


async def test_what_kept_a_point_going_is_summed_until_it_may_end() -> None:
    shortest = PointState(keeps=("shortest time",))
    both = PointState(keeps=("rises or falls", "throttles"))
    rises = PointState(keeps=("rises or falls",))
    end = await sampled([None, shortest, shortest, both, rises, rises, rises, PointState()])
    assert end.ended is PointEnding.SETTLED
    # each holds from the look that named it to the next one
    assert end.kept_s == {"shortest time": 1.0, "rises or falls": 2.0, "throttles": 0.5}
    assert (
        end.kept_words == "rises or falls for 2.0 s, shortest time for 1.0 s, throttles for 0.5 s"
    )


async def test_a_point_that_was_good_enough_at_once_was_kept_by_nothing() -> None:
    end = await sampled([PointState()])
    assert (end.kept_s, end.kept_words) == ({}, "")


async def test_what_kept_a_point_going_comes_back_from_the_journal() -> None:
    end = await sampled([PointState(keeps=("throttles",)), PointState()])
    assert PointEnd.from_json(end.to_json()) == end


@pytest.mark.parametrize(("number", "watts"), [(0, None), (3, 5.0)])
async def test_watts_are_taken_where_the_end_of_rounds_may_depend_on_them(
    number: int, watts: float | None
) -> None:
    drive = Drive([PointState()])
    phase = replace(point(), round=number)
    samples = DriveSamples(phase, drive, lambda: drive.now_ns, 0, lambda state: None)
    task = asyncio.create_task(samples.keep())
    await samples.enough.wait()
    task.cancel()
    assert samples.watts == watts


async def test_a_phase_whose_end_depends_on_nothing_is_not_sampled() -> None:
    drive = Drive([])
    phase = replace(point(), until=None)
    await DriveSamples(phase, drive, lambda: 0, 0, lambda state: None).keep()


@pytest.mark.parametrize(
    "kept", [None, 3, [], {"throttles": "long"}, {"throttles": float("nan")}, {"throttles": True}]
)
def test_a_journal_without_or_with_other_times_is_read(kept: object) -> None:
    data = PointEnd(PointEnding.SETTLED, PointState()).to_json() | {"kept_s": kept}
    end = PointEnd.from_json(data)
    assert end is not None and end.kept_s == {}
