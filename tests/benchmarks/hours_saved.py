"""``python -m tests.benchmarks.hours_saved [--plan NAME] [--page]``: hours of plans whose points
end when more time would not help, beside those of fixed times.

The simulated rig works in a time of its own: :mod:`tests.benchmarks.virtual_rig`. Each line is a
plan as it is (180 s a point), with a fixed time that brings even its worst point to the target (or
the longest, where a point does not come there in it), and with points that end by themselves. U and
repeatability are those of labctl's results; *drawn in U*: points whose true energy is inside U;
*180 s inside*: points that ended early and whose mean over 180 s, which a copy of the drive goes
on to do, is inside their repeatability. Below: what the time of the points went for, and of each
of them.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run.summary import summarise
from labctl.analysis.steady_state.enough import Keeps
from labctl.capture.phases.early_end import point_end
from labctl.capture.run.expand import phases_for
from labctl.capture.run.header import make_header
from labctl.capture.run.live_points import least_point_s
from labctl.config.plan import load_plan, parse_plan
from labctl.config.rig import Rig
from labctl.record.drive_state import DriveState
from labctl.record.events import EventKind, Outcome
from labctl.record.journal import Journal, create
from labctl.record.phase import Phase, Until
from labctl.record.point_end import PointState
from labctl.record.reader import RunRecord
from labctl.record.timebase import Anchor, Timebase
from tests.benchmarks.virtual_rig import BEGAN_NS, VirtualRig, Worked, six_digit_rig, work
from tests.judge.page import day, renew

PLANS = ("power-per-qd", "review-2015")
SETTLED = Until()
WITHIN = Until(watts_pct=0.5, iops_pct=1.0)
STEP_S = 5.0
"""Fixed times are multiples of it."""
SCATTER = frozenset({Keeps.TARGET, Keeps.FEW_READINGS})
PATTERN = frozenset({Keeps.TREND, Keeps.RANGE, Keeps.DEPENDENCE, Keeps.RARE, Keeps.MAY_COME})
POINTS_HEAD = (
    "| point | took | its numbers met the target after | worse number: time's part → allowed | "
    "what kept it going |",
    "|---|---|---|---|---|",
)
HEAD = (
    "| points end | hours of the points | longest point | median U | median repeatability | "
    "drawn in U | 180 s inside |",
    "|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Done:
    """A plan that was done: its phases, and labctl's results of them."""

    rig: Rig
    worked: Sequence[Worked]
    results: Sequence[PhaseResult]
    needed_s: dict[Until, list[float]]
    """Of each point, from when on it met a target; infinite: not in its longest time."""
    kept_by: Sequence[Counter[str]]
    """Of each point the seconds, by what kept it going."""

    @property
    def points(self) -> list[tuple[Worked, PhaseResult]]:
        pairs = zip(self.worked, self.results, strict=True)
        return [(one, result) for one, result in pairs if one.phase.until is not None]


def planned(rig: Rig, name: str, until: Until, fixed_s: float | None) -> tuple[Phase, ...]:
    """The phases of a built-in plan up to its last point, whose points may end at ``until``.
    ``fixed_s``: their time."""
    plan, _ = load_plan(name, None, "settled")
    phases = phases_for(rig, plan, name, rig.size_bytes)
    last = max(one.index for one in phases if one.until is not None)
    return tuple(
        one
        if one.until is None
        else replace(one, until=until, duration_s=fixed_s or one.duration_s)
        for one in phases[: last + 1]
    )


class Watch:
    """Looks at a point as it goes on."""

    def __init__(self) -> None:
        self.late_s = dict.fromkeys((SETTLED, WITHIN), 0.0)
        """Until when it did not meet a target."""
        self.kept_by: Counter[str] = Counter()
        """Seconds, by what kept it going."""
        self._last_s = 0.0

    def look(self, seconds: float, state: PointState) -> None:
        """How it stands so many seconds after its begin."""
        for until in self.late_s:
            if not reached(state, until):
                self.late_s[until] = seconds
        if state.keeps:
            self.kept_by[what_kept(state.keeps)] += seconds - self._last_s
        self._last_s = seconds


def done(rig: Rig, seed: int, phases: tuple[Phase, ...], ends: bool, folder: Path) -> Done:
    """All phases on a new drive; ``ends``: points end when they may."""
    virtual = VirtualRig(rig, seed)
    worked = []
    needed: dict[Until, list[float]] = {SETTLED: [], WITHIN: []}
    kept_by = []
    for phase in phases:
        watch = Watch()
        worked.append(work(virtual, phase, ends, watch.look))
        virtual.go_on(2)
        if phase.until is not None:
            kept_by.append(watch.kept_by)
        for until, seconds in watch.late_s.items() if phase.until is not None else ():
            over = seconds >= phase.duration_s - 1
            needed[until].append(math.inf if over else seconds)
    return Done(rig, worked, results(rig, virtual, worked, ends, folder), needed, kept_by)


