"""Which servers are installed, and how they are called."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dashboards.stack.errors import StackError

NAMES = ("influxdb", "mosquitto", "grafana")

_HINTS = {
    "influxdb": "put influxd (InfluxDB 2.x) on PATH",
    "mosquitto": "apt install mosquitto",
    "grafana": "put grafana on PATH, or name its directory in GRAFANA_HOME",
}


def find_programs(wanted: tuple[str, ...]) -> dict[str, list[str]]:
    """The command of each server. Raises StackError naming all that are missing."""
    found = {
        "influxdb": _stack_program_command("influxd"),
        "mosquitto": _stack_program_command("mosquitto", "/usr/sbin/mosquitto"),
        "grafana": grafana_command(),
    }
    missing = [
        f"{name} is not installed: {_HINTS[name]}, or leave it out (--without {name})"
        for name in wanted
        if not found[name]
    ]
    if missing:
        raise StackError("\n".join(missing), usage=True)
    return {name: found[name] for name in wanted}


def _stack_program_command(name: str, *places: str) -> list[str]:
    path = shutil.which(name) or next((place for place in places if Path(place).is_file()), None)
    return [path] if path else []


def grafana_command() -> list[str]:
    """Grafana's server with its home (public files, defaults); empty when it is not installed."""
    named = os.environ.get("GRAFANA_HOME")
    for name, serve in (("grafana", ["server"]), ("grafana-server", [])):
        program = shutil.which(name, path=f"{named}/bin") if named else None
        program = program or shutil.which(name)
        if program is None:
            continue
        homes = [Path(named)] if named else []
        homes += [Path(program).resolve().parent.parent, Path("/usr/share/grafana")]
        for home in homes:
            if (home / "conf" / "defaults.ini").is_file():
                return [program, *serve, "--homepath", str(home)]
    return []
