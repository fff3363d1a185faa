"""``labctl rigs``, ``plans`` and ``check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.completion import complete_examples, complete_plans, complete_rigs
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.filled import filled
from labctl.cli.terminal.pager import pages
from labctl.config.estimate import estimate
from labctl.config.find_rig import example_rigs, new_rig_file, rig_file, rig_files, write_new
from labctl.config.plan import built_in_plans, load_plan, parse_plan
from labctl.config.rig import load_rig, parse_rig
from labctl.errors import ConfigurationError, Mistake
from labctl.service.runs.configured_sinks import configured_sinks
from labctl.service.slurm.fragments import write_fragments
from labctl.toml_reading import is_there, meant, parse_toml, read_configuration

LISTED_DRIVE_BYTES = 10**12
LISTED_BYTES_PER_S = 10**9
"""Time and bytes of the built-in plans are listed for a drive of this size and write speed."""


@pages
def list_rigs(
    copy: Annotated[
        str | None,
        typer.Option(
            "--copy",
            metavar="EXAMPLE",
            autocompletion=complete_examples,
            help="Copy this example into ./rigs.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="The name of the copy.")
    ] = None,
    slurm: Annotated[
        Path | None,
        typer.Option("--slurm", metavar="FOLDER", help="Write there what Slurm needs for them."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """List the rigs.

    In ./rigs, $LABCTL_RIGS and ~/.config/labctl/rigs.
    """
    if copy is not None:
        print(_copy_listed_rig(copy, name or copy))
        return
    if name is not None:
        raise typer.BadParameter("--as needs --copy EXAMPLE")
    if slurm is not None:
        rigs = {path.stem: load_rig(path) for path in rig_files()}
        print("\n".join(f"written: {file}" for file in write_fragments(slurm, rigs)))
        return
    rows = []
    for path in rig_files():
        try:
            rig = load_rig(path)
        except ConfigurationError as error:
            count = len(error.mistakes)
            note = f"{count} mistake{'s' if count > 1 else ''}: labctl check {path}"
            rows.append({"rig": path.stem, "rails": None, "drive": note, "file": str(path)})
            continue
        drive = ", ".join(one.model or one.target for one in rig.drives.values())
        rails = " ".join(rig.file.rails)
        rows.append({"rig": path.stem, "rails": rails, "drive": drive, "file": str(path)})
    _print_rows(rows, json_output, "no rigs: labctl init makes one of what is connected")
    if not json_output:
        print(filled(f"examples, for labctl rigs --copy: {', '.join(example_rigs())}"))


def _copy_listed_rig(example: str, name: str) -> str:
    """Copy an example rig into ./rigs under a name; what to do next. Raises ConfigurationError."""
    examples = example_rigs()
    if example not in examples:
        allowed = f"must be one of {', '.join(examples)}{meant(example, examples)}"
        raise ConfigurationError([Mistake("command line", "--copy", example, allowed)])
    text = read_configuration(examples[example])
    text = text.replace(f'name = "{example}"', f'name = "{name}"', 1)
    parse_rig(text, "--as")  # raises for a name that no rig may have
    file = new_rig_file(name)
    write_new(file, text)
    return f"{file}: change its addresses, ranges and shunts, then: labctl check {file}"


@pages
def list_plans(json_output: JsonOption = False) -> None:
    """List the built-in plans."""
    rows = []
    for name in built_in_plans():
        plan, _ = load_plan(name)
        phases = plan.expand(LISTED_DRIVE_BYTES)
        cost = estimate(phases, LISTED_BYTES_PER_S)
        assert cost.seconds is not None and cost.bytes_written is not None
        rows.append(
            {
                "plan": name,
                "phases": len(phases),
                "hours": round(cost.seconds / 3600, 2),
                "TB_written": round(cost.bytes_written / 1e12, 2),
                "what": plan.summary,
            }
        )
    _print_rows(rows, json_output, "no plans")
    if not json_output:
        print("hours and TB: at most, for 1 TB at 1 GB/s; --dry-run tells of your drive")


def check(
    name: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A rig or a plan: its file, or its name.",
            autocompletion=complete_rigs,
        ),
    ],
    plan: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAN",
            help="A plan: are the rig's meters good enough for it?",
            autocompletion=complete_plans,
        ),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Check a rig or plan file; every mistake is named.

    With a plan also whether the rig's meters carry the limits that the plan names, and can know the
    watts as well as its points are to.
    """
    file = _file_to_check(name)
    text = read_configuration(file)
    kind, mistakes = _check_rig_or_plan(text, str(file))
    if plan is not None and kind == "plan" and not mistakes:
        allowed = f"goes with a rig, and {file} is a plan"
        raise ConfigurationError([Mistake("command line", "PLAN", plan, allowed)])
    if plan is not None and not mistakes:
        mistakes = _out_of_reach(text, file, plan)
    too_slow = _too_slow(text, file, plan) if plan is not None and not mistakes else []
    if json_output:
        data = {
            "file": str(file),
            "kind": kind,
            "mistakes": [
                {"key": item.key, "value": item.value, "allowed": item.allowed} for item in mistakes
            ],
            "too_slow": too_slow,
        }
        print(json.dumps(data, indent=1, default=str))
    if mistakes:
        raise ConfigurationError(mistakes)
    if not json_output:
        print(f"{file}: a {kind} without mistakes")
        for line in too_slow:
            print(filled(line))


def _file_to_check(name: str) -> Path:
    """The rig or plan at a path or of a name. Raises ConfigurationError where there is none."""
    plans = built_in_plans()
    found = rig_file(name) or plans.get(name)
    if found is not None or is_there(Path(name)):
        return found or Path(name)
    known = [*plans, *(path.stem for path in rig_files())]
    allowed = f"no such file, and no rig or built-in plan of that name{meant(name, known)}"
    if name in example_rigs():
        allowed += f"; labctl rigs --copy {name} makes one of the example"
    raise ConfigurationError([Mistake("command line", "FILE", name, allowed)])


def _out_of_reach(text: str, file: Path, plan: str) -> tuple[Mistake, ...]:
    """What points of the plan are to know of the watts, and the rig's meters cannot tell."""
    from labctl.capture.run.expand import phases_out_of_reach

    rig = parse_rig(text, str(file))
    return tuple(phases_out_of_reach(rig, load_plan(plan)[0].expand(rig.size_bytes), plan))


def _too_slow(text: str, file: Path, plan: str) -> list[str]:
    """Limits that the plan names and the rig's meters are too slow for."""
    from labctl.capture.run.expand import limits_too_slow_for

    return limits_too_slow_for(parse_rig(text, str(file)), load_plan(plan)[0])


def _check_rig_or_plan(text: str, name: str) -> tuple[str, tuple[Mistake, ...]]:
    try:
        data = parse_toml(text, name)
    except ConfigurationError:
        data = {}
    kind = "plan" if "sweeps" in data else "rig"
    try:
        if kind == "plan":
            parse_plan(text, name)
        else:
            configured_sinks(parse_rig(text, name).text, name)
    except ConfigurationError as error:
        return kind, error.mistakes
    return kind, ()


def _print_rows(rows: list[dict[str, Any]], json_output: bool, empty: str) -> None:
    if json_output:
        print(json.dumps(rows, indent=1))
        return
    if not rows:
        print(empty)
        return
    table = Table(box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*map(_list_cell, row.values()))
    Terminal(soft_wrap=False).print(table)


def _list_cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return "" if value is None else str(value)
