"""``labctl idle``: the meters of a rig, recorded without a workload."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import RigArgument
from labctl.cli.terminal.held_rig import held
from labctl.config.find_rig import find_rig
from labctl.service.daemon.idle import record_idle
from labctl.service.daemon.run_process import watch_lifeline
from labctl.service.data_dir import find_home
from labctl.service.runs.configured_sinks import configured_sinks


def idle(
    rig: RigArgument,
    runs: Annotated[Path | None, typer.Option("--runs", help="Directory of the records.")] = None,
) -> None:
    """Record the meters of a rig without a workload, until Ctrl-C."""
    found = find_rig(rig)
    home = find_home()
    sinks = configured_sinks(found.text, found.path)

    async def until_stopped() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)
        watch_lifeline(loop, stop.set)
        await record_idle(found, runs or home.idle, sinks, _print_line, stop)

    with held(found, "labctl idle"):
        asyncio.run(until_stopped())


def _print_line(text: str) -> None:
    print(f"labctl: {text}", file=sys.stderr, flush=True)
