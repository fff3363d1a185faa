"""Commands about meters: what is connected, what they show, what was said on their lines.

Nothing heavy is imported before a command is chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.arguments import JsonOption, RigArgument


def list_instruments(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(metavar="ADDRESS", help="Serial ports or VISA resources to ask."),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask each VISA resource who it is.")] = False,
    json_output: JsonOption = False,
) -> None:
    """List what is connected, who it is, and the rig lines for it."""
    from labctl.cli import connected

    raise typer.Exit(connected.list_instruments(addresses or (), ask, json_output))


def read(
    rig: RigArgument,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 1.0,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Show live values of every channel of a rig, until Ctrl-C."""
    from rich.console import Console

    from labctl.cli import wall

    raise typer.Exit(wall.show_rig(rig, every, seconds, json_output, Console()))


def record(
    rig: RigArgument,
    instrument: Annotated[str, typer.Argument(help="The instrument's name in the rig.")],
    seconds: Annotated[float, typer.Option(help="For how long.")] = 30.0,
    to: Annotated[Path | None, typer.Option(help="The file; a new one here if left out.")] = None,
) -> None:
    """Record what an instrument says and is told, to send it to somebody."""
    from labctl.cli import sessions

    raise typer.Exit(sessions.record(rig, instrument, seconds, to))


def replay(
    file: Annotated[Path, typer.Argument(help="A recorded session.")],
    json_output: JsonOption = False,
) -> None:
    """Play a recorded session through its driver."""
    from labctl.cli import sessions

    raise typer.Exit(sessions.replay(file, json_output))
