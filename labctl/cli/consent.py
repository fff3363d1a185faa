"""Before much is done to a drive: a plan of many hours or many bytes is asked about first."""

from __future__ import annotations

import sys

import typer

from labctl.capture.run import expand_for
from labctl.errors import Refused
from labctl.plan import Plan
from labctl.rig import Rig
from labctl.service.estimate import estimate, more_than_usual


def ask_first(rig: Rig, plan: Plan, *, yes: bool, json_output: bool) -> None:
    """Ask whether a plan is meant that takes or writes more than the usual limits.

    Without a terminal there is nobody to ask. Raises Refused when the answer is not yes,
    ConfigurationError when rig and plan do not fit.
    """
    if yes:
        return
    phases = expand_for(rig, plan, plan.name)
    cost = estimate(phases, rig.write_bytes_per_s, len(rig.drives))
    whole_bytes = rig.size_bytes * len(rig.drives) if rig.size_bytes else None
    reasons = more_than_usual(phases, cost, whole_bytes)
    if not reasons:
        return
    told = f"{plan.name} on {rig.name}: {'; '.join(reasons)}"
    if json_output or not sys.stdin.isatty():
        raise Refused(f"{told}; if that is meant, add --yes (--scale makes a plan smaller)")
    print(told)
    if not typer.confirm("Is that meant?"):
        raise Refused("not begun")