def reached(state: PointState, until: Until) -> bool:
    """Whether the numbers of a point that is to settle meet a target."""
    if state.watts is None or state.iops is None:
        return False
    if until.settled:
        return all(one.repeats_pct <= one.target_pct for one in (state.watts, state.iops))
    assert until.watts_pct is not None and until.iops_pct is not None
    return state.watts.u_pct <= until.watts_pct and state.iops.u_pct <= until.iops_pct


def what_kept(keeps: Sequence[str]) -> str:
    """In a few words: what weighs most of what kept a point."""
    if Keeps.SHORTEST in keeps:
        return "its shortest time"
    if SCATTER & set(keeps):
        return "scatter"
    if PATTERN & set(keeps):
        return "a trend, or what comes too rarely"
    if Keeps.COLLECTION in keeps:
        return "collection that may come"
    return "temperature"


def results(
    rig: Rig, virtual: VirtualRig, worked: Sequence[Worked], ends: bool, folder: Path
) -> Sequence[PhaseResult]:
    """What labctl makes of it: a record of the readings, and its summary. ``ends``: points ended
    when they could, and the record says how."""
    timebase = Timebase(Anchor(BEGAN_NS, BEGAN_NS, ""))
    plan = parse_plan('name = "virtual"\n[[sweeps]]\npattern = "read"\nduration_s = 1', "virtual")
    phases = tuple(one.phase for one in worked)
    state = {"": DriveState("virtual")}
    header = make_header(rig, plan, "", phases, timebase, {"labctl": "0"}, {}, state)
    path = create(folder, replace(header, channels=virtual.channels))
    journal = Journal(path, lambda: virtual.now_ns)
    journal.event(EventKind.RUN_STARTED, BEGAN_NS)
    for instrument, block in virtual.blocks:
        journal.readings(instrument, block)
    for one in worked:
        index = one.phase.index
        end = point_end(one.phase, one.state, {}) if ends else None
        journal.event(EventKind.PHASE_STARTED, one.begin_ns, index=index)
        journal.event(
            EventKind.PHASE_ENDED, one.end_ns, index=index, outcome=Outcome.COMPLETED, reason="",
            begin_ns=one.begin_ns, end_ns=one.end_ns, boundary_u_ns=500_000,
            **({} if end is None else {"point": end.to_json()}),
        )  # fmt: skip
    journal.event(EventKind.RUN_ENDED, virtual.now_ns, outcome=Outcome.COMPLETED, reason="")
    journal.close()
    return summarise(RunRecord(path)).phases


