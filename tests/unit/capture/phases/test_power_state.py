"""Each phase has the power state that it names, or the drive's own, and the journal has which."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labctl.capture.drive.control import DriveControl
from labctl.capture.host.machine import Completed
from labctl.capture.identity.node import DrivePlace
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.sequence import PhaseSequence
from labctl.capture.phases.stopping import StopRequest
from labctl.capture.run.drive_actions import RigActions
from labctl.config.plan import parse_plan
from labctl.errors import ConfigurationError, RunFailed
from labctl.record.drive_state import DriveState, PowerState
from labctl.record.events import Event, EventKind
from labctl.record.phase import Pattern, Phase, Role
from tests.unit.capture.drive.test_changed_settings import DRIVE, Host

OWN = 1
"""The state that somebody had set before the run."""


class Connection:
    """To the drive's host, which is there while ``there`` is set."""

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self.there.set()
        self.waited_for = asyncio.Event()

    async def wait_back(self) -> None:
        self.waited_for.set()
        await self.there.wait()


class Actions:
    """Sets power states of a drive as a run does; what else is done is noted with the state."""

    def __init__(self, host: Host, left: Any = None) -> None:
        self.host = host
        self.seen: list[tuple[int, int]] = []
        self.events: list[Event] = []
        control = DriveControl(host, DRIVE, left, lambda kind, **data: self.event(kind, **data))
        self.actions = RigActions.__new__(RigActions)
        known = DriveState(DRIVE.target, power_states=(PowerState(0, 8.0), PowerState(3, 2.0)))
        for name, value in {
            "controls": {"": control}, "drive_states": {"": known}, "listener": self,
            "host": Connection(), "stop": StopRequest(),
        }.items():  # fmt: skip
            object.__setattr__(self.actions, name, value)
        self.refused = False

    async def start_fio(self, phase: Phase) -> FioProcess:
        raise RunFailed("no phase here needs one")

    async def check_again(self, phase: Phase) -> dict[str, DrivePlace]:
        raise RunFailed("no phase here needs one")

    async def set_power(self, state: int | None, limit_watts: float | None) -> None:
        if self.refused:
            self.refused = False
            raise RunFailed("not now")
        await self.actions.set_power(state, limit_watts)

    async def settings_found(self) -> list[dict[str, Any]]:
        return await self.actions.settings_found()

    def celsius(self) -> float | None:
        return 20.0

    def watts(self) -> float | None:
        return None

    async def purge(self, phase: Phase) -> None:
        self.seen.append((phase.index, self.host.state))

    def phase_began(self, phase: Phase, t_ns: int) -> None:
        if phase.pattern is not Pattern.PURGE:
            self.seen.append((phase.index, self.host.state))

    def event(self, kind: EventKind, t_ns: int | None = None, **data: Any) -> None:
        self.events.append(Event(0, kind, data))


@pytest.fixture
def actions(tmp_path: Path) -> Actions:
    host = Host(tmp_path / "host")
    host.state = OWN
    return Actions(host)


def rest(index: int, power_state: int | None = None) -> Phase:
    return Phase(index, Role.MEASURE, "s", Pattern.IDLE, 0.2, power_state=power_state)


PHASES = (
    rest(0),
    rest(1, 0),
    rest(2, 3),
    Phase(3, Role.PREPARE, "purge", Pattern.PURGE, 1.0),
    rest(4, 3),
    rest(5),
)


async def carried_out(actions: Actions, phases: tuple[Phase, ...] = PHASES) -> PhaseSequence:
    sequence = PhaseSequence(phases, actions, actions, time.monotonic_ns)
    await sequence.carry_out(StopRequest())
    return sequence


async def test_a_phase_that_names_no_state_has_the_one_before_the_run(actions: Actions) -> None:
    await carried_out(actions)
    assert actions.seen == [(0, OWN), (1, 0), (2, 3), (3, OWN), (4, 3), (5, OWN)]
    found = [event.data for event in actions.events if event.kind == EventKind.SETTINGS_FOUND]
    assert [(data["index"], data["power_state"], data["governor"]) for data in found] == [
        (index, state, "ondemand") for index, state in actions.seen if index != 3
    ]
    reported = [event.data for event in actions.events if event.kind == EventKind.POWER_STATE]
    assert [data["state"] for data in reported] == [0, 3, OWN, 3, OWN]
    assert [data["max_watts"] for data in reported][:2] == [8.0, 2.0]


