"""Asks for consent before a plan of many hours or many bytes."""

from __future__ import annotations

import sys

import typer

from labctl.capture.run.expand import expand_for
from labctl.config.estimate import more_than_usual_on
from labctl.config.plan import Plan
from labctl.config.rig import Rig
from labctl.errors import Refused
from labctl.record.phase import Phase


def ask_first(
    rig: Rig,
    plan: Plan,
    *,
    yes: bool,
    json_output: bool,
    repeat: int = 1,
    phases: tuple[Phase, ...] | None = None,
) -> None:
    """Ask whether a plan is meant that takes or writes more than the usual limits, done ``repeat``
    times. ``phases``: of the plan on the rig, where they are known already.

    Without a terminal there is nobody to ask. Raises Refused when the answer is not yes,
    ConfigurationError when rig and plan do not fit.
    """
    if yes:
        return
    phases = expand_for(rig, plan, plan.name) if phases is None else phases
    reasons = more_than_usual_on(rig, phases, repeat)
    if not reasons:
        return
    times = f", {repeat} times" if repeat > 1 else ""
    question = f"{plan.name} on {rig.name}{times}: {'; '.join(reasons)}"
    if json_output or not sys.stdin.isatty():
        raise Refused(f"{question}; if that is meant, add --yes (--scale makes a plan smaller)")
    print(question)
    if not typer.confirm("Is that meant?"):
        raise Refused("not begun")
