"""``labctl stack --native``: InfluxDB, Mosquitto and Grafana without Docker.

What is installed runs as children of this process, on loopback, with generated secrets and its
data in a state directory. Ctrl-C stops all. With Docker: ``make stack``.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from dashboards.stack.errors import StackError
from dashboards.stack.native import NativeStack, Ports, default_state
from dashboards.stack.programs import NAMES
from labctl.cli.terminal.end_signal import EndSignal, ended_by
from labctl.errors import ConfigurationError, Mistake, RunFailed

WATCH_EVERY_S = 1.0


def stack(
    native: Annotated[
        bool, typer.Option("--native", help="Without Docker: run what is installed.")
    ] = False,
    state: Annotated[Path | None, typer.Option(help="Directory of data and secrets.")] = None,
    influxdb_port: Annotated[int, typer.Option(help="InfluxDB's port.")] = 8086,
    mosquitto_port: Annotated[int, typer.Option(help="Mosquitto's port.")] = 1883,
    grafana_port: Annotated[int, typer.Option(help="Grafana's port.")] = 3000,
    without: Annotated[
        list[str] | None, typer.Option(metavar="SERVER", help="One to leave out; repeatable.")
    ] = None,
) -> None:
    """Run InfluxDB, Mosquitto and Grafana here, provisioned."""
    if not native:
        typer.echo(
            "labctl: with Docker: make stack, in a checkout; without: labctl stack --native",
            err=True,
        )
        raise typer.Exit(2)
    run_native(state, Ports(influxdb_port, mosquitto_port, grafana_port), without or [])


def run_native(state: Path | None, ports: Ports, without: list[str]) -> None:
    """Run the stack until Ctrl-C.

    Raises ConfigurationError for what is missing or taken, RunFailed when a server fails.
    """
    unknown = [
        Mistake("stack", "--without", name, f"must be one of {', '.join(NAMES)}")
        for name in without
        if name not in NAMES
    ]
    if unknown:
        raise ConfigurationError(unknown)
    try:
        with (
            ended_by(signal.SIGINT, signal.SIGTERM) as stop,
            NativeStack(state or default_state(), ports, frozenset(without)) as stack,
        ):
            _print_addresses(stack)
            _watch_stack(stack, stop)
    except StackError as error:
        if error.usage:
            problems = [Mistake("stack", "native", None, text) for text in str(error).splitlines()]
            raise ConfigurationError(problems) from error
        raise RunFailed(str(error)) from error


def _print_addresses(stack: NativeStack) -> None:
    for name, address in stack.addresses().items():
        print(f"{name:<10} {address}")
    print(f"secrets    {stack.secrets_path}")
    print("Ctrl-C stops everything", flush=True)


def _watch_stack(stack: NativeStack, stop: EndSignal) -> None:
    while not stop.wait(WATCH_EVERY_S):
        ended = stack.ended()
        if ended is not None:
            raise RunFailed(f"{ended.name} has ended; {ended.log} ends:\n{ended.log_end()}")