async def test_a_host_that_is_away_is_waited_for(actions: Actions) -> None:
    connection = actions.actions.host
    assert isinstance(connection, Connection)
    connection.there.clear()
    setting = asyncio.create_task(actions.set_power(3, None))
    await connection.waited_for.wait()
    assert actions.host.state == OWN and not setting.done()
    connection.there.set()
    await setting
    assert actions.host.state == 3


async def test_a_run_that_goes_on_does_not_take_the_killed_ones_state_for_the_drives(
    actions: Actions,
) -> None:
    left = actions.actions.controls[""]
    left.set_power_state(3)
    resumed = Actions(actions.host, left._changed)
    await carried_out(resumed, PHASES[:1])
    assert resumed.seen == [(0, OWN)]


async def test_a_phase_whose_state_cannot_be_set_fails_and_the_next_one_sets_its_own(
    actions: Actions,
) -> None:
    actions.refused = True
    sequence = await carried_out(actions, (rest(0, 3), rest(1), rest(2, 3)))
    assert sequence.failed == ["not now"]
    assert actions.seen == [(1, OWN), (2, 3)]


def test_the_cool_down_before_a_phase_has_its_state() -> None:
    text = """
        name = "p"
        idle_before_s = 0
        idle_after_s = 0
        [[sweeps]]
        pattern = "randread"
        duration_s = 1
        power_state = [0, 3]
        start_celsius = 40
    """
    planned = parse_plan(text, "p.toml").expand()
    assert [(phase.pattern, phase.power_state) for phase in planned] == [
        (pattern, state) for state in (0, 3) for pattern in (Pattern.COOL, Pattern.RANDREAD)
    ]
    assert replace(planned[2], power_state=None).label == planned[2].label


def limited(index: int, watts: float | None, state: int | None = None) -> Phase:
    return replace(rest(index, state), power_limit_watts=watts)


async def test_a_limit_in_watts_is_set_for_its_phases_and_put_back(tmp_path: Path) -> None:
    host = Host(tmp_path / "host")
    host.limit = 2 << 16 | 2200  # somebody had set 22 W
    actions = Actions(host)
    limits: list[int] = []
    seen = actions.phase_began

    def began(phase: Phase, t_ns: int) -> None:
        limits.append(host.limit & 0xFFFF)
        seen(phase, t_ns)

    actions.phase_began = began  # type: ignore[method-assign]
    await carried_out(actions, (limited(0, 15.0), limited(1, 9.99), limited(2, None, 3)))
    assert limits == [1500, 999, 2200]
    reported = [event.data for event in actions.events if event.kind == EventKind.POWER_STATE]
    assert [(data["state"], data["limit_watts"]) for data in reported] == [
        (0, 15.0), (0, 9.99), (3, 22.0),  # somebody's own is put back, and told
    ]  # fmt: skip
    control = actions.actions.controls[""]
    host.limit = 2 << 16 | 500  # as a phase that was killed left it
    assert control.restore() == []
    assert (host.limit, host.state) == (2 << 16 | 2200, 0)


@pytest.mark.parametrize(("taken", "words"), [(0, "none"), (2 << 16 | 1500, "15 W")])
async def test_a_limit_that_the_drive_rounds_or_ignores_fails_its_phase(
    actions: Actions, taken: int, words: str
) -> None:
    class Stubborn(Host):
        def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
            done = super().run(argv, timeout_s)
            self.limit = self.limit and taken
            return done

    stubborn = Stubborn(actions.host.root)
    told = Actions(stubborn)
    sequence = await carried_out(told, (limited(0, 15.25), rest(1)))
    assert len(sequence.failed) == 1
    assert f"was told power limit 15.25 W and has {words}: name" in sequence.failed[0]
    assert told.actions.controls[""].restore() == []
    assert stubborn.limit == 0


def test_limits_are_an_axis_and_the_cool_down_before_a_phase_has_its_limit() -> None:
    text = """
        name = "p"
        idle_before_s = 0
        idle_after_s = 0
        [[sweeps]]
        pattern = "randread"
        duration_s = 1
        power_limit_watts = [25, 12.5]
        start_celsius = 40
    """
    planned = parse_plan(text, "p.toml").expand()
    assert [(phase.pattern, phase.power_limit_watts) for phase in planned] == [
        (pattern, watts) for watts in (25.0, 12.5) for pattern in (Pattern.COOL, Pattern.RANDREAD)
    ]
    assert planned[3].label == "randread 4k QD1 ≤12.5 W"
    with pytest.raises(ConfigurationError, match="power_limit_watts"):
        parse_plan(text.replace("25,", "0,"), "p.toml")
