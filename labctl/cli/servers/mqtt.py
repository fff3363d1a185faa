"""``labctl mqtt``: what a broker keeps of a rig."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import JsonOption
from labctl.config.find_rig import find_rig
from labctl.config.site import site_file
from labctl.errors import ConfigurationError, Mistake
from labctl.installed import Extra, need
from labctl.sinks.mqtt.settings import MqttSettings, mqtt_settings

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """What an MQTT broker keeps of a rig."""


@app.command("forget")
def forget_rig(
    rig: Annotated[
        str,
        typer.Argument(metavar="RIG", help="A rig file, or a rig's name, also of one long gone."),
    ],
    json_output: JsonOption = False,
) -> None:
    """Take back what the broker keeps of a rig.

    Home Assistant's entities and the last state.
    """
    need(Extra.MQTT)
    from labctl.sinks.mqtt.retained_topics import forget

    settings, name = _mqtt_server_of_rig(rig)
    count = asyncio.run(forget(settings, name))
    if json_output:
        print(json.dumps({"rig": name, "destination": settings.destination, "forgotten": count}))
    else:
        print(f"{name}: {count} messages taken back from {settings.destination}")


def _mqtt_server_of_rig(rig: str) -> tuple[MqttSettings, str]:
    """The broker, and the rig's name. A rig without a file was at the site's broker."""
    text, file, name = "", rig, rig
    try:
        known = find_rig(rig)
    except ConfigurationError as error:
        if any(mistake.file != "rig" for mistake in error.mistakes):
            raise  # there is one, with mistakes in it
    else:
        text, file, name = known.text, known.path, known.name
    settings = mqtt_settings(text, file)
    if settings is None:
        allowed = f"is missing, there or in {site_file()}: say at least host"
        raise ConfigurationError([Mistake(file, "sinks.mqtt", None, allowed)])
    return settings, name
