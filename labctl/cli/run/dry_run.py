"""``labctl run --dry-run``: the phases of a plan on a rig, its time and its bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from labctl.capture.host.ssh import LOCAL
from labctl.capture.run.expand import limits_too_slow_for, phases_for, size_of_drives
from labctl.capture.run.live_points import least_point_s
from labctl.cli.terminal.filled import filled
from labctl.cli.terminal.runs_place import run_places
from labctl.config.estimate import estimate, timed_s
from labctl.config.find_rig import find_rig
from labctl.config.plan import load_plan
from labctl.config.rig import Rig
from labctl.record.phase import Pattern, Phase, format_size
from labctl.rounded import rounded
from labctl.service.runs.earlier_points import EarlierPoints, earlier_points


def print_dry_run(
    rig_name: str,
    plan_name: str,
    json_output: bool,
    scale: float | None,
    until: str | None = None,
    runs: Path | None = None,
) -> None:
    """Print the expanded phases, the time and the bytes written; nothing is touched.

    Of points that may end early also the shortest time and, from the earlier runs of the rig in
    ``runs`` (None: where they usually are), what to expect.
    """
    rig = find_rig(rig_name)
    plan, _ = load_plan(plan_name, scale, until)
    here = rig.file.host == LOCAL  # another machine is not asked for the size of its drive
    size_bytes = size_of_drives(rig) if here else rig.size_bytes
    phases = phases_for(rig, plan, plan_name, size_bytes)
    cost = estimate(phases, rig.write_bytes_per_s, len(rig.drives))
    points = [phase for phase in phases if phase.until is not None]
    earlier = earlier_points(run_places(runs) if points else [], rig.name)
    least = {phase: least_point_s(rig, phase) for phase in phases}
    expected = {phase: earlier.expected_s(phase, least[phase]) for phase in points}
    saved_s = sum(phase.duration_s - least[phase] for phase in points)
    expected_saved_s = sum(
        phase.duration_s - seconds for phase, seconds in expected.items() if seconds is not None
    )
    if json_output:
        data = {
            "phases": [phase.to_json() for phase in phases],
            "seconds": cost.seconds,
            "shortest_seconds": None if cost.seconds is None else cost.seconds - saved_s,
            "expected_seconds": None
            if cost.seconds is None or (points and not earlier.known(points))
            else cost.seconds - expected_saved_s,
            "bytes_written": cost.bytes_written,
        }
        print(json.dumps(data, indent=1))
        return
    scaled = f" at scale {plan.scale:g}" if plan.scale != 1 else ""
    print(f"{plan.name}{scaled} on {rig.name}: {len(phases)} phases")
    for phase in phases:
        size = _dry_run_size(phase, least[phase])
        effect = _dry_run_effect(phase, expected.get(phase))
        print(f"  {phase.index:3d}  {size:>10}  {phase.label:<32}{effect}".rstrip())
    seconds = cost.seconds if cost.seconds is not None else timed_s(phases)
    fill = "" if cost.seconds is not None else " and the fill of the whole drive"
    if saved_s > 0:
        print(f"time: {_dry_run_duration(seconds - saved_s)} to {_dry_run_duration(seconds)}{fill}")
        print(_dry_run_expectation(earlier, points, seconds - expected_saved_s, fill))
    else:
        about = "" if fill else "about "
        print(f"time: {about}{_dry_run_duration(seconds)}{fill}")
    if whole := [phase for phase in points if least[phase] >= phase.duration_s]:
        print(_takes_all(rig, whole, len(points)))
    if cost.bytes_written is None:
        print("bytes written: depends on the drive's size; set drive.size_bytes to know")
    else:
        speed = f"{rig.write_bytes_per_s / 1e6:.0f} MB/s"
        note = f" (if it writes {speed}: drive.write_bytes_per_s)" if cost.bytes_written else ""
        print(f"bytes written: about {cost.bytes_written / 1e9:.1f} GB{note}")
    for line in limits_too_slow_for(rig, plan):
        print(filled(line))


def _dry_run_expectation(
    earlier: EarlierPoints, points: Sequence[Phase], seconds: float, fill: str
) -> str:
    known = earlier.known(points)
    if not known:
        return "expected: not known, for no earlier run of this rig ended these points early"
    runs = f"{earlier.runs} earlier run{'s' * (earlier.runs > 1)}"
    known_of = f"{known} of {len(points)} points as in {runs} of this rig"
    return f"expected: about {_dry_run_duration(seconds)}{fill}\n          ({known_of})"


def _takes_all(rig: Rig, whole: Sequence[Phase], points: int) -> str:
    """Of points whose shortest time is not below their longest."""
    long = [replace(phase, duration_s=math.inf) for phase in whole]
    shortest = " and ".join(f"{s:.0f} s" for s in sorted({least_point_s(rig, one) for one in long}))
    return f"never early: {len(whole)} of {points} points, which take {shortest} at least"


def _dry_run_size(phase: Phase, least_s: float) -> str:
    """How long a phase takes, from the shortest to the longest, or how much it fills."""
    if phase.fills:
        return "all" if phase.fill_bytes is None else f"{rounded(phase.fill_bytes / 1e9, 4)} GB"
    longest = f"{phase.duration_s:.0f}"
    if phase.pattern in (Pattern.COOL, Pattern.PURGE):
        return f"≤ {longest} s"
    least = f"{least_s:.0f}"
    return f"{longest} s" if least == longest else f"{least}–{longest} s"


def _dry_run_effect(phase: Phase, expected_s: float | None) -> str:
    """What is worth knowing beside it. ``expected_s``: its time, from earlier runs."""
    parts = [] if expected_s is None else [f"about {expected_s:.0f} s"]
    if phase.span_bytes and not phase.fills:
        parts.append(f"first {format_size(phase.span_bytes)}")
    if phase.writes:
        parts.append("writes")
    return ", ".join(parts)


def _dry_run_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
