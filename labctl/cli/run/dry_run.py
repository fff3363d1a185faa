"""``labctl run --dry-run``: the phases of a plan on a rig, its time and its bytes."""

from __future__ import annotations

import json

from labctl.capture.host.ssh import LOCAL
from labctl.capture.run.expand import phases_for, size_of_drives
from labctl.config.estimate import estimate, timed_s
from labctl.config.find_rig import find_rig
from labctl.config.plan import load_plan
from labctl.record.phase import Pattern, Phase, format_size


def print_dry_run(rig_name: str, plan_name: str, json_output: bool, scale: float | None) -> None:
    """Print the expanded phases, the time and the bytes written; nothing is touched."""
    rig = find_rig(rig_name)
    plan, _ = load_plan(plan_name, scale)
    here = rig.file.host == LOCAL  # another machine is not asked for the size of its drive
    size_bytes = size_of_drives(rig) if here else rig.size_bytes
    phases = phases_for(rig, plan, plan_name, size_bytes)
    cost = estimate(phases, rig.write_bytes_per_s, len(rig.drives))
    if json_output:
        data = {
            "phases": [phase.to_json() for phase in phases],
            "seconds": cost.seconds,
            "bytes_written": cost.bytes_written,
        }
        print(json.dumps(data, indent=1))
        return
    scaled = f" at scale {plan.scale:g}" if plan.scale != 1 else ""
    print(f"{plan.name}{scaled} on {rig.name}: {len(phases)} phases")
    for phase in phases:
        size = f"{phase.duration_s:.0f} s"
        if phase.fills:
            size = "all" if phase.fill_bytes is None else f"{phase.fill_bytes / 1e9:.4g} GB"
        elif phase.pattern in (Pattern.COOL, Pattern.PURGE):
            size = f"≤ {size}"
        print(f"  {phase.index:3d}  {size:>9}  {phase.label:<32}{_effect(phase)}".rstrip())
    if cost.seconds is None or cost.bytes_written is None:
        print(f"time: {_duration(timed_s(phases))} and the fill of the whole drive")
        print("bytes written: depends on the drive's size; set drive.size_bytes to know")
        return
    speed = f"{rig.write_bytes_per_s / 1e6:.0f} MB/s"
    print(f"time: about {_duration(cost.seconds)}")
    note = f" (if it writes {speed}: drive.write_bytes_per_s)" if cost.bytes_written else ""
    print(f"bytes written: about {cost.bytes_written / 1e9:.1f} GB{note}")


def _effect(phase: Phase) -> str:
    parts = []
    if phase.span_bytes and not phase.fills:
        parts.append(f"first {format_size(phase.span_bytes)}")
    if phase.writes:
        parts.append("writes")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
