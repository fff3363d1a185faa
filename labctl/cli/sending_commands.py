"""Commands about servers: shipping runs, what a broker keeps, the servers themselves.

Nothing heavy is imported before a command is chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import JsonOption


def ship(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories.")],
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="To http://HOST:8086?org=ORG&bucket=BUCKET; repeatable."),
    ] = None,
    rig: Annotated[
        str | None,
        typer.Option(help="To where this rig says; else the rig here of the run's name, or site."),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Send everything again (harmless).")
    ] = False,
    full_rate: Annotated[
        bool, typer.Option("--full-rate", help="Every reading, not means per bin.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Send or repair runs in InfluxDB and MQTT.

    From where it stopped, or from the start.
    """
    from labctl.cli.servers import ship as shipping

    code = shipping.ship_runs(
        runs,
        to or (),
        rig_name=rig,
        from_start=from_start,
        full_rate=full_rate,
        json_output=json_output,
    )
    raise typer.Exit(code)


mqtt = typer.Typer(help="What an MQTT broker keeps of a rig.", no_args_is_help=True)


@mqtt.command()
def forget(
    rig: Annotated[str, typer.Argument(help="A rig file, or a rig's name, also of one long gone.")],
    json_output: JsonOption = False,
) -> None:
    """Take back what the broker keeps of a rig.

    Home Assistant's entities and the last state.
    """
    from labctl.cli.servers import mqtt as mqtt_commands

    mqtt_commands.forget_rig(rig, json_output)


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
    from dashboards.stack.native import Ports
    from labctl.cli.servers.stack import run_native

    run_native(state, Ports(influxdb_port, mosquitto_port, grafana_port), without or [])
