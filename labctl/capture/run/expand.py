"""The phases of a plan on a rig: what a run will do."""

from __future__ import annotations

from dataclasses import dataclass

from labctl.analysis.methods.power_verdicts import slow_meters
from labctl.analysis.steady_state.meters_part import meters_part, reachable_pct
from labctl.capture.drive import check_target
from labctl.capture.host.ssh import machine_at
from labctl.capture.run.live_points import rails_of_drives
from labctl.config.plan import Plan
from labctl.config.rig import Rig, smallest
from labctl.errors import ConfigurationError, Mistake
from labctl.record.phase import Phase
from labctl.record.power_limits import load_limits
from labctl.rounded import rounded


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """What a plan does on a rig: its phases, and how much of each drive they may use, in bytes
    (None: not known)."""

    phases: tuple[Phase, ...]
    size_bytes: int | None


def planned_work(rig: Rig, plan: Plan) -> PlannedWork:
    """What ``plan`` does on ``rig``, whose drives are asked for their sizes: that may take seconds
    over ssh. Raises ConfigurationError when they do not fit, HostUnreachable."""
    size_bytes = size_of_drives(rig)
    return PlannedWork(phases_for(rig, plan, plan.name, size_bytes), size_bytes)


def expand_for(rig: Rig, plan: Plan, plan_file: str) -> tuple[Phase, ...]:
    """The phases of ``plan`` on ``rig``. Raises ConfigurationError when they do not fit."""
    return phases_for(rig, plan, plan_file, size_of_drives(rig))


def phases_for(rig: Rig, plan: Plan, plan_file: str, size_bytes: int | None) -> tuple[Phase, ...]:
    """The same, on drives of this size; nothing is asked."""
    phases = plan.expand(size_bytes)
    mistakes = [*rig.mistakes_with(phases, plan_file), *phases_out_of_reach(rig, phases, plan_file)]
    if mistakes:
        raise ConfigurationError(mistakes)
    return phases


def limits_too_slow_for(rig: Rig, plan: Plan) -> list[str]:
    """A line for each limit of power that the plan names and a rail's meters are too slow for: it
    stays undecided where it is not broken."""
    if not plan.limits:
        return []
    return [
        f"{plan.limits}, {limit.name} ({limit.over}) cannot pass: {why}"
        for limit in load_limits(plan.limits).limits
        for why in slow_meters(rig.rail_infos(), rig.channel_infos, limit)
    ]


def phases_out_of_reach(rig: Rig, phases: tuple[Phase, ...], plan_file: str) -> list[Mistake]:
    """What a plan wants to be known of the watts, and the meters of ``rig`` cannot tell."""
    wanted = {phase.until for phase in phases if phase.until is not None}
    of_watts = [one for one in wanted if one.settled or one.watts_pct is not None]
    channels = {one.name: one for one in rig.channel_infos}
    mistakes = []
    for drive, rails in rails_of_drives(rig).items() if of_watts else ():
        whose = f" of drive {drive}" if drive else ""
        if not rails:
            allowed = f"the rig has no rail{whose}: nothing tells when its watts are known"
            mistakes.append(Mistake(plan_file, "until", None, allowed))
            continue
        least_pct = reachable_pct(meters_part(rails, channels))
        for pct in sorted({one.watts_pct for one in of_watts if one.watts_pct is not None}):
            if pct <= least_pct:
                allowed = (
                    f"is out of reach: the meters{whose} know watts to {rounded(least_pct, 2)} % "
                    "at best, however long they measure"
                )
                mistakes.append(Mistake(plan_file, "until_pct.watts", pct, allowed))
    return mistakes


def size_of_drives(rig: Rig) -> int | None:
    """How much of each drive is tested, in bytes: all of the smallest. None where one is not
    known."""
    machine = machine_at(rig.file.host)
    return smallest(
        [
            drive.size_bytes or check_target.size_of(drive.target, machine)
            for drive in rig.drives.values()
        ]
    )