def row(name: str, runs: Sequence[Done]) -> str:
    """A line of the table, of the same plan on several rigs."""
    points = [pair for run in runs for pair in run.points]
    hours = sum(one.seconds for one, _ in points) / 3600 / len(runs)
    known = [(one, result.watts) for one, result in points if result.watts is not None]
    again = [(one, watts) for one, watts in known if watts.repeatability is not None]
    early = [(one, watts) for one, watts in again if one.seconds < one.phase.duration_s - 1]
    inside = sum(
        abs(one.watts - (one.longest_watts or 0)) <= (watts.repeatability or 0)
        for one, watts in early
    )
    share = statistics.median(watts.u / watts.value for _, watts in known)
    repeats = statistics.median((watts.repeatability or 0) / watts.value for _, watts in again)
    drawn = sum(watts.covers(one.watts) for one, watts in known)
    cells = (
        name, f"{hours:.2f}", f"{max(one.seconds for one, _ in points):.0f} s",
        f"{share:.3%}", f"{repeats:.3%}", f"{drawn} of {len(points)}",
        f"{inside} of {len(early)}" if early else "–",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def fixed_for(runs: Sequence[Done], until: Until) -> float:
    """The least fixed time in which every point comes to its target; the longest time where one
    does not."""
    worst = max(seconds for run in runs for seconds in run.needed_s[until])
    longest = max(one.phase.duration_s for run in runs for one, _ in run.points)
    return min(STEP_S * (worst // STEP_S + 1), longest) if math.isfinite(worst) else longest


def runs(
    rigs: Mapping[int, Rig], name: str, until: Until, ends: bool, folder: Path, fixed_s: float = 0.0
) -> list[Done]:
    """A plan on each of the rigs, which are by their seed."""
    return [
        done(rig, seed, planned(rig, name, until, fixed_s or None), ends, folder)
        for seed, rig in rigs.items()
    ]


def judged(name: str, seeds: Sequence[int], folder: Path, at_once: int) -> Iterator[str]:
    """The lines of a plan's table, and what they say. ``folder``: of this plan alone."""
    rigs = {seed: six_digit_rig(folder, seed) for seed in seeds}
    targets = ((SETTLED, "`--until settled`"), (WITHIN, "watts 0.5 %, IOPS 1 %"))
    with ProcessPoolExecutor(at_once) as pool:
        began = pool.submit(runs, rigs, name, SETTLED, False, folder)
        ended = {one: pool.submit(runs, rigs, name, one, True, folder) for one, _ in targets}
        yield from HEAD
        usual = began.result()
        yield row("after 180 s", usual)
        said = []
        for until, words in targets:
            fixed_s = fixed_for(usual, until)
            if fixed_s < 180:
                yield row(
                    f"after {fixed_s:.0f} s", runs(rigs, name, SETTLED, False, folder, fixed_s)
                )
            yield row(words, ended[until].result())
            said.append(summed_up(words, until, usual, ended[until].result(), fixed_s))
    first = ended[SETTLED].result()[0]
    points = [one for one, _ in first.points]
    table = zip(points, first.kept_by, usual[0].needed_s[SETTLED], strict=True)
    yield from ["", *said, "", "Each point, `--until settled`:", "", *POINTS_HEAD]
    yield from (point_row(*one) for one in table)


def summed_up(
    words: str, until: Until, usual: Sequence[Done], early: Sequence[Done], fixed_s: float
) -> str:
    """A line about what was saved, and what the time went for."""
    seconds, before = (
        sum(one.seconds for run in runs for one, _ in run.points) for runs in (early, usual)
    )
    needed = [one for run in usual for one in run.needed_s[until]]
    waits = [least_point_s(run.rig, one.phase) for run in usual for one, _ in run.points]
    bound = [max(one, min(late, fixed_s)) for one, late in zip(waits, needed, strict=True)]
    never = sum(map(math.isinf, needed))
    numbers_alone = sum(min(one, fixed_s) for one in needed)
    spent = shares(sum((one for run in early for one in run.kept_by), Counter[str]()))
    fixed = f"{seconds / (fixed_s * len(needed)):.2f} of fixed {fixed_s:.0f} s, which bring all"
    if never:
        fixed = f"{never} of {len(needed)} points never come"
    return (
        f"- {words}: {seconds / before:.2f} of the time; {fixed} to this target. From the first "
        f"moment on at which their numbers met it, points needed {numbers_alone / before:.2f}. "
        f"What kept them going: {spent}. Points that wait for their shortest time and for "
        f"collection that may come take {sum(waits) / before:.2f} at least, and "
        f"{sum(bound) / before:.2f} where they wait for their numbers, too."
    )


def shares(kept_by: Counter[str]) -> str:
    """What kept points going, by share of the time that it did."""
    whole = sum(kept_by.values())
    return ", ".join(f"{part / whole:.0%} {what}" for what, part in kept_by.most_common())


def point_row(worked: Worked, kept_by: Counter[str], needed_s: float) -> str:
    """A line of a point that was to settle: what its worse number had come to, and why so late."""
    state = worked.state
    assert state is not None and state.watts is not None and state.iops is not None
    name, number = max(
        (("watts", state.watts), ("IOPS", state.iops)),
        key=lambda one: one[1].repeats_pct / max(one[1].target_pct, 1e-9),
    )
    needed = f"{needed_s:.0f} s" if math.isfinite(needed_s) else "not in 180 s"
    cells = (
        worked.phase.label, f"{worked.seconds:.0f} s", needed,
        f"{name} {number.repeats_pct:.2g} → {number.target_pct:.2g} %", shares(kept_by),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.hours_saved",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--plan", action="append", choices=PLANS, help="repeatable; default: both")
    parser.add_argument("--seed", type=int, default=1, help="of the first rig")
    parser.add_argument("--rigs", type=int, default=1, help="each with meters of its own errors")
    parser.add_argument("--at-once", type=int, default=1, help="processes")
    parser.add_argument("--page", action="store_true", help="renew the tables of docs/trust.md")
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.rigs)
    count = f"{chosen.rigs} rig{'s' * (chosen.rigs > 1)}"
    page = [f"{day()}, seed {chosen.seed}, {count}."]
    with tempfile.TemporaryDirectory(prefix="labctl-hours-") as folder:
        for name in chosen.plan or PLANS:
            page += ["", f"`{name}`:", ""]
            print(f"{name}", flush=True)
            own = Path(folder) / name
            own.mkdir()
            for line in judged(name, seeds, own, chosen.at_once):
                print(line, flush=True)
                page.append(line)
    if chosen.page:
        renew("hours", page, "make bench-hours")


if __name__ == "__main__":
    main()
