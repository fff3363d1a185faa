"""The commands below ``labctl queue``. Nothing heavy is imported before one is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import JsonOption

queue_app = typer.Typer(
    help="Queue plans for rigs; labctl daemon works them off.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

JobArgument = Annotated[int, typer.Argument(metavar="JOB", help="The job's number.")]
RigNameArgument = Annotated[str, typer.Argument(metavar="RIG", help="The rig's name or file.")]


@queue_app.command()
def add(
    rig: Annotated[str | None, typer.Argument(help="A rig file, or a rig's name.")] = None,
    plan: Annotated[str | None, typer.Argument(help="A built-in plan, or a plan file.")] = None,
    matrix: Annotated[
        Path | None, typer.Option(help="A file of rigs and plans: queue every combination.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(help="Not before: 22:00, '2026-11-21 22:00' or +2h30m.")
    ] = None,
    repeat: Annotated[int, typer.Option(help="How often.")] = 1,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word to find it by; repeatable.")
    ] = None,
    retries: Annotated[int, typer.Option(help="Try again after a failure, so often.")] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check it and print the jobs; queue nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask about a plan of many hours or bytes.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Queue a plan on a rig, or a whole matrix of them."""
    from labctl.cli.overnight import queue

    queue.add(
        rig,
        plan,
        matrix,
        after=after,
        repeat=repeat,
        tags=tuple(tag or ()),
        retries=retries,
        dry_run=dry_run,
        yes=yes,
        json_output=json_output,
    )


@queue_app.command("list")
def list_jobs(
    rig: Annotated[str | None, typer.Option(help="Only this rig's.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also all that are over, not only the last ten.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """List the jobs, with the time each will begin and end."""
    from labctl.cli.overnight import queue

    queue.list_jobs(rig, tag, everything, json_output)


@queue_app.command()
def show(job: JobArgument, json_output: JsonOption = False) -> None:
    """Show a job: its plan, its attempts, their runs."""
    from labctl.cli.overnight import queue

    queue.show(job, json_output)


@queue_app.command()
def move(
    job: JobArgument,
    position: Annotated[
        int, typer.Argument(min=1, help="Its place among those that wait; 1: next.")
    ],
    json_output: JsonOption = False,
) -> None:
    """Move a waiting job to another place."""
    from labctl.cli.overnight import queue

    queue.move(job, position, json_output)


@queue_app.command()
def cancel(
    jobs: Annotated[list[int], typer.Argument(metavar="JOB", help="Numbers of jobs.")],
    json_output: JsonOption = False,
) -> None:
    """Cancel jobs; one that runs is stopped, and its record stays."""
    from labctl.cli.overnight import queue

    queue.cancel(jobs, json_output)


@queue_app.command()
def pause(rig: RigNameArgument, json_output: JsonOption = False) -> None:
    """Begin no further job on a rig; the one that runs goes on."""
    from labctl.cli.overnight import queue

    queue.set_paused(rig, True, json_output)


@queue_app.command()
def resume(rig: RigNameArgument, json_output: JsonOption = False) -> None:
    """Begin jobs on a rig again."""
    from labctl.cli.overnight import queue

    queue.set_paused(rig, False, json_output)
