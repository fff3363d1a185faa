"""``labctl range``: the ranges to lock, from a short run at the plan's heaviest points."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from labctl.capture.meters.closing_gaps import Sampling, samplings
from labctl.capture.meters.find_ranges import (
    Suggestion,
    larger_ranges,
    ranging_plan,
    suggestions,
    with_ranges,
)
from labctl.capture.run.expand import expand_for
from labctl.cli.run.run import run_plan
from labctl.cli.terminal.arguments import JsonOption, RigArgument, RunsOption
from labctl.cli.terminal.completion import complete_plans
from labctl.cli.terminal.held_rig import held
from labctl.config.find_rig import find_rig
from labctl.config.plan import load_plan
from labctl.record.reader import RunRecord
from labctl.rounded import rounded


def find_ranges(
    rig: RigArgument,
    plan: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAN", autocompletion=complete_plans, help="Its heaviest points; else reads."
        ),
    ] = None,
    runs: RunsOption = None,
    json_output: JsonOption = False,
) -> int:
    """Find the range to lock on each meter, at the heaviest points."""
    configured = used = find_rig(rig)
    phases = expand_for(configured, load_plan(plan)[0], plan) if plan is not None else ()
    short_plan = ranging_plan(phases)
    with held(configured, "labctl range") as lock:
        while True:
            outcome = run_plan(used, short_plan, "", runs, quiet=True, lock=lock)
            record = RunRecord(outcome.path)
            larger = larger_ranges(used, record)
            if outcome.exit_code or not larger:
                break
            used = with_ranges(used, larger)
    found = list(suggestions(configured, used, record)) if not outcome.exit_code else []
    sampled = list(samplings(configured)) if not outcome.exit_code else []
    if json_output:
        data = {
            **outcome.to_json(),
            "ranges": [item.to_json() for item in found],
            "sampling": [_sampling_json(item) for item in sampled],
        }
        print(json.dumps(data, indent=1))
    else:
        _print_ranges(found)
        _print_sampling(sampled)
    return outcome.exit_code


def _print_ranges(found: list[Suggestion]) -> None:
    for item in found:
        peak = "–" if item.peak is None else f"{rounded(item.peak, 4)} {item.unit}"
        verdict = item.why or ("" if item.changes else "as it is")
        print(f"{item.instrument:<16} peak {peak:>12}  range {item.range:g}  {verdict}".rstrip())
    changed = [item for item in found if item.changes]
    if changed:
        print("\nfor the rig:")
    for item in changed:
        print(f"\n[instruments.{item.instrument}]\nrange = {item.suggested:g}")


def _sampling_json(item: Sampling) -> dict[str, object]:
    return {
        "instrument": item.instrument,
        "integrated": item.spot.integrated,
        "interval_s": item.spot.interval_s,
        "dither": item.dither,
        "misread": item.spot.misread,
        "remedies": list(item.remedies),
    }


def _print_sampling(found: list[Sampling]) -> None:
    if found:
        print()
    for item in found:
        print(f"{item.instrument:<16} {item.gap_in_words}")
        for remedy in item.remedies:
            print(f"{'':<16}   closed by {remedy}")
