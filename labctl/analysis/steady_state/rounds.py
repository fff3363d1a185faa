"""Rounds: the same work repeated until it is steady.

Of a sweep with rounds the plan says what must be steady at once. Of other work that came again
IOPS, watts and temperature must be: a drive that still warms up, or whose watts still creep, has
no result yet although its IOPS are steady.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import SteadyRounds
from labctl.analysis.steady_state.rule import WINDOW
from labctl.analysis.steady_state.tracking import (
    CELSIUS,
    SteadyReport,
    TrackedQuantity,
    last_window_report,
    steady_report,
)
from labctl.analysis.workload import by_workload, completed_with_io
from labctl.record.events import Event, EventKind
from labctl.record.phase import Role


def rounds_of(results: Sequence[PhaseResult]) -> dict[str, tuple[PhaseResult, ...]]:
    """Work that was done in at least two rounds, by its name; a failed round ends a series."""
    found = {}
    for name, group in by_workload(results).items():
        whole = []
        for result in group:
            if not completed_with_io(result):
                break
            whole.append(result)
        if len(whole) > 1:
            found[name] = tuple(whole)
    return found


QUANTITIES = ("iops", "watts", "celsius")


def tracked_quantities(
    name: str, rounds: Sequence[PhaseResult], wanted: Sequence[str] = QUANTITIES
) -> Iterator[TrackedQuantity]:
    """IOPS, watts and temperature over the rounds of one workload, those that are ``wanted`` and
    that all rounds have."""
    if "iops" in wanted:
        yield TrackedQuantity(f"{name}: IOPS", "IOPS", tuple(item.iops or 0.0 for item in rounds))
    watts = [item.watts.value for item in rounds if item.watts is not None]
    if "watts" in wanted and len(watts) == len(rounds):
        yield TrackedQuantity(f"{name}: watts", "W", tuple(watts))
    warmest = [
        max(one.end for one in item.temperatures.values()) for item in rounds if item.temperatures
    ]
    if "celsius" in wanted and len(warmest) == len(rounds):
        yield TrackedQuantity(f"{name}: temperature", "°C", tuple(warmest), CELSIUS)


def tracked_report(
    results: Sequence[PhaseResult], track: Sequence[str] = ()
) -> SteadyReport | None:
    """Whether every tracked variable of every tracked work is steady in the same window.

    ``track`` names the works to follow (:func:`workload_name`); when it is empty, those that the
    plan tracks. None when nothing was repeated.
    """
    rounds = rounds_of(results)
    followed: Mapping[str, tuple[PhaseResult, ...]] = {
        name: group
        for name, group in rounds.items()
        if (name in track if track else group[0].phase.tracked)
    }
    tracked = [one for name, group in followed.items() for one in tracked_quantities(name, group)]
    return steady_report(tracked) if tracked else None


def steady_reports(results: Sequence[PhaseResult]) -> tuple[SteadyReport, ...]:
    """One for each sweep with rounds, of its last window and of what its plan asks to be steady, as
    the run itself judged it; then one for work that just came often enough to be judged."""
    sweeps: dict[int, list[PhaseResult]] = {}
    for item in results:
        if item.phase.round:
            sweeps.setdefault(item.phase.sweep_number, []).append(item)
    found = []
    for members in sweeps.values():
        tracked = [
            one
            for name, group in rounds_of(members).items()
            if group[0].phase.tracked
            for one in tracked_quantities(name, group, group[0].phase.steady_on)
        ]
        if tracked:
            found.append(last_window_report(tracked, members[0].phase.sweep))
    often = tracked_report([item for item in results if not item.phase.round])
    if often is not None and often.windows:
        found.append(often)
    return tuple(found)


def steady_rounds_of(
    events: Sequence[Event], results: Sequence[PhaseResult]
) -> tuple[SteadyRounds, ...]:
    """How each measured sweep with rounds ended; one that was cut off did not become steady."""
    ended = {
        event.data.get("sweep_number"): event.data
        for event in events
        if event.kind == EventKind.STEADY_STATE and isinstance(event.data.get("round"), int)
    }
    last: dict[tuple[int, str], int] = {}
    for item in results:
        if item.phase.role is Role.MEASURE and item.phase.round:
            last[item.phase.sweep_number, item.phase.sweep] = item.phase.round
    return tuple(
        SteadyRounds(
            sweep=sweep,
            sweep_number=number,
            rounds=done,
            reached=bool(ended.get(number, {}).get("reached")),
            window=(max(done - WINDOW + 1, 1), done),
            written=ended.get(number, {}).get("ended") == "written",
        )
        for (number, sweep), done in last.items()
    )
