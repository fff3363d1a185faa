"""When rounds end: steady in all that is asked, or when enough was written."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from labctl.analysis.steady_state.rounds_end import PointValues, RoundsEnd, later_rounds, rounds_end
from labctl.config.plan import load_plan, parse_plan
from labctl.errors import ConfigurationError
from labctl.record.json_values import known
from labctl.record.phase import Phase, Role

MIB = 1 << 20
NOT_STEADY = (22119.0, 21926.0, 23809.0, 24945.0, 25680.0)
"""Published rounds: their range passes (15.8 %), their line does not (17.1 %)."""
STEADY = (1000.0, 1010.0, 990.0, 1005.0, 995.0)


def phases_of(more: str, drive_bytes: int = 1024 * MIB) -> list[Phase]:
    text = f"""
        name = "p"
        [[sweeps]]
        pattern = "randwrite"
        duration_s = 60
        rounds = 20
        {more}
    """
    planned = parse_plan(text, "p.toml").expand(drive_bytes)
    return [phase for phase in planned if phase.role is Role.MEASURE]


def after(
    more: str,
    iops: Sequence[float],
    watts: Sequence[float | None] = (),
    celsius: Sequence[float | None] = (),
    drives: int = 1,
) -> RoundsEnd | None:
    """The verdict after the last of these rounds; the phases begin after the idle one."""
    planned = phases_of(more)
    last = len(iops) - 1
    values = {
        phase.index: PointValues(
            iops[n], watts[n] if watts else None, celsius[n] if celsius else None
        )
        for n, phase in enumerate(planned[: last + 1])
    }
    idle = [Phase(0, Role.IDLE_BEFORE, "idle", planned[0].pattern, 1.0)]
    return rounds_end([*idle, *planned], values, planned[last], drives)


def test_the_published_rounds_go_on_and_even_ones_end() -> None:
    assert after("", NOT_STEADY) is None
    assert after("", STEADY) is RoundsEnd.STEADY
    assert after("", STEADY[:4]) is None
    assert after("", [n * 1000.0 for n in range(1, 21)]) is RoundsEnd.LAST


def test_watts_and_temperature_must_be_steady_too_where_that_is_asked() -> None:
    asked = 'steady = ["iops", "watts", "celsius"]'
    even, warming = [10.0] * 5, [50.0, 53.0, 55.0, 56.5, 57.0]
    assert after(asked, STEADY, even, [60.0] * 5) is RoundsEnd.STEADY
    assert after(asked, STEADY, even, warming) is None
    assert after(asked, STEADY, [8.0, 9.0, 10.0, 11.0, 12.0], [60.0] * 5) is None
    assert after(asked, STEADY, even, [60.0, 60.0, None, 60.0, 60.0]) is None
    assert after("", STEADY, even, warming) is RoundsEnd.STEADY


def test_steady_counts_from_when_enough_was_written() -> None:
    """A round of 1000 IOPS of 4 KiB for a minute is 234 MiB; the drive has 1 GiB."""
    assert after("steady_from_drive_writes = 1", STEADY) is RoundsEnd.STEADY
    assert after("steady_from_drive_writes = 1.5", STEADY) is None
    assert after("steady_from_drive_writes = 1.5", [*STEADY, *STEADY]) is RoundsEnd.STEADY


def test_rounds_end_when_the_drive_was_written_over_often_enough() -> None:
    uneven = [1000.0, 2000.0, 1000.0, 2000.0, 1000.0, 2000.0, 1000.0]
    assert after("until_drive_writes = 2", uneven[:6]) is RoundsEnd.WRITTEN
    assert after("until_drive_writes = 4", uneven) is None


def test_several_drives_are_each_written_over_as_often_as_asked() -> None:
    uneven = [1000.0, 2000.0, 1000.0, 2000.0, 1000.0, 2000.0, 1000.0]
    assert after("until_drive_writes = 1", uneven[:6], drives=2) is RoundsEnd.WRITTEN
    assert after("until_drive_writes = 2", uneven, drives=2) is None
    assert after("steady_from_drive_writes = 1", STEADY, drives=2) is None


def test_a_window_is_measured_before_they_end_for_what_was_written() -> None:
    assert after("until_drive_writes = 0.1", [1000.0, 2000.0]) is None


TWO = """
    name = "p"
    idle_before_s = 0
    prepare = [
        {{ step = "precondition", block_size = "128k", rounds = 25 }},
        {{ step = "precondition", block_size = "{second}", rounds = 25 }},
    ]
    [[sweeps]]
    pattern = "randwrite"
    duration_s = 60
    prepare = [{{ step = "precondition", block_size = "{second}", rounds = 25 }}]
"""


@pytest.mark.parametrize("second", ["4k", "128k"])
def test_each_precondition_is_judged_by_its_own_rounds(second: str) -> None:
    """The first became steady in round 8; the second and the sweep's own do it in round 15."""
    planned = parse_plan(TWO.format(second=second), "p.toml").expand(1024 * MIB)
    uneven = [1000.0, 1000.0, 2000.0]
    values = {index: PointValues(iops) for index, iops in enumerate([*uneven, *STEADY])}
    assert rounds_end(planned, values, planned[6]) is None
    assert rounds_end(planned, values, planned[7]) is RoundsEnd.STEADY
    assert later_rounds(planned, planned[7]) == list(range(8, 25))
    for begin in (25, 50):
        later = [1000.0, 2000.0] * 5
        values |= {begin + n: PointValues(iops) for n, iops in enumerate([*later, *STEADY])}
        assert rounds_end(planned, values, planned[begin + 13]) is None
        assert rounds_end(planned, values, planned[begin + 14]) is RoundsEnd.STEADY


def test_write_saturation_has_the_ends_of_the_standard() -> None:
    planned = load_plan("snia-wsat")[0].expand(10**12)
    rounds = [phase for phase in planned if phase.round]
    assert len(rounds) * rounds[0].duration_s == 24 * 3600
    assert rounds[0].rounds_until_bytes == 4 * 10**12
    again = [known(Phase, phase.to_json()) for phase in planned]
    assert again == list(planned)


@pytest.mark.parametrize("key", ["until_drive_writes = 4", 'steady = "watts"'])
def test_rules_of_rounds_without_rounds_are_a_mistake(key: str) -> None:
    text = f'name = "p"\n[[sweeps]]\npattern = "write"\nduration_s = 1\n{key}\n'
    with pytest.raises(ConfigurationError, match="only with rounds"):
        parse_plan(text, "p.toml")


def test_what_rounds_wrote_is_counted_over_the_time_that_they_took() -> None:
    """Points that end early write less than in all of their time."""
    planned = phases_of("until_drive_writes = 1", drive_bytes=6 * 60 * 1000 * 4096)
    for lasted_s, ended in ((None, RoundsEnd.WRITTEN), (60.0, RoundsEnd.WRITTEN), (6.0, None)):
        values = {
            index: PointValues(iops * 1.0, lasted_s=lasted_s)
            for index, iops in enumerate((200, 400, 800, 1600, 3200, 6400))
        }
        idle = [Phase(0, Role.IDLE_BEFORE, "idle", planned[0].pattern, 1.0)]
        shifted = {index + 1: one for index, one in values.items()}
        assert rounds_end([*idle, *planned], shifted, planned[5]) is ended
    recorded = PointValues.from_json({"iops": 5.0, "begin_ns": 1_000, "end_ns": 2_000_001_000})
    assert recorded == PointValues(5.0, lasted_s=2.0) and "lasted_s" not in recorded.to_json()
