"""Commands about meters: what is connected, what they show, what was said on their lines.

Nothing heavy is imported before a command is chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import JsonOption, RigArgument


def list_instruments(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(metavar="ADDRESS", help="Serial ports or VISA resources to ask."),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask each VISA resource who it is.")] = False,
    json_output: JsonOption = False,
) -> None:
    """List what is connected, who it is, and the rig lines for it."""
    from labctl.cli.meters import instruments

    raise typer.Exit(instruments.list_instruments(addresses or (), ask, json_output))


def read(
    rig: RigArgument,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 1.0,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Show live values of every channel of a rig, until Ctrl-C."""
    from labctl.cli.meters import read as wall
    from labctl.cli.terminal.console import Terminal

    raise typer.Exit(wall.show_rig(rig, every, seconds, json_output, Terminal()))


def record(
    rig: RigArgument,
    instrument: Annotated[str, typer.Argument(help="The instrument's name in the rig.")],
    seconds: Annotated[float, typer.Option(min=1.0, help="For how long.")] = 30.0,
    to: Annotated[Path | None, typer.Option(help="The file; a new one here if left out.")] = None,
) -> None:
    """Record what an instrument says, to send it to somebody."""
    from labctl.cli.meters import session

    raise typer.Exit(session.record(rig, instrument, seconds, to))


def replay(
    file: Annotated[Path, typer.Argument(help="A recorded session.")],
    json_output: JsonOption = False,
) -> None:
    """Play a recorded session through its driver."""
    from labctl.cli.meters import session

    raise typer.Exit(session.replay(file, json_output))


def calibrate(
    rig: RigArgument,
    channels: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CHANNEL]...", help="Channels; all of the rails if left out."),
    ] = None,
    against: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Check these two channels against each other."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Check the pairs that the rig names.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long to read.")] = 10.0,
    switch_off: Annotated[
        bool,
        typer.Option("--switch-off", help="Switch the drive off and on by the rig's supply."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: the drive is off.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only print what is stored.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Zero the meters with the drive off; compare two meters."""
    from labctl.cli.meters import calibrate as calibrating

    if against and any(channel.startswith("-") for channel in against):
        raise typer.BadParameter("--against takes two channels")
    modes = [bool(against), compare, show, bool(channels or switch_off)]
    if sum(modes) > 1:
        raise typer.BadParameter("choose one of --against, --compare, --show, and zeros")
    if show:
        raise typer.Exit(calibrating.show(rig, json_output))
    if against or compare:
        raise typer.Exit(calibrating.checks(rig, against, seconds, json_output))
    raise typer.Exit(
        calibrating.zeros(
            rig, channels or (), seconds, switch_off=switch_off, yes=yes, json_output=json_output
        )
    )
